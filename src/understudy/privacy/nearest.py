"""The nearest of many centres, exactly.

The nearest centre of a record depends on the record and the centres alone: never on the records
beside it, the size of a batch or the number of threads. That is part of the guarantee. If removing
one record could turn a tie of another record, it would move two votes and not one.

Float32 matrix products are fast, and depend on all of these. So they only choose the candidates:
every centre whose float32 score lies within a proven bound of the best is scored again in exact
arithmetic, and that decides. It is hardly ever more than one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import require_finite, rounded, row_squares
from understudy.core.types import Vector

_ROWS, _CENTRES = 1024, 1024  # of a tile of scores: 4 MB, still in the cache when it is read
_FEW = 32  # centres of a tile that a row is compared with one by one; with more, with all at once
_PLAIN = 64  # so few centres are scored exactly straight away
_WIDEST = 1 << 18  # dimensions for which the bound on float32 rounding is worth anything
_AT_ONCE = 1 << 20  # numbers that exact arithmetic works on at a time, about
_UNIT = 2.0**-24  # unit roundoff of float32

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class _Quick:
    """The centres as float32 sees them, and what its scores may be off by.

    Scores are x.(c - m) - (|c|^2 - s) / 2 in units of 2^e, with m the mean and s a middle of the
    squares: for all centres of a row the same number less, and smaller, so rounding loses less.

    Attributes:
        columns: (d, k) float32, those differences over 2^e, norms at most 1: a column each, which
            makes the product a few percent faster.
        halves: (k,) float32, those halves over 2^e.
        slope: Bound on a score's error: so much of the row's norm ...
        floor: ... and so much besides.
    """

    columns: NDArray[np.float32]
    halves: NDArray[np.float32]
    slope: float
    floor: float

    @classmethod
    def of(cls, centres: Vector, half: Vector) -> _Quick:
        """For centres (k, d) and half their squared norms (k,).

        The bound, with u = 2^-24: a float32 inner product of d numbers, summed in any order, is
        off by at most (d + 4) u |x| |c - m| (Higham 2002, section 3.1; the 4 is for rounding x and
        c - m to float32 and for the subtraction of the half). The rounding to 25 bits that the
        exact score has and this one has not is 2 sqrt(d) 2^-25 |x| |c|. The half is off by 2u of
        itself. A tenth on top covers terms of second order; 2^-126 a number, what underflows.
        """
        dim = centres.shape[1]
        middle = centres.mean(axis=0)
        shifted = centres - middle
        radius = float(np.sqrt(row_squares(shifted).max()))
        unit = float(np.ldexp(1.0, int(np.frexp(radius)[1])))
        biases = (half - 0.5 * float(half.min() + half.max())) / unit
        length, height = float(np.sqrt(2 * half.max())) / unit, float(half.max()) / unit
        slope = _UNIT * ((dim + 4) * radius / unit + np.sqrt(dim) * length) + 2.0**-50 * length
        floor = 2 * _UNIT * float(np.abs(biases).max()) + 2.0**-50 * height + dim * 2.0**-126
        return cls(
            np.ascontiguousarray((shifted / unit).T, dtype=np.float32),
            biases.astype(np.float32),
            1.1 * float(slope),
            1.1 * float(floor),
        )


@dataclass(frozen=True)
class Nearest:
    """The centre that a row is nearest to, by exact arithmetic.

    A row x scores <x, c> - |c|^2 / 2 with a centre c, where the inner product is of the `rounded`
    vectors and exact; the highest score wins, and of equals the first.
    """

    centres: Vector

    @cached_property
    def _exact(self) -> tuple[Vector, Vector]:
        return rounded(self.centres), 0.5 * row_squares(self.centres)

    @cached_property
    def _quick(self) -> _Quick:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return _Quick.of(self.centres, self._exact[1])

    def __call__(self, values: NDArray[Any]) -> Indices:
        """Index of the nearest centre of each row: (n,) int64.

        Raises:
            InputError: A value that is not finite.
        """
        count, dim = self.centres.shape
        if count <= _PLAIN or dim > _WIDEST:
            return self._by_all(values)
        squares = row_squares(values)
        require_finite(squares)
        tolerance = self._quick.slope * np.sqrt(squares) + self._quick.floor
        nearest = np.empty(len(values), dtype=np.int64)
        tile = np.empty(min(len(values), _ROWS) * min(count, _CENTRES), dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in _parts(len(values), _ROWS):
                nearest[part] = self._of_block(values[part], tolerance[part], tile)
        return nearest

    def _of_block(
        self, values: NDArray[Any], tolerance: Vector, tile: NDArray[np.float32]
    ) -> Indices:
        """Tile by tile: centres within twice the tolerance of the best so far are remembered."""
        quick, rows = self._quick, values.astype(np.float32, copy=False)
        best = np.full(len(rows), -np.inf, dtype=np.float32)
        crowded = np.zeros(len(rows), dtype=np.bool_)
        pairs: list[tuple[Indices, Indices, NDArray[np.float32]]] = []
        for part in _parts(len(quick.halves), _CENTRES):
            width = part.stop - part.start
            scores = tile[: len(rows) * width].reshape(len(rows), width)
            np.matmul(rows, quick.columns[:, part], out=scores)
            scores -= quick.halves[part]
            top = scores.max(axis=1)
            np.maximum(best, top, out=best)
            crowded |= ~np.isfinite(top)
            least = _below(best, tolerance)
            contenders = np.flatnonzero((top >= least) & ~crowded)
            close = scores[contenders] >= least[contenders, None]
            position, centre = np.divmod(np.flatnonzero(close), width)
            many = np.bincount(position, minlength=len(contenders)) > _FEW
            crowded[contenders[many]] = True
            position, centre = position[~many[position]], centre[~many[position]]
            pairs.append(
                (contenders[position], centre + part.start, scores[contenders[position], centre])
            )
        row, centre, score = (np.concatenate(column) for column in zip(*pairs, strict=True))
        candidate = (score >= _below(best, tolerance)[row]) & ~crowded[row]
        nearest = self._by_pairs(values, row[candidate], centre[candidate])
        nearest[crowded] = self._by_all(values[crowded])
        return nearest

    def _by_pairs(self, values: NDArray[Any], row: Indices, centre: Indices) -> Indices:
        """The best centre of each row among those that it is paired with; -1 without any."""
        nearest = np.full(len(values), -1, dtype=np.int64)
        nearest[row] = centre
        doubtful = np.bincount(row, minlength=len(values))[row] > 1
        contenders, position = np.unique(row[doubtful], return_inverse=True)
        centre, rows = centre[doubtful], rounded(values[contenders])
        centres, half = self._exact
        score = np.empty(len(centre))
        for part in _parts(len(centre), max(1, _AT_ONCE // values.shape[1])):
            candidates = centre[part]
            score[part] = np.vecdot(rows[position[part]], centres[candidates]) - half[candidates]
        # By row; the best first, and of equals the first centre.
        order = np.lexsort((centre, -score, position))
        first = np.searchsorted(position[order], np.arange(len(contenders)))
        nearest[contenders] = centre[order][first]
        return nearest

    def _by_all(self, values: NDArray[Any]) -> Indices:
        """Every row with every centre, exactly."""
        centres, half = self._exact
        nearest = np.empty(len(values), dtype=np.int64)
        for part in _parts(len(values), max(64, _AT_ONCE // (2 * max(centres.shape)))):
            score = rounded(values[part]) @ centres.T
            score -= half
            nearest[part] = score.argmax(axis=1)
        return nearest


def _below(best: NDArray[np.float32], tolerance: Vector) -> NDArray[np.float32]:
    """The least float32 score that could still be the best one, rounded down."""
    least = (best.astype(np.float64) - 2 * tolerance).astype(np.float32)
    return np.nextafter(least, np.float32(-np.inf))


def _parts(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
