"""Exact integer sums of bounded contributions: the part of every query that privacy rests on.

A unit's contribution is the sum of its records' vectors over the L2 norm of its numbers of records
in each class (`unit_weights`), clipped to an L2 norm, truncated to a grid and added up in int64.
Truncation toward zero cannot lengthen a vector, and integer addition knows no order, so the bound
and the sum hold for any batch size, thread count, machine or engine, whatever the floats before
them were.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import ConfigError, RunError
from understudy.core.independence import require_finite, row_squares, scaled_rows
from understudy.core.types import Labels, Vector
from understudy.privacy.accounting import MIN_SCALE

UnitCodes = NDArray[np.int64]
"""Unit of each record of a block: (n,) int64, non-decreasing, whole units only."""

LARGEST_SUM = 2**63 - 1
"""The largest number that a sum of contributions may come to: int64 holds no larger one."""

MOST_STEPS = 2**36
"""Grid steps that a unit adds to an outer product, at most (`queries.FullMoments`)."""

_MARGIN = 1e-9  # clip this much below the bound, so that float rounding cannot reach it


def grid_step(sigma: float) -> float:
    """The grid that contributions are truncated to: a power of two with sigma / g in [2^24, 2^25).

    A power of two makes the division by g exact in floating point. `math.frexp` reads the exponent
    of sigma off exactly; a logarithm is rounded, and may name the power above.

    Raises:
        ConfigError: A sigma that is not a positive number, or so small that its grid has no exact
            float64.
    """
    if not (math.isfinite(sigma) and sigma > 0):
        raise ConfigError(
            f"the noise of a release needs a positive standard deviation, found {sigma!r}: use "
            "another epsilon or clipping radius"
        )
    # sigma = m 2^e with m in [1/2, 1), so 2^(e - 1) is the power of two at or below it.
    step = math.ldexp(1.0, math.frexp(sigma)[1] - MIN_SCALE.bit_length())
    if step < sys.float_info.min:
        raise ConfigError(
            f"noise of standard deviation {sigma!r} is too small for float64: use a smaller "
            "epsilon, or data of a larger scale"
        )
    return step


def steps_of_stage(mu: float) -> int:
    """Grid steps that a unit adds to any number of a stage with this mu, at most.

    A query's bound is at most its sensitivity, so it is at most mu sigma. The grid is that of
    sigma over the heaviest weight, which is at most sqrt(2), with fewer than 2^25 steps
    (`grid_step`); outer products have a grid of their own.
    """
    return max(MOST_STEPS, math.ceil(math.sqrt(2) * mu * 2**25))


def require_summable(units: int, steps: float, what: str) -> None:
    """Refuse a sum that int64 may not hold. Nothing is released by then.

    Args:
        units: Records, each of which may be a unit of its own.
        steps: Grid steps that each adds to one number, at most.
        what: The query or the run, for the message.

    Raises:
        ConfigError: With the number that would overflow.
    """
    largest = units * math.ceil(steps)
    if largest > LARGEST_SUM:
        raise ConfigError(
            f"{what}: a sum over {units:,} records may come to {largest:,} grid steps, and exact "
            f"sums end at 2^63 - 1 = {LARGEST_SUM:,}. Nothing was spent. Take at most "
            f"{LARGEST_SUM // math.ceil(steps):,} records"
        )


class BlockSum:
    """The sum of blocks of records, each added exactly once, whatever an engine delivers.

    A worker that is lost may have answered before, and is asked again elsewhere: a block that is
    added twice would count each of its units twice, which no noise covers.
    """

    def __init__(self, slots: int, width: int) -> None:
        self._total = np.zeros((slots, width), dtype=np.int64)
        self._blocks: set[int] = set()

    def add(self, block: int, part: NDArray[np.int64]) -> None:
        """Add a block's partial sum, unless it was added before."""
        if block not in self._blocks:
            self._blocks.add(block)
            self._total += part

    def total(self, blocks: int) -> NDArray[np.int64]:
        """The sum, once all blocks are in it: (slots, width) int64.

        Raises:
            RunError: Some are missing.
        """
        if self._blocks != set(range(blocks)):
            raise RunError(
                f"{len(self._blocks)} of {blocks} blocks of records were added up: the engine lost "
                "the others. Nothing was released; go on with --resume"
            )
        return self._total


def _gather(
    index: NDArray[Any], size: int, dtype: type
) -> scipy.sparse.csr_array[Any, tuple[int, int]]:
    """The (size, n) 0/1 matrix that adds row i to output row index[i]."""
    n = len(index)
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(size + 1))
    return scipy.sparse.csr_array((np.ones(n, dtype=dtype), order, starts), shape=(size, n))


