"""Arithmetic and batches in which a record's bits depend on that record alone.

"One unit changes a sum by at most its bound" holds only if what is added up for a record is a
function of that record: not of its neighbours, its position in a batch or how many records there
are (docs/promise.md, "Record independence"). Two things break that without a word. A network or a
library takes another kernel for another batch size, so every call here has one shape. A matrix
product rounds differently in another order of its sums, so `product` does not round at all.

The boundary (`privacy`) rests on this module; it is here because the spaces that records are moved
to (`steps`) need it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Vector

LARGEST_NUMBER = 1e25
"""That an embedding may hold: a larger one may overflow in a later stage, which is paid for."""

_BITS = 25  # two rows of such norms have an inner product below 2^53 (see `rounded`)
_PLAIN = 4096  # numbers in a row that are summed one after the other
_AT_ONCE = 256  # rows of a product at a time: they stay in the cache
_LEAST = -700.0  # the exponential of less is counted as that of this: 1e-304
_LOG2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)  # high bits, and the rest
_TERMS = 14  # of the exponential's series: |x| <= 0.35, so the rest is below 1e-17


def filled(values: NDArray[Any], rows: int) -> NDArray[Any]:
    """The records (n, ...), then zeros (black images) up to ``rows`` of them: (rows, ...).

    With ``rows`` or more of them, as they are.
    """
    if len(values) >= rows:
        return values
    filler = np.zeros((rows - len(values), *values.shape[1:]), dtype=values.dtype)
    return np.concatenate([values, filler])


def even_parts(values: NDArray[Any], size: int) -> Iterator[tuple[slice, NDArray[Any]]]:
    """At most ``size`` records at a time, every part of one shape: the last one is filled up.

    Fewer than ``size`` records in all are one part as they are: who calls a model with private
    records calls it with as many each time (`constantly`).

    Yields:
        The slice of ``values``, and its records; there may be zeros after them.
    """
    rows = min(size, len(values))
    for start in range(0, len(values), size):
        part = slice(start, min(start + size, len(values)))
        yield part, filled(values[part], rows)


def constantly(
    function: Callable[[NDArray[Any]], NDArray[Any]], values: NDArray[Any], rows: int
) -> NDArray[Any]:
    """``function`` of the records (n, ...), by `constant_calls`, in one array (n, ...)."""
    calls = constant_calls(function, values, rows)
    first = next(calls)
    if len(values) <= rows:
        return first
    result = np.empty((len(values), *first.shape[1:]), dtype=first.dtype)
    result[:rows] = first  # at once: a function may write all its results into one array
    for start, part in zip(range(rows, len(values), rows), calls, strict=True):
        if part.shape[1:] != first.shape[1:]:
            raise InputError("an encoder or a view gave rows of several lengths")
        result[start : start + rows] = part
    return result


def constant_calls(
    function: Callable[[NDArray[Any]], NDArray[Any]], values: NDArray[Any], rows: int
) -> Iterator[NDArray[Any]]:
    """``function`` of the records, in calls of exactly ``rows`` records each.

    Yields:
        Results, (rows, ...) a call; of the last one those of the records alone.

    Raises:
        InputError: A call that did not give one result for each record.
    """
    for start in range(0, max(len(values), 1), rows):
        part = values[start : start + rows]
        result = np.asarray(function(filled(part, rows)))
        if result.shape[:1] != (rows,):
            raise InputError(
                f"an encoder or a view gave shape {result.shape} for {rows} records; expected one "
                "row for each. Nothing was spent"
            )
        yield result[: len(part)]


def require_finite(norms: Vector) -> None:
    """Refuse rows that hold NaN or infinity, before anything is charged."""
    if not np.isfinite(norms).all():
        raise InputError(
            "an embedding holds NaN or infinite values; check the encoder and its input. "
            "Nothing was released"
        )


def row_squares(rows: NDArray[Any]) -> Vector:
    """Squared norm of each row: (n,) float64.

    The order of a row's sum does not depend on the batch, and the relative error is below 1e-12:
    plain sums have one of 2^-53 for each number, and NumPy's sums of whole arrays are pairwise.
    """
    if rows.shape[1] <= _PLAIN:
        # Converted first: NumPy's own conversion within `vecdot` takes ten times as long.
        exact = rows.astype(np.float64, copy=False)
        return np.asarray(np.vecdot(exact, exact))
    return np.asarray(np.square(rows, dtype=np.float64, order="C").sum(axis=1))


def scaled_rows(rows: Vector, factors: Vector, out: Vector | None = None) -> Vector:
    """Each row times its number, (n, d) by (n,): where few are clipped, most have the same one.

    By a single number NumPy multiplies in less than half of the time; the products are the same.
    """
    usual = factors.max(initial=-math.inf)
    own = np.flatnonzero(factors != usual)
    if 4 * len(own) > len(rows):
        return np.asarray(np.multiply(rows, factors[:, None], out=out))
    products = rows[own] * factors[own, None]
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that are clipped
        result = np.multiply(rows, usual, out=out)
    result[own] = products
    return np.asarray(result)


def rounded(rows: NDArray[Any]) -> Vector:
    """Each row rounded to a power of two that is 2^-25 of its norm or a little more: (n, d).

    Rows are then integers times a power of two of their own, with norms of at most about 2^25, so
    every partial sum of an inner product stays below 2^53 (Cauchy and Schwarz): float64 computes
    it exactly, in any order.
    """
    result = np.array(rows, dtype=np.float64)
    squares = row_squares(result)
    require_finite(squares)
    # Beside 1.5 * 2^52 units a float64 has room for whole units only: adding rounds.
    magic = np.ldexp(1.5, np.frexp(np.sqrt(squares))[1] + (52 - _BITS))[:, None]
    result += magic
    result -= magic
    return result


class Projection:
    """``rows @ matrix``, (n, d) by (d, p) to (n, p) float64, each row by itself to the last bit.

    A library's matrix product takes another kernel, and so another order of its sums, for another
    number of rows. Here rows and columns are `rounded` first, each by itself; their inner products
    are then exact in float64, so no kernel, order, position or number of threads can change them.
    The error is that of the rounding, 2^-24 of the product of the two norms or so: a float32
    product has more.

    Raises:
        InputError: A value that is not finite, in the matrix or later in the rows.
    """

    def __init__(self, matrix: NDArray[Any]) -> None:
        self._columns = np.ascontiguousarray(rounded(np.asarray(matrix).T).T)

    def __call__(self, rows: NDArray[Any]) -> Vector:
        """Rows (n, d) to (n, p) float64."""
        result = np.empty((len(rows), self._columns.shape[1]))
        for start in range(0, len(rows), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            np.matmul(rounded(rows[part]), self._columns, out=result[part])
        return result


def product(rows: NDArray[Any], matrix: NDArray[Any]) -> Vector:
    """``rows @ matrix`` by a `Projection`, for a matrix that is used once."""
    return Projection(matrix)(rows)


def row_softmax(logits: Vector) -> Vector:
    """Probabilities (n, C) of logits (n, C) float64, each row by itself to the last bit.

    Every step is a sum, a product, a quotient or a rounding of single numbers, which IEEE 754
    defines to the last bit; a library's exponential may take another kernel at the end of an
    array. The sum over a row runs from its first number to its last.
    """
    powers = _exponential(np.maximum(logits - logits.max(axis=1, keepdims=True), _LEAST))
    return np.asarray(powers / np.add.accumulate(powers, axis=1)[:, -1:])


def _exponential(values: Vector) -> Vector:
    """exp of numbers from -700 to 0, with a relative error below 1e-14."""
    halvings = np.rint(values * (1 / (_LOG2[0] + _LOG2[1])))
    rest = values - halvings * _LOG2[0]
    rest -= halvings * _LOG2[1]
    total = np.full_like(rest, 1 / math.factorial(_TERMS - 1))
    for term in range(_TERMS - 2, -1, -1):
        total *= rest
        total += 1 / math.factorial(term)
    return np.asarray(np.ldexp(total, halvings.astype(np.int32)))
