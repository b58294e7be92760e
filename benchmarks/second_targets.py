"""Judges of whether an image shows its target twice, and pictures of which that is known.

``in_pieces`` takes every piece of a segmenter's mask for an object, so a person whom a book cuts in
two is two. `BoxJudge` has a detector that learnt from pictures of the renderer alone, with one
target or two, of which half are cut in two by a strip of another room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Segmenter
from understudy.core.types import Found, Images, Masks
from understudy.methods.sanitize.cutouts import (
    Cutout,
    Placement,
    box_of,
    laid_on,
    object_pixels,
    softened,
)
from understudy.methods.sanitize.segments import instances
from understudy.metrics.networks.detector import BoxNetwork
from understudy.metrics.networks.detector_training import train_detector
from understudy.playhouse import World

SIDE = 64
LEAST = SIDE * SIDE // 100  # pixels of a second target at least
PUBLIC = 6_000_000
"""Seeds of the public world that a judge learns from; a million later it is tested."""


@dataclass(frozen=True, eq=False)
class Scenes:
    """Pictures of the renderer with one target or two."""

    images: Images  # (n, side, side, 3) uint8
    truth: list[Found]  # the boxes of the targets

    @property
    def two(self) -> NDArray[np.bool_]:
        """(n,): whether there are two."""
        return np.array([len(one.boxes) > 1 for one in self.truth])


def in_pieces(images: Images, noun: str, segmenter: Segmenter) -> NDArray[np.bool_]:
    """(n,): whether the segmenter sees the object of the mirror image in two pieces or more."""
    mirrored = np.ascontiguousarray(images[:, :, ::-1])
    masks = object_pixels(mirrored, noun, segmenter)
    return np.array([len(instances(mask, least=LEAST).boxes) > 1 for mask in masks])


@dataclass(frozen=True, eq=False)
class BoxJudge:
    """Sees two targets where a detector states two boxes."""

    detector: BoxNetwork  # of one class
    certainty: float  # a second box counts from this score on

    def second_scores(self, images: Images) -> NDArray[np.float64]:
        """(n,): the score of the second best box; 0 where there is none."""
        views = [self.detector.detect(one) for one in (images, images[:, :, ::-1].copy())]
        scores = [
            [float(np.sort(found.scores)[-2]) if len(found.scores) > 1 else 0.0 for found in view]
            for view in views
        ]
        return np.mean(scores, axis=0)

    def __call__(self, images: Images) -> NDArray[np.bool_]:
        """(n,): whether each image shows two."""
        return np.asarray(self.second_scores(images) > self.certainty)


def box_judges(
    target: str, false_alarms: Sequence[float], *, count: int = 3000, epochs: int = 16
) -> list[BoxJudge]:
    """Judges of one detector, which take such parts of other pictures with one target for two."""
    known = scenes(target, range(PUBLIC, PUBLIC + count))
    other = scenes(target, range(PUBLIC + count, PUBLIC + 2 * count))
    detector = train_detector(known.images, known.truth, classes=1, epochs=epochs)
    scores = BoxJudge(detector, 0.0).second_scores(other.images[~other.two])
    bounds = [float(np.quantile(scores, 1 - part)) for part in false_alarms]
    return [BoxJudge(detector, bound) for bound in bounds]


def scenes(target: str, seeds: Sequence[int]) -> Scenes:
    """Half with a second target; across half of the first ones lies a strip of another room."""
    pairs = [_scene(target, seed) for seed in seeds]
    return Scenes(np.stack([image for image, _ in pairs]), [boxes for _, boxes in pairs])


def _scene(target: str, seed: int) -> tuple[NDArray[np.uint8], Found]:
    rng = np.random.default_rng(seed)
    drawn = World(SIDE, (target,)).draw(seed)
    image, masks = drawn.image, [drawn.instances[0].mask]
    if rng.random() < 0.5:
        room = World(SIDE, ("empty",)).draw(seed).image
        image = np.where(_strip(masks[0], rng)[..., None], room, image)
    if rng.random() < 0.5:
        other = World(SIDE, (target,)).draw(seed + 100_000_000)
        second = Cutout.of(other.image, other.instances[0].mask)
        assert second is not None
        pasted = with_second(image, masks[0], second, rng)
        if pasted is not None:
            image, mask = pasted
            masks.append(mask)
    boxes = np.stack([box_of(mask) for mask in masks])
    return image, Found(boxes, np.zeros(len(boxes), np.int64), np.ones(len(boxes), np.float32))


def _strip(mask: Masks, rng: np.random.Generator) -> Masks:
    """(side, side): across the middle of a target, at any angle, 3 to 8 pixels wide."""
    rows, columns = np.nonzero(mask)
    angle, width = rng.uniform(0, np.pi), rng.uniform(3, 8)
    y, x = np.mgrid[:SIDE, :SIDE]
    far = np.cos(angle) * (x - columns.mean()) + np.sin(angle) * (y - rows.mean())
    return np.asarray(abs(far) < width / 2)


def with_second(
    image: NDArray[np.uint8], first: Masks, second: Cutout, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], Masks] | None:
    """The image with a second target of 2 % of its pixels or more, and where that is.

    It covers a quarter of the first one at most; None where no place was found.
    """
    for _ in range(40):
        size = second.share * rng.uniform(0.4, 1.0)
        one = second.scaled(min(size, 0.95), SIDE, mirrored=bool(rng.random() < 0.5))
        height, width = one.mask.shape
        top = int(rng.integers(min(SIDE // 3, SIDE - height), SIDE - height + 1))
        place = Placement(one, int(rng.integers(SIDE - width + 1)), top)
        pasted, owners = laid_on(image, [place])
        mask = owners >= 0
        if (mask & ~first).sum() >= 2 * LEAST and (mask & first).sum() <= first.sum() / 4:
            return softened(pasted, owners), mask
    return None
