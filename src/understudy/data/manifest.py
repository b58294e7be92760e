"""A manifest: which images a flat folder has, their classes, and who they belong to."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.errors import SourceError
from understudy.data.labels import Column, arrow_kind, label_column, real_label, real_numbers

PATHS = ("path", "file_name", "filename", "image_id")
"""Columns that hold the path of an image: this project's name, then those of the hub's
``metadata.csv``, of other tools, and of CelebA's ``list_attr_celeba.csv``."""


class ManifestLine(NamedTuple):
    """One row of a manifest; ``path`` is relative to the manifest's folder."""

    path: str
    label: str | None
    unit: str | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A CSV or Parquet file with a column of paths, perhaps one of classes and one of units.

    Attributes:
        path: The file itself.
        files: The column that holds the paths of the images.
        label: The column that holds the class; None for images without labels.
        unit: The column that says who an image belongs to; None where every image is a unit.
    """

    path: Path
    files: str
    label: str | None
    unit: str | None

    def rows(self) -> Iterator[ManifestLine]:
        """Every row in order.

        Raises:
            SourceError: The file cannot be read.
        """
        read = _csv_rows if _is_csv(self.path) else _parquet_rows
        for row in read(self.path, self._columns()):
            label = row.get(self.label) if self.label is not None else None
            unit = row.get(self.unit) if self.unit is not None else None
            path = row.get(self.files)
            unlabelled = self.label is not None and not label
            fault = "has no label in the manifest" if unlabelled else None
            yield ManifestLine(path or "", label or None, unit or None, fault)

    def _columns(self) -> list[str]:
        wanted = [name for name in (self.files, self.label, self.unit) if name is not None]
        return list(dict.fromkeys(wanted))


def read_manifest(path: Path, unit: str | None, label: str | None = None) -> Manifest:
    """Open a manifest and check its columns.

    Args:
        path: The file.
        unit: The column that says who an image belongs to, or None.
        label: The column that holds the class, as `label_column` takes it.

    Raises:
        SourceError: It cannot be read, a column is missing, or several could hold the class; lists
            the columns it has.
    """
    columns = _typed_columns(path)
    names = [column.name for column in columns]
    listed = ", ".join(names) or "none"
    files = next((name for name in PATHS if name in names), None)
    if files is None:
        raise SourceError(
            f"a manifest needs a column 'path'; its columns are: {listed}. The names "
            f"{', '.join(PATHS[1:])} serve too",
            path,
        )
    if unit is not None and unit not in names:
        raise SourceError(f"there is no unit column {unit!r}; the columns are: {listed}", path)
    chosen = label_column(columns, label, path, taken=(files, unit), usual=("label",))
    if chosen is not None and _is_csv(path):
        cells = (row.get(chosen) for row in _csv_rows(path, [chosen]))
        if real_numbers(cells):
            raise SourceError(real_label(chosen), path)
    return Manifest(path, files, chosen, unit)


def _typed_columns(path: Path) -> list[Column]:
    """The columns with what they can hold; all of a CSV are text."""
    if _is_csv(path):
        return [Column(name, "text") for name in manifest_columns(path)]
    try:
        return [Column(field.name, arrow_kind(field.type)) for field in pq.read_schema(path)]
    except _UNREADABLE as error:
        raise SourceError(f"cannot be read as a manifest: {error}", path) from error


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def manifest_columns(path: Path) -> list[str]:
    """The columns of a CSV or Parquet file.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        if _is_csv(path):
            with path.open(encoding="utf-8-sig", newline="") as file:
                return next(csv.reader(file), [])
        return list(pq.read_schema(path).names)
    except _UNREADABLE as error:
        raise SourceError(f"cannot be read as a manifest: {error}", path) from error


_UNREADABLE = (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException)


def _csv_rows(path: Path, columns: list[str]) -> Iterator[Mapping[str, str | None]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file)
    except _UNREADABLE as error:
        raise SourceError(f"cannot be read as CSV: {error}", path) from error


def _parquet_rows(path: Path, columns: list[str]) -> Iterator[Mapping[str, str | None]]:
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=4096, columns=columns):
                for row in batch.to_pylist():
                    yield {name: text(value) for name, value in row.items()}
    except _UNREADABLE as error:
        raise SourceError(f"cannot be read as Parquet: {error}", path) from error


def text(value: Any) -> str | None:
    """A cell as a class name or unit: None stays, whole floats lose their ``.0``."""
    if value is None or value != value:  # NaN, as pandas writes a missing value
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
