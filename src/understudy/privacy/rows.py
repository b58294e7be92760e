"""Private records: from a source or from the owner's cache, whole units at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError, SourceError
from understudy.core.independence import constant_calls
from understudy.core.ports import Source
from understudy.core.types import Batch, Embeddings
from understudy.privacy.sealed import Sealed
from understudy.privacy.sums import UnitCodes
from understudy.privacy.unit import Unit

BLOCK = 8192
"""Most rows that are read at a time."""

RECORDS_PER_CALL = 64
"""Records in every call of an encoder or a view, the last one included (`constant_calls`).

A power of two, so that the records and tokens of a call fill whole tiles of a processor's kernels.
"""

_READ = 512  # records that are read from the source at a time, at least
_NUMBERS = 1 << 22  # that are read at a time, about

Block = tuple[NDArray[Any], NDArray[np.int64], UnitCodes | None]
"""Values (n, ...), labels (n,) and the unit of each record (None: every record its own)."""


def split_block(block: Block, rows: int) -> Iterator[Block]:
    """A block in pieces of about ``rows`` rows, or a little more: no unit is parted."""
    values, labels, groups = block
    start = 0
    while start < len(labels):
        stop = min(start + rows, len(labels))
        if groups is not None:
            stop = _end_of_unit(groups, stop)
        part = slice(start, stop)
        yield values[part], labels[part], None if groups is None else groups[part]
        start = stop


def poisson_sample(block: Block, rate: float) -> Block:
    """The records of units that are in a sample: each unit is, by itself, with this probability.

    The operating system's generator decides, by 64 bits a unit: the probability is the rate, or
    less by 2^-64. A unit is in with all its records or with none.
    """
    values, labels, groups = block
    if rate >= 1:
        return block
    units = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    count = int(units[-1]) + 1 if len(units) else 0
    draws = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    inside = (draws < np.uint64(math.floor(math.ldexp(rate, 64))))[units]
    return values[inside], labels[inside], None if groups is None else groups[inside]


def _end_of_unit(units: NDArray[np.int64], stop: int) -> int:
    """The first row after the whole of the unit that record ``stop - 1`` belongs to."""
    return int(np.searchsorted(units, units[stop - 1], side="right"))


def _block_rows(dim: int) -> int:
    return max(1, min(BLOCK, _NUMBERS // dim))


class SourceRecords(Sealed):
    """Embeddings read from a source as they are, every record its own unit."""

    __slots__ = ("_classes", "_source")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._classes = max(1, len(source.classes))

    def blocks(self) -> Iterator[Block]:
        """Blocks of at most `BLOCK` rows."""
        for batch in self._source.batches(_block_rows(self._source.shape[0])):
            yield batch.values, check_labels(batch.labels, self._classes), None


class CachedRecords(Sealed):
    """Embeddings in a file that only the owner can read, in blocks of whole units.

    Args:
        path: (n, d) float32, raw.
        dim: d.
        labels: (n,) int64.
        units: (n,) int64 unit of each record, or None.
        max_rows: How many records of a unit are used.
    """

    __slots__ = ("_dim", "_labels", "_order", "_path", "_units")

    def __init__(
        self,
        path: Path,
        dim: int,
        labels: NDArray[np.int64],
        units: NDArray[np.int64] | None,
        max_rows: int,
    ) -> None:
        self._path, self._dim, self._labels = path, dim, labels
        self._order = np.arange(len(labels))
        self._units = units
        if units is not None:
            order = np.argsort(units, kind="stable")
            grouped = units[order]
            rank = np.arange(len(order)) - np.searchsorted(grouped, grouped)
            self._order = order[rank < max_rows]
            self._units = grouped[rank < max_rows]

    def blocks(self) -> Iterator[Block]:
        """Blocks of about `BLOCK` rows at most that never part a unit."""
        n, rows = len(self._order), _block_rows(self._dim)
        with self._path.open("rb", buffering=0) as file:
            start = 0
            while start < n:
                stop = min(start + rows, n)
                if self._units is not None:
                    stop = _end_of_unit(self._units, stop)
                index = self._order[start:stop]
                groups = None if self._units is None else self._units[start:stop]
                yield self._read(file.fileno(), index), self._labels[index], groups
                start = stop

    def _read(self, descriptor: int, index: NDArray[np.int64]) -> Embeddings:
        size = 4 * self._dim
        if self._units is None:
            data = os.pread(descriptor, size * len(index), size * int(index[0]))
        else:
            data = b"".join(os.pread(descriptor, size, size * int(i)) for i in index)
        return np.frombuffer(data, dtype=np.float32).reshape(len(index), self._dim)


def cache_records(
    source: Source,
    encode: Callable[[NDArray[Any]], Embeddings],
    unit: Unit,
    folder: Path,
    *,
    batch: int,
    progress: Callable[[int], None] | None,
) -> CachedRecords:
    """Encode a source once into a file of the owner's (mode 0600 in a folder of mode 0700).

    ``encode`` is called with ``batch`` records each time, so that no record's embedding depends on
    how many there are (docs/promise.md, "Record independence").

    Raises:
        InputError: An embedding that is not finite, or of the wrong shape.
        SourceError: A label without a class, or a record without a unit.
    """
    path = folder / f"{os.urandom(8).hex()}.f32"
    labels: list[NDArray[np.int64]] = []
    codes: dict[str, int] = {}
    units: list[NDArray[np.int64]] = []
    dim = 0
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for part in source.batches(max(batch, _READ // batch * batch)):
            for embeddings in _embedded(encode, part, batch):
                dim = embeddings.shape[1]
                file.write(embeddings.data)
            labels.append(check_labels(part.labels, max(1, len(source.classes))))
            if unit.column is not None:
                if part.units is None:
                    raise SourceError(
                        f"has no column {unit.column!r} to tell units by", source.name
                    )
                units.append(
                    np.array([codes.setdefault(u, len(codes)) for u in part.units.tolist()])
                )
            if progress is not None:
                progress(len(part.labels))
    if not labels:
        raise SourceError("holds no rows", source.name)
    return CachedRecords(
        path,
        dim,
        np.concatenate(labels),
        np.concatenate(units).astype(np.int64) if units else None,
        unit.max_rows,
    )


def _embedded(
    encode: Callable[[NDArray[Any]], Embeddings], part: Batch, batch: int
) -> Iterator[Embeddings]:
    """A batch's embeddings, call by call, once they are known to be sound."""
    for result in constant_calls(encode, part.values, batch):
        embeddings = np.ascontiguousarray(result, dtype=np.float32)
        if embeddings.ndim != 2:
            raise InputError(
                f"the encoder gave shape {embeddings.shape} for {len(embeddings)} images; "
                "expected (n, d)"
            )
        if not np.isfinite(embeddings).all():
            raise InputError(
                "the encoder gave NaN or infinite values; nothing was spent. Check its input "
                "range and data type"
            )
        yield embeddings


def check_labels(labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Labels, once they are known to lie in [0, classes)."""
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise SourceError(
            f"a label lies outside 0 to {classes - 1}, although the dataset has {classes} classes"
        )
    return np.asarray(labels, dtype=np.int64)
