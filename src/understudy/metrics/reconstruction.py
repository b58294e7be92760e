"""Reconstruction: how much of each private image can be read off the release?

The attack is the best there is without knowing the mechanism: for every private image, the
synthetic one that comes nearest to it. The same for held-out images says how much of any image
of the kind can be found in a release of this size.

By how alike two images are, pixel by pixel: MSE, PSNR and SSIM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Interval, Metric
from understudy.core.types import Images, Labels, Vector
from understudy.metrics.nearest_neighbours import RowProgress, clouds, nearest_rows, row_blocks
from understudy.metrics.roc import clopper_pearson

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


_NUMBERS = 2**25
"""Pixel values of the release that are made ready at once: 256 MB."""


_MATCHES = (
    "Every private image is compared with the synthetic one most like it: what could be rebuilt of "
    "it. Held-out images find matches as good where nothing was copied. "
)

MATCH_PSNR = Metric(
    key="reconstruction_psnr",
    group="leakage",
    name="reconstruction: PSNR of the best match in dB, median",
    explanation=f"{_MATCHES}PSNR: how alike two images are by squared error, in decibels; "
    "infinite: equal.",
    better="lower",
    baseline="held-out real records",
)

MATCH_SSIM = Metric(
    key="reconstruction_ssim",
    group="leakage",
    name="reconstruction: SSIM of the best match, median",
    explanation=f"{_MATCHES}SSIM: how alike two images are in brightness, contrast and structure. "
    "1: equal.",
    better="lower",
    baseline="held-out real records",
)

MATCHED_BETTER = Metric(
    key="reconstruction_matched_better",
    group="leakage",
    name="reconstruction: matched better than 99 % of held-out records are",
    explanation=f"{_MATCHES}Part of the private images that are matched better than 99 % of "
    "held-out ones: as many as chance gives where nothing was copied.",
    better="lower",
    unit="%",
    baseline="chance",
)


@dataclass(frozen=True, slots=True)
class Matches:
    """The synthetic image that comes nearest to each real one.

    Attributes:
        rows: (n,) which synthetic image.
        mse: (n,) mean squared difference of the pixels, 0 to 255 squared.
        ssim: (n,) structural similarity of the two, 1 for the same image.
    """

    rows: Labels
    mse: Vector
    ssim: Vector

    @property
    def psnr(self) -> Vector:
        """(n,) peak signal-to-noise ratio in decibels; infinite for a copy."""
        return decibels(self.mse)


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """Best matches over the release, of private and of held-out images. Owner-only.

    Attributes:
        private: Of the private images.
        held_out: Of real images that were not in the private data.
    """

    private: Matches
    held_out: Matches

    @property
    def closer(self) -> Interval:
        """Part of the private images matched better than all but 1 % of held-out ones.

        `chance` where nothing leaks. Clopper and Pearson's interval, the threshold taken as given.
        """
        near = self.private.mse < np.quantile(self.held_out.mse, 0.01)
        return Interval(float(near.mean()), *clopper_pearson(int(near.sum()), len(near)))

    @property
    def chance(self) -> float:
        """What `closer` comes to on average where private images are drawn as held-out ones are.

        A part k / (m + 1) of all images lies below the k-th of m held-out ones.
        """
        count = len(self.held_out.mse)
        return (1 + 0.01 * (count - 1)) / (count + 1)


def reconstruct(
    private: Images, release: Images, held_out: Images, *, progress: RowProgress | None = None
) -> Reconstruction:
    """The best match over the release for every private and every held-out image.

    Nearest by the mean squared difference; SSIM is of that match. Memory does not grow with the
    release beyond 256 MB.

    Args:
        private: (p, height, width, channels) uint8, at least 11 x 11 pixels.
        release: (n, ...) of the same shape.
        held_out: (m, ...) of the same shape, not in the private data.
        progress: Told how many of the p + m images are done.

    Raises:
        InputError: An empty set, other shapes, or images too small for SSIM.
    """
    for name, images in (("private", private), ("synthetic", release), ("held-out", held_out)):
        if images.ndim != 4 or not len(images) or images.shape[1:] != private.shape[1:]:
            raise InputError(
                "images of one size and colour are compared, one or more of each kind: the "
                f"{name} ones have shape {images.shape}, the private ones {private.shape}"
            )
    return Reconstruction(
        _matches(private, release, progress), _matches(held_out, release, progress)
    )


def _matches(images: Images, release: Images, progress: RowProgress | None) -> Matches:
    rows = np.zeros(len(images), dtype=np.int64)
    for mine in row_blocks(len(images)):
        rows[mine] = _best(images[mine], release)
        if progress is not None:
            progress(mine.stop - mine.start)
    nearest = release[rows]
    return Matches(rows, mse(images, nearest), ssim(images, nearest))


def _best(images: Images, release: Images) -> Labels:
    """The nearest synthetic image of each, the first of equals."""
    flat = images.reshape(len(images), -1)
    part = max(1, _NUMBERS // flat.shape[1])
    rows = np.zeros(len(images), dtype=np.int64)
    least = np.full(len(images), np.inf)
    for start in range(0, len(release), part):
        there, mine = clouds(release[start : start + part].reshape(-1, flat.shape[1]), flat)
        nearest, distances = (each[:, 0] for each in nearest_rows(mine, there))
        nearer = distances < least
        rows[nearer], least[nearer] = nearest[nearer] + start, distances[nearer]
    return rows
