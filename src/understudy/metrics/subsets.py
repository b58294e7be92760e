"""Random rows of a set that is larger than what a figure is computed on."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Labels


def some(rows: int, most: int | None, seed: int = 0) -> Labels | slice:
    """What to index an array of ``rows`` rows with to have ``most`` of them at random (None: all).

    Returns:
        (most,) int64 in ascending order; where there are no more rows, a slice of all of them,
        so that nothing is copied.
    """
    if most is None or rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
