"""How well an attack's scores tell members from others, and exact bounds of rates.

What a count of hits says about their probability is by Clopper and Pearson (1934).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Curve, Interval, Metric
from understudy.core.types import Vector

AT = (0.001, 0.01)
"""The false positive rates that membership attacks are reported at (Carlini et al. 2022)."""


_POINTS = 200  # of a curve on a page

MEMBERS_FOUND = {
    rate: Metric(
        key=f"members_found_{rate}",
        group="attack",
        name=f"{{subject}}: members found at {rate:.1%} false alarms",
        explanation="Part of those who took part that an attack finds, while of those who did not "
        "it accuses no more than the part named. Guessing finds as many as it accuses.",
        better="lower",
        unit="%",
        baseline="the blind classifier",
    )
    for rate in AT
}

ADVANTAGE = Metric(
    key="advantage",
    group="attack",
    name="{subject}: advantage",
    explanation="How much more often an attack is right about who took part than wrong. 0: none.",
    better="lower",
    baseline="the blind classifier",
)


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
        others: How many others.
        reversed: Whether low scores were taken for members' (`stronger_roc`).
    """

    fpr: Vector
    tpr: Vector
    auc: Interval
    advantage: float
    tpr_at: Mapping[float, Interval]
    others: int
    reversed: bool = False


def roc(members: NDArray[Any], others: NDArray[Any], *, confidence: float = 0.95) -> Roc:
    """The curve of scores that are higher for members if the attack works.

    Args:
        members: (n,) scores of members.
        others: (m,) scores of rows that are no members, drawn like them.
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
    member = np.arange(len(one) + len(two)) < len(one)
    fpr, tpr = rates(ranks(np.concatenate(sides)), member)
    return Roc(
        fpr=fpr,
        tpr=tpr,
        auc=_area(one, two, confidence),
        advantage=float((tpr - fpr).max()),
        tpr_at={rate: _tpr_at(fpr, tpr, rate, len(one), confidence) for rate in AT},
        others=len(two),
    )


def stronger_roc(members: NDArray[Any], others: NDArray[Any]) -> Roc:
    """The curve by which an attack gains more: high scores taken for members', or low ones.

    A release that keeps away from private records tells where they are, so an attacker asks both
    ways round. The larger of two results is a choice made on the same records: each has an
    interval of 97.5 %, so that both hold together with 95 %.
    """
    forwards, backwards = (
        roc(sign * np.asarray(members), sign * np.asarray(others), confidence=0.975)
        for sign in (1, -1)
    )
    if backwards.auc.value <= forwards.auc.value:
        return forwards
    return replace(backwards, reversed=True)


def roc_curve(name: str, each: Roc) -> Curve:
    """Its ROC with few enough points for a page, those at small false positive rates kept."""
    rates = np.concatenate([[0.0], np.geomspace(1e-4, 1, _POINTS // 2 - 1)])
    at = np.searchsorted(each.fpr, rates, side="right") - 1
    even = np.linspace(0, len(each.fpr) - 1, _POINTS // 2).round().astype(np.int64)
    points = np.unique(np.concatenate([at, even]))
    return Curve(
        "attack",
        f"ROC of {name}",
        "false positive rate",
        "true positive rate",
        tuple(each.fpr[points].tolist()),
        tuple(each.tpr[points].tolist()),
    )


def ranks(scores: Vector) -> NDArray[np.int64]:
    """The rank of each score, 0 for the highest; equal ones share a rank: (n,)."""
    return np.unique(-scores, return_inverse=True)[1].astype(np.int64)


def rates(
    rank: NDArray[np.int64], member: NDArray[np.bool_], counts: NDArray[np.int64] | None = None
) -> tuple[Vector, Vector]:
    """False and true positive rates at every threshold, from (0, 0) to (1, 1): (k,) each.

    Args:
        rank: (n,) ranks of the scores of members and others.
        member: (n,) which are members.
        counts: (n,) how often each counts; None: once.
    """
    often = np.ones(len(rank)) if counts is None else counts
    fpr, tpr = (
        np.concatenate([[0.0], np.cumsum(np.bincount(rank, np.where(side, often, 0)))])
        for side in (~member, member)
    )
    return fpr / fpr[-1], tpr / tpr[-1]


def _area(members: Vector, others: Vector, confidence: float) -> Interval:
    """The area and DeLong's interval (DeLong et al. 1988; by ranks, Sun and Xu 2014)."""
    above, below = _placements(members, others)
    spread = np.sqrt(above.var(ddof=1) / len(members) + below.var(ddof=1) / len(others))
    return _about(float(above.mean()), float(spread), confidence)


def area_by_groups(
    members: NDArray[Any], others: NDArray[Any], of_members: NDArray[Any], of_others: NDArray[Any]
) -> Interval:
    """The area where scores come in groups that hang together (Obuchowski 1997).

    Args:
        members: (n,) scores of members.
        others: (m,) scores of others.
        of_members: (n,) which group each is of: a row that was scored many times, say.
        of_others: (m,) likewise; a group may have scores on both sides.
    """
    above, below = _placements(members, others)
    area = float(above.mean())
    groups, place = np.unique(np.concatenate([of_members, of_others]), return_inverse=True)
    moves = np.concatenate([(above - area) / len(above), (below - area) / len(below)])
    each = np.bincount(place, moves, minlength=len(groups))
    spread = np.sqrt(len(groups) / max(1, len(groups) - 1) * (each**2).sum())
    return _about(area, float(spread))


def _placements(members: Vector, others: Vector) -> tuple[Vector, Vector]:
    """Part of the others below each member, and part of the members above each other."""
    n, m = len(members), len(others)
    ranks = scipy.stats.rankdata(np.concatenate([members, others]))
    above = (ranks[:n] - scipy.stats.rankdata(members)) / m
    below = 1 - (ranks[n:] - scipy.stats.rankdata(others)) / n
    return above, below


def _about(area: float, spread: float, confidence: float = 0.95) -> Interval:
    half_width = float(scipy.stats.norm.ppf((1 + confidence) / 2)) * spread
    return Interval(area, max(0.0, area - half_width), min(1.0, area + half_width))


def _tpr_at(fpr: Vector, tpr: Vector, rate: float, members: int, confidence: float) -> Interval:
    value = float(tpr[np.searchsorted(fpr, rate, side="right") - 1])
    low, high = clopper_pearson(round(value * members), members, confidence)
    return Interval(value, low, high)


def rate_at_least(hits: int, tries: int, miss: float) -> float:
    """One-sided lower bound of a probability, above the truth with probability ``miss`` at most."""
    return 0.0 if hits == 0 else float(scipy.special.betaincinv(hits, tries - hits + 1, miss))


def rate_at_most(hits: int, tries: int, miss: float) -> float:
    """One-sided upper bound of a probability, below the truth with probability ``miss`` at most."""
    return (
        1.0 if hits == tries else float(scipy.special.betaincinv(hits + 1, tries - hits, 1 - miss))
    )


def clopper_pearson(hits: int, tries: int, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided interval of a probability from ``hits`` in ``tries``."""
    tail = (1 - confidence) / 2
    return rate_at_least(hits, tries, tail), rate_at_most(hits, tries, tail)
