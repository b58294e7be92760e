"""Adjacent datasets in memory: records of a source, and outliers that are added or left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Source
from understudy.core.types import Batch, Images, Labels, Shape

_FAR = 1000.0  # usual distances: wherever a method clips, that is beyond
_FEWEST_SQUARES = 4  # along the shorter side of an image
_RECORDS_OF_UNIT = 3  # of a unit that may have several: two of its class and one of another


@dataclass
class InMemorySource:
    """A dataset in memory. Owner-only, like the one that it was read from.

    Attributes:
        name: The name it was read by.
        kind: ``"images"`` or ``"embeddings"``.
        classes: Class names.
        values: (n, ...) images or embeddings.
        labels: (n,) int64.
        units: (n,) the unit of each record; None: every record is its own unit.
        skipped: 0.
        shape: Shape of one record.
        has_units: Whether records carry a unit.
    """

    name: str
    kind: Literal["images", "embeddings"]
    classes: tuple[str, ...]
    values: NDArray[Any]
    labels: Labels
    units: NDArray[np.str_] | None = None
    skipped: int = field(default=0, init=False)
    shape: Shape = field(init=False)
    has_units: bool = field(init=False)

    def __post_init__(self) -> None:
        self.shape, self.has_units = self.values.shape[1:], self.units is not None

    @classmethod
    def of(cls, source: Source, limit: int | None = None, seed: int = 0) -> InMemorySource:
        """Read a source; with ``limit``, so many of its records at random.

        A seeded choice, so that runs can be compared; it is public and the records are not.
        """
        count = len(source)
        rows = np.arange(count)
        if limit is not None and limit < count:
            rows = np.sort(np.random.default_rng(seed).choice(count, limit, replace=False))
        parts, start = [], 0
        for batch in source.batches(1024):
            stop = start + len(batch.labels)
            positions = rows[(rows >= start) & (rows < stop)] - start
            units = None if batch.units is None else batch.units[positions]
            parts.append((batch.values[positions], batch.labels[positions], units))
            start = stop
        values, labels = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        unit_parts = [part[2] for part in parts if part[2] is not None]
        units = np.concatenate(unit_parts) if unit_parts else None
        return cls(source.name, source.kind, source.classes, values, labels, units)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int) -> Iterator[Batch]:
        """Every record in order."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            units = None if self.units is None else self.units[part]
            yield Batch(self.values[part], self.labels[part], units)

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of each record."""
        for value in self.values:
            yield hashlib.blake2b(value.tobytes(), digest_size=16, key=key).digest()

    def subset(self, indices: NDArray[Any]) -> InMemorySource:
        """Some of the records."""
        units = None if self.units is None else self.units[indices]
        return replace(self, values=self.values[indices], labels=self.labels[indices], units=units)

    def joined_with(self, other: InMemorySource) -> InMemorySource:
        """These records, then those of the other."""
        units = None
        if self.units is not None and other.units is not None:
            units = np.concatenate([self.units, other.units])
        return replace(
            self,
            values=np.concatenate([self.values, other.values]),
            labels=np.concatenate([self.labels, other.labels]),
            units=units,
        )


def outliers(dataset: InMemorySource, count: int, seed: int) -> InMemorySource:
    """Records that a dataset can hold and that count for as much as a method lets one count.

    Embeddings lie far out in directions of their own, so that clipping leaves all it may of them,
    and are of the class whose mean lies least in that direction, so that a classifier is as wrong
    of them as it can be. Images are of squares that are black or white by chance, and of any class.
    Each is a unit of its own; where units may have several records, one of three equal ones, the
    last of another class.
    """
    rng = np.random.default_rng([seed, 0xA0D])
    labels = rng.integers(0, len(dataset.classes), count)
    if dataset.kind == "images":
        height, width, channels = dataset.shape
        values: NDArray[Any] = np.stack(
            [_squares(height, width, channels, number, rng) for number in range(count)]
        )
    else:
        directions = rng.standard_normal((count, *dataset.shape))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        spread = max(float(dataset.values.std()), 1e-6) * np.sqrt(dataset.shape[0])
        values = (dataset.values.mean(axis=0) + _FAR * spread * directions).astype(np.float32)
        occupied = np.unique(dataset.labels)
        means = [dataset.values[dataset.labels == label].mean(axis=0) for label in occupied]
        labels = occupied[(directions @ np.stack(means).T).argmin(axis=1)]
    if dataset.units is None:
        return replace(dataset, values=values, labels=labels)
    owners = np.array([f"audit {seed} {i}" for i in range(count)])
    values, labels, units = (
        np.repeat(one, _RECORDS_OF_UNIT, axis=0) for one in (values, labels, owners)
    )
    last = slice(_RECORDS_OF_UNIT - 1, None, _RECORDS_OF_UNIT)
    labels[last] = (labels[last] + 1) % len(dataset.classes)
    return replace(dataset, values=values, labels=labels, units=units)


def _squares(
    height: int, width: int, channels: int, number: int, rng: np.random.Generator
) -> Images:
    """An image (height, width, channels) of squares that are black or white by chance.

    The first of several is of the largest squares, which are large in the low frequencies that
    most encoders measure; others of smaller ones, down to pixels. Every second round of sizes has
    each channel by itself: images of colour.
    """
    sides = 1 + int(np.log2(max(1, min(height, width) // _FEWEST_SQUARES)))
    side = 1 << (sides - 1 - number % sides)
    coloured = number // sides % 2 == 1
    shape = (-(-height // side), -(-width // side), channels if coloured else 1)
    bits = rng.integers(0, 2, shape, dtype=np.uint8) * np.uint8(255)
    whole = bits.repeat(side, axis=0).repeat(side, axis=1)[:height, :width]
    return whole if coloured else np.repeat(whole, channels, axis=2)
