"""Metrics that name their function: each is called on the release, and again for the baseline.

A metric that is declared with ``compares="features"`` or ``"nearest pairs"`` is measured by every
evaluation, with nothing to be added here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from understudy.core.ports import PerceptualDistance
from understudy.core.results import Metric, MetricValue
from understudy.core.types import Images, Labels, Vector
from understudy.data.batches import images_at
from understudy.evaluation.embedding_pass import EmbeddedDataset
from understudy.metrics import declared
from understudy.metrics.leakage import Closeness
from understudy.metrics.perceptual_distance import PERCEPTUAL_DISTANCE
from understudy.metrics.subsets import some

PAIRS = 24
"""Pairs that are shown and compared."""


def compare_features(
    private: EmbeddedDataset,
    release: EmbeddedDataset,
    test: EmbeddedDataset,
    measured: str,
    *,
    full: bool,
) -> list[MetricValue]:
    """Every declared metric that compares features; those of held-out records are the baseline."""
    values = []
    for metric, function in _declared("features", full):
        number = function(private.features, release.features)
        usual = function(private.features, test.features)
        if number is None or usual is None:
            continue
        baseline = float(getattr(usual, "value", usual))
        values.append(metric.value(number, baseline=baseline, measured=measured))
    return values


@dataclass(frozen=True, slots=True)
class NearestPairs:
    """Pairs of a row and its nearest private record by pixels: those with the smallest ratios.

    The same rule on both sides, among equally many rows, so that they compare.

    Attributes:
        release: (k, ...) synthetic images.
        private: (k, ...) the private images nearest to them.
        test: (k, ...) held-out images.
        private_of_test: (k, ...) the private images nearest to those.
    """

    release: Images
    private: Images
    test: Images
    private_of_test: Images

    @classmethod
    def read(
        cls,
        private: EmbeddedDataset,
        release: EmbeddedDataset,
        test: EmbeddedDataset,
        closeness: Closeness,
    ) -> NearestPairs:
        """Read their images."""
        rows = min(len(closeness.ratios), len(closeness.baseline_ratios))
        ours = _smallest(closeness.ratios, rows)
        theirs = _smallest(closeness.baseline_ratios, rows)
        return cls(
            _images(release, ours),
            _images(private, closeness.nearest[ours]),
            _images(test, theirs),
            _images(private, closeness.baseline_nearest[theirs]),
        )

    def compare(self, *, full: bool) -> list[MetricValue]:
        """Every declared metric that compares nearest pairs by their pixels."""
        return [
            self._value(metric, function, "pixels")
            for metric, function in _declared("nearest pairs", full)
            if metric.applies(self.release.shape[1:])
        ]

    def perceptual(self, distance: PerceptualDistance) -> MetricValue:
        """The perceptual distance: LPIPS, or another one."""
        return self._value(PERCEPTUAL_DISTANCE, distance.distance, distance.name)

    def _value(self, metric: Metric, function: Callable[..., Vector], measured: str) -> MetricValue:
        return metric.value(
            float(function(self.release, self.private).mean()),
            subject=str(len(self.release)),
            baseline=float(function(self.test, self.private_of_test).mean()),
            measured=measured,
        )


def _declared(
    compares: Literal["features", "nearest pairs"], full: bool
) -> Iterator[tuple[Metric, Callable[..., Any]]]:
    """Metrics and the functions that they name."""
    for metric in declared().values():
        if metric.compares == compares and metric.function and (full or not metric.full):
            yield metric, metric.function


def _smallest(ratios: Vector, rows: int) -> Labels:
    """Where the smallest ratios are, among so many of them."""
    sample = np.arange(len(ratios))[some(len(ratios), rows)]
    return np.asarray(sample[np.argsort(ratios[sample], kind="stable")[:PAIRS]])


def _images(side: EmbeddedDataset, at: Labels) -> Images:
    """The images of some of the rows that were kept."""
    return images_at(side.source, side.indices[at])
