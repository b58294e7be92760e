"""The private image that looks most like a sample, among those that are named."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.core.types import Images
from understudy.metrics.perceptual_distance import nearest_pair_distances


def pictures(n: int = 4, seed: int = 0) -> Images:
    return np.random.default_rng(seed).integers(0, 256, (n, 8, 6, 3)).astype(np.uint8)


def distance(a: Images, b: Images) -> NDArray[np.float64]:
    return np.asarray(np.abs(a.astype(float) - b).mean((1, 2, 3)))


def test_a_sample_is_as_far_as_the_nearest_of_the_private_images_that_are_named() -> None:
    samples, private = pictures(5), pictures(7, seed=1)

    every = np.stack([distance(samples, np.stack([one] * 5)) for one in private], axis=1)
    named = np.array([[0, 1], [2, 3], [4, 5], [6, 0], [1, 1]])
    expected = np.take_along_axis(every, named, 1).min(1)
    assert nearest_pair_distances(distance, samples, private, named, block=2) == pytest.approx(
        expected
    )
