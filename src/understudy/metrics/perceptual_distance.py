"""LPIPS: how different two images look, by the features of a network (Zhang et al. 2018).

Its networks and weights are other people's and come from a file: see `backends.perceptual`. All
pairs are too many for it; it is for the nearest pairs that a cheaper distance has found.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Metric
from understudy.core.types import Images, Vector

PairDistance = Callable[[Images, Images], Vector]
"""Pairs of images, two arrays of one shape, to a distance for each: (n,)."""


PERCEPTUAL_DISTANCE = Metric(
    key="perceptual_distance",
    group="leakage",
    name="perceptual distance, mean of the {subject} pairs that stand out most",
    explanation="Distance between images as people judge it, by a trained network (LPIPS).",
    better="higher",
    baseline="as many pairs of held-out records",
)


_BLOCK = 256  # samples that are compared together


def nearest_pair_distances(
    distance: PairDistance, samples: Images, private: Images, nearest: NDArray[np.int64]
) -> Vector:
    """How far each sample is from the private image that looks most like it: (n,).

    All pairs are too many for a network: only the private images that a cheaper distance names for
    each sample are compared with it.

    Args:
        distance: Pairs of images to a distance each.
        samples: (n, height, width, channels) uint8.
        private: (p, ...) of the same shape.
        nearest: (n, k) rows of ``private``, such as `nearest_neighbours.nearest_rows` gives.

    Raises:
        InputError: Other shapes, or not one row of neighbours for each sample.
    """
    if nearest.ndim != 2 or len(nearest) != len(samples) or nearest.shape[1] == 0:
        raise InputError(
            f"each of {len(samples)} samples needs one private record or more to compare, found "
            f"{nearest.shape}"
        )
    least = np.full(len(samples), np.inf)
    for start in range(0, len(samples), _BLOCK):
        part = slice(start, start + _BLOCK)
        for rows in nearest[part].T:
            least[part] = np.minimum(least[part], distance(samples[part], private[rows]))
    return least
