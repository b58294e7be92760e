"""Distances among many embeddings, in blocks: memory stays bounded however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from understudy.core.errors import InputError
from understudy.core.one_ahead import results_ahead
from understudy.core.results import Metric, Thresholds
from understudy.core.types import Labels, Vector

_BLOCK = 2048
"""Rows and columns of a block: 16 MB of float32 distances."""

_EXACT = 5000**2
"""Up to so many pairs are compared in float64, where no tie is decided by rounding."""

NEAREST_NEIGHBOURS = 5
"""The neighbour that the balls of precision, recall, density and coverage reach to."""

FloatRows = NDArray[np.floating[Any]]

RowProgress = Callable[[int], None]
"""Called with the number of rows just done."""


T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results in the order of the items, on as many threads as BLAS may use.

    What lies between the products of two blocks (comparing, sorting) then runs in parallel, too.
    No more than two items a thread are taken ahead, so that results do not pile up.
    """
    items = list(items)
    if len(items) <= 1:  # looking for BLAS takes longer than a small block
        yield from map(function, items)
        return
    blas = ThreadpoolController().select(user_api="blas")
    threads = max([int(library["num_threads"]) for library in blas.info()], default=1)
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool, blas.limit(limits=1):
        yield from results_ahead(pool, function, items, 2 * threads)


class Cloud:
    """Embeddings made ready for distances.

    Args:
        embeddings: (n, d).
        centre: (d,). About it the norms are small, and so is what float32 loses.
        dtype: Of the distances.
    """

    def __init__(self, embeddings: NDArray[Any], centre: Vector, dtype: Any = np.float32) -> None:
        n, d = embeddings.shape
        # [x, |x|^2, 1] . [-2 y, 1, |y|^2] is the squared distance: one product and no more passes.
        self._left: FloatRows = np.ones((n, d + 2), dtype)
        for block in row_blocks(n):
            self._left[block, :d] = embeddings[block] - centre
            rows = self._left[block, :d]
            self._left[block, d] = np.einsum("nd,nd->n", rows, rows)

    def __len__(self) -> int:
        return len(self._left)

    @property
    def rows(self) -> FloatRows:
        """(n, d), less the centre."""
        return self._left[:, :-2]

    def right(self, block: slice) -> FloatRows:
        """A block's rows as the other side of `to`: (d + 2, rows)."""
        operand = self._left[block] * self._left.dtype.type(-2)
        operand[:, -2] = 1
        operand[:, -1] = self._left[block, -2]
        return operand.T

    def to(self, other: FloatRows, block: slice) -> FloatRows:
        """Squared distances of a block's rows to those of another's `right`: (rows, columns).

        Rounding may leave one a little below 0.
        """
        return np.asarray(self._left[block] @ other)


def clouds(*sets: NDArray[Any]) -> tuple[Cloud, ...]:
    """Sets of embeddings about one centre, that of the first.

    Raises:
        InputError: An empty set, other lengths, or numbers that are not finite.
    """
    for embeddings in sets:
        if embeddings.ndim != 2 or not len(embeddings):
            raise InputError(f"expected (n, d) embeddings, n at least 1, found {embeddings.shape}")
        if not all(np.isfinite(embeddings[block]).all() for block in row_blocks(len(embeddings))):
            raise InputError("the embeddings hold numbers that are not finite")
        if embeddings.shape[1] != sets[0].shape[1]:
            raise InputError(
                f"embeddings of {sets[0].shape[1]} and of {embeddings.shape[1]} numbers do not "
                "compare"
            )
    centre = np.asarray(np.mean(sets[0], axis=0, dtype=np.float64))
    dtype = np.float64 if max(map(len, sets)) ** 2 <= _EXACT else np.float32
    return tuple(Cloud(embeddings, centre, dtype) for embeddings in sets)


def row_blocks(count: int) -> Iterator[slice]:
    """Slices that cover ``range(count)``."""
    for start in range(0, count, _BLOCK):
        yield slice(start, min(start + _BLOCK, count))


