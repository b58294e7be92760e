"""How alike the pairs look that stand out most, beside as many pairs of held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from understudy.core.ports import PerceptualDistance
from understudy.core.results import Figure
from understudy.core.types import Images, Labels, Vector
from understudy.evaluation.embedding_pass import Side, pictures
from understudy.evaluation.leakage_adapter import PAIRS
from understudy.metrics.leakage import (
    Closeness,
    mutual_information,
    regional_mutual_information,
)
from understudy.metrics.subsets import some

_GRID = 4  # parts a side of the regional mutual information

Measure = Callable[[Images, Images], Vector]
"""Two batches of images to a number a pair."""

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Alike:
    """Pairs of a row and its nearest private row by pixels: those with the smallest ratios.

    The same rule on both sides, among equally many rows, so that they compare.

    Attributes:
        release: (k, ...) synthetic images.
        hit: (k, ...) the private images nearest to them.
        test: (k, ...) held-out images.
        hit_by_test: (k, ...) the private images nearest to those.
    """

    release: Images
    hit: Images
    test: Images
    hit_by_test: Images

    @classmethod
    def of(cls, private: Side, release: Side, test: Side, found: Closeness) -> Alike:
        """Read them.

        Args:
            private: The private rows.
            release: The release.
            test: Held-out real rows.
            found: Nearest private rows by pixels.
        """
        rows = min(len(found.ratios), len(found.baseline_ratios))
        ours = _standing_out(found.ratios, rows)
        theirs = _standing_out(found.baseline_ratios, rows)
        return cls(
            _read(release, ours),
            _read(private, found.nearest[ours]),
            _read(test, theirs),
            _read(private, found.baseline_nearest[theirs]),
        )

    def information(self) -> list[Figure]:
        """Mutual information, of whole images and of their parts."""
        found = [self._figure("mutual information in bits", mutual_information, "pixels", "lower")]
        if min(self.release.shape[1:3]) >= _GRID:
            name = "regional mutual information in bits"
            found.append(self._figure(name, regional_mutual_information, "pixels", "lower"))
        return found

    def perceptual(self, metric: PerceptualDistance) -> Figure:
        """LPIPS, or what else the metric is."""
        return self._figure("perceptual distance", metric.distance, metric.name, "higher")

    def _figure(self, name: str, measure: Measure, measured: str, better: Better) -> Figure:
        return Figure(
            "leakage",
            f"{name}, mean of the {len(self.release)} pairs that stand out most",
            float(measure(self.release, self.hit).mean()),
            baseline=float(measure(self.test, self.hit_by_test).mean()),
            measured=measured,
            better=better,
        )


def _standing_out(ratios: Vector, rows: int) -> Labels:
    """Where the smallest ratios are, among so many of them."""
    chosen = np.arange(len(ratios))[some(len(ratios), rows)]
    return np.asarray(chosen[np.argsort(ratios[chosen], kind="stable")[:PAIRS]])


def _read(side: Side, at: Labels) -> Images:
    """The images of some of the kept rows."""
    rows = side.kept[at].tolist()
    found = pictures(side.source, rows)
    return np.stack([found[row] for row in rows])
