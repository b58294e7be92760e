"""A background without its objects: holes on a coarse grid, filled with what is behind them.

What leaks first is the hole, not the object. An exact outline tells a classifier the status every
time, and so does a seam where the fill begins. So a hole is made of cells of a coarse grid, all
photos of a camera share one hole, and it is filled from the photos in which the place was free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Images, Masks, Vector
from understudy.methods.sanitize.segments import Remnants, grown, instances
from understudy.methods.sanitize.wire_items import FILL

RemnantSearch = Callable[[Images, Sequence[str], Masks], Remnants]
"""What `SecondLook` does: images, nouns of what must not be in them, filler; what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoleSettings:
    """How objects are taken out of a background.

    Attributes:
        grid: Pixels a side of the cells that a hole is made of.
        distance: Pixels between an object's box and the nearest pixel that a fill may be made of.
        shared: All photos have the same hole, the union of theirs: no hole tells of one photo.
        rounds: How often what a second look finds is taken out, too, before it decides.
    """

    grid: int = 16
    distance: int = 4
    shared: bool = True
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Backgrounds:
    """Backgrounds that may be sent, and what the owner should know of them.

    Attributes:
        images: (n, height, width, channels) uint8, holes filled.
        holes: (n, height, width) bool: what is not of the photo itself. Owner-only.
        hidden: (n, height, width) bool: what the holes are about, found by both searches.
            Owner-only.
        unseen: Part of the pixels that were free in no photo, so that they are smoothed.
        remnants: What the second look found; images that are held back must not be sent.
    """

    images: Images
    holes: Masks
    hidden: Masks
    unseen: float
    remnants: Remnants


def backgrounds(
    photos: Images,
    hidden: Masks,
    nouns: Sequence[str],
    second_look: RemnantSearch,
    *,
    settings: HoleSettings,
    hole: Masks | None = None,
) -> Backgrounds:
    """The photos of one camera without the objects, and what a second look at them finds.

    Args:
        photos: (n, height, width, channels) uint8 of one camera.
        hidden: (n, height, width): everything that may belong to an object that stays home.
        nouns: Of these objects, for the second look.
        second_look: Searches the results.
        settings: Of the holes.
        hole: (height, width) pixels that are of the hole in any case: of what was sent before.

    Raises:
        InputError: Masks of another shape.
    """
    if hidden.shape != photos.shape[:3] or not len(photos):
        raise InputError(f"every photo has its mask: {photos.shape[:3]} bool, found {hidden.shape}")
    for last in range(settings.rounds, -1, -1):
        holes = holes_of(hidden, settings)
        if hole is not None:
            holes = holes | hole
        images, unseen = _filled(photos, hidden, holes, settings.distance)
        filler = np.broadcast_to(unseen, holes.shape)
        remnants = second_look(images, nouns, filler)
        if not remnants.held_back.any() or not last:
            break
        more = remnants.masks
        if settings.shared:  # the fill is the same in all of them
            more = more | (more & holes).any(axis=0)
        hidden = hidden | grown(more, settings.distance)
    return Backgrounds(images, holes, hidden, float(unseen.mean()), remnants)


def holes_of(hidden: Masks, settings: HoleSettings) -> Masks:
    """(n, height, width): the cells of the grid that the box of any piece of an object touches."""
    holes = _boxed(hidden, settings.grid, 0)
    return np.broadcast_to(holes.any(axis=0), holes.shape) if settings.shared else holes


def _boxed(hidden: Masks, grid: int, margin: int) -> Masks:
    """The boxes of all pieces, grown by a margin, then to the lines of a grid."""
    boxes = np.zeros_like(hidden)
    height, width = hidden.shape[1:]
    for mask, box in zip(hidden, boxes, strict=True):
        for left, top, right, bottom in instances(mask, least=1).boxes.astype(np.int64):
            rows = _snapped(top - margin, bottom + margin, grid, height)
            columns = _snapped(left - margin, right + margin, grid, width)
            box[rows, columns] = True
    return boxes


def _snapped(low: int, high: int, grid: int, side: int) -> slice:
    """The lines of a grid about a stretch, inside the image."""
    return slice(max(0, low // grid * grid), min(side, -(-high // grid) * grid))


def _filled(
    photos: Images, hidden: Masks, holes: Masks, distance: int
) -> tuple[Images, NDArray[np.bool_]]:
    """The photos with their holes filled, and (height, width): the pixels that none had free."""
    free = ~_boxed(hidden, 1, distance)
    behind, seen_free = _behind(photos, free)
    unseen = ~seen_free & holes.any(axis=0)
    if unseen.any():
        behind = _smoothed(behind, unseen)
    images = photos.copy()
    for image, hole in zip(images, holes, strict=True):
        if hole.any():
            gain = _gain(image, behind, ~hole)
            fill = np.clip(behind[hole] * gain, 0, 255)
            image[hole] = np.rint(fill).astype(np.uint8)
    return images, unseen


def _behind(photos: Images, free: Masks) -> tuple[Vector, NDArray[np.bool_]]:
    """What the camera sees where nothing stands: the median of the photos in which it is free.

    Returns:
        (height, width, channels) float64 in the light of an average photo, and where any is free.
    """
    values = np.where(free[..., None], photos.astype(np.float64), np.nan)
    ever = np.asarray(free.any(axis=0))
    behind = _median(values, ever)
    gains = np.stack(
        [_gain(behind, photo, mask & ever) for photo, mask in zip(values, free, strict=True)]
    )
    return _median(values * gains[:, None, None], ever), ever


def _median(values: Vector, ever: NDArray[np.bool_]) -> Vector:
    """Over the photos, without those that are NaN there; 0 where all are."""
    result = np.zeros(values.shape[1:])
    result[ever] = np.nanmedian(values[:, ever], axis=0)
    return result


def _gain(image: NDArray[Any], other: NDArray[Any], where: NDArray[np.bool_]) -> Vector:
    """(channels,): how much brighter an image is than another, by pixels outside of its hole."""
    if where.sum() < 0.02 * where.size:
        return np.ones(image.shape[2])
    one, two = image[where].astype(np.float64), other[where].astype(np.float64)
    ratio = np.median(one, axis=0) / np.maximum(np.median(two, axis=0), 1)
    return np.asarray(np.clip(ratio, 0.5, 2))


def _smoothed(image: Vector, unseen: NDArray[np.bool_]) -> Vector:
    """Pixels that are unseen as means of the others, from ever smaller images (pull and push)."""
    if unseen.all():
        return np.full_like(image, FILL)
    values = np.concatenate([np.where(unseen[..., None], 0.0, image), ~unseen[..., None]], axis=2)
    soft = scipy.ndimage.gaussian_filter(_pushed(values), (1.5, 1.5, 0))
    return np.where(unseen[..., None], soft, image)


def _pushed(values: Vector) -> Vector:
    """(height, width, channels): values over their weights, the last channel; gaps are filled."""
    weight = values[..., -1:]
    own = values[..., :-1] / np.maximum(weight, 1e-9)
    if weight.min() > 0:
        return np.asarray(own)
    height, width = weight.shape[:2]
    even = np.pad(values, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    coarse = _pushed((even[::2] + even[1::2])[:, ::2] + (even[::2] + even[1::2])[:, 1::2])
    wider = coarse.repeat(2, axis=0).repeat(2, axis=1)[:height, :width]
    wider = scipy.ndimage.gaussian_filter(wider, (1, 1, 0), mode="nearest")
    return np.where(weight > 0, own, wider)
