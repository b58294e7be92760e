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
    """How large the blocks of x - centre are: per cluster, sums of logarithms, and their squares.

    A logarithm is that of a block's root mean square. A record adds one number a block, in steps of
    1/256 of the range, measured from the middle of the range. A logarithm is looked up among public
    numbers, so that no library's rounding can depend on where a record stands.

    Proof: each of B numbers lies within h of 0, half of the range log(largest / smallest), so their
    norm is at most sqrt(B) h; a square less h^2 / 2 lies within h^2 / 2 of 0, so that together they
    have a norm of at most sqrt(B (h^2 + h^4 / 4)); a unit's are averaged, and clipped to that.

    Args:
        cells: The partition that gives each record its centre.
        blocks: Slices of the d numbers.
        smallest: Sizes below are taken for this.
        largest: Sizes above likewise.
        squares: Whether the squares are added up as well, which tell how much sizes vary.
    """

    description = "sums of the logarithms of the sizes of blocks of numbers"
    average = True

    def __init__(
        self,
        cells: Cells,
        blocks: Sequence[slice],
        smallest: float,
        largest: float,
        *,
        squares: bool = False,
    ) -> None:
        self.cells, self.slots, self.squares = cells, cells.count, squares
        self.width = len(blocks) * (1 + squares)
        self.ends = np.array([[block.start, block.stop] for block in blocks])
        self.low, self.high = math.log(smallest), math.log(largest)
        half = (self.high - self.low) / 2
        self.bound = math.sqrt(len(blocks) * (half**2 + squares * half**4 / 4))

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """Logarithms from the middle of the range, then their squares: (n, width)."""
        clusters = self.cells.assign(values, labels)
        residuals = self.cells.residuals(values, clusters)
        levels = np.linspace(self.low, self.high, _LEVELS + 1)
        borders = np.exp(levels[:-1] + levels[1:])  # the squares between two levels
        squares = [
            row_squares(residuals[:, start:stop]) / (stop - start) for start, stop in self.ends
        ]
        require_finite(np.concatenate(squares))
        positions = np.searchsorted(borders, np.stack(squares, axis=1))
        logarithms = levels[positions] - (self.low + self.high) / 2
        if not self.squares:
            return clusters, logarithms
        centred = np.square(logarithms) - (self.high - self.low) ** 2 / 8
        return clusters, np.concatenate([logarithms, centred], axis=1)

    def logarithms(self, released: Vector, counts: Vector) -> Vector:
        """The means of noisy numbers of records: (clusters, blocks)."""
        middle = (self.low + self.high) / 2
        means = released[:, : len(self.ends)] / counts[:, None]
        return np.clip(means + middle, self.low, self.high)

    def variances(self, released: Vector, counts: Vector) -> Vector:
        """Of the logarithms among the records of a cluster, with noise: (clusters, blocks)."""
        means, centred = np.split(released / counts[:, None], 2, axis=1)
        return np.asarray(centred + (self.high - self.low) ** 2 / 8 - np.square(means))
