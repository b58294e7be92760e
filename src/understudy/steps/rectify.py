"""Pixels that stay in range: Gaussian samples whose clipped values have the wanted moments.

Clipping a Gaussian pixel to [0, 1] raises its mean where the background is black, and washes
pictures out. That pixels lie in [0, 1] is public, so the latent Gaussian can be chosen such that,
*after* clipping, mean and standard deviation are those that were released.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import norm

from understudy.core.types import Vector

_MOST = 3.0  # a latent deviation exceeds the wanted one by this factor at most


@cache
def _table() -> tuple[Vector, Vector, Vector]:
    """a, mean / sd and sd of max(0, a + N(0, 1)), on a grid of a."""
    a = np.linspace(-4.0, 12.0, 4000)
    mean = a * norm.cdf(a) + norm.pdf(a)
    variance = np.maximum((a * a + 1) * norm.cdf(a) + a * norm.pdf(a) - mean * mean, 1e-12)
    return a, mean / np.sqrt(variance), np.sqrt(variance)


def latent_moments(mean: Vector, sd: Vector) -> tuple[Vector, Vector]:
    """Mean and deviation before clipping that give ``mean`` and ``sd`` after it.

    Only the nearer end of the range is reckoned with.

    Args:
        mean: Wanted means; those outside of [0, 1] are moved to its ends.
        sd: Wanted standard deviations, same shape.

    Returns:
        Two arrays of the same shape.
    """
    a, ratio, scale = _table()
    sd = sd + 1e-4
    mean = np.clip(mean, 0.0, 1.0)
    upper = mean > 0.5
    height = np.where(upper, 1 - mean, mean)
    found = np.interp(height / sd, ratio, a)
    latent_sd = np.minimum(sd / np.interp(found, a, scale), _MOST * sd)
    far = height / sd >= ratio[-1]
    latent_sd = np.where(far, sd, latent_sd)
    latent = np.where(far, height, found * latent_sd)
    return np.where(upper, 1 - latent, latent), latent_sd
