"""Discrete Gaussian noise on exact integer sums. The only module that draws DP noise.

The noise comes from OpenDP, which samples exactly (Canonne, Kamath and Steinke 2020) from the
operating system's generator. There is no seed to give, no floating-point sampler to attack
(Mironov 2012), and no ``except`` around the mechanism: an error in here ends the run.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

dp.enable_features("contrib")

MIN_SCALE = 2**24
"""Least noise scale in grid steps; privacy.md asks for 2^20, and finer costs nothing."""

_CHUNK = 1 << 14


def grid_step(sigma: float) -> float:
    """The grid that contributions are truncated to: a power of two with sigma / g in [2^24, 2^25).

    A power of two makes the division by g exact in floating point.
    """
    return math.ldexp(1.0, math.floor(math.log2(sigma)) - MIN_SCALE.bit_length() + 1)


def add_discrete_gaussian(total: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Exact integer sums plus independent discrete Gaussian noise.

    Args:
        total: (D,) int64 exact sums, in grid steps.
        scale: Noise scale in grid steps, at least `MIN_SCALE`.

    Returns:
        (D,) int64.

    Raises:
        ValueError: A scale below `MIN_SCALE`, for which the accounting would not hold.
    """
    if not (math.isfinite(scale) and scale >= MIN_SCALE):
        raise ValueError(f"the noise scale must be at least {MIN_SCALE} grid steps, found {scale}")
    mechanism = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale
    )
    chunks = [total[i : i + _CHUNK] for i in range(0, len(total), _CHUNK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        noisy = list(pool.map(lambda chunk: mechanism(chunk.tolist()), chunks))
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in noisy] or [total])
