"""What tells members from non-members without the release, and what the release adds to it.

Members and non-members may differ by themselves: they come from other years, cameras or writers.
An attack then succeeds although the release says nothing about any single record. Das, Zhang and
Tramer (2024, "Blind baselines beat membership inference attacks for foundation models") compare
every attack with a blind one, which never sees what is attacked. Here the blind attack is a
classifier of members against non-members; an attack counts for what it adds to that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.results import Interval, Metric, Thresholds
from understudy.core.types import Vector
from understudy.metrics.attacks import by_distance
from understudy.metrics.roc import ADVANTAGE, AT, MEMBERS_FOUND, Roc, ranks, rates, roc
from understudy.metrics.subsets import some

RESAMPLES = 500
"""Draws of the bootstrap."""

_AXES = 32
_AXES_FROM = 2000  # records that principal axes are computed from, at most
_FOLDS = 5
_FAR = 9.0  # squares of a standardised axis are cut there: 3 standard deviations
_STEPS = 25  # of Newton's method, which needs some five
_TAIL, _RAREST = 0.1, 30.0
_TINY = 1e-12


BLIND_AUC = Metric(
    key="blind_auc",
    group="attack",
    name="{subject}: AUC",
    subject="blind classifier",
    explanation="An attack that never sees the release: it learns from some private records and "
    "non-members what tells them apart, and is asked about others. Above 0.5 the two differ by "
    "themselves, in light, sharpness or kind, say; a random split does not.",
    baseline="a guess",
)

BLIND_MEMBERS_FOUND = {
    rate: replace(
        metric,
        key=f"blind_{metric.key}",
        subject="blind classifier",
        explanation="Part of those who took part that the blind classifier finds, which never "
        "sees the release, while of those who did not it accuses no more than the part named.",
        better="",
        baseline="a guess",
    )
    for rate, metric in MEMBERS_FOUND.items()
}

BLIND_DISTANCE_AUC = Metric(
    key="blind_distance_auc",
    group="attack",
    name="blind distance to the reference: AUC",
    explanation="The distance to real records that took no part, without the release. Away from "
    "0.5 private records and non-members differ by themselves.",
    baseline="a guess",
)

_ADDED = (
    "What an attack gains from the release: the same classifier of private records and non-members "
    "with the attack's score and without it. 0: nothing."
)

ADDED_AUC = Metric(
    key="added_auc",
    group="attack",
    name="{subject}: AUC, added by the release",
    explanation=f"{_ADDED} The verdict goes by the lower end of its interval.",
    better="lower",
    baseline="0",
    thresholds=Thresholds(good=0.03, fair=0.10, better="lower", of="the lower end of the interval"),
)

_OF_MEMBERS = Thresholds(good=0.02, fair=0.04, better="lower", of="the lower end of the interval")

ADDED_MEMBERS_FOUND = {
    rate: replace(
        metric,
        key=f"added_{metric.key}",
        name=f"{metric.name}, added by the release",
        explanation=_ADDED,
        baseline="0",
        thresholds=_OF_MEMBERS if rate == 0.01 else None,
    )
    for rate, metric in MEMBERS_FOUND.items()
}

ADDED_ADVANTAGE = replace(
    ADVANTAGE,
    key="added_advantage",
    name="{subject}: advantage, added by the release",
    explanation=_ADDED,
    baseline="0",
)


@dataclass(frozen=True, slots=True)
class AttackGain:
    """What an attack adds to the blind attack: differences, and their paired 95 % intervals.

    Attributes:
        auc: Area of the attack's score and the blind one together, less that of the blind one.
        tpr_at: The same of the true positive rate, at some false positive rates.
        advantage: The same of the advantage.
    """

    auc: Interval
    tpr_at: Mapping[float, Interval]
    advantage: Interval


@dataclass(frozen=True, slots=True)
class Blind:
    """Scores of the blind attack; no record is scored by a classifier that was trained on it.

    Attributes:
        scores: (n + m,) of the members, then of the non-members, higher for members.
        member: (n + m,) whether a record is a member.
        fold: (n + m,) in which of the parts a record is.
        seed: Of the parts and of the bootstrap.
    """

    scores: Vector
    member: NDArray[np.bool_]
    fold: NDArray[np.int64]
    seed: int = 0

    @classmethod
    def of(
        cls,
        members: NDArray[Any],
        non_members: NDArray[Any],
        *,
        reference: NDArray[Any] | None = None,
        side_information: NDArray[Any] | None = None,
        seed: int = 0,
    ) -> Blind:
        """Train a classifier of members against non-members on four fifths, score the last fifth.

        A logistic regression on the principal axes, their squares, the norm, what the axes leave
        over and, with a reference, the distance to it: means, spreads, contrast, sharpness and
        the mix of classes may all differ between two sets of images.

        Args:
            members: (n, d) embeddings, or flattened images.
            non_members: (m, d).
            reference: (r, d) further real records that are no members.
            side_information: (n + m, k) what else the attacker knows of each record: its class.
            seed: Of the parts.
        """
        records = np.concatenate([members, non_members]).astype(np.float64)
        member = np.arange(len(records)) < len(members)
        numbers = _described(records, seed)
        if reference is not None:
            near = -by_distance(records, reference)
            numbers = np.column_stack([numbers, np.log(near + _TINY)])
        if side_information is not None:
            numbers = np.column_stack([numbers, side_information])
        fold = _parts(member, seed)
        # A prior under which all numbers together explain a unit or so of the logit.
        scores, penalty = np.empty(len(member)), numbers.shape[1] / 4
        for part in range(_FOLDS):
            scores[fold == part] = _fitted(numbers, member, fold != part, penalty)
        return cls(scores, member, fold, seed)

    @property
    def roc(self) -> Roc:
        """How well the blind attack tells members from non-members.

        Two records of different parts each have a say in the other's score, by one and the same
        likeness. Where members and non-members do not differ, the area has only these pairs to vary
        by, each counted twice: twice the variance of scores that are independent, which DeLong's
        interval takes them for. It is made wider by the root of that.
        """
        curve = roc(self.scores[self.member], self.scores[~self.member])
        area = curve.auc
        low, high = (
            area.value + math.sqrt(2) * (end - area.value) for end in (area.low, area.high)
        )
        return replace(curve, auc=Interval(area.value, max(0.0, low), min(1.0, high)))

    def gain(self, scores: NDArray[Any]) -> AttackGain:
        """What an attack adds: the same classifier with and without the attack's score.

        Both are cross-fitted. The interval is the bootstrap's over the records: members and
        non-members are drawn anew, each with both of its scores (paired), and thresholds are
        chosen anew.

        Args:
            scores: (n + m,) of the members, then of the non-members, higher for members.
        """
        combined = self._combined(np.asarray(scores, dtype=np.float64))
        pair = [ranks(each) for each in (combined, self._best())]
        values = np.subtract(*(_summary(*rates(one, self.member)) for one in pair))
        rng = np.random.default_rng([self.seed, 0xB11D])
        draws = np.empty((RESAMPLES, len(values)))
        for at in range(RESAMPLES):
            counts = _bootstrap_counts(self.member, rng)
            draws[at] = np.subtract(*(_summary(*rates(one, self.member, counts)) for one in pair))
        low, high = np.quantile(draws, (0.025, 0.975), axis=0)
        area, advantage, *tpr_at = (
            Interval(float(value), float(min(value, bottom)), float(max(value, top)))
            for value, bottom, top in zip(values, low, high, strict=True)
        )
        return AttackGain(area, dict(zip(AT, tpr_at, strict=True)), advantage)

    def _best(self) -> Vector:
        """The blind score, or what the classifier makes of it by itself, whichever tells more.

        Where few records make the blind score worse than a guess by chance, the classifier turns
        it round: what it gains by that, an attack has not added.
        """
        alone = self._combined(np.zeros(len(self.member)))
        areas = [roc(one[self.member], one[~self.member]).auc.value for one in (alone, self.scores)]
        return alone if areas[0] > areas[1] else self.scores

    def _combined(self, scores: Vector) -> Vector:
        """Cross-fitted on the blind score, the attack's, and how rare that is of non-members."""
        combined = np.empty(len(scores))
        for part in range(_FOLDS):
            test = self.fold == part
            rarity = _rarity(scores, scores[~test & ~self.member])
            numbers = np.column_stack([self.scores, scores, rarity])
            combined[test] = _fitted(numbers, self.member, ~test, penalty=1.0)
        return combined


