"""Whole numbers in proportion to shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Vector


def apportion(total: int, shares: Vector) -> NDArray[np.int64]:
    """``total`` samples in proportion to ``shares``, by the largest remainders (Hamilton).

    ``shares``: (m,) in any unit; negative ones count as 0.

    Returns:
        (m,) whole numbers that add up to ``total``.
    """
    shares = np.maximum(shares, 0)
    exact = total * shares / max(float(shares.sum()), 1e-300)
    sizes = np.floor(exact).astype(np.int64)
    left = total - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
    return sizes
