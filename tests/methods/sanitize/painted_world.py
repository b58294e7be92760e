"""Rooms with red dogs, and segmenters and detectors that know red when they see it."""

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Found, Images, Maps, Masks

SIDE = 32


def is_red(images: Images) -> Masks:
    red, green, blue = (images[..., channel].astype(int) for channel in range(3))
    return (red > 150) & (green < 90) & (blue < 90)


def is_orange(images: Images) -> Masks:
    red, green, blue = (images[..., channel].astype(int) for channel in range(3))
    return (red > 150) & (green > 110) & (green < 180) & (blue < 90)


def rooms(count: int, *, seed: int = 0, orange: bool = False) -> tuple[Images, Masks]:
    """One camera's photos of a green room with a stripe, a red dog at another place in each."""
    rng = np.random.default_rng(seed)
    room = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    room[:, :] = (40, 140, 90)
    room[20:] = (90, 90, 160)
    room[:, 14:17] = (200, 200, 210)
    images = np.repeat(room[None], count, axis=0)
    masks = np.zeros(images.shape[:3], dtype=bool)
    for image, mask in zip(images, masks, strict=True):
        top, left = rng.integers(2, SIDE - 12, 2)
        mask[top : top + 8, left : left + 10] = True
        image[mask] = (210, 40, 30)
        if orange:  # the head, which a segmenter takes for a cat's
            image[top : top + 3, left : left + 3] = (210, 140, 30)
    return images, masks


class ColourSegmenter:
    """Red is a dog, orange is a cat."""

    name, licence, classes = "test:colours", "none", ("room", "dog", "cat", "prop")

    def segment(self, images: Images) -> Maps:
        return np.where(is_red(images), 1, np.where(is_orange(images), 2, 0))


class UnsureSegmenter(ColourSegmenter):
    """With scores: a dog is found at 0.3, so that the best class is the room."""

    def segment(self, images: Images) -> Maps:
        return np.zeros(images.shape[:3], dtype=np.int64)

    def score(self, images: Images, classes: tuple[str, ...]) -> NDArray[np.float32]:
        known = {"dog": is_red(images), "cat": is_orange(images)}
        blank = np.zeros(images.shape[:3], dtype=bool)
        scores = [0.3 * known.get(name, blank) for name in classes]
        return np.stack(scores, axis=1).astype(np.float32)


class LyingSegmenter(ColourSegmenter):
    """Says what it was told to say."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks

    def segment(self, images: Images) -> Maps:
        return self._masks[: len(images)].astype(np.int64)


class ColourDetector:
    """One box about everything red."""

    name, licence, classes = "test:boxes", "none", ("dog",)

    def detect(self, images: Images) -> list[Found]:
        found = []
        for mask in is_red(images):
            rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
            count = int(len(rows) > 0)
            boxes = np.zeros((count, 4), dtype=np.float32)
            if count:
                boxes[0] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
            found.append(Found(boxes, np.zeros(count, np.int64), np.full(count, 0.9, np.float32)))
        return found
