"""Which photos a segmenter knows: hiding an object rests on it.

The one that learnt from drawn rooms takes knees, keyboards and buses for a dog in photos of real
rooms, but it is less sure of what it says, and that is what is looked at. The one that learnt from
photos is as sure of anything, so it is asked for no grey images and no patterns, and each of its
photos has to show an object that it finds, or that the owner marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError
from understudy.core.ports import ScoringSegmenter, Segmenter
from understudy.core.types import Images
from understudy.device.home_folder import DeviceHome
from understudy.device.photo_store import references, stored_photos
from understudy.methods.sanitize.segments import classes_of

SHIPPED = STUDIO, PHOTO = "embedded:studio", "embedded:photo"
"""The segmenters that ship: of drawn rooms, and of photos of everyday things."""

_PHOTO_LIMIT, _MEAN_LIMIT, _MEAN_SPREAD = 0.81, 0.90, 0.04
"""Least certainty of one photo; of n photos together the mean is at least 0.90 - 0.04 / sqrt(n).

Of 6,900 drawn photos the least certainty was 0.815, the least mean of the first 1, 3 and 10 photos
of 690 homes 0.863, 0.887 and 0.906; of real photos the mean is 0.78, the standard deviation 0.05.
"""
_BATCH = 32

_LEAST_CHROMA, _LEAST_KURTOSIS = 2.0, 3.3
"""Mean difference of a colour from grey, of 255; kurtosis of differences of neighbouring pixels.

Outlines bring kurtosis about; a Gaussian texture has 3. Of 300 small everyday photos none has less
of either, of 65 larger ones two, and X-rays all (``python -m benchmarks photo_segmenter``).
"""

_LEFT: Mapping[str, tuple[float, float]] = {PHOTO: (0.19, 0.28), "DeepLab v3": (0.31, 0.20)}
"""Mean part of a person outside of what is hidden, in photos of 64 and of 128 pixels a side.

