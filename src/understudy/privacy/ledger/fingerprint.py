"""A fingerprint of a dataset that survives copying, renaming, reordering and a few changed files.

Of stored bytes and of decoded pixels, so that a dataset stays the same where its files are
converted without loss; and of looks, by which single images are recognised that were encoded anew,
resized or mirrored. Made of keyed digests, so it says nothing without the ledger's key, and with
memory for a few thousand digests, whatever the size of the dataset.
"""

from __future__ import annotations

import heapq
import itertools
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from understudy.core.errors import LedgerError

if TYPE_CHECKING:  # importing it takes NumPy, which `ledger list` does without
    from understudy.core.image_identity import Looks
    from understudy.core.ports import Source

SIZE = 1024
VALUES_SIZE = 4096
"""Digests of decoded values, and records with looks: more of them, for single records count."""

SAME = 0.5
_EQUAL_BANDS = 3  # that two images have in common which look the same
_MANY, _MANY_SHARE, _LEAST_SHARE = 5, 0.1, 0.05
_TIMES_ALIKE = 3  # as many of a set of copies look like a record as records do among themselves
_BYTES = 16
_FIRST_SIZE = 256  # of the sketches of 0.1.0, whose rows do not name it


@dataclass(frozen=True, slots=True)
class Sketch:
    """A bottom-k sketch (Cohen and Kaplan 2007) and a sum that is exact.

    Digests are uniform, so the records of a dataset whose digest lies below a threshold are a
    random sample of it, and for two datasets under one key the same sample of what they share. Up
    to the lower of the two sketches' limits both samples are known, whatever the sizes are.

    Attributes:
        total: Sum of all digests modulo 2^128: equal for equal multisets of rows, in any order.
        lowest: The ``size`` smallest distinct digests, ascending; all of them in a smaller dataset.
        size: k.
    """

    total: int
    lowest: tuple[int, ...]
    size: int = SIZE

    @classmethod
    def of(cls, digests: Iterable[bytes], size: int = SIZE) -> Sketch:
        """Sketch a dataset by the digests of its rows.

        Raises:
            LedgerError: No row at all, or a digest that is not 16 bytes long.
        """
        total, heap, smallest = 0, list[int](), set[int]()
        limit = 2 ** (8 * _BYTES)  # from here on, digests are not among the smallest
        for digest in digests:
            if len(digest) != _BYTES:
                raise LedgerError(f"a row's digest must be 16 bytes long, found {len(digest)}")
            value = int.from_bytes(digest, "big")
            total += value
            if value >= limit or value in smallest:
                continue
            smallest.add(value)
            heapq.heappush(heap, -value)
            if len(heap) > size:
                smallest.remove(-heapq.heappop(heap))
            if len(heap) == size:
                limit = -heap[0]
        if not smallest:
            raise LedgerError("the dataset has no rows, so it cannot be recognised later")
        return cls(total % 2 ** (8 * _BYTES), tuple(sorted(smallest)), size)

    @classmethod
    def of_source(cls, source: Source, key: bytes) -> Sketch:
        """Sketch a source by its stored bytes.

        Raises:
            LedgerError: As for `of`, or a source that gives fewer or more digests than records.
        """
        count = itertools.count()
        sketch = cls.of(digest for digest, _ in zip(source.digests(key), count, strict=False))
        if (given := next(count)) != len(source):
            raise LedgerError(
                f"{source.name} gives {given:,} digests for {len(source):,} records, so it would "
                "be taken for another dataset: its reader has to give one of each"
            )
        return sketch

    def is_of(self, other: Sketch) -> bool:
        """Whether both are of the same records, in any order: by the exact sum."""
        return self.total == other.total

    def similarity(self, other: Sketch) -> float:
        """Estimated Jaccard similarity of two datasets, rows in both / rows in either, in [0, 1].

        Exact where both have fewer distinct rows than their ``size``; otherwise the standard error
        is at most 1 / (2 sqrt(size)): 0.016, and 0.03 with a sketch of 0.1.0.
        """
        mine, theirs = self._common_sample(other)
        return len(mine & theirs) / len(mine | theirs)

    def overlap(self, other: Sketch) -> float:
        """Estimated part of the smaller dataset that lies in the larger one, in [0, 1].

        The overlap coefficient, rows in both / distinct rows of the smaller. Exact like
        `similarity`, and exactly 1 where one dataset holds all of the other. The sample of a
        dataset of n rows beside one of N > n has about n size / N of them, so a part of much less
        than 1 / size of a dataset may leave no trace, and then counts as no overlap.
        """
        mine, theirs = self._common_sample(other)
        smaller = min(len(mine), len(theirs))
        return len(mine & theirs) / smaller if smaller else 0.0

    @property
    def _limit(self) -> int:
        """Every digest of the dataset up to here is in `lowest`."""
        return self.lowest[-1] if len(self.lowest) == self.size else 2 ** (8 * _BYTES)

    def _common_sample(self, other: Sketch) -> tuple[set[int], set[int]]:
        """The digests of each dataset up to the limit of both sketches; not both are empty."""
        limit = min(self._limit, other._limit)
        mine, theirs = (
            set(sketch.lowest[: bisect_right(sketch.lowest, limit)]) for sketch in (self, other)
        )
        return mine, theirs

    def to_json(self) -> dict[str, Any]:
        """As JSON values, for a ledger row."""
        return {
            "size": self.size,
            "total": self.total.to_bytes(_BYTES, "big").hex(),
            "lowest": b"".join(v.to_bytes(_BYTES, "big") for v in self.lowest).hex(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Sketch:
        """The sketch of a ledger row."""
        lowest = bytes.fromhex(value["lowest"])
        return cls(
            int(value["total"], 16),
            tuple(
                int.from_bytes(lowest[i : i + _BYTES], "big") for i in range(0, len(lowest), _BYTES)
            ),
            int(value.get("size", _FIRST_SIZE)),
        )


@dataclass(frozen=True)
class RecordDigests:
    """Keyed digests of every record of a dataset that is at hand.

    Attributes:
        stored: (n,) of the stored bytes.
        values: (n,) of the decoded values; None for images of one colour, which hold nothing.
        looks: Of the decoded images.
        key: The ledger's.
    """

    stored: tuple[bytes, ...]
    values: tuple[bytes | None, ...]
    looks: Looks
    key: bytes

    @classmethod
    def of(cls, source: Source, key: bytes) -> RecordDigests:
        """Those of a source, in two passes over it."""
        from understudy.core.image_identity import Looks, is_blank, originals_of, value_digest

        values: list[bytes | None] = []

        def noted() -> Iterator[Any]:
            for record in originals_of(source):
                values.append(None if is_blank(record) else value_digest(record, key))
                yield record

        looks = Looks.of(noted())
        return cls(tuple(source.digests(key)), tuple(values), looks, key)

    @cached_property
    def stored_set(self) -> frozenset[bytes]:
        """The digests of the stored bytes."""
        return frozenset(self.stored)

    @cached_property
    def values_set(self) -> frozenset[bytes | None]:
        """The digests of the decoded values."""
        return frozenset(self.values)

    @cached_property
    def bands(self) -> list[list[list[bytes]]]:
        """For each record, for it and what it is mirrored and turned to, digests of its looks."""
        from understudy.core.image_identity import band_digests

        return band_digests(self.looks, self.key, turned=True)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a ledger stores of the records of a dataset.

    Attributes:
        stored: Of the stored bytes.
        values: Of the decoded values; None in rows of earlier versions.
        looks: For up to `VALUES_SIZE` records, the digests of their looks, in one string.
        records: How many the dataset had.
    """

    stored: Sketch
    values: Sketch | None = None
    looks: bytes = b""
    records: int = 0

    @classmethod
    def of(cls, source: Source, key: bytes, stored: Sketch | None = None) -> Fingerprint:
        """The fingerprint of a source."""
        from understudy.core.image_identity import (
            Looks,
            band_digests,
            embedding_digests,
            originals_of,
            value_digest,
        )

        if stored is None:
            stored = Sketch.of_source(source, key)
        if source.kind == "embeddings":  # they have no looks
            values = Sketch.of(embedding_digests(originals_of(source), key), VALUES_SIZE)
            return cls(stored, values, records=len(source))
        images: dict[bytes, Any] = {}
        highest: bytes | None = None  # of those that are left: looks beyond it would be dropped

        def digests() -> Iterator[bytes]:
            nonlocal highest
            for record in originals_of(source):
                digest = value_digest(record, key)
                if highest is None or digest < highest:
                    images[digest] = Looks.of([record])
                if len(images) > 2 * VALUES_SIZE:
                    _drop_highest(images)
                    highest = max(images)
                yield digest

        values = Sketch.of(digests(), VALUES_SIZE)
        _drop_highest(images)
        parts = band_digests(Looks.concatenated(images.values()), key)
        text = b"".join(band for part in parts for bands in part for band in bands)
        return cls(stored, values, text, len(source))

    def is_of(self, other: Fingerprint) -> bool:
        """Whether both are of the same records, by stored bytes or by decoded values."""
        return any(one.is_of(another) for one, another in self._pairs(other))

    def similarity(self, other: Fingerprint) -> float:
        """As `Sketch.similarity`, by stored bytes or by decoded values, whichever is larger."""
        return max(one.similarity(another) for one, another in self._pairs(other))

    def overlap(self, other: Fingerprint) -> float:
        """As `Sketch.overlap`, by stored bytes or by decoded values, whichever is larger."""
        return max(one.overlap(another) for one, another in self._pairs(other))

    def shared(self, records: RecordDigests) -> tuple[set[int], set[int], set[int]]:
        """Which of the records are of this dataset: by stored bytes, decoded values and looks."""
        blank = [row for row, digest in enumerate(records.values) if digest is None]
        stored = _rows_in(self.stored, records.stored) - set(blank)
        values = set() if self.values is None else _rows_in(self.values, records.values)
        return stored, values, self._looking_the_same(records)

    def _looking_the_same(self, records: RecordDigests) -> set[int]:
        """One record counts where all its bands agree, and many where three do.

        Unless the records of this dataset look as much alike among themselves.
        """
        from understudy.core.image_identity import BAND_BYTES, BANDS

        length = BANDS * BAND_BYTES
        looks = [self.looks[at : at + length] for at in range(0, len(self.looks), length)]
        own = [[look[i : i + BAND_BYTES] for i in range(0, length, BAND_BYTES)] for look in looks]
        index: list[dict[bytes, list[int]]] = [{} for _ in range(BANDS)]
        for number, bands in enumerate(own):
            for numbers, band in zip(index, bands, strict=True):
                numbers.setdefault(band, []).append(number)
        ways_of = records.bands if own else []
        most = {row: _most_equal(ways, index) for row, ways in enumerate(ways_of)}
        many = {row for row, equal in most.items() if equal >= _EQUAL_BANDS}
        if not many:
            return set()
        equal = [_most_equal([bands], index, besides=number) for number, bands in enumerate(own)]
        alike = sum(_EQUAL_BANDS <= one < BANDS for one in equal) / len(own)
        usual = _MANY_SHARE * min(1.0, len(own) / max(self.records, 1))
        share = max(_LEAST_SHARE, usual, _TIMES_ALIKE * alike)
        if len(many) >= max(_MANY, share * len(records.stored)):
            return many
        return {row for row in many if most[row] == BANDS} if alike <= _MANY_SHARE else set()

    def _pairs(self, other: Fingerprint) -> list[tuple[Sketch, Sketch]]:
        pairs = [(self.stored, other.stored)]
        if self.values is not None and other.values is not None:
            pairs.append((self.values, other.values))
        return pairs

    def to_json(self) -> dict[str, Any]:
        """As JSON values, for a ledger row."""
        content = self.stored.to_json()
        if self.values is not None:
            content["values"] = self.values.to_json()
            content["looks"] = b64encode(self.looks).decode()
            content["records"] = self.records
        return content

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Fingerprint:
        """The fingerprint of a ledger row, that of an earlier version without decoded values."""
        values = value.get("values")
        return cls(
            Sketch.from_json(value),
            None if values is None else Sketch.from_json(values),
            b64decode(value.get("looks", "")),
            int(value.get("records", 0)),
        )


def _drop_highest(images: dict[bytes, Any]) -> None:
    """Keep the records of the lowest digests, as a sketch does."""
    for digest in sorted(images)[VALUES_SIZE:]:
        del images[digest]


def _rows_in(sketch: Sketch, digests: Sequence[bytes | None]) -> set[int]:
    lowest = set(sketch.lowest)
    return {
        row
        for row, digest in enumerate(digests)
        if digest is not None and int.from_bytes(digest, "big") in lowest
    }


def _most_equal(
    ways: Sequence[Sequence[bytes]],
    index: Sequence[Mapping[bytes, Sequence[int]]],
    besides: int | None = None,
) -> int:
    """The most bands that an image, mirrored or turned, has in common with one record."""
    most = 0
    for bands in ways:
        counts: dict[int | None, int] = {}
        for band, records in zip(bands, index, strict=True):
            for record in records.get(band, ()):
                counts[record] = counts.get(record, 0) + 1
        counts.pop(besides, None)
        most = max(most, *counts.values(), 0)
    return most
