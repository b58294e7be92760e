"""A function of many rows, asked for block after block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def in_blocks(
    function: Callable[..., NDArray[Any]], block: int, *rows: NDArray[Any]
) -> NDArray[Any]:
    """A function of rows (n, ...), of which each block of so many is asked by itself: (n, ...)."""
    starts = range(0, len(rows[0]) or 1, block)
    return np.concatenate([function(*(of[i : i + block] for of in rows)) for i in starts])
