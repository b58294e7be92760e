"""Where the objects are in the references: searched, stored, and drawn for the owner to review.

A level of privacy is worth what the segmenter is worth, so its owner looks at what it took for an
object before anything is made of it, and leaves out photos in which it is wrong.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError, RunError
from understudy.core.ports import Segmenter
from understudy.core.types import Images
from understudy.device.consent import void_offer
from understudy.device.home_folder import DeviceHome, write_file
from understudy.device.photo_domain import photo_domain
from understudy.device.photo_store import PhotoSet, references
from understudy.device.preferences import Preferences
from understudy.device.sheets import only, sheet_bytes
from understudy.methods.sanitize.segments import SearchSettings, Segments, search

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
    """References with their objects, and those that the owner has left out.

    Attributes:
        left_out: Numbers of photos, from 1, that are not to be used.
    """

    photos: PhotoSet
    segments: Segments
    segmenter: str
    left_out: tuple[int, ...]
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
        model, used = load_model(Segmenter, self.segmenter), self.used()
        return photo_domain(used.images, model).problem(used.numbers, self.segmenter)

    @property
    def without(self) -> tuple[tuple[str, int], ...]:
        """Each object, and in how many photos it was not found."""
        missing = (~self.segments.masks.any(axis=(2, 3))).sum(axis=1)
        return tuple(zip(self.segments.nouns, map(int, missing), strict=True))


def segment_photos(
    home: DeviceHome,
    preferences: Preferences,
    segmenter: str | None = None,
    leave_out: Collection[int] = (),
) -> ReviewedPhotos:
    """Search the references for the objects of the request, and draw what was found.

    It voids what was previewed before: other photos may be left out.

    ``leave_out`` are numbers of photos as the sheet shows them; the segmenter is that of the
    request unless another one is named.

    Raises:
        ConfigError: The segmenter has no class for an object, or there is no photo of a number.
    """
    photos = references(home)
    wrong = [number for number in leave_out if not 1 <= number <= len(photos.ids)]
    if wrong:
        raise ConfigError(f"photos are numbered 1 to {len(photos.ids)}, found {wrong[0]}")
    segmenter = segmenter or preferences.segmenter
    model = load_model(Segmenter, segmenter)
    segments = search(photos.images, preferences.nouns, model, SearchSettings())
    sheet = home.path("review", "sheet.png")
    reviewed = ReviewedPhotos(photos, segments, segmenter, tuple(sorted(set(leave_out))), sheet)
    with home.locked():
        void_offer(home)
        _store(home, reviewed)
        write_file(sheet, _drawn_review(reviewed))
    return reviewed


def reviewed_photos(home: DeviceHome, preferences: Preferences) -> ReviewedPhotos:
    """What was segmented last.

    Raises:
        RunError: Nothing was, or photos or objects have changed since.
    """
    again = "understudy device segment"
    try:
        with np.load(home.path(_FILE), allow_pickle=False) as stored:
            values = {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise RunError(f"the objects were not searched yet: {again}") from None
    photos = references(home)
    nouns, ids = tuple(values["nouns"].tolist()), tuple(values["ids"].tolist())
    if ids != photos.ids or nouns != preferences.nouns:
        raise RunError(f"photos or objects have changed since they were segmented: {again}")
    return ReviewedPhotos(
        photos,
        Segments(nouns, values["masks"], values["hidden"]),
        str(values["segmenter"]),
        tuple(values["left_out"].tolist()),
        home.path("review", "sheet.png"),
    )


def _store(home: DeviceHome, reviewed: ReviewedPhotos) -> None:
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        ids=np.array(reviewed.photos.ids),
        nouns=np.array(reviewed.segments.nouns),
        masks=reviewed.segments.masks,
        hidden=reviewed.segments.hidden,
        segmenter=np.array(reviewed.segmenter),
        left_out=np.array(reviewed.left_out, dtype=np.int64),
    )
    write_file(home.path(_FILE), stream.getvalue())


def _drawn_review(reviewed: ReviewedPhotos) -> bytes:
    """Photo, the pixels of each object, and everything that is hidden for it."""
    images, segments = reviewed.photos.images, reviewed.segments
    columns = {"photo": list(images)}
    for noun, mask, hidden in zip(segments.nouns, segments.masks, segments.hidden, strict=True):
        columns[noun] = list(only(images, mask))
        columns[f"may be {noun}"] = list(only(images, hidden))
    names, warnings = [], []
    for row in range(len(images)):
        absent = [
            n for n, mask in zip(segments.nouns, segments.masks, strict=True) if not mask[row].any()
        ]
        words = ["left out"] if row + 1 in reviewed.left_out else [f"no {noun}" for noun in absent]
        names.append("\n".join([str(row + 1), *words]))
        warnings += [row] if words else []
    return sheet_bytes(columns, names, warnings)
