"""Whether photos are such as a segmenter knows: hiding an object rests on it.

The segmenter that ships has learnt from drawn rooms alone. In photos of real rooms it takes knees,
keyboards and buses for a dog, but it is less sure of what it says, and that is what is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError
from understudy.core.ports import ScoringSegmenter, Segmenter
from understudy.core.types import Images, Vector
from understudy.device.home_folder import DeviceHome
from understudy.device.photo_store import references, stored_photos

STUDIO = "embedded:studio"
"""The segmenter that ships, and is taken where no other is named: it knows drawn rooms alone."""

_PHOTO_LIMIT, _MEAN_LIMIT, _MEAN_SPREAD = 0.81, 0.90, 0.04
"""Least certainty of one photo; of n photos together the mean is at least 0.90 - 0.04 / sqrt(n).

Of 6,900 drawn photos the least certainty was 0.815, the least mean of the first 1, 3 and 10 photos
of 690 homes 0.863, 0.887 and 0.906; of real photos the mean is 0.78, the standard deviation 0.05.
"""
_BATCH = 32

_LEFT_AT_64, _LEFT_AT_128 = 0.31, 0.20
"""Mean part of a person outside of what is hidden (``python -m benchmarks photo_segmenter``)."""


@dataclass(frozen=True, slots=True)
class PhotoDomain:
    """How sure a segmenter is of photos, and which of them it does not know.

    Attributes:
        certainty: (n,) mean over the pixels of the score of the likeliest class.
        unknown: (n,) bool: photos that it does not know, all of them where their mean says so.
    """

    certainty: Vector
    unknown: NDArray[np.bool_]

    def problem(self, numbers: tuple[int, ...], segmenter: str) -> str | None:
        """What is wrong, and what to do; None where nothing is.

        Args:
            numbers: Of the photos on the sheets.
            segmenter: Name of the model.
        """
        if not self.unknown.any():
            return None
        which, remedy = f"the photos ({len(numbers)}) are", "Name"
        if not self.unknown.all():
            listed = ", ".join(str(numbers[row]) for row in np.flatnonzero(self.unknown))
            which, remedy = f"the photos {listed} are", "Leave these out, or name"
        return (
            f"{which} outside of what {segmenter} knows, which is drawn rooms of the playhouse: it "
            f"is sure of {self.certainty[self.unknown].mean():.0%} of their pixels, of drawn ones "
            "it is of 90% and more. What it takes for an object there may be anything, and an "
            f"object is hidden only as well as it is found. {remedy} a segmenter for photos in "
            "understudy device request or segment: --segmenter "
            "'litert:FILE.tflite?labels=LABELS.txt' or hf:NAME, such as one that understudy studio "
            "segmenter made"
        )


def photo_domain(images: Images, segmenter: Segmenter) -> PhotoDomain:
    """Whether a segmenter knows photos; every one but the shipped one is taken to know all.

    Args:
        images: (n, side, side, 3) uint8.
        segmenter: It states scores, where it is the shipped one.
    """
    count = len(images)
    if segmenter.name != STUDIO or not isinstance(segmenter, ScoringSegmenter) or not count:
        return PhotoDomain(np.ones(count), np.zeros(count, dtype=bool))
    batches = [images[start : start + _BATCH] for start in range(0, count, _BATCH)]
    scores = [segmenter.score(batch, segmenter.classes).max(axis=1) for batch in batches]
    certainty = np.concatenate([one.mean(axis=(1, 2), dtype=np.float64) for one in scores])
    unknown = certainty < _PHOTO_LIMIT
    if certainty.mean() < _MEAN_LIMIT - _MEAN_SPREAD / np.sqrt(count):
        unknown = np.ones(count, dtype=bool)
    return PhotoDomain(certainty, unknown)


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


def unchecked_lines(segmenter: str) -> list[str]:
    """What an owner should know who named another segmenter than `STUDIO`."""
    if segmenter.partition("?")[0] == STUDIO:
        return []
    return [
        f"Whether {segmenter} knows such photos is not checked, and what it does not find is not "
        "hidden. Of persons in real photos of 64 pixels a side DeepLab v3 left "
        f"{_LEFT_AT_64:.0%} in view, of 128 pixels {_LEFT_AT_128:.0%}: look at every photo of the "
        "sheets."
    ]
