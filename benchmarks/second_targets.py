"""Images that show their target twice: laid on, and how often a segmenter sees two pieces.

A segmenter's mask in two pieces is no second target: a person whom a book cuts in two has one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Segmenter
from understudy.core.types import Images, Masks
from understudy.methods.sanitize.cutouts import (
    Cutout,
    Placement,
    cut_out,
    laid_on,
    object_pixels,
    softened,
)
from understudy.methods.sanitize.segments import instances

SIDE = 64
LEAST = SIDE * SIDE // 100  # pixels of a second target at least


def in_pieces(images: Images, noun: str, segmenter: Segmenter) -> NDArray[np.bool_]:
    """(n,): whether the segmenter sees the object of the mirror image in two pieces or more."""
    mirrored = np.ascontiguousarray(images[:, :, ::-1])
    masks = object_pixels(mirrored, noun, segmenter)
    return np.array([len(instances(mask, least=LEAST).boxes) > 1 for mask in masks])


def with_seconds(images: Images, noun: str, segmenter: Segmenter) -> Images:
    """Images that show the target of another one as well."""
    rng = np.random.default_rng(1)
    masks = cut_out(images, noun, segmenter, belongings=True)
    results = []
    for row, other in enumerate(rng.permutation(len(images))):
        second = Cutout.of(images[other], masks[other])
        if second is not None and (pair := with_second(images[row], masks[row], second, rng)):
            results.append(pair[0])
    return np.stack(results)


def with_second(
    image: NDArray[np.uint8], first: Masks, second: Cutout, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], Masks] | None:
    """The image with a second target of 2 % of its pixels or more, and where that is.

    It covers a quarter of the first one at most; None where no place was found.
    """
    for _ in range(40):
        size = second.share * rng.uniform(0.4, 1.0)
        one = second.scaled(min(size, 0.95), SIDE, mirrored=bool(rng.random() < 0.5))
        height, width = one.mask.shape
        top = int(rng.integers(min(SIDE // 3, SIDE - height), SIDE - height + 1))
        place = Placement(one, int(rng.integers(SIDE - width + 1)), top)
        pasted, owners = laid_on(image, [place])
        mask = owners >= 0
        if (mask & ~first).sum() >= 2 * LEAST and (mask & first).sum() <= first.sum() / 4:
            return softened(pasted, owners), mask
    return None
