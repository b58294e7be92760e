"""How near a release comes to private records, and how near real records come that took no part.

Nothing in here is DP: what it finds is for the owner alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Metric
from understudy.core.types import Images, Labels, Vector
from understudy.metrics.nearest_neighbours import Cloud, RowProgress, clouds, nearest_rows
from understudy.metrics.subsets import some

_PART_BINS = 16  # of each side of the histograms of a part
_GRID = 4  # parts a side of the regional mutual information

WITHIN = 10_000
"""Private rows that are compared with the others, at most."""


NEAREST_DISTANCE = Metric(
    key="nearest_distance",
    group="leakage",
    name="distance to the nearest private record, median",
    explanation="Distance of a sample to the closest private one. Held-out real records have "
    "the distance that has nothing to do with copying: copies are much closer.",
    better="higher",
    baseline="held-out real records",
)

NEAREST_RATIO = Metric(
    key="nearest_over_second_nearest",
    group="leakage",
    name="nearest over second nearest private record, median",
    explanation="Distance to the closest private record over that to the second closest. Near 0: "
    "one private record was hit, as a copy would; near 1: none stands out.",
    better="higher",
    baseline="held-out real records",
)

NEARER_THAN_HELD_OUT = Metric(
    key="nearer_than_held_out",
    group="leakage",
    name="nearer than all but 1 % of held-out records",
    explanation="Part of the release nearer to a private record than 99 % of held-out real records "
    "are. The baseline is the part of the private records that are so near to another one: about 1 "
    "% where held-out records are drawn like them, more where the two differ by themselves.",
    better="lower",
    unit="%",
    baseline="private records among themselves",
)


@dataclass(frozen=True, slots=True)
class Within:
    """Distances (k,) from private records to the nearest other one, and those over the second's."""

    distances: Vector
    ratios: Vector


@dataclass(frozen=True, slots=True)
class Closeness:
    """Distances to the nearest private record, of the release and of held-out real records.

    Attributes:
        nearest: (n,) the nearest private record of each sample.
        distances: (n,) how far it is (DCR, distance to the closest record).
        ratios: (n,) nearest over second nearest (NNDR); near 0 where one row alone is close.
        baseline: (m,) distances of held-out real records: what rows that took no part come to.
        baseline_nearest: (m,) the nearest private record of each of them.
        baseline_ratios: (m,) their ratios.
        within: Private rows, some of them, among the other private records: what real records of
            the same origin come to. Held-out rows may be of another.
        held_out_ratios: (n,) nearest over second nearest held-out record: what the ratios of such a
            release come to where nothing was copied.
    """

    nearest: Labels
    distances: Vector
    ratios: Vector
    baseline: Vector
    baseline_nearest: Labels
    baseline_ratios: Vector
    within: Within
    held_out_ratios: Vector

    @property
    def closer(self) -> float:
        """Part of the release that is nearer than all but 1 % of held-out records."""
        return float((self.distances < np.quantile(self.baseline, 0.01)).mean())

    @property
    def closer_within(self) -> float:
        """The same of private records among the others; 0.01 if held-out ones are drawn alike."""
        return float((self.within.distances < np.quantile(self.baseline, 0.01)).mean())

    @property
    def median_ratio(self) -> float:
        """Median distance of the release over that of held-out records; below 1: it is nearer."""
        return float(np.median(self.distances) / max(float(np.median(self.baseline)), 1e-12))


def closeness(
    private: NDArray[Any],
    release: NDArray[Any],
    held_out: NDArray[Any],
    progress: RowProgress = lambda done: None,
) -> Closeness:
    """Nearest private records of the release, of held-out real ones, and of themselves.

    Args:
        private: (p, d) embeddings or flattened images.
        release: (n, d).
        held_out: (m, d) real records that were not in the private data.
        progress: Told of rows; in all, of those of the release twice and of the held-out ones once.

    Raises:
        InputError: Fewer than two private or held-out records, or embeddings that do not compare.
    """
    sample = np.arange(len(private))[some(len(private), WITHIN)]
    real, synthetic, others, queries = clouds(private, release, held_out, private[sample])
    nearest, distances, ratios = _two_nearest(synthetic, real, progress)
    theirs, baseline, baseline_ratios = _two_nearest(others, real, progress)
    _, _, held_out_ratios = _two_nearest(synthetic, others, progress)
    return Closeness(
        nearest,
        distances,
        ratios,
        baseline,
        theirs,
        baseline_ratios,
        _within(queries, real, sample),
        held_out_ratios,
    )


