"""How alike two images are, pixel by pixel: MSE, PSNR and SSIM."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Images, Vector

_SIGMA, _REACH = 1.5, 5  # a window of 11 x 11
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_ROWS = 256


def mse(a: Images, b: Images) -> Vector:
    """Mean squared difference of each pair, over pixels and colours, 0 to 255 squared.

    Raises:
        InputError: Other shapes.
    """
    _check(a, b)
    errors = np.empty(len(a))
    for at in range(0, len(a), _ROWS):
        rows = slice(at, at + _ROWS)
        apart = a[rows].astype(np.int32) - b[rows]
        errors[rows] = (apart**2).mean(axis=(1, 2, 3))
    return errors


def decibels(errors: Vector) -> Vector:
    """PSNR of mean squared differences: 10 log10(255² / MSE); infinite for the same image."""
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(255**2 / errors))


def ssim(a: Images, b: Images) -> Vector:
    """Structural similarity of each pair, in [-1, 1]; 1 for the same image (Wang et al. 2004).

    As published: a Gaussian window of 11 x 11 with deviation 1.5, K1 = 0.01, K2 = 0.03, only where
    the window lies inside the image; colours one by one, averaged.

    Args:
        a: (n, height, width, channels) uint8, at least 11 x 11 pixels.
        b: The same shape.

    Raises:
        InputError: Other shapes, or images smaller than the window.
    """
    _check(a, b)
    if min(a.shape[1:3]) < 2 * _REACH + 1:
        raise InputError(f"SSIM needs 11 x 11 pixels or more, found {a.shape[1]} x {a.shape[2]}")
    similarities = np.empty(len(a))
    for at in range(0, len(a), _ROWS):
        rows = slice(at, at + _ROWS)
        similarities[rows] = _structure(a[rows].astype(np.float64), b[rows].astype(np.float64))
    return similarities


def _structure(x: Vector, y: Vector) -> Vector:
    mean_x, mean_y = _blurred(x), _blurred(y)
    var_x, var_y = _blurred(x * x) - mean_x**2, _blurred(y * y) - mean_y**2
    both = _blurred(x * y) - mean_x * mean_y
    # Eq. 13
    light = (2 * mean_x * mean_y + _C1) / (mean_x**2 + mean_y**2 + _C1)
    shape = (2 * both + _C2) / (var_x + var_y + _C2)
    return np.asarray((light * shape).mean(axis=(1, 2, 3)))


def _blurred(values: Vector) -> Vector:
    """The window's weighted mean about each pixel that it fits around."""
    for axis in (1, 2):
        values = scipy.ndimage.gaussian_filter1d(values, _SIGMA, axis=axis, radius=_REACH)
    return values[:, _REACH:-_REACH, _REACH:-_REACH]


def _check(a: NDArray[Any], b: NDArray[Any]) -> None:
    if a.shape != b.shape or a.ndim != 4 or a.dtype != np.uint8 or b.dtype != np.uint8:
        raise InputError(
            "pairs are (n, height, width, channels) uint8 of one shape, "
            f"found {a.dtype} {a.shape} and {b.dtype} {b.shape}"
        )
