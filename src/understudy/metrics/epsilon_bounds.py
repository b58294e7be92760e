"""What an attack's success proves about epsilon: lower bounds with a stated confidence."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from understudy.core.errors import InputError
from understudy.metrics.roc import rate_at_least, rate_at_most

_MOST = 100.0  # an epsilon that no experiment reaches


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

    Args:
        right_in: As for `epsilon_from_pairs`.
        tries_in: As there.
        wrong_out: As there.
        tries_out: As there.
        confidence: That the true mu is at least what is returned, if the claim is of Gaussian DP.

    Returns:
        The bound; 0 where nothing is proven.

    Raises:
        InputError: Counts that are none.
    """
    _check_counts(right_in, tries_in, wrong_out, tries_out)
    miss = (1 - confidence) / 2
    low, high = rate_at_least(right_in, tries_in, miss), rate_at_most(wrong_out, tries_out, miss)
    if low == 0 or high == 1:
        return 0.0
    return max(0.0, float(scipy.stats.norm.ppf(low) - scipy.stats.norm.ppf(high)))


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
