"""NIQE: how far an image's statistics lie from those of pristine images (Mittal et al. 2013).

Each block of an image gives 36 numbers: at two scales, the shape of its MSCN coefficients and of
the products of neighbours in four directions. A Gaussian over these, fitted to the sharp blocks of
good *public* images, is the model; the score is a distance between it and the Gaussian over a
image's own blocks. Lower is better; photographs have about 2 to 6 with the published model.

Scores under different models do not compare, and a model holds for one size of block, so it keeps
its window and its block. On photographs the scores are BasicSR's to 0.004, which is the rounding of
its float32 in flat patches; here such patches are exactly zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Images, Vector
from understudy.steps.mscn import Planes, blocks, check_images, chunks, gaussian_taps, normalize
from understudy.steps.niqe_model import FEATURES, SMALLEST_BLOCK, NiqeModel, check_block

__all__ = ["NiqeModel", "fit_niqe", "niqe"]

_LUMA = np.array([65.481, 128.553, 24.966]) / 255  # Y of YCbCr: ITU-R BT.601, 16 to 235
_SHARPNESS = 0.75  # a block counts above this share of its image's largest mean local deviation
_NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))
# Bicubic weights for half the size, antialiased: the kernel (a = -0.5) is stretched by 2 and lies
# between two pixels, as in MATLAB's imresize.
_HALF = np.array([-3, -9, 29, 111, 111, 29, -9, -3]) / 256


def niqe(images: Images, model: NiqeModel) -> Vector:
    """NIQE of each image; lower is better.

    ``images``: (n, height, width, 1 or 3) uint8; at least two of the model's blocks. RGB is read as
    its luma from 16 to 235, grey as it is; what remains beside whole blocks is cropped.

    Returns:
        (n,) float64, 0 or more; infinite where no block has any texture. Flat blocks say nothing;
        where all but one are flat, the image's own covariance counts as zero.

    Raises:
        InputError: Another shape or type, or images too small for the model.
    """
    check_images(images, "NIQE")
    _check_size(images, model.block, least=2)
    scores = np.empty(len(images))
    for part in chunks(images):
        features, _ = _examine(images[part], model.taps, model.block)
        scores[part] = _distances(features, model)
    return scores


def fit_niqe(batches: Iterable[Images], *, block: int) -> NiqeModel:
    """A pristine model from public images: never from private ones, it is not made private.

    ``batches``: batches of (n, height, width, 1 or 3) uint8, which may differ in size. ``block``:
    pixels a side, even: 96 for photographs of some 500 pixels, 16 for 64 x 64.

    Raises:
        InputError: An unusable block, images too small, or too few sharp blocks to fit.
    """
    check_block(block)
    taps, parts = gaussian_taps(), [np.empty((0, FEATURES))]
    for images in batches:
        check_images(images, "NIQE")
        _check_size(images, block, least=1)
        for part in chunks(images):
            features, sharp = _examine(images[part], taps, block)
            features = features[sharp > _SHARPNESS * sharp.max(axis=1, keepdims=True)]
            parts.append(features[np.isfinite(features).all(axis=1)])
    rows = np.concatenate(parts)
    if len(rows) <= FEATURES:
        raise InputError(
            f"a NIQE model needs more than {FEATURES} sharp blocks, found {len(rows)} of "
            f"{block} x {block}: give more or larger images, or a smaller block"
        )
    covariance = np.cov(rows, rowvar=False)
    return NiqeModel(rows.mean(axis=0), covariance, np.outer(taps, taps), block)


def _check_size(images: Images, block: int, least: int) -> None:
    height, width = images.shape[1:3]
    if (height // block) * (width // block) >= least:
        return
    actual = f"found {height} x {width} pixels for a model of {block} x {block}"
    fits = min(height, width) // 4 // 2 * 2
    if max(fits, SMALLEST_BLOCK) * 2 > min(height, width):
        raise InputError(
            f"NIQE needs {least} whole block(s) in an image, {actual}: use larger images, at least "
            f"{2 * SMALLEST_BLOCK} x {2 * SMALLEST_BLOCK}, or PIQE"
        )
    raise InputError(
        f"NIQE needs {least} whole block(s) in an image, {actual}: use a model with a smaller "
        f"block, such as {max(fits, SMALLEST_BLOCK)} (understudy studio fit-niqe --block fits one)"
    )


def _examine(images: Images, taps: Vector, block: int) -> tuple[Vector, Vector]:
    """Features (n, k, 36) of the k whole blocks of each image, and their sharpness (n, k)."""
    planes = images[..., 0].astype(np.float64)
    if images.shape[3] == 3:
        # Rounded, as luma is where it is stored as an image.
        planes = np.rint(images @ _LUMA + 16)
    n, height, width = planes.shape
    planes = planes[:, : height // block * block, : width // block * block]
    coefficients, deviation = normalize(planes, taps)
    fine = _features(blocks(coefficients, block))
    coarse = _features(blocks(normalize(_halved(planes), taps)[0], block // 2))
    sharp = blocks(deviation, block).mean(axis=(3, 4))
    return np.concatenate([fine, coarse], axis=2), sharp.reshape(n, -1)


def _halved(planes: Planes) -> Planes:
    """Half the height and width (both even), bicubic; borders are mirrored."""
    _, height, width = planes.shape
    tall = np.pad(planes, ((0, 0), (3, 3), (0, 0)), mode="symmetric")
    low = sum(w * tall[:, i : i + height : 2] for i, w in enumerate(_HALF))
    wide = np.pad(np.asarray(low), ((0, 0), (0, 0), (3, 3)), mode="symmetric")
    return np.asarray(sum(w * wide[:, :, i : i + width : 2] for i, w in enumerate(_HALF)))


def _features(squares: NDArray[np.float64]) -> Vector:
    """The 18 numbers of one scale: (n, rows, columns, side, side) to (n, k, 18)."""
    n, rows, columns, side, _ = squares.shape
    squares = squares.reshape(n, rows * columns, side, side)
    alpha, left, right, _ = _asymmetric_gaussian(squares)
    numbers = [alpha, (left + right) / 2]
    for shift in _NEIGHBOURS:
        alpha, left, right, spread = _asymmetric_gaussian(
            squares * np.roll(squares, shift, axis=(2, 3))
        )
        numbers += [alpha, (right - left) * spread, left, right]  # Eq. 8: the mean
    return np.stack(numbers, axis=2)


@cache
def _table() -> tuple[Vector, Vector, Vector, Vector]:
    """A grid of alpha, and on it the moment ratio (growing), beta / deviation, mean / beta."""
    alpha = np.arange(0.2, 10.001, 0.001)
    first, second, third = (
        scipy.special.gamma(1 / alpha),
        scipy.special.gamma(2 / alpha),
        scipy.special.gamma(3 / alpha),
    )
    return alpha, second**2 / (first * third), np.sqrt(first / third), second / first


def _asymmetric_gaussian(values: NDArray[np.float64]) -> tuple[Vector, Vector, Vector, Vector]:
    """Fits of an asymmetric generalized Gaussian, by its moments (Lasmar et al. 2009).

    Returns:
        alpha, left beta, right beta, and the mean per difference of the betas, each (n, k). Without
        values of a sign its beta is NaN, and alpha the grid's first: as published.
    """
    values = values.reshape(*values.shape[:2], -1)
    above = np.maximum(values, 0)
    below = above - values
    right, left = (np.einsum("nkp,nkp->nk", side, side) for side in (above, below))
    size = values.shape[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (above + below).mean(axis=2) ** 2 / ((left + right) / size)
        right = np.sqrt(right / (above > 0).sum(axis=2))
        left = np.sqrt(left / (below > 0).sum(axis=2))
        skew = left / right
        target = ratio * (skew**3 + 1) * (skew + 1) / (skew**2 + 1) ** 2
    grid, ratios, scale, spread = _table()
    index = np.asarray(np.searchsorted(ratios, target)).clip(1, len(grid) - 1)
    index -= target - ratios[index - 1] <= ratios[index] - target
    index[np.isnan(target)] = 0
    return grid[index], left * scale[index], right * scale[index], spread[index]


def _distances(features: Vector, model: NiqeModel) -> Vector:
    """Eq. 10, of the (n, k, 36) features of each image's blocks."""
    finite = np.isfinite(features)
    counts = finite.sum(axis=1)
    mean = np.where(finite, features, 0).sum(axis=1) / np.maximum(counts, 1)
    whole = np.asarray(finite.all(axis=2))
    count = whole.sum(axis=1)
    some = np.maximum(count, 1)[:, None]
    centred = np.where(whole[:, :, None], features, 0)
    centred -= whole[:, :, None] * (centred.sum(axis=1) / some)[:, None]
    scatter = centred.transpose(0, 2, 1) @ centred
    covariance = scatter / np.maximum(count - 1, 1)[:, None, None]
    inverse = np.linalg.pinv((model.cov + covariance) / 2, hermitian=True)
    apart = mean - model.mu
    squared = np.einsum("ni,nij,nj->n", apart, inverse, apart)
    return np.where(counts.all(axis=1), np.sqrt(np.maximum(squared, 0)), np.inf)
