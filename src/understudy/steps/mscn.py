"""What NIQE and PIQE begin with: pixels less their local mean, over their local deviation.

The papers call them MSCN coefficients, mean-subtracted and contrast-normalised. In a natural
image they are nearly Gaussian; blur, noise and compression each change that in their own way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Images, Vector

Planes = NDArray[np.float64]
"""One channel of images: (n, height, width) float64."""

_PIXELS_AT_ONCE = 1 << 18  # 2 MB a plane: large enough to vectorise, small enough for the cache
# In a flat patch the mean differs from the pixels by rounding alone. That must count as zero: the
# fits below treat the two signs apart, and would otherwise read the rounding of the machine.
_ROUNDING = 1e-9


def gaussian_taps() -> Vector:
    """(7,) weights of the papers' window: a Gaussian of deviation 7/6, cut at 3 pixels."""
    offset = np.arange(-3, 4)
    taps = np.exp(-(offset**2) / (2 * (7 / 6) ** 2))
    return np.asarray(taps / taps.sum())


def check_images(images: Images, what: str) -> None:
    """Refuse anything but (n, height, width, 1 or 3) uint8.

    Raises:
        InputError: Another shape or type.
    """
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise InputError(
            f"{what} takes uint8 images of shape (n, height, width, 1 or 3), "
            f"found {images.dtype} of shape {images.shape}"
        )


def chunks(images: Images) -> Iterator[slice]:
    """Slices of a batch, so that what is computed at once fits the processor's cache."""
    _, height, width, _ = images.shape
    size = max(1, _PIXELS_AT_ONCE // max(1, height * width))
    for start in range(0, len(images), size):
        yield slice(start, min(start + size, len(images)))


def normalize(planes: Planes, taps: Vector) -> tuple[Planes, Planes]:
    """MSCN coefficients and local deviations; borders are replicated.

    ``planes``: (n, height, width), values 0 to 255. ``taps``: (odd,) weights along each axis, of
    sum 1.

    Returns:
        (x - mu) / (sigma + 1) and sigma, each (n, height, width).
    """
    mean = _smooth(planes, taps)
    deviation = _smooth(planes * planes, taps)
    deviation -= mean * mean
    np.sqrt(np.abs(deviation, out=deviation), out=deviation)
    centred = np.subtract(planes, mean, out=mean)
    centred[np.abs(centred) < _ROUNDING] = 0.0
    centred /= deviation + 1.0
    return centred, deviation


def blocks(planes: Planes, side: int) -> NDArray[np.float64]:
    """(n, rows, columns, side, side): the whole blocks of each plane; the rest is left out."""
    n, height, width = planes.shape
    rows, columns = height // side, width // side
    whole = planes[:, : rows * side, : columns * side]
    parts = whole.reshape(n, rows, side, columns, side).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(parts)


def _smooth(planes: Planes, taps: Vector) -> Planes:
    down = scipy.ndimage.correlate1d(planes, taps, axis=1, mode="nearest")
    return np.asarray(scipy.ndimage.correlate1d(down, taps, axis=2, mode="nearest"))
