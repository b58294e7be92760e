"""PIQE, an image's quality from its own blocks, without a model (Venkatanath et al. 2015).

A block of 16 x 16 with enough activity counts. It is *impaired* where a stretch of its border is
flat, as blockiness and blur leave it, and *noisy* where its deviation is near the ratio of its
centre's to its surround's. The score is the share of the active blocks' variance that speaks of
damage: 0 is best, 100 is worst, and a uniform image has 100. Photographs have about 15 to 55.

It is made for photographs. A drawing's flat faces pass for damage, and noise on them for a cure:
for such images take NIQE, with a model fitted to good ones.

Where the paper leaves a choice, this follows MATLAB's ``piqe`` and its ports, so that scores
compare: on photographs they agree with pypiqe's to rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Images, Vector
from understudy.steps.mscn import Planes, blocks, check_images, chunks, gaussian_taps, normalize

SIDE = 16
"""Pixels a side of a block, and the smallest side an image may have."""

_ACTIVE = 0.1  # a block counts above this variance
_FLAT = 0.1  # a stretch of the border is flat below this deviation
_STRETCH = 6  # pixels of a stretch
_CENTRE = [7, 8]
# The paper's surround is every column but the two of the centre. The published implementations drop
# the second one's right neighbour in its place; scores are only comparable if this does too.
_SURROUND = [column for column in range(SIDE) if column not in (7, 9)]
# ITU-R BT.601 (0.299, 0.587, 0.114) to 15 bits, as OpenCV rounds it.
_GREY = np.array([9798, 19235, 3735]) / 2**15


def piqe(images: Images) -> Vector:
    """PIQE of each image; lower is better.

    ``images``: (n, height, width, 1 or 3) uint8, at least 16 x 16. Where a side is no multiple of
    16, its end is mirrored.

    Returns:
        (n,) float64, from 0 to 100.

    Raises:
        InputError: Another shape or type, or smaller images.
    """
    check_images(images, "PIQE")
    if min(images.shape[1:3]) < SIDE:
        raise InputError(
            f"PIQE takes images of at least {SIDE} x {SIDE} pixels, "
            f"found {images.shape[1]} x {images.shape[2]}: enlarge them or leave the filter out"
        )
    scores = np.empty(len(images))
    for part in chunks(images):
        squares = blocks(normalize(_planes(images[part]), gaussian_taps())[0], SIDE)
        variance = squares.var(axis=(3, 4), ddof=1)
        active = variance > _ACTIVE
        impaired, noisy = active & _has_flat_border(squares), active & _is_noisy(squares, variance)
        harm = impaired * (1 - variance) + noisy * variance
        # One more above and below, against a division by zero.
        scores[part] = 100 * (harm.sum(axis=(1, 2)) + 1) / (active.sum(axis=(1, 2)) + 1)
    return scores


def _planes(images: Images) -> Planes:
    """Grey, mirrored to whole blocks, each image's brightest pixel at 255."""
    grey = images[..., 0] if images.shape[3] == 1 else np.floor(images @ _GREY + 0.5)
    brightest = np.maximum(grey.max(axis=(1, 2), keepdims=True), 1)
    scaled = np.rint(255 * (grey / brightest))
    down, right = (-side % SIDE for side in images.shape[1:3])
    return np.pad(scaled, ((0, 0), (0, down), (0, right)), mode="symmetric")


def _has_flat_border(squares: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether 6 pixels in a row, on any of the four borders, hardly vary."""
    borders = np.stack(
        [squares[..., 0, :], squares[..., -1, :], squares[..., 0], squares[..., -1]], axis=3
    )
    stretches = np.lib.stride_tricks.sliding_window_view(borders, _STRETCH, axis=4)
    return np.asarray((stretches.std(axis=5, ddof=1) < _FLAT).any(axis=(3, 4)))


def _is_noisy(squares: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the deviation is near the ratio of the centre's to the surround's, as in noise."""
    deviation = np.sqrt(variance)
    centre = squares[..., _CENTRE].std(axis=(3, 4), ddof=1)
    surround = squares[..., _SURROUND].std(axis=(3, 4), ddof=1)
    # A flat surround makes the ratio 0/0 or infinite: the first is 0, the second is not noise.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = centre / surround
        ratio[np.isnan(ratio)] = 0.0
        beta = np.abs(deviation - ratio) / np.maximum(deviation, ratio)
        return np.asarray(deviation > 2 * beta)
