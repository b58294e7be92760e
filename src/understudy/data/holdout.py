"""A random part of a private dataset, set aside before a run: non-members from the same pool.

Each unit is held out by a coin of its own: a keyed hash of the record's stored bytes, or of the
unit's name, falls below the share. So for every key the members are a restriction of the dataset
record by record: two datasets that differ in one unit have members that differ in that unit at
most, and the guarantee of the run holds for the whole dataset, held-out records included. A
permutation that holds out exactly 5 % of n would not do: whether a record takes part would depend
on how many others there are.

The coin does not depend on order, labels or size, so the parts are the same whenever the dataset is
read again; copies of a record are on one side.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError, SourceError
from understudy.core.image_identity import Values, originals_of
from understudy.core.ports import IndexedSource, PhrasedSource, Source
from understudy.core.types import Batch, Shape
from understudy.data.encoded_images import RecordSource
from understudy.data.labels import label_column_of
from understudy.data.reading_options import window_premise
from understudy.data.stored_arrays import regroup
from understudy.data.units import unit_digest

_AT_ONCE = 512  # records decoded at a time where units are told apart


@dataclass(frozen=True, slots=True, repr=False)
class HoldOut:
    """Who is held out. Owner-only: whoever has it can tell members from non-members."""

    key: bytes  # 32 secret bytes
    share: float  # the probability that a unit is held out, above 0 and below 1
    # the column that says who a record belongs to; None: every record is its own unit
    unit: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"the share held out lies between 0 and 1, found {self.share}")

    @classmethod
    def draw(cls, share: float, unit: str | None) -> HoldOut:
        """With a new key of the operating system's generator."""
        return cls(secrets.token_bytes(32), share, unit)

    def holds_out(self, digest: bytes) -> bool:
        """The coin of a record, by its keyed digest."""
        return int.from_bytes(digest[:8], "big") < self.share * 2.0**64


class Parts(NamedTuple):
    """The two parts of a dataset; both index the same classes."""

    members: Source  # the records that a run uses
    held_out: Source


def split(source: Source, hold_out: HoldOut) -> Parts:
    """The members and the held-out part of a dataset: one pass over its records.

    It was opened with the unit column of ``hold_out``, if that has one; no part may be empty.
    """
    if hold_out.unit is not None and not source.has_units:
        raise ConfigError(f"open {source.name} with its units ({hold_out.unit}) to part it")
    out = np.fromiter(_coins(source, hold_out), dtype=np.bool_)
    if out.all() or not out.any():
        raise SourceError(
            f"of {len(out):,} records {int(out.sum()):,} were drawn to be held out at a share of "
            f"{hold_out.share:.2%}, each by a coin of its own or of its unit's. The same command "
            "draws anew; a larger --hold-out makes it likelier that some are",
            source.name,
        )
    return Parts(PartSource(source, ~out), PartSource(source, out))


def _coins(source: Source, hold_out: HoldOut) -> Iterator[bool]:
    """For each record in order, whether it is held out."""
    if hold_out.unit is None:
        yield from map(hold_out.holds_out, source.digests(hold_out.key))
        return
    yield from map(hold_out.holds_out, unit_digests(source, hold_out.key))


def unit_digests(source: Source, key: bytes) -> Iterator[bytes]:
    """A keyed digest of the unit of each record, in order; of images without decoding any."""
    if isinstance(source, RecordSource):  # may hold names as digests under a key of its own
        yield from source.unit_digests(key)
        return
    for batch in source.batches(_AT_ONCE):
        for unit in () if batch.units is None else batch.units.tolist():
            yield unit_digest(key, unit)


def _indexed(source: Source) -> IndexedSource:
    """The source, where it can be read at any position."""
    if not isinstance(source, IndexedSource):
        raise SourceError("cannot be read at any position: take --engine local", source.name)
    return source


class PartSource:
    """Some records of another source, in its order: those where ``chosen`` (n,) is True."""

    kind: Literal["images", "embeddings"]
    shape: Shape

    def __init__(self, source: Source, mask: NDArray[np.bool_]) -> None:
        self.name, self.kind, self.shape = source.name, source.kind, source.shape
        self.classes, self.has_units = source.classes, source.has_units
        self.skipped = source.skipped
        self.label_column = label_column_of(source)
        self.window_premise = window_premise(source)
        self._source, self._mask = source, mask
        if isinstance(source, PhrasedSource):
            self.phrases = source.phrases

    def __len__(self) -> int:
        return int(self._mask.sum())

    def batches(self, size: int) -> Iterator[Batch]:
        """Every record of this part in order, ``size`` at a time."""
        return regroup(self._parts(size), size)

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of each record of this part."""
        digests = zip(self._source.digests(key), self._mask, strict=True)
        return (digest for digest, inside in digests if inside)

    def read(self, positions: NDArray[np.int64]) -> Batch:
        """The records at increasing positions of this part."""
        return _indexed(self._source).read(np.flatnonzero(self._mask)[positions])

    def units(self) -> Iterator[str]:
        """The unit of each record of this part."""
        return compress(_indexed(self._source).units(), self._mask)

    def originals(self) -> Iterator[Values]:
        """Each record of this part as it is stored."""
        return compress(originals_of(self._source), self._mask)

    def _parts(self, size: int) -> Iterator[Batch]:
        first = 0
        for batch in self._source.batches(size):
            inside = self._mask[first : first + len(batch.labels)]
            first += len(inside)
            units = None if batch.units is None else batch.units[inside]
            yield Batch(batch.values[inside], batch.labels[inside], units)
