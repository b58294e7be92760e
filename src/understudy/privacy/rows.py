"""Private records: from a source or from the owner's cache, whole units at a time."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError, SourceError
from understudy.core.independence import LARGEST_NUMBER, constant_calls
from understudy.core.ports import Engine, IndexedSource, Source
from understudy.core.types import Embeddings
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

Encode = Callable[[NDArray[Any]], Embeddings]

Block = tuple[NDArray[Any], NDArray[np.int64], UnitCodes | None]
"""Values (n, ...), labels (n,) and the unit of each record (None: every record its own)."""


@runtime_checkable
class DistantEngine(Engine, Protocol):
    """An engine whose workers share no memory with this process: they read records themselves.

    It may deliver a result twice, where a worker was lost and its item was asked again.

    Attributes:
        workers: How many there are.
    """

    workers: int

    def share(self, value: object) -> None:
        """Send a value once: functions that refer to it find it on every worker."""
        ...

    def forget(self, value: object) -> None:
        """Drop a shared value, here and on every worker."""
        ...

    def in_blocks(
        self, function: Callable[..., NDArray[Any]], block: int, *rows: NDArray[Any]
    ) -> NDArray[Any]:
        """A function of public rows (n, ...), of which each block is asked by itself: (n, ...)."""
        ...


def split_block(block: Block, rows: int, *, by_class: bool = False) -> Iterator[Block]:
    """A block in pieces of about ``rows`` rows, or a little more: no unit is parted.

    ``by_class``: of records that are each a unit, class after class, so that a piece is of few.
    """
    values, labels, groups = block
    if by_class and groups is None and len(labels) > rows:
        order = np.argsort(labels, kind="stable")
        for part in _whole_units(len(labels), None, rows):
            yield values[order[part]], labels[order[part]], None
        return
    for part in _whole_units(len(labels), groups, rows):
        yield values[part], labels[part], None if groups is None else groups[part]


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


def _by_unit(
    units: NDArray[np.int64], max_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The records that are used, unit after unit, and the unit of each.

    Of a unit with more of them they are spread evenly over its own: a source is often in the order
    of its classes, and the first ones would be of the first class.
    """
    order = np.argsort(units, kind="stable")
    grouped = units[order]
    first = np.searchsorted(grouped, grouped)
    rank, count = np.arange(len(order)) - first, np.searchsorted(grouped, grouped, "right") - first
    used = rank * max_rows // count > (rank - 1) * max_rows // count
    return order[used], grouped[used]


def _whole_units(count: int, units: NDArray[np.int64] | None, rows: int) -> Iterator[slice]:
    """Parts of about ``rows`` of ``count`` records; no unit is parted."""
    start = 0
    while start < count:
        stop = min(start + rows, count)
        if units is not None:  # the first record after the whole of the unit before it
            stop = int(np.searchsorted(units, units[stop - 1], side="right"))
        yield slice(start, stop)
        start = stop


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
        max_rows: How many records of a unit are used at most.
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
        self._order, self._units = np.arange(len(labels)), units
        if units is not None:
            self._order, self._units = _by_unit(units, max_rows)

    def blocks(self) -> Iterator[Block]:
        """Blocks of about `BLOCK` rows at most that never part a unit."""
        with self._path.open("rb", buffering=0) as file:
            parts = _whole_units(len(self._order), self._units, _block_rows(self._dim))
            for part in parts:
                index = self._order[part]
                groups = None if self._units is None else self._units[part]
                yield self._read(file.fileno(), index), self._labels[index], groups

    def _read(self, descriptor: int, index: NDArray[np.int64]) -> Embeddings:
        size = 4 * self._dim
        if self._units is None:
            data = os.pread(descriptor, size * len(index), size * int(index[0]))
        else:
            data = b"".join(os.pread(descriptor, size, size * int(i)) for i in index)
        return np.frombuffer(data, dtype=np.float32).reshape(len(index), self._dim)


BlockReference = tuple[int, NDArray[np.int64], UnitCodes | None]
"""A block by reference: its number, the positions of its records, and the unit of each."""

_BLOCKS_PER_WORKER = 8  # so that none waits long for the last one


