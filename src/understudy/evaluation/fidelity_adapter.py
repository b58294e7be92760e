"""How alike the release is to the private records, and how alike held-out real records are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.results import Interval, Metric, MetricValue
from understudy.core.types import Embeddings
from understudy.evaluation.embedding_pass import EmbeddedDataset, FeatureExtractor
from understudy.metrics.fidelity import (
    FID,
    FRECHET_DISTANCE,
    INCEPTION_SCORE,
    KERNEL_DISTANCE,
    KID,
    frechet_distance,
    frechet_interval,
    inception_score,
    kernel_distance,
)
from understudy.metrics.nearest_neighbours import (
    COVERAGE,
    DENSITY,
    NEAREST_NEIGHBOURS,
    PRECISION,
    RECALL,
    coverage,
)
from understudy.metrics.roc import clopper_pearson
from understudy.metrics.subsets import some
from understudy.run.progress import Bars

_RESAMPLES, _FEW_RESAMPLES = 20, 8
_MANY_DIMS = 1024  # a root of a covariance as large takes seconds
_SUBSETS = 100
_LEAST = 2 * NEAREST_NEIGHBOURS  # rows of a side or of a class, at least, that say anything of it
_MOST_CLASSES = 100


def resamples(dim: int) -> int:
    """How often the bootstrap resamples features of that length."""
    return _RESAMPLES if dim <= _MANY_DIMS else _FEW_RESAMPLES


@dataclass(frozen=True, slots=True)
class FidelityAdapter:
    """Measures fidelity.

    ``classes`` are the names that the datasets share; fewer than two: none.
    """

    features: FeatureExtractor
    private: EmbeddedDataset
    release: EmbeddedDataset
    test: EmbeddedDataset
    classes: Sequence[str]
    bars: Bars

    def values(self) -> list[MetricValue]:
        """Of all rows, then of each class."""
        parts: list[Callable[[], list[MetricValue]]] = [
            self._frechet,
            self._kernel,
            self._nearest_neighbours,
            self._inception,
        ]
        labels = range(len(self.classes)) if 1 < len(self.classes) <= _MOST_CLASSES else range(0)
        bar = self.bars("fidelity", len(parts) + len(labels))
        values = []
        for part in parts:
            values += part()
            bar(1)
        for label in labels:
            values += self._of_class(label)
            bar(1)
        return values

    @property
    def _frechet_metric(self) -> Metric:
        """Scores bear the names that others compare only in the features that others take."""
        return FID if self.features.standard else FRECHET_DISTANCE

    def _frechet(self) -> list[MetricValue]:
        """All rows of each side, whatever was kept of them."""
        private = self.private.all_sums().moments()
        if min(self.release.count, self.test.count) < 2:
            return []
        value = frechet_distance(private, self.release.all_sums().moments())
        baseline = frechet_distance(private, self.test.all_sums().moments())
        rows = self.release.features
        interval = frechet_interval(private, rows, value, resamples=resamples(rows.shape[1]))
        return [self._value(self._frechet_metric, interval, baseline)]

    def _kernel(self) -> list[MetricValue]:
        private, release, test = self._features()
        rows = min(len(private), len(release), len(test))
        if rows < _LEAST:
            return []
        size = min(1000, rows // 2)  # the same on both sides
        options = {"subsets": _SUBSETS, "size": size}
        estimate = kernel_distance(private, release, **options)
        baseline = kernel_distance(private, test, **options)
        metric = KID if self.features.standard else KERNEL_DISTANCE
        return [self._value(metric, _about(estimate.value, estimate.error), baseline.value)]

    def _nearest_neighbours(self, label: int | None = None) -> list[MetricValue]:
        """Equally many rows of every side: how many fill a space depends on their number."""
        sides = self._features(label)
        rows = min(map(len, sides))
        if rows <= NEAREST_NEIGHBOURS:
            return []
        private, release, test = (side[some(len(side), rows)] for side in sides)
        ours, usual = (coverage(private, side, k=NEAREST_NEIGHBOURS) for side in (release, test))
        name = "" if label is None else self.classes[label]

        def part(metric: Metric, value: float, baseline: float) -> MetricValue:
            low, high = clopper_pearson(round(value * rows), rows)
            return self._value(metric, Interval(value, low, high), baseline, name)

        return [
            part(PRECISION, ours.precision, usual.precision),
            part(RECALL, ours.recall, usual.recall),
            self._value(DENSITY, _about(ours.density, ours.density_error), usual.density, name),
            part(COVERAGE, ours.coverage, usual.coverage),
        ]

    def _inception(self) -> list[MetricValue]:
        """Only of the standard network, and where its file gives probabilities."""
        if self.release.probabilities is None or self.test.probabilities is None:
            return []
        if not self.features.standard:
            return []
        splits = min(10, len(self.release.probabilities), len(self.test.probabilities))
        estimate, baseline = (
            inception_score(probabilities, splits=splits)
            for probabilities in (self.release.probabilities, self.test.probabilities)
        )
        interval = _about(estimate.value, estimate.error)
        return [self._value(INCEPTION_SCORE, interval, baseline.value)]

    def _of_class(self, label: int) -> list[MetricValue]:
        if min(map(len, self._features(label))) < _LEAST:
            return []
        sides = [side.sums for side in (self.private, self.release, self.test)]
        values = []
        if len(self.private.sums) > 1 and all(label in sums for sums in sides):
            private, release, test = (sums[label].moments() for sums in sides)
            value, baseline = (frechet_distance(private, side) for side in (release, test))
            values.append(self._value(self._frechet_metric, value, baseline, self.classes[label]))
        return values + self._nearest_neighbours(label)

    def _features(self, label: int | None = None) -> list[Embeddings]:
        sides = (self.private, self.release, self.test)
        if label is None:
            return [side.features for side in sides]
        return [np.asarray(side.features[side.labels == label]) for side in sides]

    def _value(
        self, metric: Metric, number: float | Interval, baseline: float, label: str = ""
    ) -> MetricValue:
        return metric.value(number, baseline=baseline, measured=self.features.measured, label=label)


def _about(value: float, error: float) -> Interval:
    """The 95 % interval of a value with a standard error."""
    return Interval(value, value - 1.96 * error, value + 1.96 * error)
