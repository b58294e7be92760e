"""Tables of text: CSV as spreadsheets write it, Excel workbooks, Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.damaged_files import from_json
from understudy.core.errors import SourceError, packages_for
from understudy.core.files import read_bounded
from understudy.data.archives import require_safe
from understudy.data.labels import Column, arrow_kind

TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".parquet")  # file names that count as tables

LABELS_FILE = "dataset.json"
"""``{"labels": [[path, class], ...]}``, at the root of a folder or an archive of images."""

Row = Mapping[str, str | None]

_UNREADABLE = (OSError, UnicodeError, csv.Error, pa.ArrowException)
_LONGEST_LINE = 1 << 22  # of CSV: hundreds of thousands of columns
_DELIMITERS = ",;\t|"


def is_table(location: str) -> bool:
    """Whether a file is a table by its name, and none that a file browser left behind."""
    name = Path(location).name.lower()
    return name.endswith((*TABLE_SUFFIXES, ".jsonl")) and not name.startswith((".", "~"))


@dataclass(frozen=True, slots=True)
class Table:
    """A file of rows."""

    path: Path  # the file, or what an error calls it
    encoding: str | None = None  # of CSV; None: UTF-8, or what its first bytes say
    content: bytes | None = None  # its bytes, where it is no file of its own

    @property
    def untyped(self) -> bool:
        """Whether no schema says what a column holds."""
        return self.path.suffix.lower() not in (".parquet", ".json")

    def columns(self) -> list[Column]:
        """The columns with what they can hold; without a schema all are text."""
        if self._listed:
            whole = [Column("label", "whole")] if self._labels() else []
            return [Column("path", "text"), *whole]
        if not self.untyped:
            try:
                schema = pq.read_schema(self._opened())
            except _UNREADABLE as error:
                raise SourceError(f"cannot be read as a manifest: {error}", self.path) from error
            return [Column(field.name, arrow_kind(field.type)) for field in schema]
        with self._lines() as lines:
            return [Column(name, "text") for name in _names(next(lines, []))]

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Every row in order, with some of its columns; rows of empty cells are left out."""
        if self._listed:
            for path, label in self._labels():
                values = {"path": path, "label": str(label)}
                yield {name: values.get(name) for name in columns}
            return
        if not self.untyped:
            yield from self._parquet_rows(columns)
            return
        with self._lines() as lines:
            names = _names(next(lines, []))
            for cells in lines:
                if any(cell and cell.strip() for cell in cells):
                    row = dict(zip(names, map(text, cells), strict=False))
                    yield {name: row.get(name) for name in columns}

    @property
    def _listed(self) -> bool:
        return self.path.name == LABELS_FILE

    @property
    def lists_images(self) -> bool:
        """Whether a `LABELS_FILE` is one: other tools give files of that name other contents.

        Raises:
            SourceError: It says that the images have no labels.
        """
        values = self._json() if self._listed else {}
        if "labels" in values and values["labels"] is None:
            raise SourceError(
                'says "labels": null: the images have no classes (--label none)', self.path
            )
        return isinstance(values.get("labels"), list)

    def _json(self) -> dict[str, Any]:
        try:
            content = read_bounded(self.path, 1 << 30) if self.content is None else self.content
            values = from_json(content)
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot be read as JSON: {error}", self.path) from error
        return values if isinstance(values, dict) else {}

    def _labels(self) -> list[tuple[str, int]]:
        """Path and label of each image, as StyleGAN's and DPImageBench's tools list them."""
        rows = self._json().get("labels") or []
        for number, row in enumerate(rows, 1):
            pair = tuple(map(type, row)) if isinstance(row, list) else ()
            if pair != (str, int):
                raise SourceError(
                    f'row {number} of "labels" is not [path, class], a text and a whole number: '
                    f"{str(row)[:80]}",
                    self.path,
                )
        return [(path, label) for path, label in rows]

    def _opened(self) -> Any:
        return self.path if self.content is None else io.BytesIO(self.content)

    @contextmanager
    def _lines(self) -> Iterator[Iterator[list[str | None]]]:
        """The lines of a CSV or a workbook, as texts."""
        if self.path.suffix.lower() == ".xlsx":
            with _workbook_lines(self._opened(), self.path) as lines:
                yield lines
            return
        try:
            with self._text() as file:
                first = next(_short_lines(file), "")
                file.seek(0)
                # What parts the columns: of those signs the one that the first line has most of.
                delimiter = max(_DELIMITERS, key=first.count)
                texts = csv.reader(_short_lines(file), delimiter=delimiter, skipinitialspace=True)
                yield (list[str | None](cells) for cells in texts)
        except UnicodeError as error:
            raise SourceError(self._foreign_text(), self.path) from error
        except (OSError, csv.Error) as error:
            raise SourceError(f"cannot be read as CSV: {error}", self.path) from error

    @contextmanager
    def _text(self) -> Iterator[IO[str]]:
        with self.path.open("rb") if self.content is None else io.BytesIO(self.content) as file:
            start = file.read(2)
            file.seek(0)
            encoding = self.encoding or "utf-8"
            if start in (b"\xff\xfe", b"\xfe\xff"):  # what Excel calls Unicode text
                encoding = "utf-16"
            encoding = "utf-8-sig" if encoding == "utf-8" else encoding
            with io.TextIOWrapper(file, encoding, newline="") as text_file:
                yield text_file

    def _foreign_text(self) -> str:
        """What is wrong with text of another encoding: where, and what would read it."""
        if self.encoding is not None and self.encoding != "utf-8":
            return f"is no text in {self.encoding}: leave out '?encoding=', or name another"
        content = self.path.read_bytes() if self.content is None else self.content
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = content[error.start]
            line = content.count(b"\n", 0, error.start) + 1
            return (
                f"is not UTF-8: line {line} has the byte 0x{byte:02X}, which is "
                f'{chr(byte)!r} in Latin-1. Save it as "CSV UTF-8", or read it as Latin-1 with '
                "'?encoding=latin-1' after the name of the dataset"
            )
        return 'cannot be read as text: save it as "CSV UTF-8"'

    def _parquet_rows(self, columns: Sequence[str]) -> Iterator[Row]:
        try:
            with pq.ParquetFile(self._opened(), pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=4096, columns=list(columns)):
                    for row in batch.to_pylist():
                        yield {name: text(value) for name, value in row.items()}
        except _UNREADABLE as error:
            raise SourceError(f"cannot be read as Parquet: {error}", self.path) from error


