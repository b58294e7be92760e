"""The captions of a release: written beside its images, and read back with them.

    captions.csv                        path,caption; paths begin at the release's folder
    data/train-00000-of-00003.parquet   or a column ``caption``

Where a release says so, a column ``licence`` follows: that of the model which drew the images.

The name is not metadata.csv: ``datasets`` takes a file of that name for the only word on the images
of a folder, and would find no classes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.errors import RunError, SourceError
from understudy.core.ports import Source
from understudy.core.types import Batch, Images, Labels, Shape, SyntheticBatch
from understudy.data.encoded_images import Options, Record, RecordSource
from understudy.data.folder import inside

CAPTIONS_FILE = "captions.csv"
"""At the root of a release of PNG files."""

CAPTION, PATH, LICENCE = "caption", "path", "licence"
"""Its columns; all but the path are also columns of a release as Parquet."""

_ROWS = 16  # decoded from Parquet at a time, as encoded images are large


def check_captions(captions: Sequence[Any] | None, rows: int) -> None:
    """Refuse captions that a table cannot hold beside the images.

    Args:
        captions: Of one batch.
        rows: Its images.
    """
    if captions is None or len(captions) != rows:
        count = "none" if captions is None else len(captions)
        raise RunError(f"captions of the release: expected {rows}, a row each, got {count}")
    for text in captions:
        if not isinstance(text, str) or not text.strip() or text.splitlines() != [text]:
            raise RunError(f"a caption of the release is not one line of text: {text!r}")
        if text != text.encode("utf-8", "replace").decode("utf-8"):
            raise RunError(f"a caption of the release cannot be written as UTF-8: {text!r}")


class CaptionsWriter:
    """``captions.csv``, a line an image in the order of the release.

    Args:
        folder: Of the release; paths are relative to it.
        path_of: Where the image of a row and a label is.
        licence: Of the model that drew the images; None: no such column.
    """

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


@dataclass(frozen=True, slots=True)
class Captioned:
    """The images of a release that has captions."""

    folder: Path
    texts: list[str]  # (n,) its captions
    # the images of some rows, ascending (k,), in their order
    records: Callable[[Labels], Iterator[Record]]

    def images(self, rows: Labels, shape: Shape) -> RecordSource:
        """The images of some rows, without classes.

        Args:
            rows: (k,) int64, ascending.
            shape: (height, width, channels) of the release's images.
        """
        options = Options(str(self.folder), size=(shape[0], shape[1]))
        return RecordSource(lambda: self.records(rows), options)


def open_captioned(folder: Path) -> Captioned | None:
    """The images of a release with their captions; None where it has none.

    Args:
        folder: Of the release, as `write_release` left it in either format.

    Raises:
        SourceError: The captions cannot be read.
    """
    table = folder / CAPTIONS_FILE
    if table.is_file():
        lines = read_captions(table)
        return Captioned(
            folder,
            [text for _, text in lines],
            lambda rows: captioned_files(folder, [lines[row] for row in rows.tolist()], table.name),
        )
    shards = sorted((folder / "data").glob("*.parquet"))
    try:
        if not shards or CAPTION not in pq.read_schema(shards[0]).names:
            return None
        texts = [text for path in shards for text in _column(path)]
    except (OSError, KeyError, pa.ArrowException) as error:
        raise SourceError(f"its captions cannot be read: {error}", folder / "data") from error
    return Captioned(folder, texts, lambda rows: _of_shards(shards, rows))


class CaptionedImages:
    """Images of a release as a source, with their captions (`CaptionedSource`).

    Args:
        source: The images.
        captions: (n,) the caption of each, in its order.
        licence: Of the model that drew them, where it stands beside them.
    """

    kind: Literal["images", "embeddings"] = "images"

    def __init__(
        self, source: RecordSource, captions: list[str], licence: str | None = None
    ) -> None:
        self.name, self.shape, self.classes = source.name, source.shape, source.classes
        self.has_units, self.skipped = source.has_units, source.skipped
        self.captions, self.licence = captions, licence
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def batches(self, size: int) -> Iterator[Batch]:
        """Every image in order, ``size`` at a time."""
        return self._source.batches(size)

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of each image."""
        return self._source.digests(key)

    def originals(self) -> Iterator[Images]:
        """Every image as it is stored."""
        return self._source.originals()


