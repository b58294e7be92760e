"""A public partition of private rows, and which part a row falls in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Vector
from understudy.privacy.nearest import Nearest


@dataclass(frozen=True)
class Cells:
    """A public partition: the class of a row, then the nearest of that class's centres.

    Attributes:
        centres: (classes, k, d) float64, released or public.
    """

    centres: Vector

    @property
    def count(self) -> int:
        """classes * k."""
        return int(self.centres.shape[0] * self.centres.shape[1])

    @property
    def dim(self) -> int:
        """d."""
        return int(self.centres.shape[2])

    @cached_property
    def flat(self) -> Vector:
        """(classes * k, d): the centre of each cell."""
        return self.centres.reshape(self.count, self.dim)

    @cached_property
    def _nearest(self) -> list[Nearest]:
        """Of each class."""
        return [Nearest(centres) for centres in self.centres]

    def assign(self, values: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cell of each row: (n,) int64 in [0, classes * k).

        A row's cell depends on nothing but the row: exact arithmetic decides (`nearest`).
        """
        k = self.centres.shape[1]
        if k == 1:
            return labels
        cell = np.empty(len(values), dtype=np.int64)
        for label in np.unique(labels):
            mine = np.flatnonzero(labels == label)
            # One class only is the common case, and needs no copy.
            rows = values if len(mine) == len(values) else values[mine]
            cell[mine] = label * k + self._nearest[label](rows)
        return cell

    def residuals(self, values: NDArray[Any], cell: NDArray[np.int64]) -> Vector:
        """x - centre of its cell: (n, d) float64, a new array."""
        found = self.flat[cell]
        np.subtract(values, found, out=found)
        return found
