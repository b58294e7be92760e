"""Two judges of a release of images, the small CNN and ResNet-9, several seeds each; and the eye.

Each network learns from the release alone and is tested on real images; what counts is the balanced
accuracy. Naming one class for every image is the majority baseline. `sheet` shows real images
beside samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.tables import percent, utility
from understudy.metrics.utility import Labelled, Network, UtilityResult, mean_and_spread
from understudy.report import contact_sheet

JUDGES: Mapping[Network, str] = {"cnn": "small CNN", "resnet9": "ResNet-9"}
HEADS = (*(f"{name} %" for name in JUDGES.values()), "mean %", "majority %")  # of `Verdict.cells`

SEEDS = 3  # trainings of each network
DEEP_SIDE = 32  # pixels: ResNet-9 is made for it, and four times as slow at twice the side
DEEP_ROWS = 4_000  # samples that ResNet-9 learns from at most, chosen at random
COLUMNS = 8  # images of a class on each side of a sheet


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judges say of one release."""

    results: Mapping[Network, tuple[UtilityResult, ...]]  # for each network a result a seed

    @property
    def mean(self) -> float:
        """Mean balanced accuracy of the judges, in [0, 1]."""
        return float(np.mean([mean_and_spread(each)[0] for each in self.results.values()]))

    @property
    def majority(self) -> float:
        """Balanced accuracy of naming one class for every image, in [0, 1]."""
        return next(iter(self.results.values()))[0].majority_balanced

    def recalls(self, class_name: str) -> tuple[str, ...]:
        """Under `HEADS`: percent of the class that each network finds, and their mean."""
        recalls = [
            float(np.mean([result.per_class[class_name] or 0.0 for result in each]))
            for each in self.results.values()
        ]
        return *map(percent, recalls), percent(float(np.mean(recalls))), ""

    def cells(self) -> tuple[str, ...]:
        """Under `HEADS`: percent, with the standard deviation over the seeds in brackets."""
        figures = (mean_and_spread(each) for each in self.results.values())
        each = (f"{percent(mean)} ({percent(spread)})" for mean, spread in figures)
        return *each, percent(self.mean), percent(self.majority)


def judge(release: Labelled, test: Labelled, seeds: int = SEEDS) -> Verdict:
    """Train both networks on a release, once a seed, and test them on real images."""
    results: dict[Network, tuple[UtilityResult, ...]] = {}
    for network in JUDGES:
        deep = network == "resnet9"
        train, held_out = (no_larger(data) if deep else data for data in (release, test))
        most = DEEP_ROWS if deep else None
        results[network] = tuple(
            utility(train, held_out, network=network, seed=seed, at_most=most)
            for seed in range(seeds)
        )
    return Verdict(results)


def no_larger(data: Labelled) -> Labelled:
    """Images halved, by the mean of four pixels, until no side is longer than `DEEP_SIDE`."""
    images = data.values
    while max(images.shape[1:3]) > DEEP_SIDE:
        n, height, width, channels = images.shape
        even = images[:, : height // 2 * 2, : width // 2 * 2]
        fours = even.reshape(n, height // 2, 2, width // 2, 2, channels)
        images = np.rint(fours.mean(axis=(2, 4))).astype(np.uint8)
    return replace(data, values=images)


def sheet(release: Labelled, real: Labelled, classes: int | None = None) -> bytes:
    """A row a class: real images on the left, samples on the right; black where there are none."""
    rows = []
    for name in real.classes[:classes]:
        for side in (real, release):
            images = side.values[side.labels == side.classes.index(name)][:COLUMNS]
            missing = COLUMNS - len(images)
            rows.append(np.pad(images, ((0, missing), (0, 0), (0, 0), (0, 0))))
    return contact_sheet(np.concatenate(rows), 2 * COLUMNS)