def unit_weights(groups: UnitCodes, labels: Labels | None) -> Vector:
    """What each record of a unit is multiplied with: (n,), one over ||m||_2.

    m is the unit's numbers of records in each class. Where what is added to is apart for each
    class, ||sum_c m_c w_c||_2 <= ||m||_2 for vectors w_c of norm 1, so a unit adds as much as a
    record can, and not less because it is in several classes. Of one class, or with labels None, it
    is the average of its records.
    """
    groups = np.unique(groups, return_inverse=True)[1]
    labels = np.zeros_like(groups) if labels is None else labels
    classes = labels.max(initial=0) + 1
    pairs, numbers = np.unique(groups * classes + labels, return_counts=True)
    squares = np.bincount(pairs // classes, numbers.astype(np.float64) ** 2)
    return np.asarray(1 / np.sqrt(squares)[groups])


def _clip_factor(norms: Vector, bound: float) -> Vector:
    require_finite(norms)
    limit = bound * (1 - _MARGIN)
    return np.minimum(1.0, limit / np.maximum(norms, limit))


def _check_bound(squared_norms: Vector, bound: float) -> None:
    """Refuse the sum unless every unit's integers lie within the bound.

    Args:
        squared_norms: (units,) squared norm of each unit's integers, all its records together,
            computed in float64 with a relative error below 1e-12.
        bound: What the norm itself, not its square, may be at most: in grid steps.
    """
    # "not <=": what is not a number is refused too.
    if squared_norms.size and not squared_norms.max() <= bound * bound * (1 - 1e-10):
        raise RuntimeError("a contribution exceeds its bound: this is a bug in a query, report it")


def bounded_sum(
    slot: NDArray[Any],
    rows: Vector,
    groups: UnitCodes | None,
    labels: Labels | None = None,
    *,
    slots: int,
    bound: float,
    grid: float,
    weights: Vector | None = None,
) -> NDArray[np.int64]:
    """Sum over units of the clipped and truncated contribution.

    Args:
        slot: (n,) which of the ``slots`` vectors a row adds to.
        rows: (n, width) float64, what it adds.
        groups: Unit of each record, or None where every record is a unit.
        labels: Class of each record, where the slots of different classes differ (`unit_weights`).
        slots: Number of stacked vectors.
        bound: L2 norm that one unit's contribution, stacked over the slots, cannot exceed.
        grid: The grid step.
        weights: (width,) weights of the norm, 1 or more; the noise is smaller by the same weights.
            None: 1.

    Returns:
        (slots, width) int64, in grid steps.

    Raises:
        InputError: A value that is not finite.
    """
    if groups is not None and len(groups):
        rows = rows * unit_weights(groups, labels)[:, None]
        slot, rows, groups = _merge_units(slot, rows, groups, slots)
    squares = row_squares(rows if weights is None else rows * weights)
    norms = np.sqrt(squares if groups is None else np.bincount(groups, squares))
    factor = _clip_factor(norms, bound)
    if groups is not None:
        factor = factor[groups]
    steps = scaled_rows(rows, factor / grid)
    np.trunc(steps, out=steps)
    squares = row_squares(steps if weights is None else steps * weights)
    totals = np.asarray(squares if groups is None else np.bincount(groups, squares), np.float64)
    _check_bound(totals, bound / grid)
    # Whole numbers: float64 adds them up exactly as long as no sum can reach 2^53.
    if len(steps) * (bound / grid) >= 2**53:
        return np.asarray(_gather(slot, slots, np.int64) @ steps.astype(np.int64))
    return np.asarray((_gather(slot, slots, np.float64) @ steps).astype(np.int64))


def _merge_units(
    slot: NDArray[Any], rows: Vector, groups: UnitCodes, slots: int
) -> tuple[NDArray[Any], Vector, UnitCodes]:
    """The sum of a unit's records, one row per (unit, slot)."""
    groups = np.unique(groups, return_inverse=True)[1]
    keys, position = np.unique(groups * slots + slot, return_inverse=True)
    merged = np.asarray(_gather(position, len(keys), np.float64) @ rows)
    return keys % slots, merged, keys // slots


def bounded_outer_sum(
    slot: NDArray[Any],
    rows: Vector,
    groups: UnitCodes | None,
    labels: Labels | None = None,
    *,
    slots: int,
    radius: float,
    step: float,
) -> NDArray[np.int64]:
    """Sum over units of the outer products of their clipped and truncated rows.

    A unit's rows are each clipped to ``radius``, multiplied with the root of their weight
    (`unit_weights`), and truncated to ``step``. The sum of u u^T over those of a slot has a
    Frobenius norm of at most its trace, sum ||u||^2, and the stack over the slots of at most the L2
    norm of the traces, which is (radius / step)^2 or less. That the traces keep this bound is
    checked on the integers. The products are of integers below 2^18 in blocks of at most 2^16 rows,
    so the float64 matrix product is exact.

    Args:
        slot: (n,) which of the ``slots`` matrices a row adds to.
        rows: (n, d) float64, n at most 2^16.
        groups: Unit of each record, or None where every record is a unit.
        labels: Class of each record, where the slots of different classes differ.
        slots: Number of stacked matrices.
        radius: Bound on a row's norm; at most 2^18 steps.
        step: Grid step of a row; the matrices' own grid is its square.

    Returns:
        (slots, d (d + 1) / 2) int64, the upper triangles row by row.
    """
    if radius / step > 2**18 or len(rows) > 2**16:
        raise ValueError("the integer products would not be exact: radius / step or n is too large")
    squares = row_squares(rows)
    factor = _clip_factor(np.sqrt(squares), radius)
    if groups is not None:
        factor *= np.sqrt(unit_weights(groups, labels))
    steps = scaled_rows(rows, factor / step)
    np.trunc(steps, out=steps)
    traces = row_squares(steps)
    if groups is not None:
        _, traces, owner = _merge_units(slot, traces[:, None], groups, slots)
        traces = np.sqrt(np.bincount(owner, np.square(traces[:, 0])))
    _check_bound(traces, radius / step)
    upper = np.triu_indices(rows.shape[1])
    total = np.zeros((slots, len(upper[0])), dtype=np.int64)
    for index in np.unique(slot):
        part = steps if slots == 1 else steps[slot == index]
        total[index] = (part.T @ part)[upper]
    return total
