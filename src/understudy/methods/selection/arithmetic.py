"""Arithmetic of data selection: class budgets, the projection onto them, robust scales."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Vector

ClassBudgets = Literal["proportional", "balanced"]
"""How many samples of each class are selected: as their candidates are, or as many of each."""

_CLIPPED_AT = 4.0  # robust standard deviations
_NORMAL = 1.4826  # standard deviation of a normal variable over its median absolute deviation


def selected_count(keep: float, candidates: int) -> int:
    """How many candidates ``keep`` asks for: a share below 1, or a number of them.

    Raises:
        ConfigError: Not a share in (0, 1], and no whole number of candidates that there are.
    """
    if not 0 < keep < math.inf or (keep > 1 and keep != int(keep)) or keep > candidates:
        raise ConfigError(
            f"keep is a share in (0, 1] or a number up to the {candidates:,} candidates, found "
            f"{keep:g}"
        )
    # One candidate and all of them are told apart: 1 is a share, as 1.0 and 100% are.
    return max(1, round(keep * candidates)) if keep <= 1 else int(keep)


def class_budgets(
    labels: Labels, classes: int, keep: float, budgets: ClassBudgets = "proportional"
) -> NDArray[np.int64]:
    """How many candidates of each class are selected: (classes,) int64.

    Shares are rounded to the nearest total (largest remainder). A class that has candidates keeps
    at least one; no class keeps more than it has, and what it lacks goes to the others.

    Args:
        labels: (M,) class of each candidate.
        classes: C.
        keep: See `selected_count`.
        budgets: In proportion to the candidates of each class, or as many of each.

    Raises:
        ConfigError: See `selected_count`; or fewer than one sample for each class.
    """
    sizes = np.bincount(labels, minlength=classes)
    total = selected_count(keep, len(labels))
    occupied = np.flatnonzero(sizes)
    if total < len(occupied):
        raise ConfigError(
            f"keep leaves {total} samples for {len(occupied)} classes: keep {len(occupied)} or more"
        )
    shares = sizes / sizes.sum() if budgets == "proportional" else (sizes > 0) / len(occupied)
    result = np.where(sizes > 0, 1, 0)
    while (left := total - int(result.sum())) > 0:
        # To the class that is furthest below its share and has candidates left.
        lacking = np.where(result < sizes, shares * total - result, -np.inf)
        neediest = int(lacking.argmax())
        several = min(left, max(1, int(lacking[neediest])), int(sizes[neediest] - result[neediest]))
        result[neediest] += several
    return result.astype(np.int64)


def project(gamma: Vector, labels: Labels, budgets: NDArray[np.int64]) -> Vector:
    """The nearest weights with 0 <= gamma_i <= 1 and sum k_c in each class c: (M,) float64.

    Within a class the projection subtracts one number tau and cuts to [0, 1]. The sum falls in
    tau piecewise linearly, with kinks where a weight meets 0 or 1, so tau is found exactly.

    Args:
        gamma: (M,) any numbers.
        labels: (M,) class of each candidate.
        budgets: (C,) k_c, from 0 to the number of candidates of the class.
    """
    result = np.empty(len(gamma))
    for label in np.unique(labels):
        members = labels == label
        result[members] = _capped_simplex(gamma[members], float(budgets[label]))
    return result


def _capped_simplex(values: Vector, total: float) -> Vector:
    kinks = np.unique(np.concatenate([values, values - 1]))
    sums = _sums_above(values, kinks)
    # The sum is total somewhere between two kinks: above it too small, below it too large.
    after = int(np.searchsorted(-sums, -total))
    if after == 0:
        tau = kinks[0]
    else:
        low, high = kinks[after - 1], kinks[after]
        fall = sums[after - 1] - sums[after]
        tau = high if fall == 0 else low + (high - low) * (sums[after - 1] - total) / fall
    return np.asarray(np.clip(values - tau, 0.0, 1.0), dtype=np.float64)


def _sums_above(values: Vector, kinks: Vector) -> Vector:
    """The sum of clip(values - tau, 0, 1) at each tau of ``kinks``: by sorted prefix sums."""
    ordered = np.sort(values)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])

    def excess(tau: Vector) -> Vector:
        """The sum of max(values - tau, 0)."""
        first = np.searchsorted(ordered, tau, side="right")
        return np.asarray((sums[-1] - sums[first]) - (len(values) - first) * tau)

    return excess(kinks) - excess(kinks + 1)


def largest_weights(gamma: Vector, labels: Labels, budgets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The k_c candidates of each class with the largest weights, in order: (k,) int64.

    Of equal weights the earlier candidate is taken.
    """
    parts = []
    for label, budget in enumerate(budgets.tolist()):
        members = np.flatnonzero(labels == label)
        order = np.argsort(-gamma[members], kind="stable")
        parts.append(members[order[:budget]])
    return np.sort(np.concatenate(parts)).astype(np.int64)


def robust_scores(values: Vector) -> Vector:
    """Distances from the median in robust standard deviations, cut at 4: (n,) in [-4, 4].

    Where more than half of the values are equal, the mean absolute deviation is the scale.
    """
    deviations = values - np.median(values)
    scale = _NORMAL * float(np.median(np.abs(deviations)))
    if scale == 0:
        scale = math.sqrt(math.pi / 2) * float(np.abs(deviations).mean())
    if scale == 0:
        return np.zeros(len(values))
    most = _CLIPPED_AT * scale  # cut first: a quotient by a tiny scale may overflow
    return np.asarray(np.clip(deviations, -most, most) / scale)
