"""Contrast of images whose samples turned out greyer than the images they stand for.

A Gaussian that is cut to the range of a pixel has less variance than was released where a mean is
near black or white, and no more than the cut leaves it elsewhere: thin white strokes come out grey.
Mean and mean square of all pixels are known from the released moments, so one straight line through
every pixel, cut to the range again, can restore both. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Vector

_STRONGEST = 4.0
_STEPS = 24
_GREYEST = 0.98  # of the mean, which the mean square reaches where all pixels are black or white


@dataclass(frozen=True)
class Contrast:
    """A pixel x of 0 to 1 becomes gain (x - offset), cut to 0 and 1.

    Attributes:
        gain: 1 or more.
        offset: What becomes black.
    """

    gain: float = 1.0
    offset: float = 0.0

    @classmethod
    def of(cls, pixels: Vector, mean: float, square: float) -> Contrast:
        """The one after which these pixels have a mean and a mean square.

        Args:
            pixels: (n,) of samples, 0 to 1.
            mean: Wanted.
            square: Wanted mean square. Where the pixels have as much of it, they stay as they are.
        """
        square = min(square, _GREYEST * mean)
        if float(np.square(pixels).mean()) >= square:
            return cls()
        low, high = 1.0, _STRONGEST
        for _ in range(_STEPS):
            gain = (low * high) ** 0.5
            contrast = cls(gain, _offset(pixels, gain, mean))
            lower = np.square(contrast(pixels)).mean() < square
            low, high = (gain, high) if lower else (low, gain)
        return contrast

    def __call__(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Pixels of 0 to 1, any shape."""
        return np.clip((pixels - self.offset) * self.gain, 0.0, 1.0)


def _offset(pixels: Vector, gain: float, mean: float) -> float:
    """The offset with which pixels of a gain have a mean."""
    low, high = -1.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        brighter = float(np.clip((pixels - middle) * gain, 0.0, 1.0).mean()) > mean
        low, high = (middle, high) if brighter else (low, middle)
    return (low + high) / 2
