"""``procedural:NAME``: public images that are drawn when they are read.

What an encoder does with them says much of what it does with any image, and no licence and no
person is in them. Each name is a family of drawings (`understudy.data.drawings`);
``procedural:all`` draws from every family in turn. Row ``i`` of a name and seed is always the same
image.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

import numpy as np
from PIL import Image

from understudy.core.errors import ConfigError
from understudy.core.types import Batch, Images, Shape
from understudy.data.drawings.bodies import cells
from understudy.data.drawings.fibres import fibres
from understudy.data.drawings.garments import garments
from understudy.data.drawings.gradients import gradients
from understudy.data.drawings.leaves import dead_leaves
from understudy.data.drawings.plane import FloatImage, Plane
from understudy.data.drawings.rings import rings
from understudy.data.drawings.scenes import scene
from understudy.data.drawings.strokes import strokes
from understudy.data.drawings.textures import textures
from understudy.data.encoded_images import Options
from understudy.data.names import UNLABELLED_NAME

FAMILIES: Mapping[str, Callable[[Plane], FloatImage]] = {
    "leaves": dead_leaves,
    "scenes": scene,
    "cells": cells,
    "rings": rings,
    "fibres": fibres,
    "textures": textures,
    "strokes": strokes,
    "garments": garments,
    "gradients": gradients,
}
"""How each family draws one image: (h, w, channels) in [0, 1]."""

ALL_FAMILIES = "all"  # images of every family in turn, so that each has an equal part

PROCEDURAL_PREFIX = "procedural:"
PROCEDURAL_NAMES = tuple(PROCEDURAL_PREFIX + family for family in FAMILIES)
_DEFAULT_SIDE = 64
_DEFAULT_COUNT = 4000
_COUNTS = {"scenes": 6000, ALL_FAMILIES: 9000}
_LARGEST_SIDE = 128  # pixels a side that are drawn; larger images are these, enlarged


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What was asked for in the name."""

    kind: str
    count: int
    seed: int = 0
    channels: int = 3

    def __post_init__(self) -> None:
        name = PROCEDURAL_PREFIX + self.kind
        if not 1 <= self.count <= 1_000_000:
            raise ConfigError(f"{name}: count is 1 to 1,000,000, found {self.count}")
        if self.seed < 0:
            raise ConfigError(f"{name}: seed is 0 or more, found {self.seed}")
        if self.channels not in (1, 3):
            raise ConfigError(f"{name}: channels is 1 or 3, found {self.channels}")


class ProceduralSource:
    """A ``Source`` of drawn images; the same name gives the same images, of 64 pixels by default.

    Images of all families have their family as their class.
    """

    kind: Literal["images", "embeddings"] = "images"
    has_units = False
    skipped = 0

    def __init__(self, drawing: _Drawing, options: Options) -> None:
        self.name = options.name
        mixed = drawing.kind == ALL_FAMILIES
        self.classes: tuple[str, ...] = tuple(FAMILIES) if mixed else UNLABELLED_NAME
        height, width = options.size or (_DEFAULT_SIDE, _DEFAULT_SIDE)
        self.shape: Shape = (height, width, drawing.channels)
        self._drawing = drawing

    def __len__(self) -> int:
        return self._drawing.count

    def batches(self, size: int) -> Iterator[Batch]:
        """Every image in order, ``size`` at a time."""
        if size < 1:
            raise ConfigError(f"a batch has 1 row or more, not {size}")
        for start in range(0, len(self), size):
            rows = range(start, min(start + size, len(self)))
            images = np.stack([self._image(row) for row in rows])
            yield Batch(images, np.array(rows, dtype=np.int64) % len(self.classes))

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of each image's pixels."""
        for row in range(len(self)):
            yield hashlib.blake2b(self._image(row).tobytes(), key=key, digest_size=16).digest()

    def _image(self, row: int) -> Images:
        """(height, width, channels) uint8."""
        height, width, channels = self.shape
        rng = np.random.default_rng([self._drawing.seed, row])
        shrink = max(1.0, max(height, width) / _LARGEST_SIDE)
        size = (max(1, round(height / shrink)), max(1, round(width / shrink)))
        kind = self._drawing.kind
        family = self.classes[row % len(self.classes)] if kind == ALL_FAMILIES else kind
        image = FAMILIES[family](Plane.of(*size, channels, rng))
        pixels = np.rint(image * 255).astype(np.uint8)
        if size == (height, width):
            return pixels
        drawing = Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])
        enlarged = np.asarray(drawing.resize((width, height), Image.Resampling.BILINEAR))
        return enlarged.reshape(height, width, channels)


def open_procedural(options: Options) -> ProceduralSource:
    """The source that a name like ``procedural:leaves?count=4000&seed=0&channels=3`` stands for."""
    kind, _, query = options.name.removeprefix(PROCEDURAL_PREFIX).partition("?")
    kinds = (*FAMILIES, ALL_FAMILIES)
    if kind not in kinds:
        raise ConfigError(f"there is no {PROCEDURAL_PREFIX}{kind}; there is {', '.join(kinds)}")
    names = {"count", "seed", "channels"}
    settings = {"count": _COUNTS.get(kind, _DEFAULT_COUNT)}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in names or not value.isdecimal():
            raise ConfigError(
                f"{options.name}: options are whole numbers for {', '.join(sorted(names))}, "
                f"found {name}={value}"
            )
        settings[name] = int(value)
    return ProceduralSource(_Drawing(kind, **settings), options)
