"""A partition in one space for statistics in another: what `alignment` asks cluster by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import require_finite, row_squares
from understudy.core.types import Vector
from understudy.privacy.cells import Cells


@dataclass(frozen=True)
class SplitCells(Cells):
    """Cells of rows that hold two embeddings one after the other.

    The first ``split`` numbers of a row say which cell it falls in, the others are what is added up
    there. Every query of `queries` takes these cells.

    Proof: nothing to add. A query clips what a row adds, and `sums` what a unit adds, to the
    query's bound, wherever the cell and the residual come from; and a row falls in one cell, which
    depends on that row and on public centres alone. A stored release is reused only for the same
    ``centres``, both parts of them.

    Attributes:
        centres: (classes, k, split + d) float64: where a cell lies, then the public centre that is
            subtracted from the rows in it.
        split: p, 1 or more.
    """

    split: int

    @classmethod
    def of(cls, seeds: Vector, centres: Vector) -> SplitCells:
        """From (classes, k, p) places of the cells and (classes, k, d) centres to subtract."""
        return cls(np.concatenate([seeds, centres], axis=2), seeds.shape[2])

    @property
    def dim(self) -> int:
        """d, the numbers that are added up."""
        return int(self.centres.shape[2]) - self.split

    @cached_property
    def _places(self) -> Cells:
        return Cells(np.ascontiguousarray(self.centres[:, :, : self.split]))

    @cached_property
    def flat(self) -> Vector:
        """(classes * k, d): what is subtracted in each cell."""
        return np.ascontiguousarray(self.centres[:, :, self.split :]).reshape(self.count, self.dim)

    def assign(self, values: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cell of each row, by its first numbers: (n,) int64 in [0, classes * k)."""
        return self._places.assign(np.ascontiguousarray(values[:, : self.split]), labels)

    def residuals(self, values: NDArray[Any], cell: NDArray[np.int64]) -> Vector:
        """The last numbers less the centre of their cell: (n, d) float64, a new array."""
        # A row that is not finite anywhere is refused, also where it has a single cell to fall in.
        require_finite(row_squares(values[:, : self.split]))
        return super().residuals(values[:, self.split :], cell)
