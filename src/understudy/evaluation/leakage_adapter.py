"""How near the release comes to private rows, beside what chance and strangers come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from understudy.core.results import Figure, Pairs
from understudy.core.types import Embeddings, Images, Labels, Vector
from understudy.evaluation.embedding_pass import Side, pictures
from understudy.metrics.copies import Excess, excess, near_copies
from understudy.metrics.fingerprints import copied, nearest_hashes, twins
from understudy.metrics.leakage import Closeness, closeness
from understudy.metrics.verdicts import FALSE_ALARMS, Leakage
from understudy.run.progress import Bars

NEAR_BITS = 6
"""Bits of 64 in which perceptual hashes of near-duplicates differ at most."""

PAIRS = 24
_SHORTLIST = 200  # of each kind of distance

HOW = "pixels: root of the mean square difference, 0 to 255"


@dataclass(frozen=True, slots=True)
class LeakageOf:
    """Measures leakage.

    Attributes:
        private: The private rows.
        release: The release.
        test: Held-out real rows.
        measured: With what features, as a figure says it.
        bars: Progress.
    """

    private: Side
    release: Side
    test: Side
    measured: str
    bars: Bars

    def distances(self) -> dict[str, Closeness]:
        """Nearest private rows, by what they are near in: ``pixels`` (of images) and features."""
        found = {}
        sides = (self.private, self.release, self.test)
        small = [side.small for side in sides if side.small is not None]
        if len(small) == len(sides):
            found["pixels"] = self._nearest("pixels", small)
        found[self.measured] = self._nearest("features", [side.features for side in sides])
        return found

    def _nearest(self, words: str, sides: list[Embeddings]) -> Closeness:
        total = 2 * len(sides[1]) + len(sides[2])
        bar = self.bars(f"nearest private rows by {words}", total)
        return closeness(sides[0], sides[1], sides[2], bar)

    def judge(self, distances: dict[str, Closeness]) -> Leakage:
        """Copies and near-copies."""
        near = {
            measured: near_copies(one, false_alarms=FALSE_ALARMS / len(distances))
            for measured, one in distances.items()
        }
        return Leakage(self._exact(), near, distances)

    def _exact(self) -> tuple[Excess, Excess] | None:
        """Exact copies against held-out rows, and against all real rows; None without images."""
        if self.release.small is None:
            return None
        hits = int(copied(self.release.digests, self.private.digests).sum())
        held_out = int(copied(self.test.digests, self.private.digests).sum())
        among = int(twins(self.private.digests).sum())
        rows, held = self.release.count, self.test.count
        return (
            excess(hits, rows, held_out, held),
            excess(hits, rows, held_out + among, held + self.private.count),
        )

    def figures(self, found: Leakage) -> list[Figure]:
        """Counts first, then distances."""
        made = []
        if found.exact is not None:
            made.append(self._rate("exact copies", found.exact[0].rate, found.exact[0].chance))
            held_out = copied(self.release.digests, self.test.digests).mean()
            made.append(self._rate("exact copies of held-out rows", float(held_out), None))
        for measured, near in found.near.items():
            rows = len(found.distances[measured].distances)
            made.append(
                self._rate("near-copies", near.count / rows, near.expected / rows, measured)
            )
        if self.release.small is not None:
            made.append(self._hashed())
        for measured, one in found.distances.items():
            made += _of_distances(measured, one)
        return made

    def _hashed(self) -> Figure:
        total = self.release.count + self.test.count
        bar = self.bars("near-duplicates by perceptual hash", total)
        one, two = (
            float((nearest_hashes(side.hashes, self.private.hashes, bar)[1] <= NEAR_BITS).mean())
            for side in (self.release, self.test)
        )
        return self._rate("near-duplicates", one, two, f"perceptual hash, {NEAR_BITS} of 64 bits")

    def _rate(self, name: str, value: float, chance: float | None, measured: str = "") -> Figure:
        return Figure(
            "leakage",
            name,
            value,
            baseline=chance,
            measured=measured or "pixels",
            better="lower",
            unit="%",
        )

    def pairs(self, found: Leakage) -> Pairs | None:
        """The pairs that stand out most; None without images."""
        if self.release.small is None:
            return None
        candidates = _candidates(found.distances.values())
        rows = np.stack(
            [self.release.kept[candidates[:, 0]], self.private.kept[candidates[:, 1]]], axis=1
        )
        rows = np.concatenate([self._same(), rows])
        rows = _distinct(rows, PAIRS)
        one = pictures(self.release.source, rows[:, 0])
        two = pictures(self.private.source, rows[:, 1])
        synthetic = np.stack([one[row] for row in rows[:, 0].tolist()])
        real = np.stack([two[row] for row in rows[:, 1].tolist()])
        apart = _apart(synthetic, real)
        order = np.argsort(apart, kind="stable")
        return Pairs(synthetic[order], real[order], apart[order], rows[order], HOW)

    def _same(self) -> Labels:
        """A few exact copies: (k, 2) synthetic and private row."""
        where = np.flatnonzero(copied(self.release.digests, self.private.digests))
        values, first = np.unique(self.private.digests, return_index=True)
        where = where[:_SHORTLIST]
        at = np.searchsorted(values, self.release.digests[where]) if len(where) else where
        return np.stack([where, first[at]], axis=1).astype(np.int64)


def _of_distances(measured: str, one: Closeness) -> Iterable[Figure]:
    """Medians of the distance and the ratio, and how many are nearer than strangers' rows are.

    The baseline of the last is the same of private rows among the other private rows: 1 % where
    held-out rows are drawn like them, more where the two differ by themselves.
    """
    for name, release, held_out in (
        ("distance to the nearest private row, median", one.distances, one.baseline),
        ("nearest over second nearest private row, median", one.ratios, one.baseline_ratios),
    ):
        yield Figure(
            "leakage",
            name,
            float(np.median(release)),
            baseline=float(np.median(held_out)),
            measured=measured,
            better="higher",
        )
    yield Figure(
        "leakage",
        "nearer than all but 1 % of held-out rows",
        one.closer,
        baseline=one.closer_within,
        measured=measured,
        better="lower",
        unit="%",
    )


def _candidates(distances: Iterable[Closeness]) -> Labels:
    """(k, 2) synthetic and private rows, those with the smallest ratios first."""
    rows: list[Labels] = []
    ratios: list[Vector] = []
    for one in distances:
        at = np.argsort(one.ratios, kind="stable")[:_SHORTLIST]
        rows.append(np.stack([at, one.nearest[at]], axis=1))
        # Against the same part of held-out rows, so that pixels and features compare.
        order = np.sort(one.baseline_ratios)
        usual = np.maximum(order[np.minimum(np.arange(len(at)), len(order) - 1)], 1e-9)
        ratios.append(one.ratios[at] / usual)
    return np.concatenate(rows)[np.argsort(np.concatenate(ratios), kind="stable")]


def _distinct(rows: Labels, most: int) -> Labels:
    """The first pairs, no synthetic row twice; a private one again only if there are too few."""
    chosen: list[int] = []
    for again in (False, True):
        for at, (synthetic, private) in enumerate(rows.tolist()):
            taken = rows[chosen]
            if len(chosen) == most:
                break
            if at in chosen or synthetic in taken[:, 0]:
                continue
            if again or private not in taken[:, 1]:
                chosen.append(at)
    return np.asarray(rows[chosen])


def _apart(synthetic: Images, real: Images) -> Vector:
    difference = synthetic.astype(np.float64) - real
    return np.asarray(np.sqrt(np.square(difference).mean(axis=(1, 2, 3))))
