"""What was measured, as far as `understudy plan` compares a dataset with it: docs/benchmarks.md.

Every line names the command that prints it. Accuracies are balanced ones on real test images, by
the network that is named, trained on the release; of several runs the first.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from understudy.report.plots import LINES, Plot, PlotLine, around

_OTHER_ENCODER = 4.0  # as far as a factor of fifty in images
_COMPARABLE_IMAGES, _COMPARABLE_SHAPE = 4.0, 2.0  # factors: of images, and of classes and side

ReleaseKind = Literal["images", "embeddings"]


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One release that was measured."""

    data: str
    method: str
    encoder: str
    kind: ReleaseKind
    images: int
    classes: int
    side: int
    epsilon: float
    result: str
    command: str

    @property
    def accuracy(self) -> float | None:
        """Balanced accuracy, 0 to 1; None where none was measured."""
        percent = re.match(r"([\d.]+) %", self.result)
        return None if percent is None else float(percent[1]) / 100

    def distance(self, encoder: str, images: int, classes: int, side: int, epsilon: float) -> float:
        """How far a dataset and a run are from it: factors of images, classes, side, epsilon."""
        other = 0.0 if encoder.startswith(self.encoder) else _OTHER_ENCODER
        pairs = (
            (self.images, images, 1.0),
            (self.classes, classes, 1.0),
            (self.side, side, 1.0),
            (self.epsilon, epsilon, 1.5),  # what counts most where little is given
        )
        return other + math.fsum(weight * abs(math.log(a / b)) for a, b, weight in pairs)


@cache
def benchmark_results() -> tuple[BenchmarkResult, ...]:
    """Every release that was measured, as the file beside this module lists them."""
    content = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    return tuple(BenchmarkResult(**entry) for entry in json.loads(content))


def nearest_results(
    method: str,
    encoder: str,
    kind: ReleaseKind,
    *,
    images: int,
    classes: int,
    side: int,
    epsilon: float,
) -> tuple[BenchmarkResult, ...]:
    """The measured releases of a method that are most like a run, the nearest three."""
    of_method = [one for one in benchmark_results() if (one.method, one.kind) == (method, kind)]
    of_method.sort(key=lambda one: one.distance(encoder, images, classes, side, epsilon))
    return tuple(of_method[:3])


def comparable_results(
    method: str, encoder: str, kind: ReleaseKind, *, images: int, classes: int, side: int | None
) -> tuple[BenchmarkResult, ...]:
    """The accuracies of the same method and encoder on data of about this size and shape.

    ``side``: of the images; None: of embeddings, which have none.
    """
    return tuple(
        one
        for one in benchmark_results()
        if (one.method, one.kind) == (method, kind)
        and one.accuracy is not None
        and encoder.startswith(one.encoder)
        and _is_near(one.images, images, _COMPARABLE_IMAGES)
        and _is_near(one.classes, classes, _COMPARABLE_SHAPE)
        and _is_near(one.side, side or one.side, _COMPARABLE_SHAPE)
    )


def _is_near(one: int, other: int, factor: float) -> bool:
    return max(one, other) <= factor * min(one, other)


def accuracy_over_epsilon(
    own: Sequence[tuple[float, float, str]], published: Sequence[BenchmarkResult]
) -> Plot:
    """The curve of an owner's runs beside what was published of comparable data.

    Args:
        own: Epsilon, balanced accuracy and name of each run.
        published: Of `comparable_results`.
    """
    points = [("these runs", *one) for one in own]
    for one in published:
        if one.accuracy is not None:
            points.append((f"published: {one.data}", one.epsilon, one.accuracy, ""))
    lines = []
    for name in list(dict.fromkeys(line for line, *_ in points))[:LINES]:
        _, x, y, notes = zip(*sorted(one for one in points if one[0] == name), strict=True)
        lines.append(PlotLine(name, x, y, notes))
    axes = (
        around("epsilon", [one[1] for one in points]),
        around("balanced accuracy", [one[2] for one in points]),
    )
    return Plot("Balanced accuracy over epsilon", *axes, tuple(lines), marks=True)
