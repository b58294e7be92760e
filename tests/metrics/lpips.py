"""LPIPS by its formula (Zhang et al. 2018, Eq. 1): what other implementations are compared with."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Images, Vector


def lpips(
    features: Callable[[Images], Sequence[NDArray[Any]]],
    weights: Sequence[NDArray[Any]],
    a: Images,
    b: Images,
) -> Vector:
    """(n,) of the maps (n, channels, height, width) of some layers, a weight for each channel."""
    total = np.zeros(len(a))
    for one, two, weight in zip(features(a), features(b), weights, strict=True):
        units = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (one, two)]
        total += np.einsum("nchw,c->nhw", (units[0] - units[1]) ** 2, weight).mean(axis=(1, 2))
    return total
