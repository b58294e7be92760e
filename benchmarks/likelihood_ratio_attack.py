"""Whole-chain likelihood-ratio attack (LiRA): does a model say who was behind its training set?

A model that is trained on a selection of candidates leaks by the candidates and by the selection.
The chain is run whole in many worlds: members are drawn, candidates come of them, some are
selected, a model is trained on those. What the model says of a record in the worlds where it was a
member, and in the others, is compared (Carlini et al. 2022, online attack).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Interval
from understudy.core.types import Labels, Vector
from understudy.metrics.attacks import likelihood_ratios
from understudy.metrics.roc import Roc, area_by_groups, roc

WORLDS = 16
"""How many worlds are run, if nobody says otherwise."""

_FEWEST = 4

ChainWorld = Callable[[NDArray[np.bool_], int], Vector]
"""A world: which records are members (n,), and its number, to the trained model's confidence in
each record's true class (n,), as `attacks.confidence` gives it."""


def member_draws(labels: Labels, worlds: int = WORLDS, seed: int = 0) -> NDArray[np.bool_]:
    """Who is a member in each world: (worlds, n), half of every class, the others in the next one.

    So every record is a member in half of the worlds.

    Args:
        labels: (n,) class of each record.
        worlds: How many, an even number.
        seed: Of the draws.

    Raises:
        InputError: Fewer than four worlds, or an odd number.
    """
    if worlds < _FEWEST or worlds % 2:
        raise InputError(f"worlds come in pairs, two pairs or more: found {worlds}")
    rng = np.random.default_rng(seed)
    inside = np.zeros((worlds, len(labels)), dtype=np.bool_)
    for pair in range(0, worlds, 2):
        for label in np.unique(labels):
            rows = rng.permutation(np.flatnonzero(labels == label))
            inside[pair, rows[: len(rows) // 2]] = True
        inside[pair + 1] = ~inside[pair]
    return inside


@dataclass(frozen=True, slots=True)
class ChainAttack:
    """What the attack reaches.

    Attributes:
        curve: Over all worlds, each in turn the one under attack.
        by_world: (worlds,) area under the curve of each world alone.
    """

    curve: Roc
    by_world: Vector

    @property
    def auc(self) -> Interval:
        """Area under the curve; the interval is over draws of other units, given the worlds."""
        return self.curve.auc

    def found_at(self, rate: float = 0.01) -> float:
        """Part of the members that are found while so many non-members are accused."""
        return self.curve.tpr_at[rate].value


def run_worlds(world: ChainWorld, members: NDArray[np.bool_]) -> Vector:
    """What each world's model says of every record: (worlds, n).

    Args:
        world: Runs the whole chain.
        members: (worlds, n), see `member_draws`.
    """
    return np.stack([world(inside, number) for number, inside in enumerate(members)])


def chain_attack(
    members: NDArray[np.bool_], confidences: Vector, units: NDArray[Any] | None = None
) -> ChainAttack:
    """LiRA on every world in turn, by the others.

    For each record a Gaussian of its confidences where it was a member, and one where it was not;
    the score is the log of their ratio at the confidence in the world under attack. That world is
    left out of both, and so is the one in which the members are the others (`member_draws`), if
    there is one: else each record would have a world fewer on the side where it is, which alone
    would say so.

    Args:
        members: (worlds, n) who was a member in each world.
        confidences: (worlds, n) what the model of each world says of every record.
        units: (n,) whose each record is: what is of one leaks together, and the area's interval
            is over units. None: each record is its own.

    Raises:
        InputError: Other shapes, fewer than four worlds, numbers that are not finite, or a record
            that is a member in fewer than two worlds or in all but one.
    """
    _check(members, confidences)
    scores = np.stack([_scores(members, confidences, at) for at in range(len(members))])
    unit = np.broadcast_to(np.arange(members.shape[1]) if units is None else units, members.shape)
    curve = roc(scores[members], scores[~members])
    area = area_by_groups(scores[members], scores[~members], unit[members], unit[~members])
    by_world = [
        roc(one[inside], one[~inside]).auc.value
        for one, inside in zip(scores, members, strict=True)
    ]
    return ChainAttack(replace(curve, auc=area), np.array(by_world))


def _scores(members: NDArray[np.bool_], confidences: Vector, target: int) -> Vector:
    """Log likelihood ratio of each record in one world, by the others: (n,)."""
    others = (members == members[target]).any(axis=1)  # not its complement
    others[target] = False
    return likelihood_ratios(confidences[target], members[others], confidences[others])


def _check(members: NDArray[np.bool_], confidences: Vector) -> None:
    if members.shape != confidences.shape or members.ndim != 2 or len(members) < _FEWEST:
        raise InputError(
            "the attack compares four worlds or more, with the confidences of the same records: "
            f"found {members.shape} and {confidences.shape}"
        )
    if not np.isfinite(confidences).all():
        raise InputError("the models' confidences hold numbers that are not finite")
    often = members.sum(axis=0)
    if ((often < 2) | (often > len(members) - 2)).any():
        raise InputError(
            "each record must be a member in two worlds or more, and no member in two or more: "
            "draw the members by halves"
        )
