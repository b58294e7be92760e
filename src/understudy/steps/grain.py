"""Camera noise in pictures: how much of it there is, and drawing as much.

A generator that learnt from clean pictures draws clean ones, and a network that was trained on
those fails on a camera's. The noise is told from what is shown by a filter that lines and
gradients pass unseen (Immerkaer, "Fast noise variance estimation", 1996), robustly by the median.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Images

Levels = NDArray[np.float32]

MOST = 64.0
"""No level above is told: in steps of a pixel's 0 to 255."""

_OF_MEDIAN = 0.6745  # the median of |x| where x is normal with deviation 1

# Brightness and two colour differences.
_COLOURS = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]], dtype=np.float32)
_COLOURS /= np.linalg.norm(_COLOURS, axis=1, keepdims=True)


def axes_of(channels: int) -> Levels:
    """Orthonormal axes of noise: brightness, then colours, (channels, channels)."""
    return np.asarray(_COLOURS if channels == 3 else np.eye(channels), dtype=np.float32)


def noise_levels(images: Images) -> Levels:
    """Standard deviation of the noise in each picture along `axes_of`, at most `MOST`.

    Args:
        images: (n, height, width, channels) uint8; smaller than 3 x 3 pixels they have no noise.

    Returns:
        (n, channels) float32, in steps of a pixel's 0 to 255.
    """
    count, height, width, channels = images.shape
    if count == 0 or min(height, width) < 3:
        return np.zeros((count, channels), dtype=np.float32)
    seen = images.astype(np.float32) @ axes_of(channels).T
    for axis in (1, 2):  # the second difference along both: 1 -2 1, -2 4 -2, 1 -2 1
        seen = np.diff(seen, n=2, axis=axis)
    median = np.median(np.abs(seen).reshape(count, -1, channels), axis=1)
    return np.asarray(np.minimum(median / (6 * _OF_MEDIAN), MOST), dtype=np.float32)


def with_grain(images: Images, levels: Levels, rng: np.random.Generator) -> Images:
    """Pictures with white noise added until they have these levels; none is taken away.

    Args:
        images: (n, height, width, channels) uint8.
        levels: (n, channels) as `noise_levels`.
        rng: Public randomness.
    """
    lack = np.maximum(levels, 0.0) ** 2 - noise_levels(images) ** 2
    lack = np.sqrt(np.clip(lack, 0.0, MOST**2)).astype(np.float32)
    drawn = rng.standard_normal(images.shape, dtype=np.float32) * lack[:, None, None, :]
    values = images + drawn @ axes_of(images.shape[3])
    return np.asarray(values.round().clip(0, 255), dtype=np.uint8)
