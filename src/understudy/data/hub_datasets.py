"""Hugging Face ``datasets``: from the hub, or a folder that ``save_to_disk`` made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.core.errors import SourceError, packages_for
from understudy.data.encoded_images import Options, RecordSource
from understudy.data.names import further_parts
from understudy.data.parquet import image_columns

_ROWS = 64


def open_hub(name: str, options: Options) -> RecordSource:
    """``NAME`` or ``NAME:CONFIG`` on the hub, or in its local cache; needs the extra ``hf``."""
    datasets = _datasets(options.name)
    path, _, config = name.partition(":")
    try:
        loaded = datasets.load_dataset(path, config or None)
    except Exception as error:  # anything may come out of a dataset's own loading code
        raise SourceError(
            f"cannot be loaded from the hub: {error}\nIf this machine is offline, load it "
            "elsewhere, save it with its save_to_disk(FOLDER), and pass that folder here",
            options.name,
        ) from error
    return _open(datasets, loaded, options)


def open_saved(folder: Path, options: Options) -> RecordSource:
    """A folder that ``save_to_disk`` made, of a ``Dataset`` or a ``DatasetDict``."""
    datasets = _datasets(options.name)
    try:
        loaded = datasets.load_from_disk(str(folder))
    except Exception as error:  # Arrow, JSON and file errors of several libraries
        raise SourceError(f"cannot be read as a saved dataset: {error}", folder) from error
    return _open(datasets, loaded, options)


def is_saved(folder: Path) -> bool:
    """Whether ``save_to_disk`` made a folder."""
    return (folder / "dataset_dict.json").is_file() or (
        (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()
    )


def _datasets(name: str) -> ModuleType:
    with packages_for(name, "hf"):
        import datasets
    module: ModuleType = datasets
    return module


def _open(datasets: ModuleType, loaded: Any, options: Options) -> RecordSource:
    if isinstance(loaded, dict):
        if options.split not in loaded:
            raise SourceError(
                f"has no split {options.split!r}; its splits are: {', '.join(loaded)}", options.name
            )
        options = replace(options, unread=further_parts(loaded))
        loaded = loaded[options.split]
    columns = image_columns(loaded.features.arrow_schema, options, options.name)
    # decode=False keeps the encoded bytes: the same digests as any copy of them.
    encoded = loaded.select_columns(columns.columns)
    encoded = encoded.cast_column(columns.image, datasets.Image(decode=False)).with_format("arrow")

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        cells = (row for table in encoded.iter(batch_size=_ROWS) for row in table.to_pylist())
        return ((f"{options.name}, row {row}", values) for row, values in enumerate(cells))

    return columns.source(rows, options, follow_paths=True)
