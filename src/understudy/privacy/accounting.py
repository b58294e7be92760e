"""Events to (epsilon, delta). The only module that imports dp_accounting.

A Gaussian release of sensitivity D and noise sigma is mu-GDP with mu = D / sigma (Dong, Roth and Su
2022), which is exact, and k of them compose exactly to sqrt(sum mu_k^2):

    delta(epsilon) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2)          (1)

(Balle and Wang 2018, Theorem 8). What is not Gaussian composes numerically, as privacy loss
distributions, and only then is dp_accounting asked.

DP-SGD's steps are Gaussian releases of a Poisson sample of the units (`SampledGaussian`). With
sampling rate q and mu of one step, the pair of outcomes that no two neighbouring datasets exceed is
N(0, 1) and (1 - q) N(0, 1) + q N(mu, 1), in either order (Zhu, Dong and Wang 2022); k steps compose
as k pairs, whatever is asked in a step by the answers of those before it.

Phi and the inverses of (1) are computed here, with the standard library alone: `ledger list` needs
them, and importing SciPy takes longer than everything else that it does. Where (1) is inverted by
bisection, the end of the bracket that is on the safe side is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Any

from understudy.core.errors import ConfigError, LedgerError

_MU_RANGE = (1e-9, 1e4)
_LEAST_EPSILON = 1e-7
_DELTA_RESERVE = 1e-6  # part of delta kept for what discretisation does to delta (docs/promise.md)
_RESERVE_PER_SLACK = 5.0  # the same over several runs, for each unit of their slack together

_LOSS_STEP = 2e-3  # of privacy losses that are composed numerically, over their size
_LOSS_STEP_RANGE = (1e-7, 1e-2)
_LOSS_STEPS = 1 << 16  # of the losses of one event, for which dp_accounting takes about a second
_FFT_ERROR = 1e-12  # of a delta that is composed numerically, at most: it is taken off
_MU_STEP = 1.0002  # to which mu of a sampled step is solved for: its noise is 0.02 % too much
_MU_STEPS = 12_000  # about the limit theorem's mu, to either side: factors of 11
_MOST_SAMPLED = 4096.0  # order of the divergences of sampled steps: larger ones take minutes
_LOGARITHMIC = 0.0  # eta of the truncated negative binomial distribution
_ORDERS = (
    *(1 + x / 20 for x in range(1, 200)),
    *(11 + x / 2 for x in range(100)),
    *(2.0**x for x in range(6, 20)),
    *(1.4 * 2.0**x for x in range(6, 20)),
)  # of the Rényi divergences; those of a run of epsilon 1 end below 100, of 0.01 below 10^4

_HALVINGS = 200  # of a bracket; it cannot be halved further long before
_TAIL = -20.0  # below it Phi is computed by its asymptotic series, whose terms then fall to 1e-16
_TAIL_TERMS = 12
_ROUNDING = 2.0**-50  # of a logarithm of Phi, over the square of 1 + its argument's terms

MIN_SCALE = 2**24
"""Least noise scale in grid steps; privacy.md asks for 2^20, and finer costs nothing."""

MAX_SIZE = 10**8
"""How many numbers a run may release in all; its slack is computed for as many."""


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
class SampledGaussian:
    """Gaussian releases of Poisson samples of the units, under add/remove: DP-SGD as one event.

    Attributes:
        rate: Probability of a unit to be in a step's sample, in (0, 1].
        mu: sensitivity / sigma of one step: one over the noise multiplier.
        steps: How many.
        slack: Epsilon to add for the noise being discrete, of all steps.
    """

    rate: float
    mu: float
    steps: int
    slack: float = 0.0


@dataclass(frozen=True, slots=True)
class Selected:
    """The best of a random number of runs: private selection (Liu and Talwar 2019).

    Each run draws its settings from a public space, releases Gaussian answers and a score of them,
    mu-GDP together, and one with the best score is all that leaves. The number of runs K is drawn
    from the logarithmic distribution, P(K = k) = (1 - g)^k / (k log(1/g)), and stays secret.

    Derivation. Gaussian noise of this mu has the Rényi divergence a mu^2 / 2 at every order a, and
    discrete Gaussian noise no more (Canonne, Kamath and Steinke 2020, Theorem 14), so that no slack
    is due; answers that depend on earlier ones add up. Where a run is (a, e(a))-RDP, the best of K
    is (a, e'(a))-RDP with, for any b > 1,

        e'(a) = e(a) + (1 - 1/b) e(b) + log(1/g) / b + log(E[K]) / (a - 1)                       (2)

    (Papernot and Steinke 2022, Theorem 2 at eta = 0). It is not mu'-GDP for any mu', so whatever
    it composes with is composed as RDP too, and turned into (epsilon, delta) at the end.

    Attributes:
        mu: Of one run, its score included.
        runs: E[K], above 1.
    """

    mu: float
    runs: float


Other = SampledGaussian | Selected
Event = Gaussian | Other
_KINDS = {Gaussian: "gaussian", SampledGaussian: "sampled gaussian", Selected: "selected"}


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as JSON values, for a ledger row."""
    return {"kind": _KINDS[type(event)], **asdict(event)}


def event_from_json(value: Mapping[str, Any]) -> Event:
    """The event of a ledger row.

    Raises:
        LedgerError: An event this version cannot account for. It is refused, never skipped.
    """
    try:
        if value["kind"] == "gaussian":
            return Gaussian(_positive(value["mu"]), _positive(value["slack"], or_zero=True))
        if value["kind"] == "sampled gaussian":
            rate, mu, steps = (_positive(value[name]) for name in ("rate", "mu", "steps"))
            if rate > 1 or steps != int(steps):
                raise ValueError(f"{rate}, {steps}")
            return SampledGaussian(rate, mu, int(steps), _positive(value["slack"], or_zero=True))
        if value["kind"] == "selected":
            mu, runs = _positive(value["mu"]), _positive(value["runs"])
            if runs <= 1:
                raise ValueError(runs)
            return Selected(mu, runs)
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


def log_phi(x: float) -> float:
    """log Phi(x) of the standard normal distribution, to a relative error of about 1e-13."""
    if x > 0:
        return math.log1p(-math.erfc(x / math.sqrt(2)) / 2)
    if x > _TAIL:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    # Phi(x) = phi(x) / -x * (1 - 1/x^2 + 3/x^4 - 15/x^6 + ...)   (Abramowitz and Stegun, 26.2.12)
    term, series = 1.0, 1.0
    for k in range(1, _TAIL_TERMS):
        term *= -(2 * k - 1) / (x * x)
        series += term
    return -x * x / 2 - math.log(-x) - math.log(2 * math.pi) / 2 + math.log(series)


def delta_of(epsilon: float, mu: float) -> float:
    """Equation (1): the smallest delta at which a mu-GDP release is (epsilon, delta)-DP.

    Not below it: where the two terms cancel, what they may be rounded by is added. The slope of
    log Phi at x is at most 1 + |x|, and x is rounded by some parts in 2^53 of its terms.
    """
    return _delta(epsilon, mu, _ROUNDING)


def _delta(epsilon: float, mu: float, rounding: float) -> float:
    centre, half = epsilon / mu, mu / 2
    rounded = rounding * (1 + centre + half) ** 2
    log_first = log_phi(half - centre) + rounded
    log_second = epsilon + log_phi(-centre - half) - rounded
    return math.exp(log_first) * -math.expm1(min(log_second - log_first, 0.0))


def bracket(
    is_low: Callable[[float], bool],
    low: float,
    high: float,
    alike: Callable[[float], float] | None = None,
) -> tuple[float, float]:
    """The last number of which ``is_low`` holds and the first of which it does not, by bisection.

    Args:
        is_low: Holds up to some number in the interval, and of none above it.
        low: Where it holds, or is taken to hold.
        high: Where it does not.
        alike: What the caller makes of a number, where ``is_low`` takes long: once it makes the
            same of both ends, it is no matter where between them the answer lies.
    """
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high or (alike is not None and alike(low) == alike(high)):
            break
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low, high


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Smallest epsilon at which a mu-GDP release is (epsilon, delta)-DP; 0.0 where mu is 0."""
    if mu <= 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    # At epsilon = mu^2/2 + mu t the first term of (1) is Phi(-t), below delta for a t this large.
    top = mu * mu / 2 + mu * (math.sqrt(2 * math.log(1 / delta)) + 1)
    return bracket(lambda epsilon: delta_of(epsilon, mu) > delta, 0.0, top)[1]


def mu_of(epsilon: float, delta: float) -> float:
    """Largest mu whose release is (epsilon, delta)-DP: the inverse of `epsilon_of_mu`.

    delta rises with mu from 0 to 1, so the bracket [1e-9, 1e4] holds the answer for every epsilon
    from 1e-8 to 1e7; outside, its nearer end is returned when that is the safe side.
    """
    low, high = _MU_RANGE
    if delta_of(epsilon, high) <= delta:
        return high
    # With twice the rounding, and less by what parts are rounded by when they are composed again:
    # so `epsilon_of_mu` never finds more than what was asked for.
    mu = bracket(lambda mu: _delta(epsilon, mu, 2 * _ROUNDING) <= delta, low, high)[0]
    return mu * (1 - 1e-12)


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


RUN_SLACK = discretisation_slack(MAX_SIZE, MIN_SCALE)
"""The slack of a whole run."""


def run_event(epsilon: float, delta: float) -> Gaussian:
    """A whole run as one event: what its stages add to a ledger together.

    Raises:
        ConfigError: An epsilon so small that the slack alone would use it up.
    """
    return Gaussian(mu_with_slack(epsilon, delta, RUN_SLACK), RUN_SLACK)


def mu_with_slack(epsilon: float, delta: float, slack: float) -> float:
    """mu of Gaussian releases that with this slack are (epsilon, delta)-DP: undoes `epsilon_of`.

    Raises:
        ConfigError: An epsilon so small that the slack alone would use it up.
    """
    if epsilon - slack <= _LEAST_EPSILON:
        raise ConfigError(f"epsilon {epsilon:g} is too small to release anything: use 1e-6 or more")
    return mu_of(epsilon - slack, delta * (1 - _reserve(slack)))


def _reserve(slack: float) -> float:
    """The part of delta that is kept for what discretisation does to delta."""
    return max(_DELTA_RESERVE, _RESERVE_PER_SLACK * slack)


def epsilon_of(events: Iterable[Event], delta: float) -> float:
    """Epsilon of everything together at ``delta``; 0.0 for no events.

    Gaussian events alone compose exactly by equation (1); with steps on samples by dp_accounting's
    PLDs, and with selected ones by its RDP accountant.
    """
    events = list(events)
    mu = math.sqrt(math.fsum(e.mu * e.mu for e in events if isinstance(e, Gaussian)))
    slack = math.fsum(e.slack for e in events if isinstance(e, Gaussian | SampledGaussian))
    others = [e for e in events if not isinstance(e, Gaussian)]
    if slack:
        delta *= 1 - _reserve(slack)
    if not others:
        return epsilon_of_mu(mu, delta) + slack
    if any(isinstance(e, Selected) for e in others):
        return rdp_epsilon(mu, tuple(others), delta) + slack
    return pld_epsilon(mu, [e for e in others if not isinstance(e, Selected)], delta) + slack


@lru_cache(maxsize=256)
def rdp_epsilon(mu: float, others: tuple[Other, ...], delta: float) -> float:
    """Epsilon with private selections among the events, by dp_accounting's RDP accountant.

    Arguments as for `pld_epsilon`. Steps on samples are composed by their own divergences (Mironov,
    Talwar and Zhang 2019). The result is an upper bound; every other event costs more here than
    without a selection beside it.
    """
    from dp_accounting import GaussianDpEvent
    from dp_accounting.dp_event import (
        PoissonSampledDpEvent,
        RepeatAndSelectDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.rdp import RdpAccountant

    sampled = any(isinstance(event, SampledGaussian) for event in others)
    # of a fractional order this large, the series of a sampled step may not converge
    orders = [round(a) if a > 64 else a for a in _ORDERS if a <= _MOST_SAMPLED]
    accountant = RdpAccountant(orders if sampled else _ORDERS)
    if mu > 0:
        accountant.compose(GaussianDpEvent(1 / mu))
    for event in others:
        if isinstance(event, SampledGaussian):
            step = PoissonSampledDpEvent(event.rate, GaussianDpEvent(1 / event.mu))
            accountant.compose(SelfComposedDpEvent(step, event.steps))
        else:
            best = RepeatAndSelectDpEvent(GaussianDpEvent(1 / event.mu), event.runs, _LOGARITHMIC)
            accountant.compose(best)
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=64)
def selected_mu(epsilon: float, delta: float, runs: float) -> float:
    """Largest mu of a run of which the best of ``runs`` expected ones is (epsilon, delta)-DP.

    Raises:
        ConfigError: An epsilon so small that the selection alone would use it up.
    """
    low, high = _MU_RANGE[0], mu_of(epsilon, delta)

    def fits(mu: float) -> bool:
        return rdp_epsilon(0.0, (Selected(mu, runs),), delta) <= epsilon

    if not fits(high / 1000):
        raise ConfigError(
            f"epsilon {epsilon:g} is too small to choose settings by: use 0.01 or more, or leave "
            "out --tune"
        )
    return bracket(fits, low, high, lambda mu: float(f"{mu:.7g}"))[0]


def selection_parameter(runs: float) -> float:
    """g of the logarithmic distribution whose mean is ``runs``: (1/g - 1) / log(1/g) = runs."""
    return bracket(lambda g: (1 / g - 1) / math.log(1 / g) > runs, 1e-12, 1 - 1e-12)[1]


def pld_epsilon(mu: float, others: Sequence[SampledGaussian], delta: float) -> float:
    """Epsilon of one mu-GDP release and steps on samples, by dp_accounting's PLDs.

    Args:
        mu: Of all Gaussian releases together; 0 for none.
        others: The steps.
        delta: Where epsilon is read off. The result is an upper bound: losses are rounded to a grid
            by "connect the dots" (Doroshenko et al. 2022), which dominates them, and what is cut
            off counts as certain. It is tight to about 1e-3; of few steps on small samples, whose
            losses go far beyond their usual size, to less (`_LOSS_STEPS`).
    """
    size = mu + math.fsum(_loss_size(one) for one in others)
    least, most = _LOSS_STEP_RANGE
    fine = max(_LOSS_STEP * size, *(_loss_range(one) / _LOSS_STEPS for one in others), least)
    # A power of two, so that an event is discretised the same beside most others.
    interval = 2.0 ** math.floor(math.log2(min(fine, most)))
    total = _pld(Gaussian(mu), interval) if mu > 0 else None
    for one in others:
        total = _pld(one, interval) if total is None else total.compose(_pld(one, interval))
    return 0.0 if total is None else float(total.get_epsilon_for_delta(delta - _FFT_ERROR))


def _loss_size(event: SampledGaussian) -> float:
    """About how far the privacy loss of steps goes, by a central limit theorem."""
    # Bu, Dong, Long and Su 2020: k steps tend to q sqrt(k (e^(mu^2) - 1))-GDP.
    return event.rate * math.sqrt(event.steps * math.expm1(min(event.mu**2, 700.0)))


def _loss_range(event: SampledGaussian) -> float:
    """How far the privacy loss of one of the steps goes at most."""
    normal = 10.0  # standard deviations beyond which dp_accounting cuts off
    loss = min(normal * event.mu + event.mu**2 / 2, 700.0)
    return math.log1p(event.rate * math.expm1(loss))


@lru_cache(maxsize=32)
def _pld(event: Gaussian | SampledGaussian, interval: float) -> Any:
    """The privacy loss distribution of an event, its losses rounded to multiples of a step."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    grid = {"value_discretization_interval": interval, "use_connect_dots": True}
    if isinstance(event, Gaussian):
        return pld.from_gaussian_mechanism(1 / event.mu, **grid)
    step = pld.from_gaussian_mechanism(1 / event.mu, sampling_prob=event.rate, **grid)
    return step.self_compose(event.steps) if event.steps > 1 else step


@cache
def sampled_gaussian(
    epsilon: float, delta: float, gaussian: Gaussian, rate: float, steps: int, slack: float
) -> SampledGaussian:
    """The steps of least noise that, with Gaussian releases, are (epsilon, delta)-DP together.

    Args:
        epsilon: Of everything together, slack included.
        delta: Of the same.
        gaussian: The other releases together.
        rate: Probability of a unit to be in a step's sample.
        steps: How many.
        slack: Of the steps.

    Raises:
        ConfigError: The other releases use up all of epsilon; or the rate is so low that delta
            alone would allow steps without noise.
    """
    if rate * steps <= delta:
        raise ConfigError(
            f"at a sampling rate of {rate:g}, a unit is in any of {steps} steps with a probability "
            f"below delta ({delta:g}), which alone would cover that it is shown without noise: "
            "take a higher rate. Nothing was spent"
        )
    left = mu_of(epsilon, delta) ** 2 - gaussian.mu**2
    middle = math.sqrt(math.log1p(max(left, 1e-12) / (rate * rate * steps)))

    def event(step: int) -> SampledGaussian:
        return SampledGaussian(rate, middle * _MU_STEP**step, steps, slack)

    low, high = -_MU_STEPS, _MU_STEPS
    if left <= 0 or epsilon_of([gaussian, event(low)], delta) > epsilon:
        raise ConfigError(
            f"{steps} steps at a sampling rate of {rate:g} do not fit into what other releases "
            f"leave of epsilon {epsilon:g}: take fewer steps, a lower rate or a larger epsilon"
        )
    while high - low > 1:
        step = (low + high) // 2
        low, high = (
            (step, high) if epsilon_of([gaussian, event(step)], delta) <= epsilon else (low, step)
        )
    return event(low)
