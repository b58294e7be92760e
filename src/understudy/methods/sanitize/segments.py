"""Which pixels may belong to an object, and whether any of it is left in what would be sent.

A level of privacy is worth what the segmenter is worth. So an object that stays home is searched
for generously (at several scales, mirrored, by every class that looks like it, at a low score),
grown, and searched for once more in the result (`SecondLook`), by other models where there are any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray
from PIL import Image

from understudy.core.errors import ConfigError, InputError
from understudy.core.ports import Detector, ScoringSegmenter, Segmenter
from understudy.core.types import Found, Images, Masks, Vector

LOOK_ALIKES: Mapping[str, tuple[str, ...]] = {
    "dog": ("cat", "horse", "sheep", "cow", "bear", "teddy bear"),
    "cat": ("dog", "teddy bear"),
    "person": ("rider", "teddy bear"),
    "bottle": ("vase", "wine glass", "cup"),
    "frame": ("picture", "tv", "tvmonitor", "painting", "mirror"),
}
"""Classes that a segmenter takes an object for, or parts of it."""

BELONGINGS: Mapping[str, tuple[str, ...]] = {
    "dog": ("prop", "bowl", "sports ball", "frisbee"),
    "cat": ("prop", "bowl", "sports ball"),
    "person": ("prop", "cup", "bowl", "plate", "fork", "knife", "spoon", "book", "cell phone"),
}
"""Classes of what tells what the object is doing: a bowl, a ball, a book."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How an object is searched for.

    Attributes:
        scales: The images are searched at these multiples of their size.
        threshold: A pixel may be the object's from this score on, in any of the searches, where
            the segmenter states scores.
        growth: Pixels that the object grows by on all sides.
        look_alikes: Search for the classes of `LOOK_ALIKES`, too.
        belongings: Search for the classes of `BELONGINGS`, too.
    """

    scales: tuple[float, ...] = (1.0, 1.5, 0.75)
    flips: bool = True
    threshold: float = 0.2
    growth: int = 3
    look_alikes: bool = True
    belongings: bool = True

    def __post_init__(self) -> None:
        if not self.scales or min(self.scales) <= 0:
            raise ConfigError(f"scales must be one positive number or more, found {self.scales}")
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"threshold must be above 0, at most 1, found {self.threshold}")
        if self.growth < 0:
            raise ConfigError(f"growth must be 0 pixels or more, found {self.growth}")


@dataclass(frozen=True, slots=True)
class Segments:
    """Where the objects are.

    Attributes:
        masks: (objects, n, height, width) bool: most likely theirs; no pixel is of two objects.
        hidden: (objects, n, height, width) bool: everything that may be theirs, and a margin.
    """

    nouns: tuple[str, ...]
    masks: NDArray[np.bool_]
    hidden: NDArray[np.bool_]

    def visible(self, levels: Sequence[int], part: int) -> Masks:
        """(n, height, width): the pixels of an object that no more private object may own."""
        secret = self.secret(levels, below=levels[part], but=part)
        return np.asarray(self.masks[part] & ~secret)

    def secret(self, levels: Sequence[int], *, below: int, but: int | None = None) -> Masks:
        """(n, height, width): what may belong to an object of a level under ``below``.

        Raises:
            InputError: Not a level for each object.
        """
        if len(levels) != len(self.nouns):
            raise InputError(f"{len(self.nouns)} objects have as many levels, found {len(levels)}")
        rows = [k for k, level in enumerate(levels) if level < below and k != but]
        return np.asarray(self.hidden[rows].any(axis=0))


def classes_of(noun: str, classes: Sequence[str]) -> tuple[str, ...]:
    """The classes of a model that an owner's noun names, such as ``bottle`` for "pill bottles".

    A class is named by the noun, by its last word, or by one of the synonyms that some models
    list after commas; the case and a plural do not matter.

    Raises:
        ConfigError: The model knows none.
    """
    words = {_singular(noun), _singular(noun.split()[-1])} if noun.split() else set()
    names = tuple(
        name for name in classes if words & {_singular(part) for part in re.split("[,;/]", name)}
    )
    if not names:
        raise ConfigError(
            f"the model has no class for {noun!r}; it has {', '.join(classes)}. Call the object by "
            "one of these, or choose another model"
        )
    return names


def belongings_of(noun: str, classes: Sequence[str]) -> tuple[str, ...]:
    """The classes of a model that tell what an object does: a bowl, a ball, a book."""
    own = {_singular(name) for name in BELONGINGS.get(_singular(noun.split()[-1]), ())}
    return tuple(name for name in classes if own & {_singular(one) for one in name.split(",")})


def _singular(words: str) -> str:
    word = " ".join(words.lower().replace("_", " ").replace("-", " ").split())
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def search(
    images: Images, nouns: Sequence[str], segmenter: Segmenter, settings: SearchSettings
) -> Segments:
    """Where the objects are, and where they may be.

    ``images``: (n, height, width, channels) uint8; the nouns differ, and are what the owner calls
    them.

    Raises:
        ConfigError: The segmenter knows no class for an object, or two objects have one noun.
    """
    if len(set(nouns)) < len(nouns) or not nouns:
        raise ConfigError(f"name one object or more, each once, found {', '.join(nouns) or 'none'}")
    own = [classes_of(noun, segmenter.classes) for noun in nouns]
    likely = np.zeros((len(nouns), *images.shape[:3]), dtype=np.float32)
    hidden = np.zeros(likely.shape, dtype=bool)
    own_names = {name for names in own for name in names}
    for k, (noun, names) in enumerate(zip(nouns, own, strict=True)):
        wider = [*names, *(set(_wider(noun, segmenter.classes, settings)) - own_names)]
        for score, views in _views(images, segmenter, (names, wider), settings):
            likely[k] += score[0] / views
            hidden[k] |= score[1] >= settings.threshold
        hidden[k] = grown(hidden[k] | (likely[k] >= 0.5), settings.growth)
    best = likely.argmax(axis=0) == np.arange(len(nouns))[:, None, None, None]
    return Segments(tuple(nouns), best & (likely >= 0.5), hidden)


def _wider(noun: str, classes: Sequence[str], settings: SearchSettings) -> Iterator[str]:
    """Classes that are hidden with an object, as far as the model has them."""
    key = _singular(noun.split()[-1])
    others = LOOK_ALIKES.get(key, ()) if settings.look_alikes else ()
    others += BELONGINGS.get(key, ()) if settings.belongings else ()
    names = {_singular(name) for name in others}
    return (name for name in classes if names & {_singular(one) for one in name.split(",")})


def _views(
    images: Images, segmenter: Segmenter, groups: Sequence[Sequence[str]], settings: SearchSettings
) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Scores of each group of classes at the size of the images, for each scale and mirror image.

    The scores of a group add up, 1 at most. Without scores the best class has 1.
    """
    names = sorted({name for group in groups for name in group})
    views = len(settings.scales) * (1 + settings.flips)
    for view, _, mirrored in _sized_views(images, settings):
        scores = _scores(view, segmenter, names)
        summed = np.stack(
            [scores[:, [names.index(name) for name in group]].sum(axis=1) for group in groups]
        )
        summed = np.minimum(summed[..., ::-1] if mirrored else summed, 1)
        yield _fitted(summed, images.shape[1:3]), views