def _rarity(scores: Vector, usual: Vector) -> Vector:
    """Minus the log of the part of the usual scores that are as high.

    Their upper tenth is taken for exponential, so that a copy, which scores higher than any
    non-member, stands out by how much higher.
    """
    order = np.sort(usual)
    above = len(order) - np.searchsorted(order, scores, side="left")
    counted = -np.log((above + 1) / (len(order) + 1))
    edge = float(np.quantile(order, 1 - _TAIL))
    excess = order[order > edge] - edge
    if not len(excess):
        return np.asarray(counted)
    beyond = -np.log(_TAIL) + (scores - edge) / max(float(excess.mean()), _TINY)
    return np.asarray(np.where(scores > edge, np.minimum(beyond, _RAREST), counted))


def _summary(fpr: Vector, tpr: Vector) -> Vector:
    """Area, advantage and the true positive rates at `AT`."""
    tpr_at = [float(tpr[np.searchsorted(fpr, rate, side="right") - 1]) for rate in AT]
    return np.array([np.trapezoid(tpr, fpr), (tpr - fpr).max(), *tpr_at])


def _bootstrap_counts(member: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each record is in a sample of as many, with replacement, of each side."""
    counts = np.zeros(len(member), dtype=np.int64)
    for side in (member, ~member):
        rows = np.flatnonzero(side)
        counts[rows] = np.bincount(rng.integers(0, len(rows), len(rows)), minlength=len(rows))
    return counts


def _described(records: Vector, seed: int) -> Vector:
    """(n, 2 k + 2): principal axes, their squares, logs of the squared norm and of the rest."""
    centred = records - records.mean(axis=0)
    axes = np.linalg.svd(centred[some(len(records), _AXES_FROM, seed)], full_matrices=False)[2]
    places = centred @ axes[:_AXES].T
    whole = np.einsum("nd,nd->n", centred, centred)
    rest = np.maximum(whole - np.einsum("nk,nk->n", places, places), 0)
    least = 1e-9 * float(whole.mean()) + _TINY
    places /= np.maximum(places.std(axis=0), _TINY)
    return np.column_stack(
        [places, np.minimum(places**2, _FAR), np.log(whole + least), np.log(rest + least)]
    )


def _parts(member: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """Parts at random, each with its share of members and of non-members."""
    rng = np.random.default_rng([seed, 0xF01D])
    fold = np.empty(len(member), dtype=np.int64)
    for side in (member, ~member):
        rows = rng.permutation(np.flatnonzero(side))
        fold[rows] = np.arange(len(rows)) % _FOLDS
    return fold


def _fitted(
    numbers: Vector, member: NDArray[np.bool_], train: NDArray[np.bool_], penalty: float
) -> Vector:
    """Logits of the records outside the training part, by ridge logistic regression (Newton).

    The larger side is weighted down, so that both weigh as much as the smaller one has records.
    """
    mean, spread = numbers[train].mean(axis=0), numbers[train].std(axis=0)
    standard = (numbers - mean) / np.maximum(spread, _TINY)
    x, y = np.insert(standard[train], 0, 1, axis=1), member[train].astype(np.float64)
    sides = np.array([(y == 0).sum(), (y == 1).sum()])
    weights = (sides.min() / sides)[y.astype(np.int64)]
    ridge = np.full(x.shape[1], penalty)
    ridge[0] = 1e-6  # the offset is free
    slopes = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        p = scipy.special.expit(x @ slopes)
        gradient = x.T @ (weights * (y - p)) - ridge * slopes
        curvature = (x * (weights * p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        slopes += step
        if np.abs(step).max() < 1e-6:
            break
    return np.asarray(slopes[0] + standard[~train] @ slopes[1:], dtype=np.float64)
