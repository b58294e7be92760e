"""Which segmenter knows the owner's photos: hiding an object rests on it.

Two ship. One has learnt from drawn rooms alone: in photos of real rooms it takes knees, keyboards
and buses for a dog, but it is less sure of what it says, and that is what is looked at. The other
one has learnt from photos, and misses much; how much is said wherever it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError
from understudy.core.ports import ScoringSegmenter, Segmenter
from understudy.core.types import Images, Vector
from understudy.device.home_folder import DeviceHome
from understudy.device.photo_store import references, stored_photos

STUDIO, PHOTO = "embedded:studio", "embedded:photo"
"""The segmenters that ship: of drawn rooms, and of photos."""

_PHOTO_LIMIT, _MEAN_LIMIT, _MEAN_SPREAD = 0.81, 0.90, 0.04
"""Least certainty of one drawn photo; of n together the mean is at least 0.90 - 0.04 / sqrt(n).

Of 6,900 drawn photos the least certainty was 0.815, the least mean of the first 1, 3 and 10 photos
of 690 homes 0.863, 0.887 and 0.906; of real photos the mean is 0.78, the standard deviation 0.05.
"""
_KURTOSIS = 4.3
"""Least kurtosis of the brightness's gradients in a photo: most are small, a few are edges.

Noise has 2.8, clouds of noise 3.0, such clouds after JPEG of quality 30 at most 4.2. Of 62 real
photos of 64 pixels the least was 4.5, of 9,144 others 98 of 100 have more than this.
"""
_BATCH = 32

MISSES: Mapping[str, tuple[float, int, int]] = {
    "person": (0.15, 3, 24),
    "dog": (0.50, 1, 2),
    "bottle": (1.0, 1, 1),
    "chair": (0.48, 2, 4),
}
"""Of an object in photos of 64 pixels a side: the mean part of it that `embedded:photo` leaves in
what should hide it, in how many photos more than half is left, and of how many (`benchmarks
photo_segmenter`)."""


@dataclass(frozen=True, slots=True)
class PhotoDomain:
    """Which photos a segmenter does not know.

    Attributes:
        unknown: (n,) bool; all of them where what they have in common says so.
        reason: What is unlike those that it knows.
    """

    unknown: NDArray[np.bool_]
    reason: str = ""

    def problem(self, numbers: tuple[int, ...], segmenter: str) -> str | None:
        """What is wrong with photos of these numbers, and what to do; None where nothing is."""
        if not self.unknown.any():
            return None
        which, remedy = f"the photos ({len(numbers)}) are", "Name"
        if not self.unknown.all():
            listed = ", ".join(str(numbers[row]) for row in np.flatnonzero(self.unknown))
            which, remedy = f"the photos {listed} are", "Leave these out, or name"
        return (
            f"{which} outside of what {segmenter} knows, which is {self.reason}. What it takes for "
            f"an object there may be anything, and an object is hidden only as well as it is "
            f"found. {remedy} a segmenter for such photos in understudy device request or "
            f"segment: --segmenter {PHOTO} for photos of a camera, "
            "'litert:FILE.tflite?labels=LABELS.txt' or hf:NAME"
        )


def photo_domain(images: Images, segmenter: Segmenter) -> PhotoDomain:
    """Whether a segmenter knows photos; every one but those that ship is taken to know all.

    ``images``: (n, side, side, 3) uint8.
    """
    if not len(images) or segmenter.name not in (STUDIO, PHOTO):
        return PhotoDomain(np.zeros(len(images), dtype=bool))
    if segmenter.name == PHOTO or not isinstance(segmenter, ScoringSegmenter):
        kurtosis = gradient_kurtosis(images)
        return PhotoDomain(
            kurtosis < _KURTOSIS,
            "photos: brightness changes here as in noise or in a pattern (kurtosis "
            f"{kurtosis.min():.1f}, of photos {_KURTOSIS:g} and more)",
        )
    batches = [images[start : start + _BATCH] for start in range(0, len(images), _BATCH)]
    scores = [segmenter.score(batch, segmenter.classes).max(axis=1) for batch in batches]
    certainty = np.concatenate([one.mean(axis=(1, 2), dtype=np.float64) for one in scores])
    unknown = certainty < _PHOTO_LIMIT
    if certainty.mean() < _MEAN_LIMIT - _MEAN_SPREAD / np.sqrt(len(images)):
        unknown = np.ones(len(images), dtype=bool)
    return PhotoDomain(
        unknown,
        "drawn rooms of the playhouse: it is sure of "
        f"{certainty[unknown].mean() if unknown.any() else 1:.0%} of their pixels, of drawn ones "
        "it is of 90% and more",
    )


def gradient_kurtosis(images: Images) -> Vector:
    """(n,) kurtosis about 0 of the differences of neighbouring pixels' brightness."""
    brightness = images.mean(axis=3)
    across, down = np.diff(brightness, axis=2), np.diff(brightness, axis=1)
    steps = np.concatenate([one.reshape(len(images), -1) for one in (across, down)], axis=1)
    variance = np.square(steps).mean(axis=1)
    return np.asarray((steps**4).mean(axis=1) / np.maximum(variance, 1e-9) ** 2)


def suited_segmenter(home: DeviceHome) -> str:
    """The segmenter that ships and knows the references; that of drawn rooms where none does."""
    if any(photo.label is None for photo in stored_photos(home)):
        images = references(home).images
        for name in (STUDIO, PHOTO):
            if not photo_domain(images, load_model(Segmenter, name)).unknown.all():
                return name
    return STUDIO


def require_known_photos(home: DeviceHome, segmenter: str) -> None:
    """Refuse a segmenter that knows none of the references; single ones may be left out later.

    Raises:
        ConfigError: It does not know them.
        BackendError: It cannot be loaded.
    """
    if all(photo.label is not None for photo in stored_photos(home)):
        return
    images = references(home).images
    domain = photo_domain(images, load_model(Segmenter, segmenter))
    if domain.unknown.all():
        numbers = tuple(range(1, len(images) + 1))
        raise ConfigError(domain.problem(numbers, segmenter) or segmenter)


def miss_lines(segmenter: str, nouns: Sequence[str]) -> list[str]:
    """How often the segmenter of photos misses these objects; nothing of any other segmenter."""
    if segmenter != PHOTO:
        return []
    lines = []
    for noun in nouns:
        if (name := noun.split()[-1].removesuffix("s")) in MISSES:
            left, missed, count = MISSES[name]
            lines.append(
                f"{PHOTO} misses objects: of {count} photos of 64 pixels that show a {noun} it "
                f"left more than half of it in view in {missed}, and {left:.0%} of it on average"
            )
        else:
            lines.append(f"{PHOTO} misses objects; how many of {noun} was not measured")
    return [*lines, "Look at every photo of the sheets: what is not found is not hidden."]
