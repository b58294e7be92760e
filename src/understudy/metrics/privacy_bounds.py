"""Does an implementation keep its guarantee? Lower bounds on epsilon from runs that test it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Metric
from understudy.core.types import Vector
from understudy.metrics.roc import rate_at_least, rate_at_most

_THRESHOLDS = 49
_MOST = 100.0  # an epsilon that no experiment reaches
_PARTS = (0.02, 0.05, 0.1, 0.2, 0.4, 1.0)
"""Parts of the canaries that are guessed; each is tried, and the confidence is shared."""


_RIDGE = 0.1  # added to the diagonal of correlations, for few runs with many numbers

LEAST_CANARIES = 20
"""Canaries of an audit by one run, at least."""

STATED_EPSILON = Metric(
    key="stated_epsilon",
    group="audit",
    name="epsilon, stated",
    explanation="The epsilon that the program states for the runs that were audited.",
)

EPSILON_BOUND = Metric(
    key="epsilon_bound",
    group="audit",
    name="epsilon, lower bound",
    explanation="What the audit measured: epsilon is at least this, at the confidence stated. It "
    "must not be above the stated epsilon.",
    better="lower",
)

GAUSSIAN_EPSILON_BOUND = Metric(
    key="gaussian_epsilon_bound",
    group="audit",
    name="epsilon, lower bound if Gaussian",
    explanation="The lower bound on epsilon that follows from a lower bound on mu, where Gaussian "
    "differential privacy is claimed.",
    better="lower",
)

LARGEST_BOUND = Metric(
    key="largest_epsilon_bound",
    group="audit",
    name="epsilon, largest bound within reach",
    explanation="The lower bound that as many runs would prove, had every guess been right.",
)

LONGEST_CONTRIBUTION = Metric(
    key="longest_contribution",
    group="audit",
    name="longest contribution over stated sensitivity",
    explanation="How much a row added, at most, over what the program states. Above 1 the stated "
    "sensitivity is wrong.",
    better="lower",
)

DEPENDENCE = Metric(
    key="dependence_of_contributions",
    group="audit",
    name="sums over the sum of single contributions, largest difference",
    explanation="Whether what a record adds depends on other records: how far a sum is from the "
    "sum of single contributions, over the stated sensitivity. 0: it does not.",
    better="lower",
)

REVEALING_QUESTIONS = Metric(
    key="revealing_questions",
    group="audit",
    name="runs whose questions tell who was in",
    explanation="Part of the runs in which the questions asked, before any noise, say whether the "
    "record was in.",
    better="lower",
    unit="%",
    baseline="runs without the record",
)


@dataclass(frozen=True, slots=True)
class Audit:
    """What runs proved.

    Attributes:
        epsilon: A lower bound on the true epsilon, 0 where nothing is proven.
        claimed: The epsilon that is claimed; None where it was not said.
        delta: The delta of both.
        confidence: Of the bound.
        how: ``"pairs"`` of runs or ``"one run"``.
        runs: How many runs, or canaries.
        mu: A lower bound on the true mu, at the same confidence, where Gaussian DP is claimed.
        claimed_mu: The mu that is claimed; None where none was.
        most: The epsilon that as many runs prove where every guess is right: the most that could
            have been proven.
        most_mu: The same of mu.
    """

    epsilon: float
    claimed: float | None
    delta: float
    confidence: float
    how: str
    runs: int
    mu: float = 0.0
    claimed_mu: float | None = None
    most: float = 0.0
    most_mu: float = 0.0

    @property
    def broken(self) -> bool:
        """Whether a claim is refuted: each of the two at the confidence."""
        by_epsilon = self.claimed is not None and self.epsilon > self.claimed
        return by_epsilon or (self.claimed_mu is not None and self.mu > self.claimed_mu)


def audit_pairs(
    inside: NDArray[Any],
    outside: NDArray[Any],
    *,
    delta: float,
    claimed: float | None = None,
    claimed_mu: float | None = None,
    confidence: float = 0.95,
) -> Audit:
    """From runs on a dataset with a row, and as many on the same dataset without it.

    The first half of the runs chooses a threshold, the second half says how well it does, so that
    the choice costs no confidence.

    Args:
        inside: (n,) a score of each run with the row, higher where the row shows.
        outside: (m,) the same of runs without it.
        delta: The delta that is claimed.
        claimed: The epsilon that is claimed.
        claimed_mu: The mu that is claimed, where the claim is of Gaussian DP.
        confidence: That a claim is refuted only if it is wrong, for each of the two.

    Raises:
        InputError: Fewer than 20 runs a side, or scores that are not finite.
    """
    one, other = sides = [np.asarray(side, dtype=np.float64).ravel() for side in (inside, outside)]
    if min(map(len, sides)) < 20 or not all(np.isfinite(side).all() for side in sides):
        raise InputError(
            f"an audit takes 20 runs or more a side with finite scores, found {len(sides[0])} and "
            f"{len(sides[1])}"
        )
    bounds = (
        partial(epsilon_from_pairs, delta=delta, confidence=confidence),
        partial(mu_from_pairs, confidence=confidence),
    )
    epsilon, mu = (_at_best_threshold(one, other, bound) for bound in bounds)
    runs = sum(map(len, sides))
    judged_in, judged_out = (len(side) - len(side) // 2 for side in sides)
    most = [bound(judged_in, judged_in, 0, judged_out) for bound in bounds]
    return Audit(epsilon, claimed, delta, confidence, "pairs", runs, mu, claimed_mu, *most)


Bound = Callable[[int, int, int, int], float]


def _at_best_threshold(inside: Vector, outside: Vector, bound: Bound) -> float:
    """The bound of the second halves, at the threshold that is best for the first."""
    (learn_in, test_in), (learn_out, test_out) = (
        (side[: len(side) // 2], side[len(side) // 2 :]) for side in (inside, outside)
    )

    def above(one: Vector, other: Vector, threshold: float) -> float:
        return bound(
            int((one > threshold).sum()), len(one), int((other > threshold).sum()), len(other)
        )

    levels = np.linspace(0, 1, _THRESHOLDS + 2)[1:-1]
    thresholds = np.quantile(np.concatenate([learn_in, learn_out]), levels)
    best = max(thresholds, key=lambda threshold: above(learn_in, learn_out, threshold))
    return above(test_in, test_out, float(best))


def learned_scores(inside: NDArray[Any], outside: NDArray[Any]) -> tuple[Vector, Vector]:
    """One score a run from several numbers: Fisher's discriminant, learnt on the first halves.

    Only the second halves are fair to a learner, and `audit_pairs` judges by those alone.

    Args:
        inside: (n, f) numbers of each run with the row.
        outside: (m, f) the same without it.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (inside, outside)]
    learn = [side[: len(side) // 2] for side in sides]
    pooled = np.concatenate(learn)
    middle, spread = pooled.mean(axis=0), pooled.std(axis=0)
    gain = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    one, other = ((half - middle) * gain for half in learn)
    centred = np.concatenate([one - one.mean(axis=0), other - other.mean(axis=0)])
    within = centred.T @ centred / max(1, len(centred) - 2) + _RIDGE * np.eye(len(middle))
    axis = gain * np.linalg.solve(within, one.mean(axis=0) - other.mean(axis=0))
    return (sides[0] - middle) @ axis, (sides[1] - middle) @ axis


def audit_one_run(
    scores: NDArray[Any],
    inside: NDArray[np.bool_],
    *,
    delta: float,
    claimed: float | None = None,
    confidence: float = 0.95,
) -> Audit:
    """From one run with many canaries, each put in with probability a half, independently.

    The highest scores are guessed "in" and as many of the lowest "out" (Steinke, Nasr, Jagielski
    2023, Algorithm 1). Several numbers of guesses are tried, at a confidence that covers them all.

    Args:
        scores: (m,) a score of each canary, higher where it shows.
        inside: (m,) which were in.
        delta: The delta that is claimed.
        claimed: The epsilon that is claimed.
        confidence: As for `audit_pairs`.
    """
    scores, inside = np.asarray(scores, dtype=np.float64), np.asarray(inside, dtype=np.bool_)
    if (
        len(scores) < LEAST_CANARIES
        or scores.shape != inside.shape
        or not np.isfinite(scores).all()
    ):
        raise InputError(
            f"an audit takes {LEAST_CANARIES} canaries or more with a finite score each, found "
            f"{scores.shape} scores of {inside.shape}"
        )
    order = np.argsort(scores, kind="stable")
    each = 1 - (1 - confidence) / len(_PARTS)
    bounds, most = [], []
    for part in _PARTS:
        half = max(1, int(part * len(scores) / 2))
        right = int(inside[order[-half:]].sum() + (~inside[order[:half]]).sum())
        bound = partial(
            epsilon_from_one_run,
            guesses=2 * half,
            canaries=len(scores),
            delta=delta,
            confidence=each,
        )
        bounds.append(bound(right))
        most.append(bound(2 * half))
    how, runs = "one run", len(scores)
    return Audit(max(bounds), claimed, delta, confidence, how, runs, most=max(most))


def epsilon_from_pairs(
    right_in: int,
    tries_in: int,
    wrong_out: int,
    tries_out: int,
    *,
    delta: float,
    confidence: float = 0.95,
) -> float:
    """Lower bound on epsilon from runs on two neighbouring datasets.

    (epsilon, delta)-DP says tpr <= e^epsilon fpr + delta, and the same of the answers "out"
    (Kairouz et al. 2015). Both rates are bounded one-sidedly (Clopper and Pearson), each at half
    of what the confidence leaves, and so are the two sides.

    Args:
        right_in: Runs on the dataset with the row that were called "in".
        tries_in: Runs on it.
        wrong_out: Runs on the dataset without it that were called "in".
        tries_out: Runs on it.
        delta: The delta that is claimed.
        confidence: That the true epsilon is at least what is returned, if the claim is of DP.

    Returns:
        The bound; 0 where nothing is proven.

    Raises:
        InputError: Counts that are none.
    """
    _check_counts(right_in, tries_in, wrong_out, tries_out)
    miss = (1 - confidence) / 4
    sides = (
        (right_in, tries_in, wrong_out, tries_out),
        (tries_out - wrong_out, tries_out, tries_in - right_in, tries_in),
    )
    best = 0.0
    for hits, tries, slips, of in sides:
        low = rate_at_least(hits, tries, miss)
        if low > delta:
            best = max(best, math.log((low - delta) / rate_at_most(slips, of, miss)))
    return best


def mu_from_pairs(
    right_in: int, tries_in: int, wrong_out: int, tries_out: int, *, confidence: float = 0.95
) -> float:
    """Lower bound on mu from the same runs, where Gaussian DP is what is claimed.

    mu-GDP says Phi^-1(tpr) - Phi^-1(fpr) <= mu at every threshold (Dong, Roth and Su 2022,
    Definition 3), so runs in the middle of the curve say as much as those in its tail. That is why
    this proves more than `epsilon_from_pairs` from the same runs (Nasr et al. 2023, section 5).

    Arguments and result as of `epsilon_from_pairs`, with mu in the place of epsilon.
    """
    _check_counts(right_in, tries_in, wrong_out, tries_out)
    miss = (1 - confidence) / 2
    low, high = rate_at_least(right_in, tries_in, miss), rate_at_most(wrong_out, tries_out, miss)
    if low == 0 or high == 1:
        return 0.0
    return max(0.0, float(scipy.special.ndtri(low) - scipy.special.ndtri(high)))


def _check_counts(right_in: int, tries_in: int, wrong_out: int, tries_out: int) -> None:
    if not (0 <= right_in <= tries_in and 0 <= wrong_out <= tries_out):
        raise InputError(
            f"expected counts of runs, found {right_in} of {tries_in} and {wrong_out} of "
            f"{tries_out}"
        )


def epsilon_from_one_run(
    right: int, guesses: int, canaries: int, *, delta: float, confidence: float = 0.95
) -> float:
    """Lower bound on epsilon from one run with canaries, each in it with probability a half.

    Steinke, Nasr, Jagielski (2023), Theorem 5.2 and appendix D: under (epsilon, delta)-DP the
    number of right guesses is hardly more than a binomial of probability e^epsilon / (1 +
    e^epsilon).

    Args:
        right: Right guesses.
        guesses: Canaries that were guessed "in" or "out"; the others were passed over.
        canaries: How many there were.
        delta: The delta that is claimed.
        confidence: As for `epsilon_from_pairs`.

    Returns:
        The bound; 0 where nothing is proven.

    Raises:
        InputError: Counts that are none.
    """
    if not 0 <= right <= guesses <= canaries:
        raise InputError(
            f"expected right <= guesses <= canaries, found {right}, {guesses} and {canaries}"
        )
    return largest(
        lambda epsilon: one_run_p_value(right, guesses, canaries, epsilon, delta) < 1 - confidence
    )


def one_run_p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are under (epsilon, delta)-DP, at most."""
    q = 1 / (1 + math.exp(-epsilon))
    plain = float(scipy.stats.binom.sf(right - 1, guesses, q))
    if delta == 0 or right == 0:
        return min(1.0, plain)
    # P[right > binomial >= right - i] / i, at its largest: what delta can buy a guess.
    below = np.cumsum(scipy.stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, q))
    steepest = float((below / np.arange(1, right + 1)).max())
    return min(1.0, plain + steepest * delta * 2 * canaries)


def largest(refuted: Callable[[float], bool]) -> float:
    """The largest epsilon that is refuted, where refuting grows harder with epsilon; 0 if none."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high) and high < _MOST:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
