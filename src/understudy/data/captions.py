"""The captions of a release: written beside its images, and read back with them.

    captions.csv                        path,caption; paths begin at the release's folder
    data/train-00000-of-00001.parquet   or a column ``caption``

Where a release says so, a column ``licence`` follows: that of the model which drew the images.

The name is not metadata.csv: ``datasets`` takes a file of that name for the only word on the images
of a folder, and would find no classes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.errors import RunError, SourceError
from understudy.core.files import home_path
from understudy.core.ports import Source
from understudy.core.types import SyntheticBatch
from understudy.data.encoded_images import Record, RecordSource
from understudy.data.folder import inside

CAPTIONS_FILE = "captions.csv"  # at the root of a release of PNG files

CAPTION, PATH, LICENCE = "caption", "path", "licence"
"""Its columns; all but the path are also columns of a release as Parquet."""

_ROWS = 16  # decoded from Parquet at a time, as encoded images are large


def check_captions(captions: Sequence[Any] | None, rows: int) -> None:
    """Refuse captions that a table cannot hold beside the images; a `RunError`."""
    if captions is None or len(captions) != rows:
        count = "none" if captions is None else len(captions)
        raise RunError(f"captions of the release: expected {rows}, a row each, got {count}")
    for text in captions:
        if not isinstance(text, str) or not text.strip() or text.splitlines() != [text]:
            raise RunError(f"a caption of the release is not one line of text: {text!r}")
        if text != text.encode("utf-8", "replace").decode("utf-8"):
            raise RunError(f"a caption of the release cannot be written as UTF-8: {text!r}")


class CaptionsWriter:
    """``captions.csv``, a line an image; ``path_of`` a row and a label is where the image is."""

    def __init__(
        self, folder: Path, path_of: Callable[[int, int], Path], licence: str | None = None
    ) -> None:
        self._folder, self._path_of = folder, path_of
        self._licence = {} if licence is None else {LICENCE: licence}

    def __enter__(self) -> CaptionsWriter:
        self._file = (self._folder / CAPTIONS_FILE).open("w", encoding="utf-8", newline="")
        self._lines = csv.writer(self._file, lineterminator="\n")
        self._lines.writerow([PATH, CAPTION, *self._licence])
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, first: int, batch: SyntheticBatch) -> None:
        """Append rows ``first`` and on."""
        if batch.captions is None:
            return
        pairs = zip(batch.labels.tolist(), batch.captions, strict=True)
        for row, (label, caption) in enumerate(pairs, first):
            path = self._path_of(row, label).relative_to(self._folder)
            self._lines.writerow([path.as_posix(), caption, *self._licence.values()])


def with_captions(source: Source) -> Source:
    """The source, with the captions of the release that it is of, where there are any.

    It was opened by the name of a run's folder or of a release; then it is a `CaptionedSource`.
    """
    folder = home_path(source.name)
    folder = folder / "release" if (folder / "release").is_dir() else folder
    if not isinstance(source, RecordSource) or not folder.is_dir():
        return source
    if (table := folder / CAPTIONS_FILE).is_file():
        texts = {str(folder / path): text for path, text in read_captions(table)}
        locations = source.locations()
        if bare := [location for location in locations if location not in texts]:
            raise SourceError(f"has no caption in {CAPTIONS_FILE}", bare[0])
        source.captions = [texts[location] for location in locations]
        source.licence = _csv(table)[0].get(LICENCE) or None
    elif (captions := _column(folder, CAPTION)) is not None:
        source.captions = captions
        source.licence = next(iter(_column(folder, LICENCE) or ()), None)
    else:
        return source
    check_captions(source.captions, len(source))
    return source


def read_captions(table: Path) -> list[tuple[str, str]]:
    """(path, caption) of each line of a CSV."""
    try:
        lines = [(row[PATH], row[CAPTION]) for row in _csv(table)]
    except KeyError as error:
        raise SourceError(f"has no column {error}; it needs {PATH} and {CAPTION}", table) from error
    for number, line in enumerate(lines, 1):
        if not all(line):
            raise SourceError(f"row {number} has no path or no caption: found {line}", table)
    if not lines:
        raise SourceError("has no rows: it needs one for each image", table)
    return lines


def _csv(table: Path) -> list[dict[str, str]]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"cannot be read as CSV: {error}", table) from error


def captioned_files(folder: Path, lines: Sequence[tuple[str, str]], table: str) -> Iterator[Record]:
    """The images that lines (path, caption) of a table name, all within a folder."""
    for name, _ in lines:
        path = folder / name
        missing = not path.is_file() or not inside(path, folder)
        fault = f"is named in {table} and is no file of the folder {folder}" if missing else None
        yield Record(str(path), path, fault=fault)


def _column(folder: Path, name: str) -> list[Any] | None:
    """A column of a release as Parquet, in the order of its images; None where it has none."""
    shards = sorted((folder / "data").glob("*.parquet"))
    try:
        if not shards or name not in pq.read_schema(shards[0]).names:
            return None
        return [
            text for one in shards for text in pq.read_table(one, columns=[name])[name].to_pylist()
        ]
    except (OSError, KeyError, pa.ArrowException) as error:
        raise SourceError(f"its captions cannot be read: {error}", folder / "data") from error
