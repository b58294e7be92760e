"""The measure of quality of a run, and NIQE's pristine model, which is fitted to public images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.files import write_whole
from understudy.core.ports import Events, Source, Step
from understudy.core.types import Images, Shape
from understudy.data import open_source
from understudy.data.labels import NO_LABELS
from understudy.data.reading_options import ImageFit
from understudy.methods.base import Context
from understudy.report.images import contact_sheet
from understudy.run.config import MethodOptions
from understudy.run.progress import ProgressMode, reporting
from understudy.steps.niqe import NiqeModel, fit_niqe, niqe
from understudy.steps.niqe_model import SMALLEST_BLOCK, check_block
from understudy.steps.piqe import piqe
from understudy.steps.quality import ROUNDS, QualityFilter, Score

_BATCH = 64
_FITTED = 32  # batches of public images that NIQE's model is fitted to, at most
_PHOTOGRAPH = 192  # pixels a side from which on blocks of 96 are two a side
_TWO = 2  # images of an embedding, as in Zhou et al. (appendix, "When decoding images")

DROPPED = "dropped.png"
"""The worst images that a quality filter left out, in the owner's folder."""


def quality_of(
    models: MethodOptions, context: Context, shape: Shape | None, public: Source | None
) -> QualityFilter | None:
    """The quality filter that a run asks for, tried on an image before anything is spent.

    Args:
        models: What is asked for.
        context: With the models that were loaded.
        shape: Of the images that are released; None: embeddings are.
        public: Public images that NIQE may compare with.

    Raises:
        ConfigError: Settings without a measure, an unknown one, or one that has nothing to choose
            among: a release without images, a decoder without randomness, or candidates.
        InputError: The images are too small for the measure, or NIQE has no model.
    """
    if models.quality is None:
        for name in ("quality_threshold", "images_per_embedding"):
            if getattr(models, name) is not None:
                option = name.replace("_", "-")
                raise ConfigError(f"--{option} says how to choose by --quality, which is missing")
        return None
    if shape is None:
        raise ConfigError(
            "--quality chooses among images, and this release is of embeddings alone: leave it "
            "out, or name a decoder"
        )
    if context.candidates:
        raise ConfigError(
            "--quality chooses among images that are drawn, and this run selects candidates as "
            "they are: leave it out"
        )
    several, decoder = models.images_per_embedding, context.decoder
    stochastic = bool(context.renderer or context.generator or context.denoiser)
    if decoder is not None:
        stochastic = decoder.stochastic
    if several is not None and several > 1 and not stochastic:
        drawing = "this run" if decoder is None else decoder.name
        raise ConfigError(
            f"{drawing} draws one image of an embedding, whatever the seed: with "
            f"images_per_embedding={several} all would be the same. Leave it out, and give a "
            "quality threshold"
        )
    score = _score(models.quality, shape, public)
    measure = models.quality.partition(":")[0]
    quality = QualityFilter(
        measure,
        score,
        models.quality_threshold,
        (_TWO if stochastic else 1) if several is None else several,
    )
    score(np.random.default_rng(0).integers(0, 256, (1, *shape), dtype=np.uint8))
    return quality


def _score(quality: str, shape: Shape, public: Source | None) -> Score:
    measure, _, file = quality.partition(":")
    if measure == "piqe" and not file:
        return piqe
    if measure != "niqe":
        raise ConfigError(f"quality is piqe, niqe or niqe:FILE, found {quality!r}")
    if file:
        return partial(niqe, model=NiqeModel.load(Path(file)))
    if public is None or public.kind != "images":
        raise ConfigError(
            "NIQE needs public images to compare with: give --public or --base, or a model that "
            "`understudy studio fit-niqe` made, as --quality niqe:FILE"
        )
    block = 96 if min(*shape[:2], *public.shape[:2]) >= _PHOTOGRAPH else SMALLEST_BLOCK
    images = (batch.values for batch in islice(public.batches(_BATCH), _FITTED))
    return partial(niqe, model=fit_niqe(images, block=block))


def write_dropped(quality: QualityFilter, owner: Path) -> None:
    """A contact sheet of the worst images that were left out, the worst first."""
    if quality.worst:
        images = np.stack([image for _, image in quality.worst])
        write_whole(owner / DROPPED, contact_sheet(images))


def quality_warnings(quality: QualityFilter, count: int) -> Iterable[str]:
    """What the owner should know of a filter that could not do all that it was asked for."""
    if quality.unmet:
        yield (
            f"{quality.unmet:,} of {count:,} samples reach no {quality.measure.upper()} below "
            f"{quality.threshold:g} in {ROUNDS} embeddings of {quality.images_per_embedding} "
            "images each: the best of these are released. A higher --quality-threshold asks less"
        )


def fit_niqe_model(
    source_name: str,
    out: Path,
    block: int,
    *,
    size: int | tuple[int, int] | None = None,
    fit: ImageFit = "stretch",
    progress: ProgressMode | Events = "auto",
) -> NiqeModel:
    """Fit NIQE's model to a dataset of *public* images, and write it.

    The model holds plain averages of these images. Nothing protects them: never fit it to the
    images that a release is to protect.

    Args:
        source_name: A dataset of public images, as :func:`understudy.data.open_source` reads it.
        out: The npz to write; one that is there is replaced.
        block: Pixels a side of a block: 96 for photographs, 16 for 64 x 64.
        size: Read the images at this size; needed where they differ.
        fit: How an image of another ratio is brought to ``size``.
        progress: Where events go, as for `understudy.synthesize`.

    Raises:
        InputError: The options make no sense, the dataset cannot be read or holds no images, or
            they have too few sharp blocks.
    """
    check_block(block)
    if out.suffix != ".npz":
        raise ConfigError(f"a NIQE model is written to an .npz file, not to {out}")
    if not out.parent.is_dir():
        raise ConfigError(f"there is no folder {out.parent} to write {out.name} to: make it first")
    source = open_source(source_name, size=size, fit=fit, label=NO_LABELS)
    if source.kind != "images":
        raise ConfigError(f"{source_name} holds {source.kind}; NIQE is fitted to public images")
    with reporting(progress) as events:
        step = events.step(f"public images of {source.name}", len(source))
        model = fit_niqe(_images(source, step), block=block)
    model.save(out)
    return model


def _images(source: Source, step: Step) -> Iterator[Images]:
    for batch in source.batches(_BATCH):
        yield batch.values
        step(len(batch.values))
