"""Queries of numbers that come in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import require_finite, row_squares
from understudy.core.types import Labels, Vector
from understudy.privacy.cells import Cells
from understudy.privacy.queries import Contributions, Query

_LEVELS = 256  # of a logarithm


class BlockSizes(Query):
    """How large the blocks of x - centre are: per cluster, sums of logarithms.

    A logarithm is that of a block's root mean square. A record adds one number a block, in steps of
    1/256 of the range, measured from the middle of the range. A logarithm is looked up among public
    numbers, so that no library's rounding can depend on where a record stands.

    Proof: each of B numbers lies within h of 0, half of the range log(largest / smallest), so their
    norm is at most sqrt(B) h; the square of their mean, less h^2 / 2, lies within h^2 / 2 of 0, so
    with it the norm is at most sqrt(B h^2 + h^4 / 4), which what a unit adds is clipped to.

    Args:
        cells: The partition that gives each record its centre.
        blocks: Slices of the d numbers.
        smallest: Sizes below are taken for this.
        largest: Sizes above likewise.
        common: Whether the square of the mean of a record's logarithms is added up as well, which
            tells how much records of a cluster differ in all blocks alike.
    """

    description = "sums of the logarithms of the sizes of blocks of numbers"

    def __init__(
        self,
        cells: Cells,
        blocks: Sequence[slice],
        smallest: float,
        largest: float,
        *,
        common: bool = False,
    ) -> None:
        self.cells, self.slots, self.common = cells, cells.count, common
        self.width = len(blocks) + common
        self.ends = np.array([[block.start, block.stop] for block in blocks])
        self.low, self.high = math.log(smallest), math.log(largest)
        half = (self.high - self.low) / 2
        self.bound = math.sqrt(len(blocks) * half**2 + common * half**4 / 4)

    @property
    def middle(self) -> float:
        """Of the range of logarithms."""
        return (self.low + self.high) / 2

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """Logarithms from the middle of the range, then their mean's square: (n, width)."""
        clusters = self.cells.assign(values, labels)
        residuals = self.cells.residuals(values, clusters)
        levels = np.linspace(self.low, self.high, _LEVELS + 1)
        borders = np.exp(levels[:-1] + levels[1:])  # the squares between two levels
        squares = [
            row_squares(residuals[:, start:stop]) / (stop - start) for start, stop in self.ends
        ]
        require_finite(np.concatenate(squares))
        positions = np.searchsorted(borders, np.stack(squares, axis=1))
        logarithms = levels[positions] - self.middle
        if not self.common:
            return clusters, logarithms
        whole = positions.sum(axis=1, keepdims=True) / (_LEVELS * len(self.ends)) - 0.5
        squares = (np.square(whole) - 1 / 8) * (self.high - self.low) ** 2
        return clusters, np.concatenate([logarithms, squares], axis=1)

    def logarithms(self, released: Vector, counts: Vector) -> Vector:
        """The means of noisy numbers of records: (clusters, blocks)."""
        means = released[:, : len(self.ends)] / counts[:, None]
        return np.clip(means + self.middle, self.low, self.high)

    def variances(self, released: Vector, counts: Vector) -> Vector:
        """Of the mean of a record's logarithms, among those of a cluster: (clusters,)."""
        values = released / counts[:, None]
        squares = values[:, -1] + (self.high - self.low) ** 2 / 8
        return np.asarray(squares - np.square(values[:, :-1].mean(axis=1)))