class DistantRecords:
    """Records that workers read at the source, block by block, and embed themselves.

    It goes to the workers as it is: the source by its paths, the encoder by its name. A worker
    keeps the embeddings of its blocks in a file without a name, which no one else can open and
    which vanishes with the process, however that ends.

    Args:
        source: The private records.
        encode: As `Vault.map` takes it; None where the records are embeddings.
        batch: Records in every call of ``encode``.
    """

    def __init__(self, source: IndexedSource, encode: Encode | None, batch: int) -> None:
        self._source, self._encode, self._batch = source, encode, batch
        self._classes = max(1, len(source.classes))
        self._file: Any = None
        self._embedded: dict[int, tuple[int, tuple[int, int], NDArray[np.int64]]] = {}

    def block(self, positions: BlockReference) -> Block:
        """The records of a block; they are embedded where they are not yet."""
        number, index, groups = positions
        if self._encode is None:
            values, labels = self._read(index)
            return np.asarray(values, dtype=np.float32), labels, groups
        if number not in self._embedded:
            self._embed(number, index, self._encode)
        start, shape, labels = self._embedded[number]
        data = os.pread(self._file.fileno(), 4 * shape[0] * shape[1], start)
        return np.frombuffer(data, dtype=np.float32).reshape(shape), labels, groups

    def _read(self, index: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        order = np.argsort(index, kind="stable")
        part = self._source.read(index[order])
        labels = check_labels(part.labels, self._classes)
        if np.array_equal(order, np.arange(len(order))):
            return part.values, labels
        back = np.argsort(order)
        return part.values[back], labels[back]

    def _embed(self, number: int, index: NDArray[np.int64], encode: Encode) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it has no name
        start, labels, rows, dim = self._file.seek(0, os.SEEK_END), [], 0, 0
        size = max(self._batch, _READ // self._batch * self._batch)
        for first in range(0, len(index), size):
            values, part_labels = self._read(index[first : first + size])
            labels.append(part_labels)
            for embeddings in _embedded(encode, values, self._batch, dim):
                rows, dim = rows + len(embeddings), embeddings.shape[1]
                self._file.write(embeddings.data)
        self._file.flush()  # a full disk is an error here, and a short write without a buffer
        self._embedded[number] = start, (rows, dim), np.concatenate(labels)


class DistantBlocks(Sealed):
    """Blocks of records by reference, which threads or workers of a cluster read themselves."""

    __slots__ = ("_count", "_order", "_rows", "_units", "records")

    def __init__(
        self,
        source: Source,
        encode: Encode | None,
        unit: Unit,
        engine: Engine,
        batch: int,
    ) -> None:
        if not isinstance(source, IndexedSource):
            raise SourceError(
                "cannot be read at any position, as workers of a cluster have to: take class "
                "folders, .npy, .npz or .safetensors, or --engine local",
                source.name,
            )
        self._count = len(source)
        self._order: NDArray[np.int64] | None = None  # as in the source
        self._units: NDArray[np.int64] | None = None
        if unit.column is not None:
            codes: dict[str, int] = {}
            each = [codes.setdefault(name, len(codes)) for name in source.units()]
            self._order, self._units = _by_unit(np.array(each, dtype=np.int64), unit.max_rows)
            self._count = len(self._order)
        self.records, self._rows = DistantRecords(source, encode, batch), BLOCK
        if isinstance(engine, DistantEngine):
            engine.share(self.records)
            even = -(-self._count // (_BLOCKS_PER_WORKER * engine.workers))
            self._rows = min(BLOCK, -(-even // RECORDS_PER_CALL) * RECORDS_PER_CALL)
        if source.kind == "embeddings":
            self._rows = min(self._rows, _block_rows(source.shape[0]))

    def blocks(self) -> Iterator[Any]:
        """The `BlockReference` of each block."""
        parts = _whole_units(self._count, self._units, self._rows)
        for number, part in enumerate(parts):
            groups = None if self._units is None else self._units[part]
            order = np.arange(part.start, part.stop) if self._order is None else self._order[part]
            yield number, order, groups

    def embed(self, engine: DistantEngine, progress: Callable[[int], None] | None) -> None:
        """Have every block embedded, so that bad records are known before anything is charged."""
        for rows in engine.map(_Embedding(self.records), self.blocks()):
            if progress is not None:
                progress(rows)


class _Embedding:
    """Embeds a block on a worker; the number of its records."""

    def __init__(self, records: DistantRecords) -> None:
        self._records = records

    def __call__(self, positions: BlockReference) -> int:
        return len(self._records.block(positions)[1])


def cache_records(
    source: Source,
    encode: Encode,
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
            for embeddings in _embedded(encode, part.values, batch, dim):
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


def _embedded(encode: Encode, records: NDArray[Any], batch: int, dim: int) -> Iterator[Embeddings]:
    """A batch's embeddings, call by call, once they are known to be sound.

    Of ``dim`` numbers each, as those before them, where that is not 0: they lie in a file one after
    the other, and of several lengths a row would hold parts of others, which one record more moves.
    """
    for result in constant_calls(encode, records, batch):
        embeddings = np.ascontiguousarray(result, dtype=np.float32)
        if embeddings.ndim != 2 or dim not in (0, embeddings.shape[1]):
            raise InputError(
                f"the encoder gave shape {embeddings.shape} for {len(embeddings)} images; "
                f"expected (n, {dim or 'd'}), all of one length"
            )
        dim = embeddings.shape[1]
        if not (np.abs(embeddings) <= LARGEST_NUMBER).all():
            raise InputError(
                f"the encoder gave NaN, infinity or a number beyond {LARGEST_NUMBER:g}; nothing "
                "was spent. Check its input range and data type"
            )
        yield embeddings


def check_labels(labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Labels, once they are known to lie in [0, classes)."""
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise SourceError(
            f"a label lies outside 0 to {classes - 1}, although the dataset has {classes} classes"
        )
    return np.asarray(labels, dtype=np.int64)
