"""How alike the release is to the private rows, beside how alike held-out real rows are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from understudy.core.results import Figure
from understudy.core.types import Embeddings
from understudy.evaluation.embedding_pass import Side
from understudy.evaluation.features import Features
from understudy.metrics.fidelity import (
    frechet_distance,
    frechet_interval,
    inception_score,
    kernel_distance,
)
from understudy.metrics.moments import MomentSums
from understudy.metrics.nearest_neighbours import coverage
from understudy.metrics.rates import clopper_pearson
from understudy.metrics.subsets import some
from understudy.run.progress import Bars

NEIGHBOURS = 5
RESAMPLES = 20
_FEW_RESAMPLES, _MANY_DIMS = 8, 1024  # a root of a large covariance takes seconds
_SUBSETS = 100
_LEAST = 2 * NEIGHBOURS  # rows of a class, at least, that say anything about it
_MOST_CLASSES = 100

NAMES = {True: ("FID", "KID"), False: ("Frechet distance", "kernel distance")}
"""Scores bear the names that others compare only in the features that others take."""


def resamples(dim: int) -> int:
    """How often the bootstrap resamples features of that length."""
    return RESAMPLES if dim <= _MANY_DIMS else _FEW_RESAMPLES


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Measures fidelity.

    Attributes:
        features: What the sides were read with.
        private: The private rows.
        release: The release.
        test: Held-out real rows.
        classes: Names of the classes that the sides share; fewer than two: none.
        bars: Progress.
    """

    features: Features
    private: Side
    release: Side
    test: Side
    classes: Sequence[str]
    bars: Bars

    def figures(self) -> list[Figure]:
        """Of all rows, then of each class."""
        parts: list[Callable[[], list[Figure]]] = [
            self._frechet,
            self._kernel,
            self._neighbours,
            self._inception,
        ]
        labels = range(len(self.classes)) if 1 < len(self.classes) <= _MOST_CLASSES else range(0)
        bar = self.bars("fidelity", len(parts) + len(labels))
        found = []
        for part in parts:
            found += part()
            bar(1)
        for label in labels:
            found += self._of_class(label)
            bar(1)
        return found

    def _frechet(self) -> list[Figure]:
        """All rows of each side, whatever was kept of them."""
        private = self.private.all_sums().moments()
        if min(self.release.count, self.test.count) < 2:
            return []
        value = frechet_distance(private, self.release.all_sums().moments())
        baseline = frechet_distance(private, self.test.all_sums().moments())
        rows = self.release.features
        interval = frechet_interval(private, rows, value, resamples=resamples(rows.shape[1]))
        return [
            self._figure(
                NAMES[self.features.standard][0],
                value,
                baseline,
                interval=(interval.low, interval.high),
                better="lower",
            )
        ]

    def _kernel(self) -> list[Figure]:
        private, release, test = self._values()
        if min(len(release), len(test)) < 2:
            return []
        size = min(1000, len(private), len(release), len(test))  # the same on both sides
        options = {"subsets": _SUBSETS, "size": size}
        found = kernel_distance(private, release, **options)
        baseline = kernel_distance(private, test, **options)
        name, reach = NAMES[self.features.standard][1], 1.96 * found.error
        interval = found.value - reach, found.value + reach
        return [
            self._figure(name, found.value, baseline.value, interval=interval, better="lower"),
            self._figure(f"standard error of {name}", found.error, baseline.error, better=""),
        ]

    def _neighbours(self, label: int | None = None) -> list[Figure]:
        """Equally many rows of every side: how many fill a space depends on their number."""
        sides = self._values(label)
        rows = min(map(len, sides))
        if rows <= NEIGHBOURS:
            return []
        private, release, test = (side[some(len(side), rows)] for side in sides)
        one, two = (coverage(private, side, k=NEIGHBOURS) for side in (release, test))
        name = "" if label is None else self.classes[label]
        found = []
        for what in ("precision", "recall", "coverage"):
            value: float = getattr(one, what)
            interval = clopper_pearson(round(value * rows), rows)
            baseline: float = getattr(two, what)
            found.append(self._figure(what, value, baseline, interval=interval, label=name))
        reach = 1.96 * one.density_error
        interval = one.density - reach, one.density + reach
        density = self._figure("density", one.density, two.density, interval=interval, label=name)
        return [*found[:2], density, found[2]]

    def _inception(self) -> list[Figure]:
        """Only where the extractor is a classifier."""
        if self.release.probabilities is None or self.test.probabilities is None:
            return []
        name = "Inception score" if self.features.standard else "score of the classes"
        splits = min(10, len(self.release.probabilities), len(self.test.probabilities))
        one, two = (
            inception_score(side.probabilities, splits=splits)
            for side in (self.release, self.test)
            if side.probabilities is not None
        )
        interval = one.value - 1.96 * one.error, one.value + 1.96 * one.error
        return [self._figure(name, one.value, two.value, interval=interval)]

    def _of_class(self, label: int) -> list[Figure]:
        sides = self._values(label)
        if min(map(len, sides)) < _LEAST:
            return []
        sums = [side.sums.get(label) for side in (self.private, self.release, self.test)]
        found = []
        if len(self.private.sums) > 1 and all(isinstance(one, MomentSums) for one in sums):
            private, release, test = (one.moments() for one in sums if one is not None)
            found.append(
                self._figure(
                    NAMES[self.features.standard][0],
                    frechet_distance(private, release),
                    frechet_distance(private, test),
                    better="lower",
                    label=self.classes[label],
                )
            )
        return found + self._neighbours(label)

    def _values(self, label: int | None = None) -> list[Embeddings]:
        sides = (self.private, self.release, self.test)
        if label is None:
            return [side.features for side in sides]
        return [np.asarray(side.features[side.labels == label]) for side in sides]

    def _figure(
        self,
        name: str,
        value: float,
        baseline: float,
        *,
        interval: tuple[float, float] | None = None,
        better: Literal["higher", "lower", ""] = "higher",
        label: str = "",
    ) -> Figure:
        low, high = interval or (None, None)
        return Figure(
            "fidelity",
            name,
            value,
            low=low,
            high=high,
            baseline=baseline,
            measured=self.features.measured,
            label=label,
            better=better,
        )
