"""``procedural:leaves`` and ``procedural:scenes``: public images nobody took, made when read.

A dead-leaves image is a pile of shapes that hide one another, with sizes by a power law; it has the
edges, occlusions and spectra of natural images (Lee, Mumford and Huang 2001), and networks trained
on such images see well (Baradad et al. 2021). Here each leaf is a rotated diamond, ellipse or box,
filled with 1/f texture. What an encoder does with them says much of what it does with any
image, and no licence and no person is in them. Scenes are those of `understudy.data.scenes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from understudy.core.errors import ConfigError
from understudy.core.types import Batch, Images, Shape
from understudy.data.encoded_images import Options
from understudy.data.names import UNLABELLED_NAME
from understudy.data.scenes import scene

PROCEDURAL_PREFIX = "procedural:"
_DEFAULT_SIDE = 64
_LARGEST_SIDE = 128  # pixels a side that are drawn; larger images are these, enlarged
_MOST_LEAVES = 12


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
    """A ``Source`` of drawn images; the same name gives the same images.

    Args:
        drawing: What was asked for in the name.
        options: Name and size; a square of 64 pixels where no size is given.
    """

    kind: Literal["images", "embeddings"] = "images"
    has_units = False
    skipped = 0

    def __init__(self, drawing: _Drawing, options: Options) -> None:
        self.name = options.name
        self.classes: tuple[str, ...] = UNLABELLED_NAME
        height, width = options.size or (_DEFAULT_SIDE, _DEFAULT_SIDE)
        self.shape: Shape = (height, width, drawing.channels)
        self._drawing = drawing

    def __len__(self) -> int:
        return self._drawing.count

    def batches(self, size: int) -> Iterator[Batch]:
        """Every image in order, ``size`` at a time.

        Raises:
            ConfigError: ``size`` is less than 1.
        """
        if size < 1:
            raise ConfigError(f"a batch has 1 row or more, not {size}")
        for start in range(0, len(self), size):
            rows = range(start, min(start + size, len(self)))
            images = np.stack([self._image(row) for row in rows])
            yield Batch(images, np.zeros(len(rows), dtype=np.int64))

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of each image's pixels."""
        for row in range(len(self)):
            yield hashlib.blake2b(self._image(row).tobytes(), key=key, digest_size=16).digest()

    def _image(self, row: int) -> Images:
        """(height, width, channels) uint8."""
        height, width, channels = self.shape
        rng = np.random.default_rng([self._drawing.seed, row])
        shrink = max(1.0, max(height, width) / _LARGEST_SIDE)
        drawn = (max(1, round(height / shrink)), max(1, round(width / shrink)))
        draw = DRAWN[self._drawing.kind].draw
        pixels = np.rint(draw(*drawn, channels, rng) * 255).astype(np.uint8)
        if drawn == (height, width):
            return pixels
        image = Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])
        large = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
        return large.reshape(height, width, channels)


def open_procedural(options: Options) -> ProceduralSource:
    """The source that a name like ``procedural:leaves?count=4000&seed=0&channels=3`` stands for.

    Raises:
        ConfigError: Another name, or an option that does not exist or makes no sense.
    """
    kind, _, query = options.name.removeprefix(PROCEDURAL_PREFIX).partition("?")
    if kind not in DRAWN:
        raise ConfigError(
            f"there is no {PROCEDURAL_PREFIX}{kind}; there is {' and '.join(PROCEDURAL_NAMES)}"
        )
    known = {"count", "seed", "channels"}
    settings = {"count": DRAWN[kind].count}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known or not value.isdecimal():
            raise ConfigError(
                f"{options.name}: options are whole numbers for {', '.join(sorted(known))}, "
                f"found {name}={value}"
            )
        settings[name] = int(value)
    return ProceduralSource(_Drawing(kind, **settings), options)


def dead_leaves(
    height: int, width: int, channels: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """One image: (height, width, channels) in [0, 1], 1 to 12 leaves on black or on texture."""
    count = int(rng.integers(1, _MOST_LEAVES + 1))
    inside = _shapes(height, width, count, rng)
    if rng.random() < 0.5:
        inside[0] = True  # the lowest leaf covers everything: no black ground
    top = np.where(inside.any(axis=0), count - 1 - inside[::-1].argmax(axis=0), count)
    base = rng.random((count, 1)) + rng.normal(0.0, 0.15, (count, channels))
    tint = 1 + rng.normal(0.0, 0.25, (count, channels))
    black = rng.random(count) < 0.2
    base[black], tint[black] = 0.0, 0.0
    base, tint = (np.pad(part, ((0, 1), (0, 0))) for part in (base, tint))
    texture = np.take_along_axis(_textures(height, width, count, rng), top[None] % count, axis=0)[0]
    pixels = base[top] + tint[top] * texture[:, :, None]
    return np.asarray(np.clip(pixels, 0.0, 1.0), dtype=np.float32)


def _shapes(height: int, width: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(count, height, width): the pixels of each diamond, ellipse or box."""
    y, x = np.mgrid[:height, :width].astype(np.float32)

    def each(values: NDArray[np.float64]) -> NDArray[np.float32]:
        return values.astype(np.float32)[:, None, None]

    size = each(0.7 * min(height, width) * rng.uniform(0.05, 1.0, count) ** 1.5)
    aspect = each(np.exp(rng.normal(0.0, 0.5, count)))
    angle = rng.uniform(0.0, np.pi, count)
    cos, sin = each(np.cos(angle)), each(np.sin(angle))
    down = y - each(rng.uniform(0, height, count))
    right = x - each(rng.uniform(0, width, count))
    along = np.abs(cos * right + sin * down) / (size * aspect)
    across = np.abs(cos * down - sin * right) / (size / aspect)
    kind = rng.integers(0, 3, count)[:, None, None]
    radius = np.select([kind == 0, kind == 1], [along + across, np.hypot(along, across)])
    return np.asarray(np.where(kind == 2, np.maximum(along, across), radius) < 1)


def _textures(height: int, width: int, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(count, height, width) noise of spectrum 1/f^a, mean 0, each with its own a and contrast."""
    rows, columns = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    frequency = np.sqrt(rows**2 + columns**2)
    frequency[0, 0] = np.inf
    slope = rng.uniform(0.5, 2.0, count)[:, None, None]
    waves = rng.standard_normal((2, count, *frequency.shape))
    noise = np.fft.irfft2((waves[0] + 1j * waves[1]) * frequency**-slope, s=(height, width))
    contrast = rng.uniform(0.0, 0.3, count)[:, None, None]
    return np.asarray(noise * contrast / np.maximum(noise.std(axis=(1, 2), keepdims=True), 1e-9))


@dataclass(frozen=True, slots=True)
class _Kind:
    """A way to draw, and how many images there are where nobody says."""

    draw: Callable[[int, int, int, np.random.Generator], NDArray[np.float32]]
    count: int


DRAWN = {"leaves": _Kind(dead_leaves, 4000), "scenes": _Kind(scene, 6000)}
"""What can be drawn, by name."""

PROCEDURAL_NAMES = tuple(PROCEDURAL_PREFIX + kind for kind in DRAWN)
