"""Parquet files with encoded images, as the hub's datasets and releases have them.

Memory follows the file's row groups: those of the hub and of a release have some megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.damaged_files import from_json
from understudy.core.errors import SourceError
from understudy.data.captions import CAPTION, LICENCE
from understudy.data.encoded_images import Options, Record, RecordSource
from understudy.data.labels import Column, arrow_kind, label_column
from understudy.data.table_files import text
from understudy.data.units import person_columns

RELEASE_KEY = b"understudy"  # schema metadata that marks a release: there, a class may have no rows

_ROWS = 16  # decoded from Parquet at a time: encoded images are up to megabytes each


@dataclass(frozen=True, slots=True)
class ImageColumns:
    """The columns of a table of encoded images that are read."""

    image: str
    label: str | None
    unit: str | None
    names: tuple[str, ...] | None  # class names that whole-number labels index into
    release: bool  # whether a class may have no rows
    person_columns: tuple[str, ...]  # others that may say whose an image is

    @property
    def columns(self) -> list[str]:
        """Each of them once."""
        return list(dict.fromkeys(c for c in (self.image, self.label, self.unit) if c is not None))

    def source(
        self,
        rows: Callable[[], Iterator[tuple[str, dict[str, Any]]]],
        options: Options,
        *,
        follow_paths: bool = False,
    ) -> RecordSource:
        """The images of rows, each with what an error calls it; a bare path may be followed."""

        def records() -> Iterator[Record]:
            for location, values in rows():
                yield self._record(location, values, follow_paths)

        return RecordSource(
            records,
            options,
            classes=self.names,
            allow_empty=self.release,
            label_column=self.label,
            person_columns=self.person_columns,
        )

    def _record(self, location: str, values: dict[str, Any], follow_paths: bool) -> Record:
        image = values[self.image]
        data = image.get("bytes") if isinstance(image, dict) else image
        path = image.get("path") if isinstance(image, dict) and follow_paths else None
        label, fault = (None, None) if self.label is None else self._class(values[self.label])
        unit = None if self.unit is None else text(values[self.unit])
        if data is None and path:
            data = Path(path)
        elif data is None and follow_paths:
            fault = "has no image"
        elif data is None:
            fault = "has no image bytes (a path alone is not followed)"
        return Record(location, data or b"", label, unit, fault)

    def _class(self, value: Any) -> tuple[str | None, str | None]:
        """(class name, fault) of a label cell."""
        label = text(value)
        if label is None or label == "":
            return None, "has no label"
        if self.names is None:
            return label, None
        if isinstance(value, int) and 0 <= value < len(self.names):
            return self.names[value], None
        return None, f"has label {label}, no index into {len(self.names)} class names"


def open_parquet(paths: list[Path], options: Options) -> RecordSource:
    """The images of one or more Parquet files, in that order.

    The image column holds encoded bytes, or a struct with the field ``bytes``.
    """
    first = _schema(paths[0])
    columns = image_columns(first, options, paths[0])

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        for path in paths:
            _require_like(first, _schema(path), columns, path, paths[0])
            for row, values in enumerate(_rows(path, columns.columns)):
                yield f"{path}, row {row}", values

    return columns.source(rows, options)


def _require_like(
    first: pa.Schema, schema: pa.Schema, columns: ImageColumns, path: Path, neighbour: Path
) -> None:
    """Refuse a file that lacks a column, or whose labels are of another kind."""
    if missing := [name for name in columns.columns if name not in schema.names]:
        raise SourceError(
            f"has no column {missing[0]!r}, which {neighbour.name} beside it has; its columns are: "
            f"{', '.join(schema.names)}. Files of one dataset have the same columns: name the file "
            "that is meant",
            path,
        )
    if columns.label is not None:
        kinds = [arrow_kind(one.field(columns.label).type) for one in (first, schema)]
        if kinds[0] != kinds[1] and set(kinds) != {"whole", "real"}:  # 1 and 1.0 are one class
            raise SourceError(
                f"its column {columns.label!r} is of the kind {kinds[1]!r}, and that of "
                f"{neighbour.name} beside it {kinds[0]!r}: a class would come twice, by two names. "
                "Write labels of one kind into both, or name the file that is meant",
                path,
            )


def has_values(path: Path) -> bool:
    """Whether a Parquet file holds encoded images or lists of numbers, and so is no manifest."""
    schema = _schema(path)
    return _image_column(schema) is not None or _number_lists(schema) != []


def image_columns(schema: pa.Schema, options: Options, location: object) -> ImageColumns:
    """The columns of a table of encoded images; an error lists those that there are."""
    unit, column_names = options.unit, ", ".join(schema.names)
    image = _image_column(schema)
    if image is None:
        hint = "".join(
            f". Numbers, such as {name!r}, are read as an array: numpy.savez('data.npz', "
            f"embeddings=numpy.stack(table[{name!r}]), labels=table[...]); pixels as "
            "images=, of shape (n, height, width, channels)"
            for name in _number_lists(schema)[:1]
        )
        raise SourceError(
            f"has no column of encoded images; its columns are: {column_names}{hint}", str(location)
        )
    if unit is not None and unit not in schema.names:
        raise SourceError(
            f"there is no unit column {unit!r}; the columns are: {column_names}", str(location)
        )
    features = _features(schema)
    classes = {name for name, kind in features.items() if kind.get("_type") == "ClassLabel"}
    columns = [
        Column(field.name, "classes" if field.name in classes else arrow_kind(field.type))
        for field in schema
    ]
    release = RELEASE_KEY in (schema.metadata or {})
    others = (image, unit, *((CAPTION, LICENCE) if release else ()))
    label = label_column(columns, options.label, location, others=others)
    names = features.get(label, {}).get("names") if label is not None else None
    if names and not (isinstance(names, list) and all(isinstance(one, str) for one in names)):
        raise SourceError(f"notes {str(names)[:80]} as the names of its classes", str(location))
    persons = person_columns(set(schema.names) - {image, label, unit})
    return ImageColumns(image, label, unit, tuple(names) if names else None, release, persons)


def _image_column(schema: pa.Schema) -> str | None:
    features = _features(schema)
    declared = [name for name, kind in features.items() if kind.get("_type") == "Image"]
    for name in ("image", "img", *declared):
        if name in schema.names and _is_bytes(schema.field(name).type):
            return name
    return None


def _number_lists(schema: pa.Schema) -> list[str]:
    return [
        field.name
        for field in schema
        if (number := _innermost(field.type)) != field.type
        and (pa.types.is_floating(number) or pa.types.is_integer(number))
    ]


def _innermost(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return _innermost(kind.value_type) if any(is_kind(kind) for is_kind in lists) else kind


def _is_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        position = kind.get_field_index("bytes")
        return position >= 0 and _is_bytes(kind.field(position).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _features(schema: pa.Schema) -> dict[str, dict[str, Any]]:
    """What ``datasets`` noted of the columns; empty if nothing, or nothing that makes sense."""
    try:
        features = from_json((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: kind for name, kind in features.items() if isinstance(kind, dict)}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"cannot be read as Parquet: {error}", path) from error


def _rows(path: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    try:
        # A small buffer reads a column chunk page by page. What is held is at most a row group.
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False):
                yield from batch.to_pylist()
    except (OSError, KeyError, pa.ArrowException) as error:
        raise SourceError(f"cannot be read as Parquet: {error}", path) from error
