"""Where the objects are in the references: searched, stored, and drawn for the owner to review.

A level of privacy is worth what the segmenter is worth, so its owner looks at what it took for an
object before anything is made of it, and corrects it or leaves out photos in which it is wrong.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError, RunError
from understudy.core.ports import Segmenter
from understudy.core.types import Images, Masks
from understudy.device.consent import void_offer
from understudy.device.corrections import Correction, corrected, merged
from understudy.device.disclosures import noise_key
from understudy.device.home_folder import DeviceHome, write_file
from understudy.device.messages import noise_seeds, unsearched
from understudy.device.parcel import drawn_item
from understudy.device.photo_domain import photo_domain
from understudy.device.photo_store import PhotoSet, references
from understudy.device.preferences import OBJECT_LEVELS, Preferences
from understudy.device.sheets import only, sheet_bytes, with_cells
from understudy.methods.sanitize.background import HoleSettings, backgrounds
from understudy.methods.sanitize.sanitizers import PhotoPart, PoseSanitizer, items_of
from understudy.methods.sanitize.segments import SearchSettings, Segments, search
from understudy.methods.sanitize.wire_items import decode_item, encode_item

_FILE = "segments.npz"


@dataclass(frozen=True, slots=True)
class UsedPhotos:
    """The references that are used.

    Attributes:
        numbers: Of each on the sheets, from 1.
        images: (n, side, side, 3) uint8.
    """

    numbers: tuple[int, ...]
    images: Images
    segments: Segments


@dataclass(frozen=True, slots=True)
class ReviewedPhotos:
    """References with their objects, and what the owner has left out and corrected.

    Attributes:
        searched: The objects as the segmenter has them, without the corrections.
        left_out: Numbers of photos, from 1, that are not to be used.
    """

    photos: PhotoSet
    searched: Segments
    segments: Segments
    segmenter: str
    left_out: tuple[int, ...]
    corrections: tuple[Correction, ...]
    sheet: Path

    def used(self) -> UsedPhotos:
        """The photos that are not left out: of no other is anything sent, nor any fill made."""
        numbers = [n for n in range(1, len(self.photos.ids) + 1) if n not in self.left_out]
        rows = np.array(numbers, dtype=np.int64) - 1
        segments = Segments(
            self.segments.nouns, self.segments.masks[:, rows], self.segments.hidden[:, rows]
        )
        return UsedPhotos(tuple(numbers), self.photos.images[rows], segments)

    def domain_problem(self) -> str | None:
        """Why the segmenter cannot be trusted with the photos that are used; None where it can."""
        model, usable = load_model(Segmenter, self.segmenter), self.used()
        objects = np.asarray(usable.segments.masks.any(axis=(0, 2, 3)))
        domain = photo_domain(usable.images, model, objects)
        return domain.problem(usable.numbers, self.segmenter)

    @property
    def without(self) -> tuple[tuple[str, int], ...]:
        """Each object, and in how many photos it was not found."""
        counts = (~self.segments.masks.any(axis=(2, 3))).sum(axis=1)
        return tuple(zip(self.segments.nouns, map(int, counts), strict=True))


def segment_photos(
    home: DeviceHome,
    preferences: Preferences,
    leave_out: Collection[int] | None = None,
    corrections: Sequence[Correction] = (),
) -> ReviewedPhotos:
    """Search the references for the objects of the request, and draw what was found.

    It voids what was previewed before: other photos may be left out. Where something is left out or
    corrected, and nothing else has changed, the last search stands and none is made.

    Args:
        home: The device.
        preferences: The request.
        leave_out: Numbers of photos as the sheet shows them; None for those of before.
        corrections: Besides those of before, of which they replace those of the same photo and
            object.

    Raises:
        ConfigError: The segmenter has no class for an object, there is no photo of a number, or a
            correction names no object of the request.
    """
    photos = references(home)
    wrong = [number for number in leave_out or () if not 1 <= number <= len(photos.ids)]
    if wrong:
        raise ConfigError(f"photos are numbered 1 to {len(photos.ids)}, found {wrong[0]}")
    before = _stored(home)
    if (leave_out is None and not corrections) or not _is_of(before, photos, preferences):
        model = load_model(Segmenter, preferences.segmenter)
        searched = search(photos.images, preferences.nouns, model, SearchSettings())
    else:
        searched = Segments(preferences.nouns, before["searched_masks"], before["searched_hidden"])
    corrected(searched, corrections)  # refuses what makes no sense
    with home.locked():
        before = _stored(home)
        if leave_out is None:
            leave_out = before.get("left_out", np.zeros(0, np.int64)).tolist()
        standing = merged(standing_corrections(home, preferences), corrections)
        reviewed = ReviewedPhotos(
            photos,
            searched,
            corrected(searched, standing),
            preferences.segmenter,
            tuple(sorted(set(leave_out))),
            standing,
            home.path("review", "sheet.png"),
        )
        void_offer(home)
        _store(home, reviewed)
        write_file(reviewed.sheet, _drawn_review(reviewed))
    return reviewed


def standing_corrections(home: DeviceHome, preferences: Preferences) -> tuple[Correction, ...]:
    """What the owner has corrected of photos and objects, whether they were searched since or not.

    Photos keep their numbers. Corrections of an object that is asked for no more are left out.
    """
    texts = _stored(home).get("corrections", np.zeros(0, str)).tolist()
    nouns = {"", *preferences.nouns}
    return tuple(one for text in texts if (one := Correction.read(text)).noun in nouns)


def reviewed_photos(home: DeviceHome, preferences: Preferences) -> ReviewedPhotos:
    """What was segmented last.

    Raises:
        RunError: Nothing was, or photos, objects or the segmenter have changed since.
    """
    again = "understudy device segment"
    values = _stored(home)
    if not values:
        raise RunError(f"the objects were not searched yet: {again}")
    photos = references(home)
    if not _is_of(values, photos, preferences):
        raise RunError(
            f"photos, objects or the segmenter have changed since they were segmented: {again}"
        )
    return ReviewedPhotos(
        photos,
        Segments(preferences.nouns, values["searched_masks"], values["searched_hidden"]),
        Segments(preferences.nouns, values["masks"], values["hidden"]),
        preferences.segmenter,
        tuple(values["left_out"].tolist()),
        standing_corrections(home, preferences),
        home.path("review", "sheet.png"),
    )


@dataclass(frozen=True, slots=True)
class LevelPicture:
    """What would leave of a part of one photo at some level.

    ``image`` is (side, side, 3) uint8, drawn from ``size`` bytes.
    """

    number: int
    image: Images
    size: int


def level_picture(
    home: DeviceHome, reviewed: ReviewedPhotos, preferences: Preferences, part: int, sanitizer: str
) -> LevelPicture | None:
    """What a sanitizer leaves of a part, of the first photo that is used and shows it.

    It is an example. No second look and nothing that was sent before has a part in it: what would
    leave exactly is what a preview shows. None where no photo shows the part, or nothing of it
    leaves or could.
    """
    usable, names = reviewed.used(), list(preferences.sanitizers)
    if names[part].partition(":")[0] != sanitizer:  # else its own deviation of noise stays
        names[part] = sanitizer
    images = usable.images
    mask: Masks = np.ones(images.shape[:3], dtype=bool)
    if part:
        levels = list(preferences.levels)
        levels[part - 1] = OBJECT_LEVELS[sanitizer]
        mask = usable.segments.visible(levels, part - 1)
    rows = np.flatnonzero(mask.any(axis=(1, 2)))
    if not len(rows) or sanitizer == "text":
        return None
    if not part:
        hidden = np.asarray(usable.segments.hidden.any(axis=0))
        images = backgrounds(images, hidden, (), unsearched, settings=HoleSettings()).images
    number, at = usable.numbers[rows[0]], slice(rows[0], rows[0] + 1)
    photo = PhotoPart(images[at], mask[at], preferences.request.parts[part].noun)
    level = replace(preferences, sanitizers=tuple(names)).sanitizer(part)
    try:
        key = noise_key(home, [level])
    except RunError:  # its secret is lost: a preview of it says so
        return None
    seed = noise_seeds(reviewed.photos.images, key)[number - 1]
    data = encode_item(items_of(level.sanitize(photo, seed=seed), photo, part)[0])
    lines = level.skeleton if isinstance(level, PoseSanitizer) else None
    return LevelPicture(number, drawn_item(decode_item(data), lines), len(data))


def _stored(home: DeviceHome) -> dict[str, Any]:
    """The arrays of the last search; empty where there was none."""
    try:
        with np.load(home.path(_FILE), allow_pickle=False) as archive:
            values = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        return {}
    return values if "corrections" in values else {}  # else of an earlier version


def _is_of(arrays: dict[str, Any], photos: PhotoSet, preferences: Preferences) -> bool:
    """Whether a search was of these photos and objects, by the segmenter of the request."""
    if not arrays or str(arrays["segmenter"]) != preferences.segmenter:
        return False
    parts = tuple(arrays["ids"].tolist()), tuple(arrays["nouns"].tolist())
    return parts == (photos.ids, preferences.nouns)


def _store(home: DeviceHome, reviewed: ReviewedPhotos) -> None:
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        ids=np.array(reviewed.photos.ids),
        nouns=np.array(reviewed.segments.nouns),
        masks=reviewed.segments.masks,
        hidden=reviewed.segments.hidden,
        searched_masks=reviewed.searched.masks,
        searched_hidden=reviewed.searched.hidden,
        segmenter=np.array(reviewed.segmenter),
        left_out=np.array(reviewed.left_out, dtype=np.int64),
        corrections=np.array([str(one) for one in reviewed.corrections], dtype=str),
    )
    write_file(home.path(_FILE), stream.getvalue())


def _drawn_review(reviewed: ReviewedPhotos) -> bytes:
    """Photo, the pixels of each object, and everything that is hidden for it."""
    images, segments = reviewed.photos.images, reviewed.segments
    columns = {"photo": list(images)}
    for noun, mask, hidden in zip(segments.nouns, segments.masks, segments.hidden, strict=True):
        columns[noun] = list(only(images, mask))
        columns[f"may be {noun}"] = list(only(images, hidden))
    columns["its cells"] = [with_cells(image) for image in images]
    names, warnings = [], []
    for row in range(len(images)):
        absent = [
            n for n, mask in zip(segments.nouns, segments.masks, strict=True) if not mask[row].any()
        ]
        words = ["left out"] if row + 1 in reviewed.left_out else [f"no {noun}" for noun in absent]
        names.append("\n".join([str(row + 1), *words]))
        warnings += [row] if words else []
    return sheet_bytes(columns, names, warnings)
