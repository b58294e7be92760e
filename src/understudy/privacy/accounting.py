"""Events to (epsilon, delta). The only module that imports dp_accounting.

A Gaussian release of sensitivity D and noise sigma is mu-GDP with mu = D / sigma (Dong, Roth and Su
2022), which is exact, and k of them compose exactly to sqrt(sum mu_k^2):

    delta(epsilon) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2)          (1)

(Balle and Wang 2018, Theorem 8). What is not Gaussian composes numerically, as privacy loss
distributions, and only then is dp_accounting asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from understudy.core.errors import ConfigError, LedgerError

_MU_RANGE = (1e-9, 1e4)
_LEAST_EPSILON = 1e-7
_DELTA_RESERVE = 1e-6  # part of delta kept for what discretisation does to delta (docs/promise.md)
_RESERVE_PER_SLACK = 5.0  # the same over several runs, for each unit of their slack together


@dataclass(frozen=True, slots=True)
class Gaussian:
    """One Gaussian release, or several composed.

    Attributes:
        mu: sensitivity / sigma.
        slack: Epsilon to add for the noise being discrete (see `discretisation_slack`).
    """

    mu: float
    slack: float = 0.0


@dataclass(frozen=True, slots=True)
class Laplace:
    """One Laplace release that is epsilon-DP on its own.

    Attributes:
        epsilon: sensitivity / scale.
    """

    epsilon: float


Event = Gaussian | Laplace


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as JSON values, for a ledger row."""
    if isinstance(event, Gaussian):
        return {"kind": "gaussian", "mu": event.mu, "slack": event.slack}
    return {"kind": "laplace", "epsilon": event.epsilon}


def event_from_json(value: Mapping[str, Any]) -> Event:
    """The event of a ledger row.

    Raises:
        LedgerError: An event this version cannot account for. It is refused, never skipped.
    """
    try:
        if value["kind"] == "gaussian":
            return Gaussian(_positive(value["mu"]), _positive(value["slack"], or_zero=True))
        if value["kind"] == "laplace":
            return Laplace(_positive(value["epsilon"]))
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"a ledger row holds a malformed privacy event: {value!r}") from error
    raise LedgerError(
        f"a ledger row holds a privacy event of unknown kind {value['kind']!r}; it was written by "
        "a newer version of Understudy, so what was spent cannot be known: upgrade first"
    )


def _positive(value: Any, *, or_zero: bool = False) -> float:
    number = float(value)
    if not (math.isfinite(number) and (number > 0 or (or_zero and number == 0))):
        raise ValueError(number)
    return number


def delta_of(epsilon: float, mu: float) -> float:
    """Equation (1): the smallest delta at which a mu-GDP release is (epsilon, delta)-DP."""
    log_first = float(log_ndtr(-epsilon / mu + mu / 2))
    log_second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return math.exp(log_first) * -math.expm1(min(log_second - log_first, 0.0))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Smallest epsilon at which a mu-GDP release is (epsilon, delta)-DP; 0.0 where mu is 0."""
    if mu <= 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    # At epsilon = mu^2/2 + mu t the first term of (1) is Phi(-t), below delta for a t this large.
    top = mu * mu / 2 + mu * (math.sqrt(2 * math.log(1 / delta)) + 1)
    return float(brentq(lambda e: delta_of(e, mu) - delta, 0.0, top, xtol=1e-12, rtol=1e-12))


def mu_of(epsilon: float, delta: float) -> float:
    """Largest mu whose release is (epsilon, delta)-DP: the inverse of `epsilon_of_mu`.

    delta rises with mu from 0 to 1, so the bracket [1e-9, 1e4] holds the answer for every epsilon
    from 1e-8 to 1e7; outside, its nearer end is returned when that is the safe side.
    """
    low, high = _MU_RANGE
    if delta_of(epsilon, high) <= delta:
        return high
    root = float(
        brentq(
            lambda x: delta_of(epsilon, math.exp(x)) - delta,
            math.log(low),
            math.log(high),
            xtol=1e-13,
        )
    )
    return math.exp(root) * (1 - 1e-12)


def run_mu(epsilon: float, delta: float, size: int, scale: float) -> float:
    """mu that a run may spend so that, slack included, it is (epsilon, delta)-DP.

    Args:
        epsilon: The run's epsilon.
        delta: The run's delta.
        size: An upper bound on how many numbers the run releases in all.
        scale: The least noise scale in grid steps (`noise.MIN_SCALE`).

    Raises:
        ConfigError: An epsilon so small that the slack alone would use it up.
    """
    left = epsilon - discretisation_slack(size, scale)
    if left <= _LEAST_EPSILON:
        raise ConfigError(f"epsilon {epsilon:g} is too small to release anything: use 1e-6 or more")
    return mu_of(left, delta * (1 - _DELTA_RESERVE))


def discretisation_slack(size: int, scale: float) -> float:
    """Epsilon that covers discrete instead of continuous Gaussian noise on ``size`` numbers.

    With noise scale s in grid steps, the discrete Gaussian is within the factor
    exp(D / 24 s^2) below and exp(T / 24 s^2) above the rounded continuous one, but for an event of
    probability 1e-18, where T = D + 2 sqrt(D x) + 2 x and x = ln(1e18) bounds the sum of squares
    (Laurent and Massart 2000, Lemma 1). docs/promise.md has the proof. Both factors apply once for
    each of two neighbouring datasets.
    """
    x = math.log(1e18)
    tail = size + 2 * math.sqrt(size * x) + 2 * x
    return 2 * (size + tail) / (24 * scale * scale)


def epsilon_of(events: Iterable[Event], delta: float) -> float:
    """Epsilon of everything together at ``delta``; 0.0 for no events.

    Gaussian events alone compose exactly by equation (1); with others, by dp_accounting's PLDs.
    """
    events = list(events)
    mu = math.sqrt(math.fsum(e.mu * e.mu for e in events if isinstance(e, Gaussian)))
    slack = math.fsum(e.slack for e in events if isinstance(e, Gaussian))
    pure = [e.epsilon for e in events if isinstance(e, Laplace)]
    if slack:
        delta *= 1 - max(_DELTA_RESERVE, _RESERVE_PER_SLACK * slack)
    if not pure:
        return epsilon_of_mu(mu, delta) + slack
    return pld_epsilon(mu, pure, delta) + slack


def pld_epsilon(mu: float, pure: Iterable[float], delta: float) -> float:
    """Epsilon of one mu-GDP release and Laplace releases, by dp_accounting's PLD accountant.

    Args:
        mu: Of all Gaussian releases together; 0 for none.
        pure: The epsilon of each Laplace release.
        delta: Where epsilon is read off. The result is an upper bound, tight to about 1e-3.
    """
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    # A grid finer than 1e-4 where the whole loss is smaller than that.
    pure = list(pure)
    interval = float(np.clip(1e-3 * (mu + sum(pure)), 1e-7, 1e-4))
    accountant = PLDAccountant(value_discretization_interval=interval)
    if mu > 0:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
    for epsilon in pure:
        accountant.compose(dp_accounting.LaplaceDpEvent(1 / epsilon))
    return float(accountant.get_epsilon(delta))
