"""How near the release comes to private records, and what chance and held-out records come to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from understudy.core.results import Metric, MetricValue, Pairs
from understudy.core.types import Embeddings, Labels, Vector
from understudy.data.batches import images_at
from understudy.evaluation import Part
from understudy.evaluation.comparisons import PAIRS
from understudy.evaluation.embedding_pass import EmbeddedDataset
from understudy.metrics.copies import (
    EXACT_COPIES,
    FALSE_ALARMS,
    HELD_OUT_COPIES,
    NEAR_COPIES,
    Excess,
    excess,
    near_copies,
)
from understudy.metrics.fingerprints import (
    NEAR_BITS,
    NEAR_DUPLICATES,
    copied,
    nearest_hashes,
    twins,
)
from understudy.metrics.labelled import Labelled
from understudy.metrics.leakage import (
    NEARER_THAN_HELD_OUT,
    NEAREST_DISTANCE,
    NEAREST_RATIO,
    Closeness,
    closeness,
)
from understudy.metrics.reconstruction import MATCH_PSNR, MATCH_SSIM, MATCHED_BETTER, reconstruct
from understudy.metrics.verdicts import Leakage
from understudy.run.progress import Bars

_SHORTLIST = 200  # of each kind of distance

HOW = "pixels: root of the mean square difference, 0 to 255"

MATCHED_ROWS = 5_000
"""Private images that are matched one by one, at most, and as many held-out ones."""

_PRODUCTS = 5e11  # of two pixels, for each of the two sides: some ten seconds
_LEAST_SIDE = 11  # pixels that SSIM looks at


@dataclass(frozen=True, slots=True)
class LeakageAdapter:
    """Measures leakage; ``measured`` is with what features, as a value says it."""

    private: EmbeddedDataset
    release: EmbeddedDataset
    test: EmbeddedDataset
    measured: str
    bars: Bars

    def distances(self) -> dict[str, Closeness]:
        """Nearest private records, by what they are near in: ``pixels`` of images, and features."""
        distances = {}
        sides = (self.private, self.release, self.test)
        small = [side.small for side in sides if side.small is not None]
        if len(small) == len(sides):
            distances["pixels"] = self._nearest("pixels", small)
        distances[self.measured] = self._nearest("features", [side.features for side in sides])
        return distances

    def _nearest(self, space: str, sides: list[Embeddings]) -> Closeness:
        total = 2 * len(sides[1]) + len(sides[2])
        bar = self.bars(f"nearest private records by {space}", total)
        return closeness(sides[0], sides[1], sides[2], bar)

    def judge(self, distances: dict[str, Closeness]) -> Leakage:
        """Copies and near-copies."""
        near = {
            measured: near_copies(one, false_alarms=FALSE_ALARMS / len(distances))
            for measured, one in distances.items()
        }
        return Leakage(self._exact(), near, distances)

    def _exact(self) -> tuple[Excess, Excess] | None:
        """Exact copies against held-out and against all real records; None without images."""
        if self.release.small is None:
            return None
        hits = int(copied(self.release.digests, self.private.digests).sum())
        held_out = int(copied(self.test.digests, self.private.digests).sum())
        among = int(twins(self.private.digests).sum())
        rows, tests = self.release.count, self.test.count
        return (
            excess(hits, rows, held_out, tests),
            excess(hits, rows, held_out + among, tests + self.private.count),
        )

    def values(self, leakage: Leakage) -> list[MetricValue]:
        """Counts first, then distances."""
        values = []
        if leakage.exact is not None:
            exact = leakage.exact[0]
            held_out = copied(self.release.digests, self.test.digests).mean()
            values += [
                EXACT_COPIES.value(exact.rate, baseline=exact.chance, measured="pixels"),
                HELD_OUT_COPIES.value(float(held_out), measured="pixels"),
            ]
        for measured, near in leakage.near.items():
            rows = len(leakage.distances[measured].distances)
            rate, chance = near.count / rows, near.expected / rows
            values.append(NEAR_COPIES.value(rate, baseline=chance, measured=measured))
        if self.release.small is not None:
            values.append(self._hashed())
        for measured, distances in leakage.distances.items():
            values += _of_distances(measured, distances)
        return values

    def _hashed(self) -> MetricValue:
        total = self.release.count + self.test.count
        bar = self.bars("near-duplicates by perceptual hash", total)
        rate, chance = (
            float((nearest_hashes(side.hashes, self.private.hashes, bar)[1] <= NEAR_BITS).mean())
            for side in (self.release, self.test)
        )
        measured = f"perceptual hash, {NEAR_BITS} of 64 bits"
        return NEAR_DUPLICATES.value(rate, baseline=chance, measured=measured)

    def pairs(self, leakage: Leakage) -> Pairs | None:
        """The pairs that stand out most; None without images."""
        if self.release.small is None:
            return None
        candidates = _candidates(leakage.distances.values())
        rows = np.stack(
            [self.release.indices[candidates[:, 0]], self.private.indices[candidates[:, 1]]], axis=1
        )
        rows = np.concatenate([self._same(), rows])
        rows = _distinct(rows, PAIRS)
        synthetic, real = (
            images_at(side.source, column)
            for side, column in zip((self.release, self.private), rows.T, strict=True)
        )
        squares = np.square(synthetic.astype(np.float64) - real)
        apart = np.asarray(np.sqrt(squares.mean(axis=(1, 2, 3))))
        order = np.argsort(apart, kind="stable")
        return Pairs(synthetic[order], real[order], apart[order], rows[order], HOW)

    def _same(self) -> Labels:
        """A few exact copies: (k, 2) synthetic and private record."""
        copies = np.flatnonzero(copied(self.release.digests, self.private.digests))[:_SHORTLIST]
        values, first = np.unique(self.private.digests, return_index=True)
        at = np.searchsorted(values, self.release.digests[copies]) if len(copies) else copies
        return np.stack([copies, first[at]], axis=1).astype(np.int64)


def _of_distances(measured: str, distances: Closeness) -> Iterable[MetricValue]:
    """Medians of the distance and the ratio, and how many are nearer than held-out records are.

    The baseline of the last is the same of private records among the other private records: 1 %
    where held-out records are drawn like them, more where the two differ by themselves.
    """
    for metric, release, held_out in (
        (NEAREST_DISTANCE, distances.distances, distances.baseline),
        (NEAREST_RATIO, distances.ratios, distances.baseline_ratios),
    ):
        yield _medians(metric, release, held_out, measured)
    yield NEARER_THAN_HELD_OUT.value(
        distances.closer, baseline=distances.closer_within, measured=measured
    )


def _medians(metric: Metric, values: Vector, usual: Vector, measured: str) -> MetricValue:
    baseline = float(np.median(usual))
    return metric.value(float(np.median(values)), baseline=baseline, measured=measured)


def _candidates(distances: Iterable[Closeness]) -> Labels:
    """(k, 2) synthetic and private records, those with the smallest ratios first."""
    rows: list[Labels] = []
    ratios: list[Vector] = []
    for one in distances:
        at = np.argsort(one.ratios, kind="stable")[:_SHORTLIST]
        rows.append(np.stack([at, one.nearest[at]], axis=1))
        # Against the same part of held-out records, so that pixels and features compare.
        order = np.sort(one.baseline_ratios)
        usual = np.maximum(order[np.minimum(np.arange(len(at)), len(order) - 1)], 1e-9)
        ratios.append(one.ratios[at] / usual)
    return np.concatenate(rows)[np.argsort(np.concatenate(ratios), kind="stable")]


def _distinct(rows: Labels, most: int) -> Labels:
    """The first pairs, no sample twice; a private one again only if there are too few."""
    order: list[int] = []
    for again in (False, True):
        for at, (synthetic, private) in enumerate(rows.tolist()):
            pairs = rows[order]
            if len(order) == most:
                break
            if at in order or synthetic in pairs[:, 0]:
                continue
            if again or private not in pairs[:, 1]:
                order.append(at)
    return np.asarray(rows[order])


def measure_reconstruction(
    private: Labelled, release: Labelled, test: Labelled, bars: Bars
) -> Part:
    """Best matches in the release, of private and of held-out images, by their pixels.

    Where all of them would take too long, random rows of each.
    """
    shape = release.values.shape[1:]
    if min(shape[:2]) < _LEAST_SIDE:
        side = f"{_LEAST_SIDE} x {_LEAST_SIDE}"
        return Part(left_out=[f"reconstruction: images have fewer than {side} pixels"])
    matched, searched = affordable(math.prod(shape))
    ours, synthetic, theirs = (
        data.at_most(rows).values
        for data, rows in ((private, matched), (release, searched), (test, matched))
    )
    bar = bars("reconstruction", len(ours) + len(theirs))
    best = reconstruct(ours, synthetic, theirs, progress=bar)
    values = [
        _medians(MATCH_PSNR, best.private.psnr, best.held_out.psnr, "pixels"),
        _medians(MATCH_SSIM, best.private.ssim, best.held_out.ssim, "pixels"),
        MATCHED_BETTER.value(best.closer, baseline=best.chance, measured="pixels"),
    ]
    rows = {"private": len(ours), "release": len(synthetic), "held_out": len(theirs)}
    return Part(values, settings={"rows_of_reconstruction": rows})


def affordable(numbers: int) -> tuple[int, int]:
    """Rows to reconstruct, and rows of the release to search, for images of so many numbers."""
    matched = max(1, min(MATCHED_ROWS, math.isqrt(int(_PRODUCTS / numbers))))
    return matched, max(1, int(_PRODUCTS / (numbers * matched)))