def _within(queries: Cloud, real: Cloud, own: Labels) -> Within:
    """The two nearest of some private records, without themselves."""
    count = min(3, len(real))
    nearest, distances = nearest_rows(queries, real, count)
    # A row is its own nearest; among many equal ones it may be none of the first.
    itself = nearest == own[:, None]
    itself[:, -1] |= ~itself.any(axis=1)
    apart = distances[~itself].reshape(len(own), count - 1)
    first, second = apart[:, 0], apart[:, -1]
    return Within(first, first / np.maximum(second, 1e-12))


def _two_nearest(
    queries: Cloud, rows: Cloud, progress: RowProgress
) -> tuple[Labels, Vector, Vector]:
    """The nearest row, its distance, and that over the second's; 0 where there are two copies."""
    nearest, distances = nearest_rows(queries, rows, 2, progress)
    first, second = distances.T
    return nearest[:, 0], first, first / np.maximum(second, 1e-12)


def mutual_information(a: Images, b: Images, *, bins: int = 32) -> Vector:
    """Mutual information of two images' luminances in bits, pair by pair (SpinML, MI).

    From the joint histogram, of ``bins`` a side, of the luminances at the same places.

    Raises:
        InputError: Other shapes.
    """
    if a.shape != b.shape:
        raise InputError(f"pairs of images have one shape, found {a.shape} and {b.shape}")
    information = np.empty(len(a))
    for at, (one, two) in enumerate(zip(a, b, strict=True)):
        sides = [(x.mean(axis=2) * bins / 256).astype(np.int64).ravel() for x in (one, two)]
        joint = np.bincount(sides[0] * bins + sides[1], minlength=bins * bins).reshape(bins, bins)
        p = joint / joint.sum()
        alone = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
        there = p > 0
        information[at] = (p[there] * np.log2(p[there] / alone[there])).sum()
    return information


def regional_mutual_information(a: Images, b: Images) -> Vector:
    """`mutual_information` of each part of a grid, averaged: shapes that stayed in place count.

    Raises:
        InputError: Other shapes, or images smaller than the grid.
    """
    if min(a.shape[1:3]) < _GRID:
        raise InputError(f"images of {a.shape[1:3]} pixels have no {_GRID} x {_GRID} parts")
    rows, columns = (np.array_split(np.arange(side), _GRID) for side in a.shape[1:3])
    parts = [
        mutual_information(a[:, r][:, :, c], b[:, r][:, :, c], bins=_PART_BINS)
        for r in rows
        for c in columns
    ]
    return np.asarray(np.mean(parts, axis=0))


MUTUAL_INFORMATION = Metric(
    key="mutual_information",
    group="leakage",
    name="mutual information in bits, mean of the {subject} pairs that stand out most",
    explanation="How much of an image can be read off another, in bits.",
    better="lower",
    baseline="as many pairs of held-out records",
    compares="nearest pairs",
    full=True,
    function=mutual_information,
)

REGIONAL_MUTUAL_INFORMATION = Metric(
    key="regional_mutual_information",
    group="leakage",
    name="regional mutual information in bits, mean of the {subject} pairs that stand out most",
    explanation="How much of an image can be read off another, in bits, part by part: shapes that "
    "stayed in place count.",
    better="lower",
    baseline="as many pairs of held-out records",
    compares="nearest pairs",
    full=True,
    function=regional_mutual_information,
    applies=lambda shape: min(shape[:2]) >= _GRID,
)