def _sized_views(images: Images, settings: SearchSettings) -> Iterator[tuple[Images, float, bool]]:
    """The images at each scale, as they are and mirrored; the scale, and whether mirrored."""
    for scale in settings.scales:
        sized = _resized(images, scale)
        for mirrored in (False, True)[: 1 + settings.flips]:
            yield np.ascontiguousarray(sized[:, :, ::-1] if mirrored else sized), scale, mirrored


def _scores(images: Images, segmenter: Segmenter, names: Sequence[str]) -> NDArray[np.float32]:
    """(n, names, height, width)."""
    if isinstance(segmenter, ScoringSegmenter):
        return segmenter.score(images, names)
    maps = segmenter.segment(images)
    return np.stack([maps == segmenter.classes.index(name) for name in names], 1).astype(np.float32)


def _resized(images: Images, scale: float) -> Images:
    if scale == 1:
        return images
    size = [max(1, round(side * scale)) for side in (images.shape[2], images.shape[1])]
    rows = [
        np.asarray(Image.fromarray(image.squeeze()).resize(size, Image.Resampling.BICUBIC))
        for image in images
    ]
    return np.stack(rows).reshape(len(images), size[1], size[0], images.shape[3])


def _fitted(scores: NDArray[np.float32], size: tuple[int, ...]) -> NDArray[np.float32]:
    """Scores of another size at the size of the images; a smaller map keeps its largest values."""
    height, width = scores.shape[2:]
    if (height, width) == tuple(size):
        return scores
    at = [
        np.minimum((np.arange(target) + 0.5) * length / target, length - 1).astype(np.int64)
        for target, length in zip(size, (height, width), strict=True)
    ]
    window = [
        max(1, -(-length // target)) for target, length in zip(size, (height, width), strict=True)
    ]
    largest = scipy.ndimage.maximum_filter(scores, size=(1, 1, *window))
    return np.asarray(largest[:, :, at[0]][:, :, :, at[1]])


def grown(masks: Masks, pixels: int) -> Masks:
    """Masks that reach so many pixels further on all sides, corners rounded."""
    if pixels == 0:
        return masks
    distances = (scipy.ndimage.distance_transform_edt(~mask) for mask in masks)
    near = [mask.any() & (far <= pixels + 0.5) for mask, far in zip(masks, distances, strict=True)]
    return np.asarray(near, dtype=bool).reshape(masks.shape)


def instances(mask: NDArray[np.bool_], *, least: int = 4) -> Found:
    """The connected pieces of a mask, largest first, with their boxes; scores are their shares."""
    labels, count = scipy.ndimage.label(mask, np.ones((3, 3)))
    areas = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    order = [k for k in np.argsort(-areas, kind="stable") if areas[k] >= least]
    slices = scipy.ndimage.find_objects(labels)
    boxes = [
        (slices[k][1].start, slices[k][0].start, slices[k][1].stop, slices[k][0].stop)
        for k in order
    ]
    return Found(
        np.array(boxes, dtype=np.float32).reshape(-1, 4),
        np.zeros(len(order), dtype=np.int64),
        (areas[order] / max(1, areas.sum())).astype(np.float32),
        np.stack([labels == k + 1 for k in order]) if order else np.zeros((0, *mask.shape), bool),
    )


@dataclass(frozen=True, slots=True)
class Remnants:
    """What is left of the objects in images that would be sent.

    Attributes:
        masks: (n, height, width): where.
        areas: (n,) part of the pixels.
        held_back: (n,) whether the image must not be sent.
    """

    masks: Masks
    areas: Vector
    held_back: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLook:
    """Searches what would be sent for what must not be in it; anything found holds an image back.

    A segmenter takes a smooth fill for almost anything. So the filler, of which no pixel is of a
    photo, is shown as parts of several public rooms, and what is found counts where it is found
    whichever room stands there: the rooms are what the finding is compared with.

    Attributes:
        segmenters: Of which any may find something; best not the one that cut the objects out.
        settings: How segmenters search. ``growth`` counts for nothing: what is found is reported
            as it is.
        bound: Part of an image's pixels that segmenters may take for the object all the same.
        certainty: Boxes of detectors hold an image back from this score on.
        rooms: (k, height, width, channels) uint8, public images that never held the objects, of
            the size of what is searched; None: fillers are searched as they are.
    """

    segmenters: tuple[Segmenter, ...]
    detectors: tuple[Detector, ...] = ()
    settings: SearchSettings = field(
        default_factory=lambda: SearchSettings(threshold=0.5, belongings=False)
    )
    bound: float = 0.001
    certainty: float = 0.3
    rooms: Images | None = None

    def __post_init__(self) -> None:
        if not self.segmenters and not self.detectors:
            raise ConfigError("a second look needs a segmenter or a detector: give one")
        if not 0 <= self.bound < 1:
            raise ConfigError(f"bound is a part of the pixels, 0 to 1, found {self.bound}")

    def __call__(
        self, images: Images, nouns: Sequence[str], filler: Masks | None = None
    ) -> Remnants:
        """What is left of the objects of these nouns.

        Args:
            images: (n, height, width, channels) uint8, as they would be sent.
            nouns: Of the objects that must not be in them.
            filler: (n, height, width): pixels that are of no photo, but smoothed, drawn or grey;
                None: there are none.

        Raises:
            ConfigError: A model knows no class for an object.
            InputError: The rooms have another size than the images.
        """
        masks = np.ones(images.shape[:3], dtype=bool)
        boxes = masks.copy()
        for view in self._shown(images, filler):
            masks &= self._segmented(view, nouns)
            boxes &= self._detected(view, nouns)
        if filler is not None and self.rooms is not None:
            masks, boxes = masks & ~filler, boxes & ~filler
        areas = masks.mean(axis=(1, 2))
        held_back = (areas > self.bound) | boxes.any(axis=(1, 2))
        return Remnants(masks | boxes, np.asarray(areas, dtype=np.float64), held_back)

    def _shown(self, images: Images, filler: Masks | None) -> Iterator[Images]:
        """The images with each of the rooms in place of their filler."""
        if filler is None or self.rooms is None or not filler.any():
            yield images
            return
        if self.rooms.shape[1:] != images.shape[1:]:
            raise InputError(
                f"rooms of {self.rooms.shape[1:]} do not fill images of {images.shape[1:]}"
            )
        for room in self.rooms:
            yield np.where(filler[..., None], room, images)

    def _segmented(self, images: Images, nouns: Sequence[str]) -> Masks:
        """(n, height, width): what any segmenter takes for an object in any view."""
        masks = np.zeros(images.shape[:3], dtype=bool)
        for segmenter in self.segmenters:
            for noun in nouns:
                names = self._names(noun, segmenter.classes)
                for score, _ in _views(images, segmenter, (names,), self.settings):
                    masks |= score[0] >= self.settings.threshold
        return masks

    def _names(self, noun: str, classes: Sequence[str]) -> tuple[str, ...]:
        return tuple({*classes_of(noun, classes), *_wider(noun, classes, self.settings)})

    def _detected(self, images: Images, nouns: Sequence[str]) -> Masks:
        """(n, height, width): inside the boxes of any view of any detector that are sure enough."""
        masks = np.zeros(images.shape[:3], dtype=bool)
        for detector in self.detectors:
            names = {name for noun in nouns for name in self._names(noun, detector.classes)}
            labels = [detector.classes.index(name) for name in names]
            for view, scale, mirrored in _sized_views(images, self.settings):
                for mask, found_at in zip(masks, detector.detect(view), strict=True):
                    sure = (found_at.scores >= self.certainty) & np.isin(found_at.labels, labels)
                    for left, top, right, bottom in found_at.boxes[sure] / scale:
                        rows = slice(int(top), int(np.ceil(bottom)))
                        columns = slice(int(left), int(np.ceil(right)))
                        side = mask[:, ::-1] if mirrored else mask
                        side[rows, columns] = True
        return masks
