"""Hugging Face ``datasets``: from the hub, or a folder that ``save_to_disk`` made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.core.errors import MissingExtra, SourceError
from understudy.data.encoded_images import Options, Record, RecordSource
from understudy.data.labels import Column, LabelKind, arrow_kind, label_column
from understudy.data.parquet import class_label
from understudy.data.table_files import text
from understudy.data.units import person_columns

_ROWS = 64


def open_hub(name: str, options: Options) -> RecordSource:
    """``NAME`` or ``NAME:CONFIG`` on the hub, or in its local cache.

    Raises:
        MissingExtra: ``datasets`` is not installed.
        SourceError: The hub cannot be reached, or there is no such dataset or split.
    """
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
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra(name, "hf") from error
    module: ModuleType = datasets
    return module


def _open(datasets: ModuleType, loaded: Any, options: Options) -> RecordSource:
    if isinstance(loaded, dict):
        if options.split not in loaded:
            raise SourceError(
                f"has no split {options.split!r}; its splits are: {', '.join(loaded)}",
                options.name,
            )
        loaded = loaded[options.split]
    features = loaded.features
    listed = ", ".join(f"{name} ({type(kind).__name__})" for name, kind in features.items())
    image = _first(features, datasets.Image, ("image", "img"))
    if image is None:
        raise SourceError(f"has no image column; its columns are: {listed}", options.name)
    if options.unit is not None and options.unit not in features:
        raise SourceError(
            f"there is no unit column {options.unit!r}; the columns are: {listed}", options.name
        )
    columns = [Column(name, _kind(datasets, kind)) for name, kind in features.items()]
    label = label_column(columns, options.label, options.name, taken=(image, options.unit))
    names = getattr(features[label], "names", None) if label is not None else None
    classes = tuple(names) if names else None
    wanted = list(dict.fromkeys(c for c in (image, label, options.unit) if c is not None))
    # decode=False keeps the encoded bytes: the same digests as any copy of them.
    encoded = loaded.select_columns(wanted).cast_column(image, datasets.Image(decode=False))

    def records() -> Iterator[Record]:
        row = 0
        for batch in encoded.with_format(None).iter(batch_size=_ROWS):
            for position in range(len(batch[image])):
                values = {name: batch[name][position] for name in wanted}
                location = f"{options.name}, row {row}"
                yield _record(location, values[image], values, label, classes, options.unit)
                row += 1

    source = RecordSource(records, options, classes=classes, label_column=label)
    source.person_columns = person_columns(set(features) - set(wanted))
    return source


def _kind(datasets: ModuleType, feature: Any) -> LabelKind:
    """What a feature of ``datasets`` can hold."""
    if isinstance(feature, datasets.ClassLabel):
        return "classes"
    return arrow_kind(feature.pa_type) if isinstance(feature, datasets.Value) else "other"


def _record(
    location: str,
    image: Any,
    values: dict[str, Any],
    label: str | None,
    classes: tuple[str, ...] | None,
    unit: str | None,
) -> Record:
    name, fault = (None, None) if label is None else class_label(values[label], classes)
    unit_name = None if unit is None else text(values[unit])
    data: bytes | Path = b""
    if image is None or (image.get("bytes") is None and not image.get("path")):
        fault = "has no image"
    elif image.get("bytes") is not None:
        data = image["bytes"]
    else:
        data = Path(image["path"])
    return Record(location, data, name, unit_name, fault)


def _first(features: Any, kind: type, preferred: tuple[str, ...]) -> str | None:
    names = [name for name, feature in features.items() if isinstance(feature, kind)]
    return next((name for name in preferred if name in names), names[0] if names else None)
