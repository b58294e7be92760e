"""A fingerprint of a dataset that survives copying, renaming, reordering and a few changed files.

Made of keyed digests, so it says nothing without the ledger's key, and in one pass with
memory for k digests, whatever the size of the dataset.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from understudy.core.errors import LedgerError

SIZE = 1024
SAME = 0.5
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
    def of(cls, digests: Iterable[bytes]) -> Sketch:
        """Sketch a dataset by the digests of its rows.

        Raises:
            LedgerError: No row at all, or a digest that is not 16 bytes long.
        """
        total, heap, smallest = 0, list[int](), set[int]()
        for digest in digests:
            if len(digest) != _BYTES:
                raise LedgerError(f"a row's digest must be 16 bytes long, found {len(digest)}")
            value = int.from_bytes(digest, "big")
            total = (total + value) % 2 ** (8 * _BYTES)
            if value in smallest or (len(heap) == SIZE and value > -heap[0]):
                continue
            smallest.add(value)
            heapq.heappush(heap, -value)
            if len(heap) > SIZE:
                smallest.remove(-heapq.heappop(heap))
        if not smallest:
            raise LedgerError("the dataset has no rows, so it cannot be recognised later")
        return cls(total, tuple(sorted(smallest)))

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
