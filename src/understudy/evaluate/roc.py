"""How well an attack's scores tell members from others, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from understudy.core.errors import InputError
from understudy.core.types import Vector

AT = (0.001, 0.01)
"""The false positive rates that membership attacks are reported at (Carlini et al. 2022)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and where it lies with the stated confidence.

    Attributes:
        value: The figure.
        low: Lower end.
        high: Upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Roc:
    """Members against others.

    Attributes:
        fpr: (k,) false positive rates, from 0 to 1.
        tpr: (k,) true positive rates at them.
        auc: Area under the curve; 0.5 is a guess. DeLong's interval.
        advantage: Largest tpr - fpr over all thresholds; 0 is a guess (biased upwards by
            about 1 / sqrt(n), since the best threshold is chosen on the same scores).
        tpr_at: True positive rate at some false positive rates. Clopper and Pearson's interval,
            the threshold taken as given.
        members: How many members.
        others: How many others.
    """

    fpr: Vector
    tpr: Vector
    auc: Interval
    advantage: float
    tpr_at: Mapping[float, Interval]
    members: int
    others: int


def roc(
    members: NDArray[Any],
    others: NDArray[Any],
    *,
    at: Sequence[float] = AT,
    confidence: float = 0.95,
) -> Roc:
    """The curve of scores that are higher for members if the attack works.

    Args:
        members: (n,) scores of members.
        others: (m,) scores of rows that are no members, drawn like them.
        at: False positive rates to report.
        confidence: Of the intervals.

    Raises:
        InputError: Fewer than two scores a side, or scores that are not finite.
    """
    sides = [np.asarray(side, dtype=np.float64).ravel() for side in (members, others)]
    if min(map(len, sides)) < 2 or not all(np.isfinite(side).all() for side in sides):
        raise InputError(
            "an attack is measured on two or more finite scores of members and of others, found "
            f"{len(sides[0])} and {len(sides[1])}"
        )
    one, two = sides
    thresholds = np.unique(np.concatenate(sides))[::-1]
    tpr, fpr = (
        np.concatenate(
            [[0.0], (len(side) - np.searchsorted(np.sort(side), thresholds)) / len(side)]
        )
        for side in sides
    )
    return Roc(
        fpr=fpr,
        tpr=tpr,
        auc=_area(one, two, confidence),
        advantage=float((tpr - fpr).max()),
        tpr_at={rate: _tpr_at(fpr, tpr, rate, len(one), confidence) for rate in at},
        members=len(one),
        others=len(two),
    )


def _area(members: Vector, others: Vector, confidence: float) -> Interval:
    """The area and DeLong's interval (DeLong et al. 1988; by ranks, Sun and Xu 2014)."""
    n, m = len(members), len(others)
    ranks = stats.rankdata(np.concatenate([members, others]))
    above = (ranks[:n] - stats.rankdata(members)) / m  # part of the others below each member
    below = 1 - (ranks[n:] - stats.rankdata(others)) / n  # part of the members above each other
    area = float(above.mean())
    spread = float(np.sqrt(above.var(ddof=1) / n + below.var(ddof=1) / m))
    reach = float(stats.norm.ppf((1 + confidence) / 2)) * spread
    return Interval(area, max(0.0, area - reach), min(1.0, area + reach))


def _tpr_at(fpr: Vector, tpr: Vector, rate: float, members: int, confidence: float) -> Interval:
    value = float(tpr[np.searchsorted(fpr, rate, side="right") - 1])
    low, high = clopper_pearson(round(value * members), members, confidence)
    return Interval(value, low, high)


def clopper_pearson(hits: int, tries: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided interval of a probability from ``hits`` in ``tries`` (1934)."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(stats.beta.ppf(tail, hits, tries - hits + 1))
    high = 1.0 if hits == tries else float(stats.beta.ppf(1 - tail, hits + 1, tries - hits))
    return low, high
