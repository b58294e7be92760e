"""What is asked for block after block: a function of many rows, images of many prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Generator
from understudy.core.types import Images, Labels, Texts


def in_blocks(
    function: Callable[..., NDArray[Any]], block: int, *rows: NDArray[Any]
) -> NDArray[Any]:
    """A function of rows (n, ...), of which each block of so many is asked by itself: (n, ...)."""
    starts = range(0, len(rows[0]) or 1, block)
    return np.concatenate([function(*(of[i : i + block] for of in rows)) for i in starts])


@runtime_checkable
class BlockGenerator(Generator, Protocol):
    """A generator whose images are the same to the bit whichever process draws them, in blocks.

    Attributes:
        block: How many images of a call it draws at a time.
    """

    block: int

    def generate_rows(self, prompts: Texts, rows: Labels, *, seed: int) -> Images:
        """The images of some rows (n,) of a call of `generate`, with the prompts of these."""
        ...
