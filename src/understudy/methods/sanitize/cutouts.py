"""Objects without their surroundings: cut out of images, placed, and laid on a room.

A box is that of the pixels that are seen of the object at the end: exact to the pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from PIL import Image

from understudy.core.ports import Segmenter
from understudy.core.types import Images, Masks
from understudy.methods.sanitize.segments import belongings_of, classes_of

SUPPORTS = ("floor", "furniture", "rug", "table", "bed", "sofa", "couch", "dining table", "chair")
"""Classes of a segmenter that things stand on."""
_TRIES = 30  # places that are drawn; the last one is taken where none is free
_NEAR = 3  # pixels within which a belonging belongs to an object


@dataclass(frozen=True, slots=True, eq=False)
class Cutout:
    """One object: the smallest image about its pixels.

    Attributes:
        image: (h, w, 3) uint8.
        mask: (h, w) bool: its pixels.
        centre: (2,) x and y of its middle in the image it was cut out of, in parts of the side.
        share: Its longer side in that image, in parts of the side.
        at_rim: Whether the image cut it off at its left, right or upper side.
    """

    image: NDArray[np.uint8]
    mask: NDArray[np.bool_]
    centre: tuple[float, float]
    share: float
    at_rim: bool

    @classmethod
    def of(cls, image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> Cutout | None:
        """The object of a mask; None where that is empty."""
        if not mask.any():
            return None
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
        side = len(mask)
        return cls(
            image[top:bottom, left:right].copy(),
            mask[top:bottom, left:right].copy(),
            ((left + right) / 2 / side, (top + bottom) / 2 / side),
            max(bottom - top, right - left) / side,
            bool(left == 0 or right == side or top == 0),
        )

    def scaled(self, share: float, side: int, *, mirrored: bool) -> Cutout:
        """The object with a longer side of so many parts of ``side``."""
        factor = share * side / max(self.mask.shape)
        size = [max(2, round(length * factor)) for length in self.mask.shape[::-1]]
        # Colours of the surroundings must not bleed in: they are averaged by the mask's weight.
        weight = Image.fromarray(self.mask.astype(np.float32)).resize(size, Image.Resampling.BOX)
        planes = [
            Image.fromarray(np.where(self.mask, self.image[..., k], 0).astype(np.float32))
            for k in range(3)
        ]
        resized = [np.asarray(plane.resize(size, Image.Resampling.BOX)) for plane in planes]
        cover = np.asarray(weight)
        mask = cover >= 0.5
        colours = np.stack(resized, axis=2) / np.maximum(cover, 1e-3)[..., None]
        image = np.where(mask[..., None], np.clip(np.rint(colours), 0, 255), 0).astype(np.uint8)
        if mirrored:
            image, mask = image[:, ::-1], mask[:, ::-1]
        return Cutout(image, mask, self.centre, share, self.at_rim)


def cut_out(images: Images, noun: str, segmenter: Segmenter, *, belongings: bool = False) -> Masks:
    """(n, height, width): the largest piece of an object in each image.

    With ``belongings`` a bowl, a ball, a book that touches it, too: what tells what it is doing.
    """
    maps = segmenter.segment(images)
    own = [segmenter.classes.index(name) for name in classes_of(noun, segmenter.classes)]
    its = [segmenter.classes.index(name) for name in belongings_of(noun, segmenter.classes)]
    masks = np.isin(maps, own)
    for mask, where in zip(masks, maps, strict=True):
        mask[...] = _largest(mask)
        if belongings and its and mask.any():
            near = scipy.ndimage.binary_dilation(mask, iterations=_NEAR)
            labels, _ = scipy.ndimage.label(np.isin(where, its))
            touching = np.unique(labels[near & (labels > 0)])
            mask |= np.isin(labels, touching) & (labels > 0)
    return masks


def object_pixels(images: Images, noun: str, segmenter: Segmenter) -> Masks:
    """(n, height, width): everything that the segmenter takes for the object."""
    own = [segmenter.classes.index(name) for name in classes_of(noun, segmenter.classes)]
    return np.isin(segmenter.segment(images), own)


def supports(images: Images, segmenter: Segmenter) -> Masks:
    """(n, height, width): pixels that something can stand on; the lower half where none is."""
    bearers = [k for k, name in enumerate(segmenter.classes) if name.split(",")[0] in SUPPORTS]
    masks = np.isin(segmenter.segment(images), bearers)
    lower = np.arange(images.shape[1])[:, None] >= images.shape[1] // 2
    return np.where(masks.any(axis=(1, 2), keepdims=True), masks, lower)


def _largest(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    labels, count = scipy.ndimage.label(mask, np.ones((3, 3)))
    if count == 0:
        return mask
    areas = np.bincount(labels.ravel())[1:]
    return np.asarray(labels == 1 + areas.argmax())


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where a cutout lies in an image: its upper left corner, inside of it."""

    cutout: Cutout
    left: int
    top: int

    @property
    def area(self) -> tuple[slice, slice]:
        """Rows and columns of the image."""
        height, width = self.cutout.mask.shape
        return slice(self.top, self.top + height), slice(self.left, self.left + width)


