"""What was measured, as far as `understudy plan` compares a dataset with it: docs/benchmarks.md.

Every line names the command that prints it. Accuracies are balanced ones on real test images, by
the network that is named, trained on the release; of several runs the first.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

_OTHER_ENCODER = 4.0  # as far as a factor of fifty in images

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
    most: int = 3,
) -> tuple[BenchmarkResult, ...]:
    """The measured releases of a method that are most like a run, the nearest one first."""
    of_method = [one for one in benchmark_results() if (one.method, one.kind) == (method, kind)]
    of_method.sort(key=lambda one: one.distance(encoder, images, classes, side, epsilon))
    return tuple(of_method[:most])
