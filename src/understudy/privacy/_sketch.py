"""A fingerprint of a dataset that survives copying, renaming, reordering and a few changed files.

Made of keyed digests, so it says nothing to anybody without the ledger's key, and in one pass with
memory for k digests, whatever the size of the dataset.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from understudy.core.errors import LedgerError

SIZE = 256
SAME = 0.5
_BYTES = 16


@dataclass(frozen=True, slots=True)
class Sketch:
    """A bottom-k sketch (Cohen and Kaplan 2007) and a sum that is exact.

    Attributes:
        total: Sum of all digests modulo 2^128: equal for equal multisets of rows, in any order.
        lowest: The `SIZE` smallest distinct digests, ascending; all of them in a smaller dataset.
    """

    total: int
    lowest: tuple[int, ...]

    @classmethod
    def of(cls, digests: Iterable[bytes]) -> Sketch:
        """Sketch a dataset by the digests of its rows.

        Raises:
            LedgerError: No row at all, or a digest that is not 16 bytes long.
        """
        total, heap, kept = 0, list[int](), set[int]()
        for digest in digests:
            if len(digest) != _BYTES:
                raise LedgerError(f"a row's digest must be 16 bytes long, found {len(digest)}")
            value = int.from_bytes(digest, "big")
            total = (total + value) % 2 ** (8 * _BYTES)
            if value in kept or (len(heap) == SIZE and value > -heap[0]):
                continue
            kept.add(value)
            heapq.heappush(heap, -value)
            if len(heap) > SIZE:
                kept.remove(-heapq.heappop(heap))
        if not kept:
            raise LedgerError("the dataset has no rows, so it cannot be recognised later")
        return cls(total, tuple(sorted(kept)))

    def similarity(self, other: Sketch) -> float:
        """Estimated Jaccard similarity of two datasets, rows in both / rows in either, in [0, 1].

        Exact where both have fewer than `SIZE` rows; otherwise the standard error is at most
        1 / (2 sqrt(SIZE)), 0.03.
        """
        mine, theirs = set(self.lowest), set(other.lowest)
        sample = heapq.nsmallest(SIZE, mine | theirs)
        return len(mine & theirs & set(sample)) / len(sample)

    def to_json(self) -> dict[str, str]:
        """As JSON values, for a ledger row."""
        return {
            "total": self.total.to_bytes(_BYTES, "big").hex(),
            "lowest": b"".join(v.to_bytes(_BYTES, "big") for v in self.lowest).hex(),
        }

    @classmethod
    def from_json(cls, value: dict[str, str]) -> Sketch:
        """The sketch of a ledger row."""
        lowest = bytes.fromhex(value["lowest"])
        return cls(
            int(value["total"], 16),
            tuple(
                int.from_bytes(lowest[i : i + _BYTES], "big") for i in range(0, len(lowest), _BYTES)
            ),
        )
