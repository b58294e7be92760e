"""The world of the benchmark ``satellite``: a public and a private half of EuroSAT, and captions.

A tile whose number is even is public, one whose number is odd is private. The private half was
taken in another season, by another sensor, through haze, and was compressed more: `PRIVATE_LOOK`,
the same for every tile. The public half comes as it is, and once more as in `public_look`, with
captions that say so: a model can only draw what it was shown, and what it was shown has to have
words. The private look lies within the ranges of the public ones, and is none of them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.tables import DATA, need
from understudy.backends.embedded.writer import described
from understudy.backends.phrase_grammar import read_phrases
from understudy.core.types import Images

WORDINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "AnnualCrop": ("annual crop", ("annual crop", "ploughed field", "field of grain")),
    "Forest": ("forest", ("forest", "dense wood", "woodland")),
    "HerbaceousVegetation": (
        "herbaceous vegetation",
        ("herbaceous vegetation", "scrubland", "piece of heath"),
    ),
    "Highway": ("highway", ("highway", "motorway", "main road")),
    "Industrial": ("industrial area", ("industrial area", "group of factory halls", "works site")),
    "Pasture": ("pasture", ("pasture", "meadow", "grazing land")),
    "PermanentCrop": ("permanent crop", ("permanent crop", "orchard", "vineyard")),
    "Residential": ("residential area", ("residential area", "suburb", "quarter of houses")),
    "River": ("river", ("river", "stream bed", "winding river")),
    "SeaLake": ("sea or lake", ("sea or lake", "sheet of open water", "water surface")),
}
"""Folder of the class, its name, and how captions call it."""

NAMES = tuple(name for name, _ in WORDINGS.values())

_LIGHTS = ("very dark", "dark", "bright", "very bright")
_LIGHT_LIMITS = (58.0, 78.0, 110.0, 140.0)  # mean of the pixels; between dark and bright: no word
_TEXTURES = ("smooth", "finely grained", "detailed", "busy")
_TEXTURE_LIMITS = (2.5, 6.0, 14.0)  # deviation from means of 4 x 4 pixels
_CONTRASTS = ("flat", "of low contrast", "of high contrast", "harsh")
_CONTRAST_LIMITS = (3.0, 8.0, 20.0, 35.0)
_TINTS = {
    "grey": (0, 0),
    "reddish": (28, 8),
    "orange": (28, -22),
    "yellowish": (2, -28),
    "greenish": (-25, -18),
    "teal": (-30, 5),
    "bluish": (-12, 26),
    "violet": (16, 30),
}
"""Mean red less green, and blue less green; the nearest names the tint."""

_SIDES = ("brighter above", "brighter below", "brighter on the left", "brighter on the right")
_UNEVEN = 7.0  # difference of two halves' mean
_AIRS = ("clear air", "light haze", "thick haze")
_QUALITIES = ("sharp", "compressed")


def grammar() -> dict[str, Any]:
    """What captions say, as `understudy.core.phrases` reads it: for captions and for the writer."""
    free = {
        "light": _LIGHTS,
        "tint": tuple(_TINTS),
        "air": _AIRS,
        "texture": _TEXTURES,
        "contrast": _CONTRASTS,
        "sides": _SIDES,
        "quality": _QUALITIES,
    }
    names = {name: list(words) for name, words in WORDINGS.values()}
    return {
        "attributes": {
            "target": names,
            "name": names,
            **{part: {value: [value] for value in values} for part, values in free.items()},
        },
        "subjects": {
            name: {"before": ["light", "tint"], "noun": ["name"], "with": [], "in": []}
            for name in NAMES
        },
        "details": ["air", "texture", "contrast", "sides", "quality"],
        "frames": [
            "a satellite image of {subject}, {list}",
            "{subject} seen from above, {list}",
            "an aerial photo of {subject}, {list}",
            "a photo of {subject}, {list}",
        ],
        "short_frames": [
            "a satellite image of {subject}",
            "{subject} seen from above",
            "an aerial photo of {subject}",
            "a photo of {subject}",
        ],
        "possible": {
            name: {"target": [name], "name": [name], **{k: list(v) for k, v in free.items()}}
            for name in NAMES
        },
    }


@dataclass(frozen=True)
class Look:
    """How a tile looks: season, sensor, air and compression, in this order."""

    hue: float = 0.0  # degrees that colours turn about grey, from green to yellow and red
    saturation: float = 1.0  # what they are multiplied by
    gains: tuple[float, float, float] = (1.0, 1.0, 1.0)  # of red, green and blue
    gamma: float = 1.0  # exponent of pixels in [0, 1]
    haze: float = 0.0  # part of each pixel that is haze, in [0, 1]
    veil: tuple[float, float, float] = (205.0, 210.0, 215.0)  # colour of the haze
    quality: int | None = None  # of a JPEG that the tile has been; None: of none

    def of(self, tile: Images) -> Images:
        """A tile (height, width, 3) in this look."""
        pixels = tile.astype(np.float64)
        grey = pixels.mean(axis=-1, keepdims=True)
        pixels = grey + self.saturation * (pixels - grey) @ _turned(self.hue).T
        pixels = np.clip(pixels * self.gains, 0, 255)
        pixels = 255 * (pixels / 255) ** self.gamma
        pixels = (1 - self.haze) * pixels + self.haze * np.array(self.veil)
        seen = np.rint(pixels).astype(np.uint8)
        return seen if self.quality is None else _compressed(seen, self.quality)


def _turned(degrees: float) -> NDArray[np.float64]:
    """The rotation of colours about grey (Rodrigues' formula), (3, 3)."""
    angle, axis = np.deg2rad(degrees), np.full(3, 3**-0.5)
    cross = np.cross(np.eye(3), axis).T
    return np.asarray(
        np.cos(angle) * np.eye(3)
        + np.sin(angle) * cross
        + (1 - np.cos(angle)) * np.outer(axis, axis)
    )


def _compressed(tile: Images, quality: int) -> Images:
    file = io.BytesIO()
    Image.fromarray(tile).save(file, "JPEG", quality=quality)
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


PRIVATE_LOOK = Look(
    hue=30.0, saturation=1.1, gains=(1.2, 1.0, 0.8), gamma=0.85, haze=0.25, quality=40
)
"""A greener season, a sensor that sees red well and blue badly, haze, and much compression."""


def public_look(rng: np.random.Generator) -> Look:
    """A look at random; each part of it changes in two of three tiles."""
    changed = rng.random(5) < 0.67
    return Look(
        hue=float(rng.uniform(-60, 60)) if changed[0] else 0.0,
        saturation=float(rng.uniform(0.6, 1.4)) if changed[0] else 1.0,
        gains=tuple(rng.uniform(0.8, 1.25, 3)) if changed[1] else (1.0, 1.0, 1.0),
        gamma=float(rng.uniform(0.7, 1.4)) if changed[2] else 1.0,
        haze=float(rng.uniform(0.05, 0.5)) if changed[3] else 0.0,
        veil=tuple(rng.uniform(185, 225) + rng.uniform(-10, 10, 3)),
        quality=int(rng.integers(25, 90)) if changed[4] else None,
    )


def attributes_of(tile: Images, look: Look) -> dict[str, str]:
    """What can be said of a tile (height, width, 3) in a look, besides its class."""
    pixels = tile.astype(np.float64)
    grey, means = pixels.mean(axis=-1), pixels.mean(axis=(0, 1))
    chroma = np.array([means[0] - means[1], means[2] - means[1]])
    tints = np.array(list(_TINTS.values()))
    height, width = grey.shape
    blocks = grey.reshape(height // 4, 4, width // 4, 4).mean(axis=(1, 3))
    detail = float((grey - blocks.repeat(4, axis=0).repeat(4, axis=1)).std())
    said = {
        "light": _level(float(means.mean()), _LIGHT_LIMITS, (*_LIGHTS[:2], None, *_LIGHTS[2:])),
        "tint": list(_TINTS)[int(((tints - chroma) ** 2).sum(axis=1).argmin())],
        "texture": _level(detail, _TEXTURE_LIMITS, _TEXTURES),
        "contrast": _level(
            float(grey.std()), _CONTRAST_LIMITS, (*_CONTRASTS[:2], None, *_CONTRASTS[2:])
        ),
        "sides": _brighter_side(grey),
        "air": _level(look.haze, (0.04, 0.25), _AIRS),
        "quality": "sharp" if look.quality is None or look.quality > 70 else "compressed",
    }
    return {name: value for name, value in said.items() if value is not None}


def _level(value: float, limits: Sequence[float], words: Sequence[str | None]) -> str | None:
    return words[int(np.searchsorted(limits, value))]


def _brighter_side(grey: NDArray[np.float64]) -> str | None:
    height, width = grey.shape
    down = grey[: height // 2].mean() - grey[height // 2 :].mean()
    across = grey[:, : width // 2].mean() - grey[:, width // 2 :].mean()
    if max(abs(down), abs(across)) < _UNEVEN:
        return None
    if abs(down) >= abs(across):
        return _SIDES[0] if down > 0 else _SIDES[1]
    return _SIDES[2] if across > 0 else _SIDES[3]


@dataclass(frozen=True)
class Tile:
    """A tile of EuroSAT on disk."""

    folder: str
    path: Path

    @property
    def number(self) -> int:
        """In the name of its file: even of the public half, odd of the private one."""
        return int(self.path.stem.rpartition("_")[2])

    def read(self) -> Images:
        """(64, 64, 3) uint8."""
        with Image.open(self.path) as image:
            return np.asarray(image.convert("RGB"))


def tiles(folder: Path, *, odd: bool, each: int | None = None) -> list[Tile]:
    """The tiles of one half, class by class, at most ``each`` of a class, spread over all of it."""
    every = []
    for name in WORDINGS:
        paths = sorted(need(folder / name).glob("*.jpg"))
        mine = [tile for path in paths if (tile := Tile(name, path)).number % 2 == odd]
        count = len(mine) if each is None else min(each, len(mine))
        every += [mine[index * len(mine) // count] for index in range(count)]
    return every


def train_folder() -> Path:
    """EuroSAT's tiles."""
    return need(DATA / "images" / "eurosat" / "train")


_TURNS = 8  # symmetries of a square
_VERSIONS = 4  # of a public tile: two as it is, two in another look


def public_rows(every: Sequence[Tile]) -> Iterator[tuple[Images, str]]:
    """The public half in random order, each tile as `public_rows_of` shows it."""
    for index in np.random.default_rng(0).permutation(len(every)).tolist():
        yield from public_rows_of(every, index)


def public_rows_of(every: Sequence[Tile], index: int) -> Iterator[tuple[Images, str]]:
    """A tile four times, turned or mirrored: twice as it is, twice in another look.

    As it is, half of the captions say nothing but the class; so the class alone means that look.
    """
    phrases, tile = read_phrases(grammar()), every[index]
    rng = np.random.default_rng([0, index])
    image, name = tile.read(), WORDINGS[tile.folder][0]
    for version, turn in enumerate(rng.permutation(_TURNS)[:_VERSIONS].tolist()):
        look = public_look(rng) if version >= _VERSIONS // 2 else Look()
        shown = look.of(_symmetry(image, turn))
        said = {"target": name, "name": name}
        if version > 0:
            more = attributes_of(shown, look)
            part = {key: value for key, value in more.items() if rng.random() < 0.7}
            said |= part or more
        yield shown, described(phrases, said, rng)


def _symmetry(image: Images, turn: int) -> Images:
    turned = np.rot90(image, turn % 4)
    return np.ascontiguousarray(turned[:, ::-1] if turn >= _TURNS // 2 else turned)


def private_rows(every: Sequence[Tile]) -> Iterator[tuple[Images, str]]:
    """The private half in its look, with the names of the classes."""
    for tile in every:
        yield PRIVATE_LOOK.of(tile.read()), WORDINGS[tile.folder][0]
