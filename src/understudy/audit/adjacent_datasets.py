"""Datasets in memory, and the row whose presence an audit looks for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Source
from understudy.core.types import Batch, Labels, Shape

_FAR = 1000.0  # usual distances: wherever a method clips, that is beyond


@dataclass
class Rows:
    """A dataset in memory. Owner-only, like the one that it was read from.

    Attributes:
        name: The name it was read by.
        kind: ``"images"`` or ``"embeddings"``.
        classes: Class names.
        values: (n, ...) images or embeddings.
        labels: (n,) int64.
        units: (n,) who each row belongs to; None: every row is its own unit.
        skipped: 0.
        shape: Shape of one record.
        has_units: Whether rows carry a unit.
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
    def of(cls, source: Source, most: int | None = None, seed: int = 0) -> Rows:
        """Read a source; with ``most``, so many of its rows at random.

        A seeded choice, so that runs can be compared; it is public and the rows are not.
        """
        count = len(source)
        chosen = np.arange(count)
        if most is not None and most < count:
            chosen = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
        parts, start = [], 0
        for batch in source.batches(1024):
            stop = start + len(batch.labels)
            mine = chosen[(chosen >= start) & (chosen < stop)] - start
            units = None if batch.units is None else batch.units[mine]
            parts.append((batch.values[mine], batch.labels[mine], units))
            start = stop
        values, labels = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        who = [part[2] for part in parts if part[2] is not None]
        units = np.concatenate(who) if who else None
        return cls(source.name, source.kind, source.classes, values, labels, units)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int) -> Iterator[Batch]:
        """Every row in order."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            units = None if self.units is None else self.units[part]
            yield Batch(self.values[part], self.labels[part], units)

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of each row."""
        for value in self.values:
            yield hashlib.blake2b(value.tobytes(), digest_size=16, key=key).digest()

    def only(self, which: NDArray[Any]) -> Rows:
        """Some of the rows."""
        units = None if self.units is None else self.units[which]
        return replace(self, values=self.values[which], labels=self.labels[which], units=units)

    def and_also(self, other: Rows) -> Rows:
        """These rows, then the other's."""
        units = None
        if self.units is not None and other.units is not None:
            units = np.concatenate([self.units, other.units])
        return replace(
            self,
            values=np.concatenate([self.values, other.values]),
            labels=np.concatenate([self.labels, other.labels]),
            units=units,
        )


def outliers(rows: Rows, count: int, seed: int) -> Rows:
    """Rows that a dataset can hold and that weigh as much as a method lets a row weigh.

    Embeddings lie far out in directions of their own, so that clipping leaves all it may of them.
    Images are of pixels that are black or white by chance. Each is a unit of its own.
    """
    rng = np.random.default_rng([seed, 0xA0D])
    if rows.kind == "images":
        height, width, channels = rows.shape
        bits = rng.integers(0, 2, (count, height, width, 1), dtype=np.uint8)
        values: NDArray[Any] = np.repeat(255 * bits, channels, axis=3)
    else:
        away = rng.standard_normal((count, *rows.shape))
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        spread = max(float(rows.values.std()), 1e-6) * np.sqrt(rows.shape[0])
        values = (rows.values.mean(axis=0) + _FAR * spread * away).astype(np.float32)
    labels = rng.integers(0, len(rows.classes), count)
    units = None if rows.units is None else np.array([f"audit {seed} {i}" for i in range(count)])
    return replace(rows, values=values, labels=labels, units=units)
