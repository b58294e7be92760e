"""Drawings in the place of private images: what a forecast runs a method on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from understudy.backends.arrays import fit_images
from understudy.core.types import Batch, Images, Labels, Shape
from understudy.data.drawings.class_drawings import CLASS_ARTISTS, ClassArtist
from understudy.playhouse.world import SMALLEST, World

MOST_DRAWINGS = 3_000
"""Of a kind, that differ; more records than that are these again."""

_SUBJECTS = 8  # classes of drawings in images that have no classes

_ROOMS = (
    *(("dog", "sitting"), ("person", "walking"), ("bottle", None), ("empty", None)),
    *(("person", "eating"), ("dog", "sleeping"), ("two-objects", None), ("person", "reading")),
    *(("dog", "playing"), ("frame", None), ("person", "drinking"), ("dog", "eating")),
)
"""What the rooms of a class show and what it does there; with more classes, walls differ too."""

_WALLS = ("blue", "white", "green", "yellow", "pink", "grey", "red", "brown")

DrawOfClass = Callable[[int, int], Images]
"""Draws image ``number`` of class ``label``: (height, width, channels) uint8."""


@dataclass
class DrawnRecords:
    """Public drawings in the place of private records: a `Source` in memory.

    Attributes:
        name: Of which kind they are.
        images: (m, height, width, channels) uint8.
        index: (n,) int64: which of them each record is.
        labels: (n,) int64.
        classes: Class names, those of the run.
        units: (n,) the unit of each record; None: every record is its own.
    """

    name: str
    images: Images
    index: NDArray[np.int64]
    labels: Labels
    classes: tuple[str, ...]
    units: NDArray[np.str_] | None = None
    kind: Literal["images", "embeddings"] = field(default="images", init=False)
    skipped: int = field(default=0, init=False)
    shape: Shape = field(init=False)
    has_units: bool = field(init=False)

    def __post_init__(self) -> None:
        self.shape, self.has_units = self.images.shape[1:], self.units is not None

    def __len__(self) -> int:
        return len(self.index)

    def batches(self, size: int) -> Iterator[Batch]:
        """Every record in order."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            units = None if self.units is None else self.units[rows]
            yield Batch(self.images[self.index[rows]], self.labels[rows], units)

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of each record."""
        for row in self.index:
            yield hashlib.blake2b(self.images[row].tobytes(), digest_size=16, key=key).digest()


def drawn_records(
    kind: str,
    draw: DrawOfClass,
    sizes: Sequence[int],
    units: int,
    classes: tuple[str, ...],
    class_units: Sequence[int] | None = None,
) -> DrawnRecords:
    """Drawings in the numbers of a private dataset.

    Args:
        kind: What is drawn.
        draw: Draws it.
        sizes: Records of each class.
        units: Units in all.
        classes: Class names.
        class_units: Units of each class, of which one may be of several; None: of one each.
    """
    total = max(1, sum(sizes))
    counts = [min(size, -(-MOST_DRAWINGS * size // total)) for size in sizes]
    images = np.stack(
        [draw(label, number) for label, count in enumerate(counts) for number in range(count)]
    )
    starts = np.cumsum([0, *counts])
    index = [
        start + np.arange(size) % max(1, count)
        for start, size, count in zip(starts, sizes, counts, strict=False)
    ]
    labels = np.repeat(np.arange(len(sizes)), sizes)
    grouped = None
    if units < total:
        of_class = class_units or [max(1, round(units * size / total)) for size in sizes]
        whole = sum(of_class) if class_units is None else units
        firsts = np.cumsum([0, *of_class])  # those of a class follow on those before, in a ring
        numbers = [
            (first + np.arange(size) % max(1, count)) % whole
            for first, size, count in zip(firsts, sizes, of_class, strict=False)
        ]
        grouped = np.array([f"unit {number}" for number in np.concatenate(numbers)])
    return DrawnRecords(kind, images, np.concatenate(index), labels, classes, grouped)


def public_kinds(shape: Shape, classes: int) -> Mapping[str, DrawOfClass]:
    """What draws each kind of public images.

    Args:
        shape: (height, width, channels) of the images.
        classes: How many there are; with one, it shows several things.
    """
    names = {"shapes": "shapes", "textures": "textures", "scenes": "places"}
    kinds: dict[str, DrawOfClass] = {
        kind: _Artists(name, shape, mixed=classes < 2) for kind, name in names.items()
    }
    if find_spec("aggdraw") is not None and max(shape[:2]) >= SMALLEST:
        world = World(max(shape[:2]))
        kinds["scenes"] = partial(_room, world, shape, mixed=classes < 2)
    return kinds


class _Artists:
    """Draws images of a kind; what the images of a class share is settled once."""

    def __init__(self, name: str, shape: Shape, *, mixed: bool) -> None:
        self._name, self._shape, self._mixed = name, shape, mixed
        self._artists: dict[int, ClassArtist] = {}

    def __call__(self, label: int, number: int) -> Images:
        subject = number % _SUBJECTS if self._mixed else label
        if subject not in self._artists:
            rng = np.random.default_rng([subject, 0xC1A55])
            self._artists[subject] = CLASS_ARTISTS[self._name](self._shape, rng)
        pixels = self._artists[subject](np.random.default_rng([subject, number]))
        image: Images = np.rint(255 * pixels).astype(np.uint8)
        return image


def _room(world: World, shape: Shape, label: int, number: int, *, mixed: bool) -> Images:
    """A room of the playhouse: (height, width, channels) uint8."""
    walls, subject = divmod(number % _SUBJECTS if mixed else label, len(_ROOMS))
    target, status = _ROOMS[subject]
    attributes = {"target": target} | ({} if status is None else {"status": status})
    attributes |= {"wall": _WALLS[walls % len(_WALLS)]} if walls else {}
    image = world.draw_as((label << 32) + number, **attributes).image
    room: Images = fit_images(image[None], shape)[0]
    return room
