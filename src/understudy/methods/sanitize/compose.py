"""The second stage of the server: labelled images, object by object (SpinML, Section 3.3).

An object is drawn by its class prompt, or taken from the references, cut out and put at a random
place that bears it. Then the background is filled: inpainted where the server has only words for
it, and the references themselves where it has those, which does better than merged weights; half
of a detector's images get a drawn room even then. An image in which a second object appears is
dropped. The label is the prompt's class, or the box of the pixels that are seen of the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import RunError
from understudy.core.ports import Generator, Segmenter
from understudy.core.types import Found, Images, Masks
from understudy.methods.sanitize.customise import References
from understudy.methods.sanitize.cutouts import (
    Cutout,
    Placement,
    box_of,
    cut_out,
    laid_on,
    object_pixels,
    placed,
    softened,
    supports,
)
from understudy.methods.sanitize.scene_prompts import RARE_WORD, ScenePrompts
from understudy.methods.sanitize.training_set import LabelledSet
from understudy.methods.sanitize.wire import JobRequest
from understudy.methods.sanitize.wire_items import FILL

_SMALLEST, _LARGEST = 0.004, 0.5  # parts of an image that a cutout may have
_SECOND = 0.01  # part of the pixels from which on a second object is one
_MARGIN = 3  # pixels about an object that are not taken for a second one


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeSettings:
    """How images are composed.

    Attributes:
        scale: Smallest and largest factor by which an object's size changes.
        pool: Cutouts of an object that does nothing; they are used again and again.
        rooms: Rooms that are drawn about an object at most, until one has no second object.
        rounds: How often objects are drawn anew for what was dropped.
        soft: Mix an object's outermost pixels with what is next to them.
        batch: Images that are composed at a time; a job says that it lives before each batch.
        as_drawn: Part of a class's images that stay as the class prompt gave them: an object in a
            room of its own, which no cut has changed.
        drawn_rooms: Part of a detector's images that get a drawn room even where the owner sent
            backgrounds: a few of these, over and over, teach less.
        mask: Where objects that were cut out are put: ``"borne"`` where something bears them;
            ``"random"`` anywhere, the paper's random mask; ``"none"`` leaves images as the class
            prompt gave them, the paper's pipeline without any mask.
    """

    scale: tuple[float, float] = (0.8, 1.2)
    pool: int = 64
    rooms: int = 3
    rounds: int = 4
    light: float = 0.15
    soft: bool = True
    batch: int = 32
    as_drawn: float = 0.5
    drawn_rooms: float = 0.5
    mask: Literal["borne", "random", "none"] = "borne"


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What is known of the parts of a request.

    Attributes:
        generators: Draws each part, by its number: the server's own, or one tuned on references.
        references: Of each part above L0.
    """

    generators: Mapping[int, Generator]
    references: Mapping[int, References]
    tuned: frozenset[int]
    untuned: Generator

    def word(self, part: int) -> str | None:
        """What the part's generator knows it by."""
        return RARE_WORD if part in self.tuned else None


