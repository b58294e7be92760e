"""An array stored in a file as one block of bytes, read from front to back."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import SourceError
from understudy.core.independence import LARGEST_NUMBER

BLOCK_BYTES = 1 << 20  # of a block when nobody asks for a number of rows
_PIECE_BYTES = 1 << 18  # read at a time: what zip files copy of it is still in the cache

_DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile)


@dataclass(frozen=True)
class StoredArray:
    """An array in a file, rows first."""

    location: str  # what an error calls it
    dtype: np.dtype[Any]  # its type as stored, byte order included
    shape: tuple[int, ...]  # its shape, n first
    # opens a stream at the first row's first byte
    start: Callable[[], AbstractContextManager[IO[bytes]]]
    # the same, where another stream finds a row faster but checks no sum of the file
    anywhere: Callable[[], AbstractContextManager[IO[bytes]]] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    @property
    def block_rows(self) -> int:
        """Rows in a block of ``BLOCK_BYTES``; at least 1."""
        return max(1, BLOCK_BYTES // max(self.row_bytes, 1))

    def blocks(self, rows: int, *, checked: bool = True) -> Iterator[NDArray[Any]]:
        """Every row in order, ``rows`` at a time, in the stored type.

        ``checked``: whether a sum that the file has is checked as well.
        """
        opened = self.start if checked else self.anywhere or self.start
        try:
            with opened() as stream:
                for first in range(0, len(self), rows):
                    count = min(rows, len(self) - first)
                    block = np.empty((count, *self.shape[1:]), dtype=self.dtype)
                    self._fill(stream, block, first)
                    if first + count == len(self):
                        stream.read(1)  # gzip and zip check their sums where the stream ends
                    yield block
        except _DAMAGE as error:
            raise SourceError(f"cannot be read: {error}", self.location) from error

    def rows(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """The rows at increasing positions, in the stored type; gaps are skipped."""
        rows = np.empty((len(positions), *self.shape[1:]), dtype=self.dtype)
        ends = np.flatnonzero(np.diff(positions) != 1) + 1
        try:
            with (self.anywhere or self.start)() as stream:
                next_row = 0
                for part in np.split(np.arange(len(positions)), ends):
                    first = int(positions[part[0]])
                    stream.seek((first - next_row) * self.row_bytes, os.SEEK_CUR)
                    self._fill(stream, rows[part[0] : part[-1] + 1], first)
                    next_row = first + len(part)
        except _DAMAGE as error:
            raise SourceError(f"cannot be read: {error}", self.location) from error
        return rows

    def _fill(self, stream: IO[bytes], block: NDArray[Any], first: int) -> None:
        room = block.reshape(-1).view(np.uint8).data
        filled = 0
        while filled < len(room):
            read = stream.readinto(room[filled : filled + _PIECE_BYTES])  # type: ignore[attr-defined]
            if not read:
                row = first + filled // max(self.row_bytes, 1)
                raise SourceError(
                    f"is cut short: it promises {len(self)} rows and ends in row {row}",
                    self.location,
                )
            filled += read


def stream_from(path: Path, start: int) -> Callable[[], AbstractContextManager[IO[bytes]]]:
    """Opens a file at a byte."""

    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with path.open("rb") as stream:
            stream.seek(start)
            yield stream

    return opened


StoredArrays = Mapping[str, StoredArray]  # the arrays of one file by name


def as_float32(block: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers as float32; what is too large becomes infinite, to be found by ``not_finite``."""
    with np.errstate(over="ignore"):
        return block.astype(np.float32, copy=False)


def not_finite(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """The rows that hold an infinity, a NaN or a number beyond `LARGEST_NUMBER`."""
    finite = np.abs(values) <= LARGEST_NUMBER
    if finite.all():
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(~finite.all(axis=1))


def as_column(block: NDArray[Any]) -> NDArray[Any]:
    """(n,) or (n, 1) labels or units: (n,) int64, or str without spaces about it."""
    flat = block.reshape(len(block))
    if flat.dtype.kind == "S":
        flat = np.char.decode(flat, "utf-8", "backslashreplace")
    return np.char.strip(flat) if flat.dtype.kind == "U" else flat.astype(np.int64)


def check_column(column: StoredArray, rows: int) -> None:
    """Labels and units are whole numbers or text, one a row."""
    if column.shape not in ((rows,), (rows, 1)):
        columns = len(column.shape) == 2 and column.shape[0] == rows
        hint = ": columns of 0 and 1 are labels by labels.argmax(axis=1)" if columns else ""
        raise SourceError(f"has shape {column.shape} beside {rows} rows{hint}", column.location)
    if column.dtype.kind not in "iuSUb" or column.dtype.itemsize == 0:
        raise SourceError(
            f"holds {column.dtype}, not whole numbers or text: store labels.astype(int)",
            column.location,
        )


def learn_labels(column: StoredArray, dropped: NDArray[np.int64]) -> dict[Any, int]:
    """How often each label is seen, sorted by label; rows in ``dropped`` do not count."""
    counts: dict[Any, int] = {}
    first = 0
    for block in column.blocks(column.block_rows):
        labels = as_column(block)[keep_mask(dropped, first, len(block))]
        first += len(block)
        values, times = np.unique(labels, return_counts=True)
        for value, count in zip(values.tolist(), times.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + count
    return dict(sorted(counts.items()))


def units_of_labels(
    labels: StoredArray, units: StoredArray, dropped: NDArray[np.int64]
) -> dict[Any, Counter[str]]:
    """The units of each label, and how many of its rows are theirs, but for ``dropped`` ones."""
    counts: dict[Any, Counter[str]] = {}
    first, rows = 0, min(labels.block_rows, units.block_rows)
    for block, owners in zip(labels.blocks(rows), units.blocks(rows), strict=True):
        keep = keep_mask(dropped, first, len(block))
        first += len(block)
        names = as_column(owners)[keep].astype(np.str_).tolist()
        for label, unit in zip(as_column(block)[keep].tolist(), names, strict=True):
            counts.setdefault(label, Counter())[unit] += 1
    return counts


def keep_mask(dropped: NDArray[np.int64], first: int, count: int) -> NDArray[np.bool_]:
    """Which of the rows ``first`` to ``first + count`` are not in ``dropped``."""
    keep = np.ones(count, dtype=np.bool_)
    keep[dropped[(dropped >= first) & (dropped < first + count)] - first] = False
    return keep
