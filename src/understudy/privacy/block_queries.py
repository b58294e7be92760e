"""Queries of numbers that come in blocks, in which a unit's records count together as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import require_finite, row_squares
from understudy.core.types import Labels, Vector
from understudy.privacy.cells import Cells
from understudy.privacy.queries import ClippedSums, Contributions, Query

_LEVELS = 256  # of a logarithm


class AveragedSums(ClippedSums):
    """The same sums, where a unit's records count together as one record, their average.

    Proof: a unit's average is clipped to norm ``radius``.
    """

    description = "sums per cluster of the difference to its centre, averaged over a unit"
    average = True


class BlockSizes(Query):
    """How large the blocks of x - centre are: per cluster, sums of logarithms.

    A logarithm is that of a block's root mean square. A record adds one number a block, in steps of
    1/256 of the range, measured from the middle of the range. A logarithm is looked up among public
    numbers, so that no library's rounding can depend on where a record stands.

    Proof: each of B numbers lies within half of the range log(largest / smallest) of 0, so their
    norm is at most sqrt(B) / 2 times the range; a unit's are averaged, and clipped to that.

    Args:
        cells: The partition that gives each record its centre.
        blocks: Slices of the d numbers.
        smallest: Sizes below are taken for this.
        largest: Sizes above likewise.
    """

    description = "sums of the logarithms of the sizes of blocks of numbers"
    average = True

    def __init__(
        self, cells: Cells, blocks: Sequence[slice], smallest: float, largest: float
    ) -> None:
        self.cells, self.slots, self.width = cells, cells.count, len(blocks)
        self.ends = np.array([[block.start, block.stop] for block in blocks])
        self.low, self.high = math.log(smallest), math.log(largest)
        self.bound = math.sqrt(self.width) * (self.high - self.low) / 2

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """Logarithms from the middle of the range: (n, blocks)."""
        clusters = self.cells.assign(values, labels)
        residuals = self.cells.residuals(values, clusters)
        levels = np.linspace(self.low, self.high, _LEVELS + 1)
        borders = np.exp(levels[:-1] + levels[1:])  # the squares between two levels
        squares = [
            row_squares(residuals[:, start:stop]) / (stop - start) for start, stop in self.ends
        ]
        require_finite(np.concatenate(squares))
        positions = np.searchsorted(borders, np.stack(squares, axis=1))
        return clusters, levels[positions] - (self.low + self.high) / 2

    def logarithms(self, released: Vector, counts: Vector) -> Vector:
        """The means of noisy numbers of records: (clusters, blocks)."""
        middle = (self.low + self.high) / 2
        return np.clip(released / counts[:, None] + middle, self.low, self.high)