class Composer:
    """Composes the images of one request.

    `segmenter`: Cuts objects out, finds second ones, and knows what bears things.
    """

    def __init__(
        self,
        request: JobRequest,
        material: Material,
        segmenter: Segmenter,
        prompts: ScenePrompts,
        settings: ComposeSettings,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._request, self._material, self._segmenter = request, material, segmenter
        self._prompts, self._settings, self._beat = prompts, settings, beat
        self._side = request.side
        self._pools: dict[int, list[Cutout]] = {}
        self._rooms: tuple[Images, Masks] | None = None

    def compose(self, seed: int) -> LabelledSet:
        """All images: of a classifier so many for each class, of a detector for each object.

        Raises:
            RunError: No image of a class came out without a second object.
        """
        request, sets = self._request, []
        rng = np.random.default_rng(seed)
        if request.training_object == "classifier":
            for label, name in enumerate(request.label_classes):
                images, _ = self._group(name, request.images_per_class, rng)
                sets.append((images, np.full(len(images), label)))
            arrays = [np.concatenate(one) for one in zip(*sets, strict=True)]
            return LabelledSet.of_classes(arrays[0], arrays[1])
        count = request.images_per_class * len(request.label_classes)
        return LabelledSet.of_boxes(*self._group(None, count, rng))

    def _group(
        self, class_name: str | None, count: int, rng: np.random.Generator
    ) -> tuple[Images, list[Found]]:
        """Images of one class, or of a detector's objects, with the boxes in them."""
        if class_name is None:
            room_count = round(self._settings.drawn_rooms * count) if self._has_rooms else 0
            images, truth = self._in_rounds(
                lambda missing: self._batch(None, missing, rng, drawn_room=True), room_count
            )
        else:
            images, truth = self._in_rounds(
                lambda missing: self._as_drawn(class_name, missing, rng), self._whole_images(count)
            )
        more_images, more_truth = self._in_rounds(
            lambda missing: self._batch(class_name, missing, rng), count - len(images)
        )
        images, truth = images + more_images, truth + more_truth
        if not images:
            raise RunError(
                "no image came out without a second object: the generator draws what it is not "
                "asked for, or the segmenter takes rooms for objects"
            )
        rows = [row % len(images) for row in range(count)]
        return np.stack([images[row] for row in rows]), [truth[row] for row in rows]

    def _in_rounds(
        self, make: Callable[[int], tuple[list[NDArray[np.uint8]], list[Found]]], count: int
    ) -> tuple[list[NDArray[np.uint8]], list[Found]]:
        """Up to ``count`` images, in batches; what a round dropped is made anew in the next one."""
        images: list[NDArray[np.uint8]] = []
        truth: list[Found] = []
        for _ in range(self._settings.rounds):
            missing, batch = count - len(images), self._settings.batch
            for start in range(0, missing, batch):
                self._beat()
                batch_images, boxes = make(min(batch, missing - start))
                images += batch_images
                truth += boxes
            if len(images) == count:
                break
        return images, truth

    def _whole_images(self, count: int) -> int:
        """How many of a class's images stay as they were drawn: none beside other objects."""
        if len(self._request.target_object) > 1 or self._settings.mask == "none":
            return 0
        return round(self._settings.as_drawn * count)

    def _as_drawn(
        self, class_name: str | None, count: int, rng: np.random.Generator
    ) -> tuple[list[NDArray[np.uint8]], list[Found]]:
        """Up to ``count`` images of the class prompt that show one object, not cut off."""
        images = self._draw(1, class_name, count, rng)
        masks = cut_out(images, self._request.target_object[0].noun, self._segmenter)
        cutouts = [Cutout.of(image, mask) for image, mask in zip(images, masks, strict=True)]
        owners = np.where(masks, 0, -1)
        second = self._second_objects(images, owners)
        rows = [
            row
            for row, one in enumerate(cutouts)
            if one is not None and not one.at_rim and not second[row]
        ]
        return [images[row] for row in rows], [self._truth(owners[row]) for row in rows]

    def _batch(
        self,
        class_name: str | None,
        count: int,
        rng: np.random.Generator,
        *,
        drawn_room: bool = False,
    ) -> tuple[list[NDArray[np.uint8]], list[Found]]:
        """Up to ``count`` images without a second object."""
        if self._settings.mask == "none":
            return self._as_prompted(class_name, count, rng)
        casts = self._casts(class_name, count, rng)
        if not casts:
            return [], []
        if self._has_rooms and not drawn_room:
            return self._pasted(casts, rng)
        return self._inpainted(casts, rng)

    def _as_prompted(
        self, class_name: str | None, count: int, rng: np.random.Generator
    ) -> tuple[list[NDArray[np.uint8]], list[Found]]:
        """What the class prompt gives; boxes are the segmenter's."""
        images = self._draw(1, class_name, count, rng)
        noun = self._request.target_object[0].noun
        masks = cut_out(images, noun, self._segmenter)
        rows = [row for row in range(count) if class_name is not None or masks[row].any()]
        truth = [self._truth(np.where(masks[row], 0, -1)) for row in rows]
        return [images[row] for row in rows], truth

    def _casts(
        self, class_name: str | None, count: int, rng: np.random.Generator
    ) -> list[list[Cutout]]:
        """For each image a cutout of every object, the first one doing what its class says."""
        parts = range(1, len(self._request.parts))
        if class_name is None:
            return [[self._one_of_pool(part, rng) for part in parts] for _ in range(count)]
        leads = self._cutouts(1, class_name, count, rng)
        rest = [part for part in parts if part > 1]
        low, high = self._settings.scale
        return [
            [
                self._sized(one, one.share * rng.uniform(low, high), rng),
                *(self._one_of_pool(part, rng) for part in rest),
            ]
            for one in leads
        ]

    def _one_of_pool(self, part: int, rng: np.random.Generator) -> Cutout:
        if part not in self._pools:
            self._pools[part] = self._pool(part, rng)
        pool = self._pools[part]
        cutout = pool[int(rng.integers(len(pool)))]
        references = self._material.references.get(part)
        low, high = self._settings.scale
        share = cutout.share * rng.uniform(low, high)
        if references is not None and len(references.boxes):
            box = references.boxes[int(rng.integers(len(references.boxes)))] / self._side
            share = float(max(box[2:] - box[:2]))
        return self._sized(cutout, share, rng)

    def _sized(self, cutout: Cutout, share: float, rng: np.random.Generator) -> Cutout:
        mirror = bool(rng.random() < 0.5)
        return cutout.scaled(min(share, 0.95), self._side, mirrored=mirror)

    def _pool(self, part: int, rng: np.random.Generator) -> list[Cutout]:
        """Cutouts of an object, from its references or drawn by its noun.

        References that a ControlNet drew (L1) have as many of the noun alone beside them: they
        are few and alike, and what the lines do not say is not the owner's either.

        Raises:
            RunError: The segmenter finds it in none of them.
        """
        references = self._material.references.get(part)
        if references is not None and len(references.images) and part not in self._material.tuned:
            pairs = zip(references.images, references.masks, strict=True)
            candidates = [Cutout.of(image, mask) for image, mask in pairs]
            pool = [one for one in candidates if one is not None]
            if self._request.parts[part].level == 1:
                pool += self._cutouts(part, None, len(pool), rng)
        else:
            pool = self._cutouts(part, None, self._settings.pool, rng)
        if not pool:
            raise RunError("the segmenter finds an object in none of the images drawn of it")
        return pool

    def _cutouts(
        self, part: int, class_name: str | None, count: int, rng: np.random.Generator
    ) -> list[Cutout]:
        """Cutouts of freshly drawn images; fewer where an object is cut off or too small."""
        images = self._draw(part, class_name, count, rng)
        noun = self._request.parts[part].noun
        masks = cut_out(images, noun, self._segmenter, belongings=class_name is not None)
        sizes = masks.mean(axis=(1, 2))
        cutouts = [
            Cutout.of(image, mask)
            for image, mask, size in zip(images, masks, sizes, strict=True)
            if _SMALLEST <= size <= _LARGEST
        ]
        return [one for one in cutouts if one is not None and not one.at_rim]

    def _draw(
        self, part: int, class_name: str | None, count: int, rng: np.random.Generator
    ) -> Images:
        """Images of a part by a prompt each.

        Half of them are words alone where the generator was tuned on what a ControlNet drew (L1):
        nobody told it which pose belongs to which class (Section 5.3).
        """
        word = self._material.word(part)
        of_words = count // 2 if word and self._request.parts[part].level == 1 else 0
        shares = (
            (self._material.generators[part], word, count - of_words),
            (self._material.untuned, None, of_words),
        )
        noun, batch, images = self._request.parts[part].noun, self._settings.batch, []
        for generator, rare_word, share in shares:
            texts = [
                self._prompts.target(noun, class_name, rng, word=rare_word) for _ in range(share)
            ]
            images += [
                generator.generate(texts[start : start + batch], seed=int(rng.integers(2**32)))
                for start in range(0, share, batch)
            ]
        return np.concatenate(images)

    @property
    def _has_rooms(self) -> bool:
        """Whether backgrounds are references that objects are pasted on."""
        return 0 in self._material.references and 0 not in self._material.tuned

    def _pasted(
        self, casts: Sequence[Sequence[Cutout]], rng: np.random.Generator
    ) -> tuple[list[NDArray[np.uint8]], list[Found]]:
        """Objects on reference backgrounds, of which none shows another object."""
        if self._rooms is None:
            self._rooms = self._usable_rooms()
        rooms, support = self._rooms
        images, truth = [], []
        for cast in casts:
            row = int(rng.integers(len(rooms)))
            light = 1 + self._settings.light * rng.uniform(-1, 1)
            room = np.clip(rooms[row] * light, 0, 255).astype(np.uint8)
            image, owners = laid_on(room, self._placements(cast, rng, support[row]))
            images.append(self._finished(image, owners))
            truth.append(self._truth(owners))
        return images, truth

    def _finished(self, image: NDArray[np.uint8], owners: NDArray[np.int64]) -> NDArray[np.uint8]:
        return softened(image, owners) if self._settings.soft else image

    def _usable_rooms(self) -> tuple[Images, Masks]:
        """Backgrounds and what bears things in them.

        What the owner sent was searched on the device; what a ControlNet drew is searched here.

        Raises:
            RunError: Every room that was drawn has an object in it.
        """
        rooms = self._material.references[0].images
        if self._request.background.level == 1:
            second = np.zeros(len(rooms))
            for part in self._request.target_object:
                pixels = object_pixels(rooms, part.noun, self._segmenter)
                second = np.maximum(second, pixels.mean(axis=(1, 2)))
            rooms = rooms[second <= _SECOND]
            if not len(rooms):
                raise RunError("every room that was drawn of the background's edges has an object")
        return rooms, supports(rooms, self._segmenter)

    def _placements(
        self,
        cast: Sequence[Cutout],
        rng: np.random.Generator,
        support: NDArray[np.bool_] | None = None,
    ) -> list[Placement]:
        occupancy = np.zeros((self._side, self._side), bool)
        result = []
        for cutout in cast:
            anywhere = self._settings.mask == "random"
            placement = placed(
                cutout,
                self._side,
                rng,
                support=support,
                occupancy=occupancy,
                anywhere=anywhere,
            )
            occupancy[placement.area] |= placement.cutout.mask
            result.append(placement)
        return result

    def _inpainted(
        self, casts: Sequence[Sequence[Cutout]], rng: np.random.Generator
    ) -> tuple[list[NDArray[np.uint8]], list[Found]]:
        """Objects with a room drawn about them, without the images that have a second object."""
        grey = np.full((self._side, self._side, 3), FILL, np.uint8)
        pairs = [laid_on(grey, self._placements(cast, rng)) for cast in casts]
        canvases, owners = np.stack([one for one, _ in pairs]), np.stack([one for _, one in pairs])
        images: list[NDArray[np.uint8]] = []
        truth: list[Found] = []
        for _ in range(self._settings.rooms):  # what was dropped gets another room
            scenes = self._fill(canvases, owners, rng)
            second = self._second_objects(scenes, owners)
            for image, one in zip(scenes[~second], owners[~second], strict=True):
                images.append(self._finished(image, one))
                truth.append(self._truth(one))
            canvases, owners = canvases[second], owners[second]
            if not len(canvases):
                break
        return images, truth

    def _fill(
        self, canvases: Images, owners: NDArray[np.int64], rng: np.random.Generator
    ) -> Images:
        """A room drawn about the objects of each canvas."""
        return self._material.generators[0].inpaint(
            canvases,
            owners < 0,
            [self._prompts.room(rng, word=self._material.word(0)) for _ in canvases],
            seed=int(rng.integers(2**32)),
            negative=", ".join(part.noun for part in self._request.target_object),
        )

    def _second_objects(self, images: Images, owners: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,): whether an object is seen where none was put."""
        second = np.zeros(len(images), bool)
        near = [scipy.ndimage.binary_dilation(one >= 0, iterations=_MARGIN) for one in owners]
        for part in self._request.target_object:
            pixels = object_pixels(images, part.noun, self._segmenter) & ~np.stack(near)
            second |= pixels.mean(axis=(1, 2)) > _SECOND
        return second

    def _truth(self, owners: NDArray[np.int64]) -> Found:
        """The boxes of the objects that the model is asked for, as far as they are seen."""
        nouns = [part.noun for part in self._request.target_object]
        boxes, labels = [], []
        for number, noun in enumerate(nouns):
            mask = owners == number
            if noun in self._request.label_classes and mask.any():
                boxes.append(box_of(mask))
                labels.append(self._request.label_classes.index(noun))
        sides = np.array(boxes, np.float32).reshape(-1, 4)
        return Found(sides, np.array(labels, np.int64), np.ones(len(labels), np.float32))
