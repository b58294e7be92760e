"""A generator and a tuner that paint red dogs in rooms: tall ones sit, wide ones sleep."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.methods.sanitize.painted_world import SIDE

from understudy.core.errors import UnsupportedTask
from understudy.core.ports import Generator
from understudy.core.types import Images, Masks, Texts

RED = (210, 40, 30)
SIZES = {"sitting": (14, 6), "sleeping": (6, 14)}


class Painter:
    """Draws a room, and a dog unless the prompt says that the room is empty.

    Args:
        colour: Of its dogs.
        second: Part of the inpainted rooms that have a dog nobody asked for.
    """

    name, licence, shape = "test:painter", "none", (SIDE, SIDE, 3)
    tasks = frozenset({"text", "inpainting", "control:edges"})

    def __init__(self, colour: tuple[int, int, int] = RED, second: float = 0.0) -> None:
        self.colour, self.second = colour, second
        self.negatives: list[str | None] = []

    def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
        images = []
        for number, prompt in enumerate(prompts):
            rng = np.random.default_rng((seed, number))
            image = self._room(rng)
            if "empty" not in prompt:
                height, width = next((s for k, s in SIZES.items() if k in prompt), (8, 8))
                top, left = rng.integers(1, SIDE - height), rng.integers(1, SIDE - width)
                image[top : top + height, left : left + width] = self.colour
            images.append(image)
        return np.stack(images)

    def inpaint(
        self,
        images: Images,
        masks: Masks,
        prompts: Texts,
        *,
        seed: int = 0,
        control: tuple[str, Images] | None = None,
        negative: str | None = None,
    ) -> Images:
        self.negatives.append(negative)
        rooms = []
        for number in range(len(images)):
            rng = np.random.default_rng((seed, number))
            room = self._room(rng)
            if rng.random() < self.second:
                room[:8, :8] = RED
            rooms.append(room)
        return np.where(masks[..., None], np.stack(rooms), images)

    def control(self, kind: str, hints: Images, prompts: Texts, *, seed: int = 0) -> Images:
        """A dog as large as the hint; a room is striped where its edges are."""
        images = []
        for number, (hint, prompt) in enumerate(zip(hints, prompts, strict=True)):
            image = self._room(np.random.default_rng((seed, number)))
            rows, columns = np.nonzero(hint.any(axis=2))
            if "empty" in prompt:
                image[rows, columns] = 0
            else:
                image[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] = self.colour
            images.append(image)
        return np.stack(images)

    def vary(self, *args: object, **options: object) -> Images:
        raise UnsupportedTask(self.name, "variation", self.tasks)

    def _room(self, rng: np.random.Generator) -> NDArray[np.uint8]:
        room = np.empty(self.shape, np.uint8)
        room[:], room[SIDE // 2 :] = rng.integers(90, 255, 3), rng.integers(90, 255, 3)
        room[..., 1] |= 128  # never red
        return room


class ColourTuner:
    """Learns the mean colour of the masked pixels, and nothing else."""

    name, licence = "test:painter", "none"

    def tune(
        self,
        images: Images,
        prompt: str | Sequence[str],
        *,
        class_prompt: str | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        masks: Masks | None = None,
    ) -> Painter:
        pixels = images.reshape(-1, 3) if masks is None else images[masks]
        red, green, blue = (int(value) for value in pixels.mean(axis=0))
        return Painter((red, green, blue))

    def of(self, generator: Generator) -> ColourTuner:
        return self

    def changes(self, generator: Generator) -> bytes:
        assert isinstance(generator, Painter)
        return struct.pack("3B", *generator.colour)

    def restore(self, changes: bytes) -> Painter:
        return Painter(struct.unpack("3B", changes))
