"""What would leave of the photos of one camera, photo by photo and part by part, as items.

The same is made of the owner's photos, and of public homes that attackers learn from. Objects are
always taken out of a background; those of a lower level than the background's are searched for
once more in it, and in the segments of less private objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Images, Masks
from understudy.device.parcel import drawn_item
from understudy.device.preferences import Preferences
from understudy.methods.sanitize.background import HoleSettings, RemnantSearch, backgrounds
from understudy.methods.sanitize.sanitizers import PhotoPart, Sanitizer, items_of
from understudy.methods.sanitize.segments import Remnants, Segments
from understudy.methods.sanitize.wire_items import Item, decode_item, encode_item


@dataclass(frozen=True, slots=True)
class CameraMessages:
    """What would leave of each photo.

    Attributes:
        items: For each part above L0, by its number, one item a photo; None where the photo has
            nothing to send of it.
        drawn: For each of these parts (n, side, side, 3) uint8, drawn from the items' bytes; black
            where there is none.
        held_back: (n,) bool: photos in which something was found that stays home.
        unseen: Part of the pixels that is free in no photo, so that a background is smooth there.
    """

    items: Mapping[int, tuple[Item | None, ...]]
    drawn: Mapping[int, Images]
    held_back: NDArray[np.bool_]
    unseen: float

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
    seed: int = 0,
) -> CameraMessages:
    """The messages of some photos of one camera, whether they may be sent or not.

    Args:
        images: (n, side, side, 3) uint8.
        segments: Where the objects are, in the order of the request.
        preferences: What may leave of each part.
        sanitizers: Of the parts above L0, by their numbers.
        look: Searches what would be sent for what stays home.
        seed: Of noise.
    """
    request, levels = preferences.request, preferences.levels
    held_back = np.zeros(len(images), dtype=bool)
    items: dict[int, tuple[Item | None, ...]] = {}
    unseen = 0.0
    for number in request.disclosed:
        level = request.parts[number].level
        private = [n for n, own in zip(preferences.nouns, levels, strict=True) if own < level]
        if number == 0:
            hidden = np.asarray(segments.hidden.any(axis=0))
            room = backgrounds(images, hidden, private, look, settings=HoleSettings())
            unseen = room.unseen
            held_back |= room.remnants.held_back
            mask: Masks = np.ones(images.shape[:3], dtype=bool)
            part = PhotoPart(room.images, mask, request.background.noun)
        else:
            mask = segments.visible(levels, number - 1)
            part = PhotoPart(images, mask, preferences.nouns[number - 1])
            if level == 2 and private:
                alone = np.where(mask[..., None], images, np.uint8(127))
                held_back |= look(alone, private, ~mask).held_back
        items[number] = _aligned(part, sanitizers[number], number, seed)
    drawn = {
        number: _drawn(row, images, request.parts[number].skeleton) for number, row in items.items()
    }
    return CameraMessages(items, drawn, held_back, unseen)


def unsearched(images: Images, nouns: Sequence[str], filler: Masks) -> Remnants:
    """A look that finds nothing, for public photos, of which everything may be known."""
    nothing = np.zeros(images.shape[:3], dtype=bool)
    return Remnants(nothing, np.zeros(len(images)), np.zeros(len(images), dtype=bool))


def _aligned(
    part: PhotoPart, sanitizer: Sanitizer, number: int, seed: int
) -> tuple[Item | None, ...]:
    """The items of a part, one a photo."""
    sanitized = sanitizer.sanitize(part, seed=seed)
    present = iter(items_of(sanitized, part, number))
    return tuple(None if empty else next(present) for empty in sanitized.empty.tolist())


def _drawn(items: Sequence[Item | None], images: Images, skeleton: str | None) -> Images:
    drawn = np.zeros_like(images)
    for image, item in zip(drawn, items, strict=True):
        if item is not None:
            image[:] = drawn_item(decode_item(encode_item(item)), skeleton)
    return drawn