def placed(
    cutout: Cutout,
    side: int,
    rng: np.random.Generator,
    *,
    support: NDArray[np.bool_] | None = None,
    occupancy: NDArray[np.bool_] | None = None,
    anywhere: bool = False,
) -> Placement:
    """A random place for a cutout, the foot of it on a support.

    Args:
        cutout: At its size; it is made smaller where it is larger than the image.
        side: Pixels a side of the image.
        rng: Draws the place.
        support: (side, side) of pixels that things stand on; None: near the height it had.
        occupancy: (side, side) of pixels of other objects, of which it is to cover few.
        anywhere: Every place in the image is as likely as another, whatever bears it.
    """
    if max(cutout.mask.shape) > side:
        cutout = cutout.scaled(1.0, side, mirrored=False)
    height, width = cutout.mask.shape
    feet = None if support is None else np.argwhere(support[min(height, side) - 1 :])
    best = Placement(cutout, 0, side - height)
    for _ in range(_TRIES):
        if anywhere:
            foot = int(rng.integers(height, side + 1))
            left = int(rng.integers(0, side - width + 1))
        elif feet is None or not len(feet):
            shift = rng.uniform(-0.08, 0.08)
            foot = round((cutout.centre[1] + shift) * side + height / 2)
            left = int(rng.integers(0, side - width + 1))
        else:
            row, column = feet[int(rng.integers(len(feet)))]
            foot, left = int(row) + min(height, side), int(column) - width // 2
        top = min(max(foot - height, 0), side - height)
        best = Placement(cutout, min(max(left, 0), side - width), top)
        if (
            occupancy is None
            or (occupancy[best.area] & cutout.mask).sum() <= 0.1 * cutout.mask.sum()
        ):
            break
    return best


def laid_on(
    room: NDArray[np.uint8], placements: Sequence[Placement]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Objects on a room, the later ones in front.

    Returns:
        (side, side, 3) uint8, and (side, side): the number of the object at each pixel, -1 where
        the room is.
    """
    image, owners = room.copy(), np.full(room.shape[:2], -1, np.int64)
    for number, one in enumerate(placements):
        image[one.area][one.cutout.mask] = one.cutout.image[one.cutout.mask]
        owners[one.area][one.cutout.mask] = number
    return image, owners


def softened(image: NDArray[np.uint8], owners: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Objects whose outermost pixels are one third the room's: no edge that only pasting makes.

    ``image``: (side, side, 3) uint8; ``owners``: (side, side) of `laid_on`.
    """
    inside = owners >= 0
    if inside.all() or not inside.any():
        return image
    rim = inside & scipy.ndimage.binary_dilation(~inside)
    rows, columns = scipy.ndimage.distance_transform_edt(
        inside, return_distances=False, return_indices=True
    )
    blend = (image.astype(np.int64) * 2 + image[rows, columns]) // 3
    return np.where(rim[..., None], blend, image).astype(np.uint8)


def box_of(mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """(4,) left, top, right and bottom of the pixels of a mask that is not empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], np.float32)