(``python -m benchmarks photo_segmenter``)
"""


@dataclass(frozen=True, slots=True)
class PhotoDomain:
    """Which photos a segmenter does not know.

    Attributes:
        unknown: (n,) bool.
        reason: What it knows, and how these differ.
        remedy: What to do about some of them, besides naming another segmenter.
    """

    unknown: NDArray[np.bool_]
    reason: str = ""
    remedy: str = "Leave these out"

    def problem(self, numbers: tuple[int, ...], segmenter: str) -> str | None:
        """What is wrong, and what to do; None where nothing is."""
        if not self.unknown.any():
            return None
        which, remedy = f"the photos ({len(numbers)}) are", "Name"
        shipped = "" if _is_of_photos(segmenter) else f"{PHOTO}, "
        if not self.unknown.all():
            photos = ", ".join(str(numbers[row]) for row in np.flatnonzero(self.unknown))
            which, remedy = f"the photos {photos} are", f"{self.remedy}, or name"
        return (
            f"{which} outside of what {segmenter} knows, {self.reason}, and an object is hidden "
            f"only as well as it is found. {remedy} a segmenter for such photos in understudy "
            f"device request: --segmenter {shipped}"
            "'litert:FILE.tflite?labels=LABELS.txt' or hf:NAME"
        )


def _is_of_photos(segmenter: str) -> bool:
    """Whether a name is that of the shipped segmenter of photos, with options or without."""
    return segmenter.partition("?")[0] == PHOTO


def photo_domain(
    images: Images, segmenter: Segmenter, objects: NDArray[np.bool_] | None = None
) -> PhotoDomain:
    """Which photos a segmenter does not know; one that does not ship is taken to know all.

    Args:
        images: (n, side, side, 3) uint8.
        segmenter: It states scores, where it is that of drawn rooms.
        objects: (n,) whether an object was found in a photo, or marked; None: nobody looked yet.
    """
    if not len(images):
        return PhotoDomain(np.zeros(0, dtype=bool))
    if segmenter.name == STUDIO and isinstance(segmenter, ScoringSegmenter):
        return _drawn_rooms(images, segmenter)
    if _is_of_photos(segmenter.name):
        return _everyday_photos(images, objects)
    return PhotoDomain(np.zeros(len(images), dtype=bool))


def _drawn_rooms(images: Images, segmenter: ScoringSegmenter) -> PhotoDomain:
    """By the mean over the pixels of the score of the likeliest class."""
    batches = [images[start : start + _BATCH] for start in range(0, len(images), _BATCH)]
    scores = [segmenter.score(batch, segmenter.classes).max(axis=1) for batch in batches]
    certainty = np.concatenate([one.mean(axis=(1, 2), dtype=np.float64) for one in scores])
    unknown = certainty < _PHOTO_LIMIT
    if certainty.mean() < _MEAN_LIMIT - _MEAN_SPREAD / np.sqrt(len(images)):
        unknown = np.ones(len(images), dtype=bool)
    sure = certainty[unknown].mean() if unknown.any() else 1.0
    reason = (
        f"which is drawn rooms of the playhouse: it is sure of {sure:.0%} of their pixels, of "
        "drawn ones it is of 90% and more. What it takes for an object there may be anything"
    )
    return PhotoDomain(unknown, reason)


def _everyday_photos(images: Images, objects: NDArray[np.bool_] | None) -> PhotoDomain:
    """By their colours and outlines, and by whether there is anything that it is asked for."""
    pixels = images.astype(np.float64)
    grey = pixels.mean(axis=3)
    chroma = np.abs(pixels - grey[..., None]).max(axis=3).mean(axis=(1, 2))
    steps = [np.diff(grey, axis=axis).reshape(len(images), -1) for axis in (1, 2)]
    kurtosis = scipy.stats.kurtosis(np.concatenate(steps, axis=1), axis=1, fisher=False)
    unknown = ~((chroma >= _LEAST_CHROMA) & (kurtosis >= _LEAST_KURTOSIS))  # flat ones have none
    reason = "which is photos of everyday things in colour: they are grey, or patterns"
    if objects is None:
        return PhotoDomain(unknown, reason)
    remedy = "Leave these out, mark the object in them (understudy device segment --belongs)"
    return PhotoDomain(unknown | ~objects, f"{reason}, or show no object that it finds", remedy)


def shipped_segmenter(home: DeviceHome, nouns: Sequence[str], *, disclosed: bool) -> str:
    """The first of those that ship that has classes for these objects, and knows the references.

    Args:
        home: The device.
        nouns: The objects.
        disclosed: Whether anything of a photo may leave.

    Raises:
        ConfigError: There is none.
    """
    problem, models = "", dict[str, Segmenter]()
    for name in SHIPPED:
        model = models[name] = load_model(Segmenter, name)
        if not _has_classes(model, nouns):
            continue
        problem = (problem_of_all(home, name, model) or "") if disclosed else ""
        if not problem:
            return name
    if problem:
        raise ConfigError(problem)
    strange = [n for n in nouns if not any(_has_classes(one, [n]) for one in models.values())]
    what = " and ".join(map(repr, strange or nouns))
    vocabulary = "; ".join(f"{name} has {', '.join(one.classes)}" for name, one in models.items())
    raise ConfigError(
        f"of the segmenters that ship, {'none' if strange else 'no one'} has a class for "
        f"{what}: {vocabulary}. Call objects by these, or name another segmenter: --segmenter"
    )


def _has_classes(model: Segmenter, nouns: Sequence[str]) -> bool:
    try:
        return all(classes_of(noun, model.classes) for noun in nouns)
    except ConfigError:
        return False


def problem_of_all(home: DeviceHome, name: str, model: Segmenter) -> str | None:
    """What is wrong where a segmenter knows none of the references; None where it knows one.

    Single ones may be left out later.
    """
    if all(photo.label is not None for photo in stored_photos(home)):
        return None
    images = references(home).images
    domain = photo_domain(images, model)
    return domain.problem(tuple(range(1, len(images) + 1)), name) if domain.unknown.all() else None


def segmenter_lines(segmenter: str) -> list[str]:
    """What finds the objects, and what an owner should know of it where it is one of photos."""
    lines, name = [f"Objects are found by {segmenter}."], PHOTO
    if segmenter.partition("?")[0] == STUDIO:
        return lines
    if not _is_of_photos(segmenter):
        lines.append(f"Whether {segmenter} knows such photos is not checked.")
        name = "DeepLab v3"
    small, large = _LEFT[name]
    return [
        *lines,
        "What is not found is not hidden. Of persons in real photos of 64 pixels a side "
        f"{name} left {small:.0%} in view, of 128 pixels {large:.0%}, of animals and things more: "
        "look at every photo of the sheets.",
    ]