def _short_lines(file: IO[str]) -> Iterator[str]:
    """The lines of a file, none of which is so long that it would fill the memory."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise csv.Error(f"it has a line of {_LONGEST_LINE:,} letters or more")
        yield line


def text(value: Any) -> str | None:
    """A cell as a class name or unit: None stays, whole floats lose their ``.0``, dates midnight.

    Spaces about it are none of it: with them a person would be two.
    """
    if value is None or value != value:  # NaN, as pandas writes a missing value
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time():  # as workbooks store a date
        value = value.date()
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)).strip()


def _names(header: Sequence[str | None]) -> list[str]:
    return [(name or "").strip() for name in header]


@contextmanager
def _workbook_lines(stream: Any, path: Path) -> Iterator[Iterator[list[str | None]]]:
    """The rows of the first sheet of an Excel workbook, or of the one named ``manifest``."""
    with packages_for(f"{path}: an Excel workbook", "excel"):
        import openpyxl
    require_safe(stream, path)
    try:
        book = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
    except Exception as error:  # of XML and zip files of any content
        raise SourceError(
            f"cannot be read as an Excel workbook ({type(error).__name__}): save it as .xlsx or "
            'as "CSV UTF-8"',
            path,
        ) from error
    try:
        sheets = {sheet.title.lower(): sheet for sheet in book.worksheets}
        if not sheets:
            raise SourceError("has no sheet of cells", path)
        sheet = sheets.get("manifest", next(iter(sheets.values())))
        yield _cells(sheet, path)
    finally:
        book.close()


def _cells(sheet: Any, path: Path) -> Iterator[list[str | None]]:
    try:
        header = [text(cell) for cell in next(sheet.iter_rows(max_row=1, values_only=True), ())]
        while header and not header[-1]:  # a stray cell at the far end would make each row as long
            header.pop()
        yield header
        if header:
            for row in sheet.iter_rows(min_row=2, max_col=len(header), values_only=True):
                yield [text(cell) for cell in row]
    except Exception as error:  # as above: a sheet is parsed while it is read
        raise SourceError(f"its sheet cannot be read ({type(error).__name__})", path) from error
