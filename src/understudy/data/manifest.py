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


class Line(NamedTuple):
    """One row of a manifest; ``path`` is relative to the manifest's folder."""

    path: str
    label: str | None
    unit: str | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A CSV or Parquet file with the columns ``path``, ``label`` and perhaps a unit.

    Without a ``label`` column the images have no labels, but only where no other column is left
    over that might have been meant as one.
    """

    path: Path
    labelled: bool
    unit: str | None

    def rows(self) -> Iterator[Line]:
        """Every row in order.

        Raises:
            SourceError: The file cannot be read.
        """
        read = _csv_rows if self.path.suffix.lower() == ".csv" else _parquet_rows
        for row in read(self.path, self._columns()):
            label = row.get("label") if self.labelled else None
            unit = row.get(self.unit) if self.unit is not None else None
            path = row.get("path")
            fault = "has no label in the manifest" if self.labelled and not label else None
            yield Line(path or "", label or None, unit or None, fault)

    def _columns(self) -> list[str]:
        wanted = ["path"] + ["label"] * self.labelled
        if self.unit is not None and self.unit not in wanted:
            wanted.append(self.unit)
        return wanted


def read_manifest(path: Path, unit: str | None) -> Manifest:
    """Open a manifest and check its columns.

    Raises:
        SourceError: It cannot be read, or a column is missing; lists the columns it has.
    """
    columns = manifest_columns(path)
    listed = ", ".join(columns) or "none"
    if "path" not in columns:
        raise SourceError(f"a manifest needs a column 'path'; its columns are: {listed}", path)
    if unit is not None and unit not in columns:
        raise SourceError(f"there is no unit column {unit!r}; the columns are: {listed}", path)
    labelled = "label" in columns
    if not labelled and set(columns) - {"path", unit}:
        raise SourceError(
            f"there is no column 'label'; the columns are: {listed}. Rename the one that holds "
            "the class, or leave only 'path' for images without labels",
            path,
        )
    return Manifest(path, labelled, unit)


def manifest_columns(path: Path) -> list[str]:
    """The columns of a CSV or Parquet file.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        if path.suffix.lower() == ".csv":
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
