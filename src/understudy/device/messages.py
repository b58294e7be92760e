"""What would leave of the photos of one camera, photo by photo and part by part, as items.

The same is made of the owner's photos, and of public homes that attackers learn from. Objects are
always taken out of a background; those of a lower level than the background's are searched for
once more in it, and in the segments of less private objects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Images, Masks
from understudy.device.parcel import drawn_item
from understudy.device.preferences import Preferences
from understudy.methods.sanitize.background import (
    Backgrounds,
    HoleSettings,
    RemnantSearch,
    backgrounds,
)
from understudy.methods.sanitize.sanitizers import PhotoPart, Sanitizer, items_of
from understudy.methods.sanitize.segments import Remnants, Segments
from understudy.methods.sanitize.wire_items import FILL, Item, decode_item, encode_item
from understudy.metrics.fingerprints import area_means

_COPY_CELLS, _COPY_CELL_DIFFERENCE, _COPY_DIFFERENCE_SHARE = 8, 12.0, 0.25
"""A photo is another one encoded again where the means of 8 x 8 cells differ by 12 of 255 at most,
and its pixels by a quarter of their own standard deviation. JPEG of quality 30 reached 9.6 and 0.22
in 88 photos and drawn rooms; two photos of one home had 51 and 0.49 or more."""


@dataclass(frozen=True, slots=True)
class CameraMessages:
    """What would leave of each photo.

    Attributes:
        items: For each part above L0, by its number, one item a photo; None where the photo has
            nothing to send of it.
        images: For each of these parts (n, side, side, 3) uint8, drawn from the items' bytes; black
            where there is none.
        held_back: (n,) bool: photos in which something was found that stays home.
        unseen: Part of the pixels that is free in no photo, so that a background is smooth there.
        hole: (side, side) bool: the hole of all backgrounds; None where none is sent.
    """

    items: Mapping[int, tuple[Item | None, ...]]
    images: Mapping[int, Images]
    held_back: NDArray[np.bool_]
    unseen: float
    hole: Masks | None = None

    def usable(self, part: int) -> NDArray[np.bool_]:
        """(n,) bool: photos of which an item of the part may be sent."""
        present = np.array([item is not None for item in self.items[part]], dtype=bool)
        return np.asarray(present & ~self.held_back)


def camera_messages(
    images: Images,
    segments: Segments,
    preferences: Preferences,
    sanitizers: Mapping[int, Sanitizer],
    look: RemnantSearch,
    *,
    seeds: Sequence[int] = (),
    count: int | None = None,
    hole: Masks | None = None,
) -> CameraMessages:
    """The messages of some photos of one camera, whether they may be sent or not.

    Args:
        images: (n, side, side, 3) uint8.
        segments: Where the objects are, in the order of the request.
        preferences: What may leave of each part.
        sanitizers: Of the parts above L0, by their numbers.
        look: Searches what would be sent for what stays home.
        seeds: Of each photo, for what is random in a sanitizer; () for photos that anybody knows.
        count: Backgrounds that would be sent: those of the first photos of which one may be. The
            others have none, and no pixel of theirs is in any. None: all, each of them made of all.
        hole: (side, side) bool: pixels of backgrounds that were holes in what was sent before. Two
            holes of a photo would tell more of its object: what is hidden once stays hidden.
    """
    request, levels = preferences.request, preferences.levels
    seeds = seeds or range(len(images))
    held_back = np.zeros(len(images), dtype=bool)
    items: dict[int, tuple[Item | None, ...]] = {}
    unseen = 0.0
    for number in sorted(request.disclosed, reverse=True):  # the background last
        level = request.parts[number].level
        private = [n for n, own in zip(preferences.nouns, levels, strict=True) if own < level]
        rows = np.arange(len(images))
        if number == 0:
            hidden = np.asarray(segments.hidden.any(axis=0))
            rows, room, held_back = _chosen_backgrounds(
                images, hidden, private, look, held_back, count, hole
            )
            unseen = 0.0 if room is None else room.unseen
            hole = None if room is None else np.asarray(room.holes.any(axis=0))
            photos = images[rows] if room is None else room.images
            mask: Masks = np.ones(photos.shape[:3], dtype=bool)
            part = PhotoPart(photos, mask, request.background.noun)
        else:
            mask = segments.visible(levels, number - 1)
            part = PhotoPart(images, mask, preferences.nouns[number - 1])
            if level == 2 and private:
                alone = np.where(mask[..., None], images, np.uint8(FILL))
                held_back |= look(alone, private, ~mask).held_back
        own_items = _aligned(
            part, sanitizers[number], number, [seeds[row] for row in rows.tolist()]
        )
        by_row = dict(zip(rows.tolist(), own_items, strict=True))
        items[number] = tuple(by_row.get(row) for row in range(len(images)))
    drawings = {
        number: _draw(row, images, request.parts[number].skeleton) for number, row in items.items()
    }
    return CameraMessages(items, drawings, held_back, unseen, hole if 0 in items else None)


def _chosen_backgrounds(
    images: Images,
    hidden: Masks,
    private: Sequence[str],
    look: RemnantSearch,
    held_back: NDArray[np.bool_],
    count: int | None,
    hole: Masks | None,
) -> tuple[NDArray[np.int64], Backgrounds | None, NDArray[np.bool_]]:
    """The photos whose backgrounds would be sent, these, and the photos that are held back.

    A fill is made of the photos that are sent alone: a median over others would carry what is in
    them and in no photo that is sent. So where one of them is held back, another photo takes its
    place, and all of them are made again.
    """
    settings = HoleSettings()
    if count is None:
        room = backgrounds(images, hidden, private, look, settings=settings, hole=hole)
        return np.arange(len(images)), room, held_back | room.remnants.held_back
    held_back = held_back.copy()
    while True:
        rows = np.flatnonzero(~held_back)[:count]
        if not len(rows):
            return rows, None, held_back
        room = backgrounds(images[rows], hidden[rows], private, look, settings=settings, hole=hole)
        if not room.remnants.held_back.any():
            return rows, room, held_back
        held_back[rows[room.remnants.held_back]] = True


def unsearched(images: Images, nouns: Sequence[str], filler: Masks) -> Remnants:
    """A look that finds nothing, for public photos, of which everything may be known."""
    nothing = np.zeros(images.shape[:3], dtype=bool)
    return Remnants(nothing, np.zeros(len(images)), np.zeros(len(images), dtype=bool))


def _aligned(
    part: PhotoPart, sanitizer: Sanitizer, number: int, seeds: Sequence[int]
) -> tuple[Item | None, ...]:
    """The items of a part, one a photo; each photo is sanitized by itself, with its own seed."""
    items: list[Item | None] = []
    for row, seed in enumerate(seeds):
        at = slice(row, row + 1)
        photo = PhotoPart(part.photos[at], part.mask[at], part.noun)
        items += items_of(sanitizer.sanitize(photo, seed=seed), photo, number) or [None]
    return tuple(items)


def noise_seeds(photos: Images, key: bytes) -> list[int]:
    """A secret seed for each photo, the same for ever, and for a copy of it that was encoded again.

    Two copies with noises of their own could be averaged. Photos that do differ have seeds that
    differ: of one noise on both, their difference could be read.

    ``photos``: (n, side, side, 3) uint8, in the order in which they came.
    """
    cells = area_means(photos, _COPY_CELLS, smaller=True).astype(np.float64)
    values = photos.astype(np.float64)
    seeds: list[int] = []
    for row, photo in enumerate(values):
        apart = np.abs(cells[:row] - cells[row]).max(axis=(1, 2, 3), initial=0)
        first = row
        for other in np.flatnonzero(apart <= _COPY_CELL_DIFFERENCE):
            difference = float(np.sqrt(np.square(values[other] - photo).mean()))
            if difference <= _COPY_DIFFERENCE_SHARE * float(photo.std()):
                first = int(other)
                break
        if first < row:
            seeds.append(seeds[first])
            continue
        digest = hashlib.blake2b(photos[row].tobytes(), digest_size=16, key=key)
        seeds.append(int.from_bytes(digest.digest(), "big"))
    return seeds


def _draw(items: Sequence[Item | None], images: Images, skeleton: str | None) -> Images:
    result = np.zeros_like(images)
    for image, item in zip(result, items, strict=True):
        if item is not None:
            image[:] = drawn_item(decode_item(encode_item(item)), skeleton)
    return result
