"""A public partition of private rows, and which part a row falls in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Vector
from understudy.privacy import sums

_BITS = 25  # two rows of such norms have an inner product below 2^53 (see Cells.assign)


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
    def _targets(self) -> tuple[Vector, Vector]:
        """Rounded centres, (classes, k, d), and half their squared norms, (classes, 1, k)."""
        half = 0.5 * sums.row_squares(self.flat)
        return _round(self.flat).reshape(self.centres.shape), half.reshape(len(self.centres), 1, -1)

    def assign(self, values: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cell of each row: (n,) int64 in [0, classes * k).

        The inner products are exact, so a tie falls the same way in any batch: rows and centres
        are rounded to integers times a power of two of their own, and as the integers' norms are
        at most about 2^25, every partial sum stays below 2^53 (Cauchy and Schwarz).
        """
        k = self.centres.shape[1]
        if k == 1:
            return labels
        cell = np.empty(len(values), dtype=np.int64)
        centres, half = self._targets
        for label in np.unique(labels):
            mine = np.flatnonzero(labels == label)
            score = _round(values[mine]) @ centres[label].T
            score -= half[label]
            cell[mine] = label * k + score.argmax(axis=1)
        return cell

    def residuals(self, values: NDArray[Any], cell: NDArray[np.int64]) -> Vector:
        """x - centre of its cell: (n, d) float64, a new array."""
        found = self.flat[cell]
        np.subtract(values, found, out=found)
        return found


def _round(rows: NDArray[Any]) -> Vector:
    """Each row rounded to a power of two that is 2^-25 of its norm or a little more: (n, d)."""
    squares = sums.row_squares(rows)
    sums.require_finite(squares)
    # Beside 1.5 * 2^52 units a float64 has room for whole units only: adding rounds.
    magic = np.ldexp(1.5, np.frexp(np.sqrt(squares))[1] + (52 - _BITS))[:, None]
    rounded = rows + magic
    rounded -= magic
    return np.asarray(rounded)