def kth_squares(cloud: Cloud, k: int) -> FloatRows:
    """Squared distance of each row to its k-th nearest other row: (n,).

    Every pair of blocks is computed once and read in both directions.

    Raises:
        InputError: Not more than ``k`` rows.
    """
    if len(cloud) <= k:
        raise InputError(f"the {k} nearest others need more than {k} rows, found {len(cloud)}")
    best = np.full((len(cloud), k), np.inf, dtype=cloud.rows.dtype)
    # Read by threads while it falls: what is old in it only lets more through.
    worst = best[:, 0].copy()

    def compare(pair: tuple[slice, slice]) -> list[Gains]:
        first, second = pair
        block = cloud.to(cloud.right(second), first)
        if first == second:
            np.fill_diagonal(block, np.inf)
            return [_gains(block, k, worst, first)]
        return [_gains(block, k, worst, first), _gains(block.T, k, worst, second)]

    blocks = list(row_blocks(len(cloud)))
    pairs = [(one, two) for one in blocks for two in blocks if two.start >= one.start]
    for gains in side_by_side(compare, pairs):
        for rows, values in gains:
            merged = np.concatenate([best[rows], values], axis=1)
            best[rows] = np.partition(merged, k - 1, axis=1)[:, :k]
            worst[rows] = best[rows].max(axis=1)
    return worst


Gains = tuple[Labels, FloatRows]
"""Rows, and the smallest values that a block has for them, in no order."""


def _gains(block: FloatRows, k: int, worst: FloatRows, part: slice) -> Gains:
    """The k smallest of each of a block's rows that has one below its k-th so far."""
    rows = np.flatnonzero(block.min(axis=1) < worst[part])
    smallest = block[rows]
    if smallest.shape[1] > k:
        smallest = np.partition(smallest, k - 1, axis=1)[:, :k]
    return rows + part.start, smallest


def nearest_rows(
    queries: Cloud, rows: Cloud, count: int = 1, progress: RowProgress = lambda done: None
) -> tuple[Labels, Vector]:
    """The nearest rows of each query, nearest first, and the distances to them: (n, count) each.

    Raises:
        InputError: Fewer than ``count`` rows.
    """
    if len(rows) < count:
        raise InputError(f"{count} nearest rows were asked for and there are {len(rows)}")

    def search(query_block: slice) -> tuple[Labels, Vector]:
        names = np.zeros((query_block.stop - query_block.start, count), dtype=np.int64)
        least = np.full(names.shape, np.inf, dtype=rows.rows.dtype)
        for row_block in row_blocks(len(rows)):
            _merge(names, least, queries.to(rows.right(row_block), query_block), row_block.start)
        # Again from the differences, so that a copy is at no distance at all.
        differences = [queries.rows[query_block] - rows.rows[names[:, at]] for at in range(count)]
        exact = np.sqrt([np.einsum("nd,nd->n", d, d, dtype=np.float64) for d in differences]).T
        order = np.argsort(exact, axis=1, kind="stable")
        return np.take_along_axis(names, order, 1), np.take_along_axis(exact, order, 1)

    blocks = []
    for names, exact in side_by_side(search, row_blocks(len(queries))):
        blocks.append((names, exact))
        progress(len(names))
    nearest, distances = zip(*blocks, strict=True)
    return np.concatenate(nearest), np.concatenate(distances)


def _merge(names: Labels, least: FloatRows, block: FloatRows, start: int) -> None:
    """Put a block's columns among the nearest so far, in place, where they are nearer."""
    count = least.shape[1]
    gains = np.flatnonzero(block.min(axis=1) < least.max(axis=1))
    columns, values = _smallest(block[gains], count)
    merged = np.concatenate([least[gains], values], axis=1)
    candidates = np.concatenate([names[gains], columns + start], axis=1)
    best = np.argpartition(merged, count - 1, axis=1)[:, :count]
    least[gains] = np.take_along_axis(merged, best, 1)
    names[gains] = np.take_along_axis(candidates, best, 1)


