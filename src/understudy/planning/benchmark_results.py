"""What was measured, as far as `understudy plan` compares a dataset with it: docs/benchmarks.md.

Every line names the command that prints it. Accuracies are balanced ones on real test images, by
the network that is named, trained on the release; of several runs the first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

_OTHER_ENCODER = 4.0  # as far as a factor of fifty in images

ReleaseKind = Literal["images", "embeddings"]


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One release that was measured.

    Attributes:
        data: What it was made of.
        method: The method.
        encoder: Of the run: a name, or the family of one.
        kind: What was released.
        images: Private images.
        classes: Classes of them.
        side: Pixels of a side.
        epsilon: Of the run, at delta 1e-5.
        result: What was measured, in words.
        command: What prints it.
    """

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


_GREY = ("small grey images, a public benchmark", "clustering")
_TILES = ("satellite tiles, a public benchmark", "clustering")
_SMALL = "python -m benchmarks small_classes"
_TAEF2 = "understudy synthesize tiles/train --encoder onnx:taef2_encoder.onnx"
_MOBILE = "understudy synthesize tiles/train --encoder onnx:mobilenet_v2_features.onnx"
_SCATTERING = "understudy synthesize FOLDER --encoder embedded:scattering"

RESULTS = (
    BenchmarkResult(
        *(*_GREY, "embedded:dct", "images", 60_000, 10, 28, 1.0),
        "78.2 % by a small CNN (86.2 % on real images)",
        "make demo",
    ),
    BenchmarkResult(
        *(*_GREY, "embedded:dct", "images", 60_000, 10, 28, 10.0),
        "80.0 % by a small CNN",
        "understudy synthesize FOLDER --epsilon 10 --test FOLDER --test-rows 12000",
    ),
    BenchmarkResult(
        *(*_GREY, "embedded:scattering", "embeddings", 60_000, 10, 28, 1.0),
        "84.6 % by a two-layer network (89.1 % on real ones)",
        f"{_SCATTERING} --epsilon 1 --test FOLDER --test-rows 20000",
    ),
    BenchmarkResult(
        *(*_GREY, "embedded:scattering", "embeddings", 60_000, 10, 28, 10.0),
        "86.7 % by a two-layer network (89.1 % on real ones)",
        f"{_SCATTERING} --epsilon 10 --test FOLDER --test-rows 20000",
    ),
    BenchmarkResult(
        *(*_TILES, "onnx", "embeddings", 24_300, 10, 64, 1.0),
        "89.8 % by a two-layer network (94.6 % on real ones), MobileNetV2 features",
        f"{_MOBILE} --epsilon 1 --test tiles/test",
    ),
    BenchmarkResult(
        *(*_TILES, "onnx", "embeddings", 24_300, 10, 64, 8.0),
        "91.3 % by a two-layer network (94.6 % on real ones), MobileNetV2 features",
        f"{_MOBILE} --epsilon 8 --test tiles/test",
    ),
    BenchmarkResult(
        *(*_TILES, "onnx", "images", 24_300, 10, 64, 1.0),
        "62.0 % by a small CNN, through an autoencoder (TAEF2)",
        f"{_TAEF2} --decoder onnx:taef2_decoder.onnx --epsilon 1 --count 10000",
    ),
    BenchmarkResult(
        *(*_TILES, "onnx", "images", 24_300, 10, 64, 8.0),
        "61.0 % by a small CNN, through an autoencoder (TAEF2)",
        f"{_TAEF2} --decoder onnx:taef2_decoder.onnx --epsilon 8 --count 6000",
    ),
    BenchmarkResult(
        *("satellite tiles, vegetation", "clustering", "embedded:dct", "images", 3_300, 3, 64, 1.0),
        "63.4 % by a small CNN",
        _SMALL,
    ),
    BenchmarkResult(
        *("photos of clothing", "clustering", "embedded:dct", "images", 1_373, 3, 64, 1.0),
        "46.4 % by a small CNN",
        _SMALL,
    ),
    BenchmarkResult(
        *("satellite tiles, streets", "clustering", "embedded:dct", "images", 3_300, 3, 64, 1.0),
        "41.2 % by a small CNN",
        _SMALL,
    ),
    BenchmarkResult(
        *(
            "the playhouse, private homes",
            "alignment",
            "embedded:studio",
            "images",
            1_000,
            4,
            64,
            1.0,
        ),
        "68.8 % by a small CNN (92.1 % on real images; 65.2 % by the base set alone)",
        "python -m benchmarks alignment gap",
    ),
    BenchmarkResult(
        *(
            "satellite tiles, a base set of the same",
            "alignment",
            "onnx",
            "images",
            23_300,
            10,
            64,
            1.0,
        ),
        "65.1 % by a small CNN (68.6 % by the base set alone)",
        "python -m benchmarks alignment",
    ),
    BenchmarkResult(
        *(
            "satellite tiles, a base set of the same",
            "alignment",
            "onnx",
            "images",
            23_300,
            10,
            64,
            8.0,
        ),
        "65.1 % by a small CNN (68.6 % by the base set alone)",
        "python -m benchmarks alignment",
    ),
    BenchmarkResult(
        *(
            "the playhouse, private homes",
            "evolution",
            "embedded:studio",
            "images",
            1_000,
            4,
            64,
            1.0,
        ),
        "Frechet distance 0.357 to 0.221 (-38 %); no accuracy was measured",
        "python -m benchmarks evolution",
    ),
)


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
    """The measured releases of a method that are most like a run, the nearest one first.

    Args:
        method: The method.
        encoder: Its encoder.
        kind: What is to be released.
        images: Private images, 1 or more.
        classes: Classes of them.
        side: Pixels of a side.
        epsilon: Of the run.
        most: How many at most.
    """
    of_method = [one for one in RESULTS if (one.method, one.kind) == (method, kind)]
    of_method.sort(key=lambda one: one.distance(encoder, images, classes, side, epsilon))
    return tuple(of_method[:most])
