"""The rival on images: train the ConvNet itself by DP-SGD (Opacus).

`metrics.dp_sgd` does it, so everything leans to the rival: the number of rows is public and the
noise comes from a seeded generator. ResNet-50 and VGG-11 have no such rival in the alignment paper:
batch normalisation mixes rows, so per-row gradients do not exist.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.dp_sgd import Labels, Peer
from understudy.metrics.dp_sgd import dp_sgd
from understudy.metrics.utility import Labelled

Images = NDArray[np.uint8]


def opacus_convnet(
    images: Images,
    y: Labels,
    test: Images,
    yt: Labels,
    epsilon: float,
    delta: float,
    **options: Any,
) -> Peer:
    """The ConvNet of metrics.networks by Opacus: Poisson sampling, its PRV accountant.

    Args:
        images: (n, height, width, channels) private images.
        y: (n,) their classes.
        test: Real test images.
        yt: Their classes.
        epsilon: Of the trained model.
        delta: Of the trained model.
        **options: ``epochs``, ``batch``, ``lr``, ``clip`` and ``seed`` of `dp_sgd`.
    """
    classes = tuple(map(str, range(int(max(y.max(), yt.max())) + 1)))
    sides = Labelled(images, y, classes), Labelled(test, yt, classes)
    start = time.perf_counter()
    found = dp_sgd(*sides, epsilon=epsilon, delta=delta, network="convnet", **options)
    setting = {"steps": found.steps, "rate": found.rate, **options}
    return Peer(
        "Opacus DP-SGD, ConvNet",
        found.result.balanced,
        found.epsilon,
        delta,
        time.perf_counter() - start,
        setting,
    )