def _smallest(block: FloatRows, count: int) -> tuple[Labels, FloatRows]:
    """Columns and values of the few smallest of each row; the block is spoilt."""
    every = np.arange(len(block))
    columns, values = [], []
    for _ in range(min(count, block.shape[1])):  # for so few this is quicker than a partition
        at = block.argmin(axis=1)
        columns.append(at)
        values.append(block[every, at])
        block[every, at] = np.inf
    return np.stack(columns, axis=1), np.stack(values, axis=1)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Where two sets of embeddings lie in each other.

    Attributes:
        precision: Part of the samples inside some real record's ball (Kynkäänniemi et al. 2019,
            Eq. 1 and 2); a ball reaches to the k-th nearest other row of its own side.
        recall: Part of the real records inside some sample's ball.
        density: Real balls around a sample, over k, on average (Naeem et al. 2020, Eq. 5).
        coverage: Part of the real balls with a sample inside (Eq. 6).
        density_error: Standard error of the density, the real records taken as given.
    """

    precision: float
    recall: float
    density: float
    coverage: float
    density_error: float


def coverage(
    real: NDArray[Any], synthetic: NDArray[Any], *, k: int = NEAREST_NEIGHBOURS
) -> Coverage:
    """Improved precision and recall, density and coverage, of k neighbours, as ``prdc`` has them.

    Raises:
        InputError: Not more than k rows a side, or embeddings that do not compare.
    """
    if k < 1:
        raise InputError(f"k must be 1 or more, found {k}")
    real_cloud, synthetic_cloud = clouds(real, synthetic)
    real_squares = kth_squares(real_cloud, k)
    synthetic_squares = kth_squares(synthetic_cloud, k)
    inside = np.zeros(len(synthetic), dtype=np.int64)
    recalled, covered = (np.zeros(len(real), dtype=np.bool_) for _ in range(2))

    def compare(real_block: slice) -> Labels:
        hits = np.zeros(len(synthetic), dtype=np.int64)
        for block in row_blocks(len(synthetic)):
            squares = real_cloud.to(synthetic_cloud.right(block), real_block)
            rows, columns = np.nonzero(squares < real_squares[real_block, None])
            hits[block] += np.bincount(columns, minlength=squares.shape[1])
            covered[real_block][rows] = True
            recalled[real_block] |= (squares < synthetic_squares[None, block]).any(axis=1)
        return hits

    for hits in side_by_side(compare, row_blocks(len(real))):
        inside += hits
    return Coverage(
        precision=float((inside > 0).mean()),
        recall=float(recalled.mean()),
        density=float(inside.mean() / k),
        coverage=float(covered.mean()),
        density_error=float(inside.std() / k / np.sqrt(len(inside))),
    )


_OF_HELD_OUT = Thresholds(
    good=0.8, fair=0.5, better="higher", of="the part reached of what held-out real records reach"
)

PRECISION = Metric(
    key="precision",
    group="fidelity",
    name="precision",
    explanation="Part of the samples that lie among real ones: realism.",
    better="higher",
    baseline="held-out real records",
    thresholds=_OF_HELD_OUT,
)

RECALL = Metric(
    key="recall",
    group="fidelity",
    name="recall",
    explanation="Part of the real records that lie among synthetic ones: variety.",
    better="higher",
    baseline="held-out real records",
)

DENSITY = Metric(
    key="density",
    group="fidelity",
    name="density",
    explanation="Like precision, but counts how crowded it is there; may exceed 1.",
    better="higher",
    baseline="held-out real records",
)

COVERAGE = Metric(
    key="coverage",
    group="fidelity",
    name="coverage",
    explanation="Part of the real records with a sample near by: variety.",
    better="higher",
    baseline="held-out real records",
    thresholds=_OF_HELD_OUT,
)
