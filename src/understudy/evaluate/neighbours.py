"""Distances among many embeddings, in blocks: memory stays bounded however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Labels, Vector

_BLOCK = 2048
"""Rows and columns of a block: 16 MB of float32 distances."""

Floats = NDArray[np.float32]


class Cloud:
    """Embeddings made ready for distances.

    Attributes:
        rows: (n, d) float32, less the centre.
        squares: (n,) float32 squared norms of them.
    """

    def __init__(self, embeddings: NDArray[Any], centre: Vector) -> None:
        # About the centre the norms are small, and so is what float32 loses.
        self.rows: Floats = np.asarray(embeddings - centre, dtype=np.float32)
        self.squares: Floats = np.einsum("nd,nd->n", self.rows, self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to(self, other: Cloud, mine: slice, theirs: slice) -> Floats:
        """Squared distances between two blocks: (rows, columns)."""
        block = self.rows[mine] @ other.rows[theirs].T
        block *= -2
        block += self.squares[mine, None]
        block += other.squares[None, theirs]
        return np.asarray(np.maximum(block, 0, out=block))


def clouds(*sets: NDArray[Any]) -> tuple[Cloud, ...]:
    """Sets of embeddings about one centre, that of the first.

    Raises:
        InputError: An empty set, other lengths, or numbers that are not finite.
    """
    for one in sets:
        if one.ndim != 2 or not len(one):
            raise InputError(f"expected (n, d) embeddings, n at least 1, found {one.shape}")
        if not np.isfinite(one).all():
            raise InputError("the embeddings hold numbers that are not finite")
        if one.shape[1] != sets[0].shape[1]:
            raise InputError(
                f"embeddings of {sets[0].shape[1]} and of {one.shape[1]} numbers do not compare"
            )
    centre = np.asarray(np.mean(sets[0], axis=0, dtype=np.float64))
    return tuple(Cloud(one, centre) for one in sets)


def blocks(count: int) -> Iterator[slice]:
    """Slices that cover ``range(count)``."""
    for start in range(0, count, _BLOCK):
        yield slice(start, min(start + _BLOCK, count))


def kth_squares(cloud: Cloud, k: int) -> Floats:
    """Squared distance of each row to its k-th nearest other row: (n,).

    Every pair of blocks is computed once and read in both directions.

    Raises:
        InputError: Not more than ``k`` rows.
    """
    if len(cloud) <= k:
        raise InputError(f"the {k} nearest others need more than {k} rows, found {len(cloud)}")
    best = np.full((len(cloud), k), np.inf, dtype=np.float32)
    for mine in blocks(len(cloud)):
        for theirs in blocks(len(cloud)):
            if theirs.start < mine.start:
                continue
            block = cloud.to(cloud, mine, theirs)
            if mine == theirs:
                np.fill_diagonal(block, np.inf)
                _keep_smallest(best[mine], block)
            else:
                _keep_smallest(best[mine], block)
                _keep_smallest(best[theirs], block.T)
    return np.asarray(best.max(axis=1))


def _keep_smallest(best: Floats, block: Floats) -> None:
    """Merge a block into the k smallest of each row, in place; only rows that gain are touched."""
    k = best.shape[1]
    gains = np.flatnonzero((block < best.max(axis=1)[:, None]).any(axis=1))
    if len(gains):
        merged = np.concatenate([best[gains], block[gains]], axis=1)
        best[gains] = np.partition(merged, k - 1, axis=1)[:, :k]


def nearest(queries: Cloud, rows: Cloud, count: int = 1) -> tuple[Labels, Vector]:
    """The nearest rows of each query, nearest first, and the distances to them: (n, count) each.

    Raises:
        InputError: Fewer than ``count`` rows.
    """
    if len(rows) < count:
        raise InputError(f"{count} nearest rows were asked for and there are {len(rows)}")
    found = np.zeros((len(queries), count), dtype=np.int64)
    for mine in blocks(len(queries)):
        least = np.full((mine.stop - mine.start, count), np.inf, dtype=np.float32)
        for theirs in blocks(len(rows)):
            _merge(found[mine], least, queries.to(rows, mine, theirs), theirs.start)
    # Again from the differences, so that a copy is at no distance at all.
    apart = [queries.rows - rows.rows[found[:, at]] for at in range(count)]
    exact = np.sqrt([np.einsum("nd,nd->n", one, one, dtype=np.float64) for one in apart]).T
    order = np.argsort(exact, axis=1, kind="stable")
    return np.take_along_axis(found, order, 1), np.take_along_axis(exact, order, 1)


def _merge(found: Labels, least: Floats, block: Floats, start: int) -> None:
    """Put a block's columns among the nearest so far, in place, where they are nearer."""
    count = least.shape[1]
    gains = np.flatnonzero((block < least.max(axis=1)[:, None]).any(axis=1))
    merged = np.concatenate([least[gains], block[gains]], axis=1)
    names = np.arange(start, start + block.shape[1])
    names = np.concatenate([found[gains], np.broadcast_to(names, (len(gains), len(names)))], axis=1)
    best = np.argpartition(merged, count - 1, axis=1)[:, :count]
    least[gains] = np.take_along_axis(merged, best, 1)
    found[gains] = np.take_along_axis(names, best, 1)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Where two sets of embeddings lie in each other.

    Attributes:
        precision: Part of the synthetic rows inside some real row's ball (Kynkäänniemi et al. 2019,
            Eq. 1 and 2); a ball reaches to the k-th nearest other row of its own side.
        recall: Part of the real rows inside some synthetic row's ball.
        density: Real balls around a synthetic row, over k, on average (Naeem et al. 2020, Eq. 5).
        coverage: Part of the real balls with a synthetic row inside (Eq. 6).
        k: Neighbours that make a ball.
    """

    precision: float
    recall: float
    density: float
    coverage: float
    k: int


def coverage(real: NDArray[Any], synthetic: NDArray[Any], *, k: int = 5) -> Coverage:
    """Improved precision and recall, density and coverage, as ``prdc`` computes them.

    Args:
        real: (n, d).
        synthetic: (m, d).
        k: Neighbours that make a ball.

    Raises:
        InputError: Not more than k rows a side, or embeddings that do not compare.
    """
    if k < 1:
        raise InputError(f"k must be 1 or more, found {k}")
    one, two = clouds(real, synthetic)
    reach, reach_back = kth_squares(one, k), kth_squares(two, k)
    inside = np.zeros(len(two), dtype=np.int64)
    reached, covered = (np.zeros(len(one), dtype=np.bool_) for _ in range(2))
    for mine in blocks(len(one)):
        for theirs in blocks(len(two)):
            block = one.to(two, mine, theirs)
            within = block < reach[mine, None]
            inside[theirs] += within.sum(axis=0)
            covered[mine] |= within.any(axis=1)
            reached[mine] |= (block < reach_back[None, theirs]).any(axis=1)
    return Coverage(
        precision=float((inside > 0).mean()),
        recall=float(reached.mean()),
        density=float(inside.mean() / k),
        coverage=float(covered.mean()),
        k=k,
    )
