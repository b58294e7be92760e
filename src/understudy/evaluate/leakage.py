"""How near a release comes to private rows, beside how near real rows come that were never in it.

Nothing in here is DP: what it finds is for the owner alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn

from understudy.core.errors import InputError
from understudy.core.types import Images, Labels, Vector
from understudy.evaluate.neighbours import Cloud, blocks, clouds, nearest

_HASH_SIDE = 8
_HASH_OF = 32


@dataclass(frozen=True, slots=True)
class Closeness:
    """Distances to the nearest private row, of the release and of held-out real rows.

    Attributes:
        nearest: (n,) the nearest private row of each synthetic row.
        distances: (n,) how far it is (DCR, distance to the closest record).
        ratios: (n,) nearest over second nearest (NNDR); near 0 where one row alone is close.
        baseline: (m,) distances of held-out real rows: what strangers' rows come to.
        baseline_ratios: (m,) their ratios.
    """

    nearest: Labels
    distances: Vector
    ratios: Vector
    baseline: Vector
    baseline_ratios: Vector

    @property
    def closer(self) -> float:
        """Part of the release that is nearer than all but 1 % of held-out rows; 0.01: no leak."""
        return float((self.distances < np.quantile(self.baseline, 0.01)).mean())

    @property
    def median_ratio(self) -> float:
        """Median distance of the release over that of held-out rows; below 1: it comes nearer."""
        return float(np.median(self.distances) / max(float(np.median(self.baseline)), 1e-12))

    def closest(self, count: int) -> Labels:
        """The synthetic rows that come nearest to a private one, nearest first."""
        return np.asarray(np.argsort(self.distances, kind="stable")[:count])


def closeness(private: NDArray[Any], release: NDArray[Any], held_out: NDArray[Any]) -> Closeness:
    """Nearest private rows of the release, and of held-out real rows.

    Args:
        private: (p, d) embeddings or flattened images.
        release: (n, d).
        held_out: (m, d) real rows that were not in the private data.

    Raises:
        InputError: Fewer than two private rows, or embeddings that do not compare.
    """
    real, synthetic, others = clouds(private, release, held_out)
    found, distances, ratios = _two_nearest(synthetic, real)
    _, baseline, baseline_ratios = _two_nearest(others, real)
    return Closeness(found, distances, ratios, baseline, baseline_ratios)


def _two_nearest(queries: Cloud, rows: Cloud) -> tuple[Labels, Vector, Vector]:
    found, distances = nearest(queries, rows, 2)
    first, second = distances.T
    return found[:, 0], first, np.where(second > 0, first / np.maximum(second, 1e-12), 1.0)


def perceptual_hashes(images: Images) -> NDArray[np.uint64]:
    """64 bits of each image that small changes leave alone (pHash, Zauner 2010).

    Which of the 8 x 8 lowest frequencies of the 32 x 32 luminance lie above their median.

    Args:
        images: (n, height, width, channels) uint8.
    """
    grey = images.astype(np.float32).mean(axis=3)
    small = _shrunk(_shrunk(grey, 1), 2)
    low = dctn(small, axes=(1, 2), norm="ortho")[:, :_HASH_SIDE, :_HASH_SIDE].reshape(len(grey), -1)
    # The mean of the picture says nothing of its shapes, so it does not move the median.
    above = low > np.median(low[:, 1:], axis=1)[:, None]
    found: NDArray[np.uint64] = np.packbits(above, axis=1).view(">u8").astype(np.uint64)[:, 0]
    return found


def _shrunk(values: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """An axis brought to 32 by the mean of what falls into each part, or by repeating."""
    length = values.shape[axis]
    edges = np.linspace(0, length, _HASH_OF + 1)
    total = np.insert(np.cumsum(values, axis=axis, dtype=np.float64), 0, 0, axis=axis)
    low = np.floor(edges).astype(int).clip(max=length - 1)
    part = (edges - low).reshape([-1 if at == axis else 1 for at in range(values.ndim)])
    at_edges = np.take(total, low, axis) + part * np.take(values, low, axis)
    return np.asarray(np.diff(at_edges, axis=axis) * _HASH_OF / length, dtype=np.float32)


def near_duplicates(
    private: NDArray[np.uint64], release: NDArray[np.uint64], *, bits: int = 6
) -> NDArray[np.int64]:
    """Pairs of a synthetic and a private image whose hashes differ in few bits.

    Args:
        private: (p,) of `perceptual_hashes`.
        release: (n,) of the same.
        bits: At most so many of the 64 may differ. Strangers differ in about 32.

    Returns:
        (pairs, 3): synthetic row, private row, bits that differ; fewest bits first.

    Raises:
        InputError: ``bits`` is not in 0 to 32.
    """
    if not 0 <= bits <= 32:
        raise InputError(f"bits must be 0 to 32, found {bits}")
    pairs = []
    for mine in blocks(len(release)):
        for theirs in blocks(len(private)):
            differ = np.bitwise_count(release[mine, None] ^ private[None, theirs])
            rows, columns = np.nonzero(differ <= bits)
            if len(rows):
                found = [rows + mine.start, columns + theirs.start, differ[rows, columns]]
                pairs.append(np.stack(found, axis=1).astype(np.int64))
    if not pairs:
        return np.zeros((0, 3), dtype=np.int64)
    every = np.concatenate(pairs)
    return np.asarray(every[np.lexsort((every[:, 1], every[:, 0], every[:, 2]))])


def mutual_information(a: Images, b: Images, *, bins: int = 32) -> Vector:
    """Mutual information of two images' luminances in bits, pair by pair (SpinML, MI).

    From the joint histogram of the luminances at the same places.

    Args:
        a: (n, height, width, channels) uint8.
        b: The same shape.
        bins: Of each side of the histogram.

    Raises:
        InputError: Other shapes.
    """
    if a.shape != b.shape:
        raise InputError(f"pairs of images have one shape, found {a.shape} and {b.shape}")
    found = np.empty(len(a))
    for at, (one, two) in enumerate(zip(a, b, strict=True)):
        sides = [(x.mean(axis=2) * bins / 256).astype(np.int64).ravel() for x in (one, two)]
        joint = np.bincount(sides[0] * bins + sides[1], minlength=bins * bins).reshape(bins, bins)
        p = joint / joint.sum()
        alone = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
        there = p > 0
        found[at] = (p[there] * np.log2(p[there] / alone[there])).sum()
    return found


def regional_mutual_information(a: Images, b: Images, *, grid: int = 4, bins: int = 16) -> Vector:
    """`mutual_information` of each part of a grid, averaged: shapes that stayed in place count.

    Args:
        a: (n, height, width, channels) uint8.
        b: The same shape.
        grid: Parts a side.
        bins: Of each side of the histograms.

    Raises:
        InputError: Other shapes, or images smaller than the grid.
    """
    if min(a.shape[1:3]) < grid:
        raise InputError(f"images of {a.shape[1:3]} pixels have no {grid} x {grid} parts")
    rows, columns = (np.array_split(np.arange(side), grid) for side in a.shape[1:3])
    parts = [
        mutual_information(a[:, r][:, :, c], b[:, r][:, :, c], bins=bins)
        for r in rows
        for c in columns
    ]
    return np.asarray(np.mean(parts, axis=0))