def with_captions(source: Source) -> Source:
    """A source with the captions of the release that it is of; as it is where there are none.

    Args:
        source: As `open_source` opened it, by the name of a run's folder or of a release.
    """
    folder = Path(source.name).expanduser()
    folder = folder / "release" if (folder / "release").is_dir() else folder
    if not isinstance(source, RecordSource) or not folder.is_dir():
        return source
    if not (folder / CAPTIONS_FILE).is_file():
        captioned = open_captioned(folder)
        if captioned is None:
            return source
        return CaptionedImages(source, captioned.texts, licence_of_captions(folder))
    texts = {str(folder / path): text for path, text in read_captions(folder / CAPTIONS_FILE)}
    locations = source.locations()
    if bare := [location for location in locations if location not in texts]:
        raise SourceError(f"has no caption in {CAPTIONS_FILE}", bare[0])
    captions = [texts[location] for location in locations]
    return CaptionedImages(source, captions, licence_of_captions(folder))


def licence_of_captions(folder: Path) -> str | None:
    """What stands beside the captions of a release as the licence of the images; None: nothing."""
    table = folder / CAPTIONS_FILE
    try:
        if table.is_file():
            with table.open(encoding="utf-8-sig", newline="") as file:
                return next((row.get(LICENCE) or None for row in csv.DictReader(file)), None)
        shards = sorted((folder / "data").glob("*.parquet"))
        if not shards or LICENCE not in pq.read_schema(shards[0]).names:
            return None
        column = pq.read_table(shards[0], columns=[LICENCE])[LICENCE]
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException) as error:
        raise SourceError(f"its captions cannot be read: {error}", folder) from error
    return str(column[0].as_py()) if len(column) else None


def read_captions(table: Path) -> list[tuple[str, str]]:
    """(path, caption) of each line of a CSV."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            lines = [(row[PATH], row[CAPTION]) for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"cannot be read as CSV: {error}", table) from error
    except KeyError as error:
        raise SourceError(f"has no column {error}; it needs {PATH} and {CAPTION}", table) from error
    for number, line in enumerate(lines, 1):
        if not all(line):
            raise SourceError(f"row {number} has no path or no caption: found {line}", table)
    if not lines:
        raise SourceError("has no rows: it needs one for each image", table)
    return lines


def captioned_files(folder: Path, lines: Sequence[tuple[str, str]], table: str) -> Iterator[Record]:
    """The images that lines (path, caption) of a table name, all within a folder."""
    for name, _ in lines:
        path = folder / name
        missing = not path.is_file() or not inside(path, folder)
        fault = f"is named in {table} and is no file of the folder {folder}" if missing else None
        yield Record(str(path), path, fault=fault)


def _column(path: Path) -> list[str]:
    texts: list[str | None] = pq.read_table(path, columns=[CAPTION])[CAPTION].to_pylist()
    if None in texts:
        raise SourceError(f"row {texts.index(None)} has no caption", path)
    return [text for text in texts if text is not None]


def _of_shards(shards: list[Path], rows: Labels) -> Iterator[Record]:
    start = 0
    for path in shards:
        try:
            with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
                for group in range(file.num_row_groups):
                    end = start + file.metadata.row_group(group).num_rows
                    wanted = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
                    if len(wanted):
                        yield from _of_group(file, group, wanted - start, path)
                    start = end
        except (OSError, KeyError, pa.ArrowException) as error:
            raise SourceError(f"cannot be read as Parquet: {error}", path) from error


def _of_group(file: pq.ParquetFile, group: int, rows: Labels, path: Path) -> Iterator[Record]:
    """Some rows of a row group, of megabytes in a release; others are not read."""
    at, wanted = 0, set(rows.tolist())
    for batch in file.iter_batches(_ROWS, [group], ["image"], use_threads=False):
        for row, image in enumerate(batch.column("image").to_pylist(), at):
            if row in wanted:
                yield Record(f"{path}, row {row}", image["bytes"])
        at += len(batch)
