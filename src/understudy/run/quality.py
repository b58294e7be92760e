"""NIQE's pristine model, fitted to public images and written to a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from understudy.core.errors import ConfigError
from understudy.core.ports import Source
from understudy.core.types import Images
from understudy.data import open_source
from understudy.data.labels import NO_LABELS
from understudy.run.progress import Bars, progress_bars
from understudy.steps.niqe import NiqeModel, fit_niqe
from understudy.steps.niqe_model import check_block

_BATCH = 64


def fit_niqe_model(
    source_name: str, out: Path, block: int, *, size: int | tuple[int, int] | None = None
) -> NiqeModel:
    """Fit NIQE's model to a dataset of *public* images, and write it.

    The model holds plain averages of these images. Nothing protects them: never fit it to the
    images that a release is to protect.

    Args:
        source_name: A dataset of public images, as :func:`understudy.data.open_source` reads it.
        out: The npz to write; one that is there is replaced.
        block: Pixels a side of a block: 96 for photographs, 16 for 64 x 64.
        size: Read the images at this size; needed where they differ.

    Raises:
        InputError: The options make no sense, the dataset cannot be read or holds no images, or
            they have too few sharp blocks.
    """
    check_block(block)
    if out.suffix != ".npz":
        raise ConfigError(f"a NIQE model is written to an .npz file, not to {out}")
    if not out.parent.is_dir():
        raise ConfigError(f"there is no folder {out.parent} to write {out.name} to: make it first")
    source = open_source(source_name, size=size, label=NO_LABELS)
    if source.kind != "images":
        raise ConfigError(f"{source_name} holds {source.kind}; NIQE is fitted to public images")
    with progress_bars() as bars:
        model = fit_niqe(_images(source, bars), block=block)
    model.save(out)
    return model


def _images(source: Source, bars: Bars) -> Iterator[Images]:
    bar = bars(f"public images of {source.name}", len(source))
    for batch in source.batches(_BATCH):
        yield batch.values
        bar(len(batch.values))
