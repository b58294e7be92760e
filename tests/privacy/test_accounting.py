"""Accounting against outside references: privacy.md's table, dp_accounting's PLD, inverses."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import log_ndtr

from understudy.core.errors import ConfigError, LedgerError
from understudy.privacy.accounting import (
    MAX_SIZE,
    MIN_SCALE,
    Gaussian,
    delta_of,
    discretisation_slack,
    epsilon_of,
    epsilon_of_mu,
    event_from_json,
    event_to_json,
    log_phi,
    mu_of,
    run_event,
)
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan


@pytest.mark.parametrize(
    ("epsilon", "one", "five"),
    [(1, 3.731, 8.34), (2, 1.994, 4.46), (4, 1.081, 2.42), (8, 0.600, 1.34)],
)
def test_noise_multipliers_of_the_published_table(epsilon, one, five):
    # Balle and Wang's analytic Gaussian at delta 1e-5; five equal shares composed exactly.
    plan = Plan.of(Budget(epsilon), dict.fromkeys("abcde", 1.0))
    assert 1 / mu_of(epsilon, 1e-5) == pytest.approx(one, abs=6e-4)
    assert 1 / plan.stage_mu("a") == pytest.approx(five, abs=6e-3)


@pytest.mark.parametrize(
    ("epsilon", "stages"),
    [(0.01, 1), (0.1, 20), (1.0, 5), pytest.param(10.0, 100, marks=pytest.mark.slow)],
)
def test_plans_agree_with_pld_accounting(epsilon, stages):
    plan = Plan.of(Budget(epsilon), {f"s{i}": 1.0 + i % 3 for i in range(stages)})
    interval = float(np.clip(1e-3 * plan.mu, 1e-7, 1e-4))
    accountant = PLDAccountant(value_discretization_interval=interval)
    for stage in plan.shares:
        accountant.compose(GaussianDpEvent(1 / plan.stage_mu(stage)))
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon, rel=0.01)


@given(st.floats(1e-3, 100), st.floats(1e-12, 0.1))
def test_epsilon_and_mu_are_inverse(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta * (1 + 1e-6)
    assert epsilon_of_mu(mu, delta) == pytest.approx(epsilon, rel=1e-5)


@given(st.floats(-1e4, 40))
def test_the_logarithm_of_the_normal_distribution_is_that_of_scipy(x):
    assert log_phi(x) == pytest.approx(float(log_ndtr(x)), rel=1e-12, abs=1e-300)


@given(st.floats(1e-3, 50), st.floats(1e-10, 0.1))
@example(0.001, 5.960464477539063e-08)
def test_an_inverse_errs_on_the_safe_side(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta
    assert delta_of(epsilon_of_mu(mu, delta), mu) <= delta


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("count", [3, 101, 1000])
def test_shares_of_a_budget_composed_again_do_not_exceed_it(epsilon, count):
    shares = np.arange(1, count + 1) / (count * (count + 1) / 2)
    parts = [mu_of(epsilon, 1e-5) * math.sqrt(share) for share in shares]
    assert epsilon_of_mu(math.sqrt(sum(part * part for part in parts)), 1e-5) <= epsilon


def _exact_delta(epsilon, mu):
    """Balle and Wang's Theorem 8 in 50 digits."""
    with mpmath.workdps(50):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        first, second = (mpmath.erfc((epsilon / mu + s * mu / 2) / mpmath.sqrt(2)) for s in (-1, 1))
        return (first - mpmath.exp(epsilon) * second) / 2


@given(st.floats(-6, 2.5), st.floats(-12, -0.3))
def test_no_inverse_exceeds_delta_by_what_arithmetic_rounds(log_epsilon, log_delta):
    # Small epsilons are where the two terms of delta cancel.
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    mu = mu_of(epsilon, delta)
    assert _exact_delta(epsilon, mu) <= delta
    assert _exact_delta(epsilon_of_mu(mu, delta), mu) <= delta
    if epsilon > 1e-3:
        assert delta_of(epsilon, mu) == pytest.approx(float(_exact_delta(epsilon, mu)), rel=1e-7)


def test_a_run_as_one_event_is_what_its_stages_add():
    plan = Plan.of(Budget(2.0, 1e-6), {"means": 3.0, "covariance": 1.0})
    stages = [plan.event(stage) for stage in plan.shares]
    assert epsilon_of([run_event(2.0, 1e-6)], 1e-6) == pytest.approx(
        epsilon_of(stages, 1e-6), rel=1e-12
    )


def test_no_events_cost_nothing():
    assert epsilon_of([], 1e-5) == 0.0


def test_the_slack_of_a_run_is_far_below_1e_4_and_is_paid_from_its_epsilon():
    run = run_event(1.0, 1e-5)
    assert 0 < run.slack == discretisation_slack(MAX_SIZE, MIN_SCALE) < 1e-6
    assert 1.0 - 1e-6 < epsilon_of([run], 1e-5) <= 1.0
    assert epsilon_of([Gaussian(0.5, 0.1)], 1e-5) >= epsilon_of([Gaussian(0.5)], 1e-5) + 0.1


def test_a_tiny_epsilon_over_many_rounds_works_and_an_impossible_one_is_refused():
    plan = Plan.of(Budget(0.01), dict.fromkeys(map(str, range(20)), 1.0))
    events = [plan.event(stage) for stage in plan.shares]
    assert epsilon_of(events, 1e-5) == pytest.approx(0.01, rel=1e-4)
    with pytest.raises(ConfigError, match="too small"):
        _ = Plan.of(Budget(1e-9), {"a": 1.0}).mu


def test_events_survive_the_ledger():
    event = Gaussian(0.25, 1e-8)
    assert event_from_json(event_to_json(event)) == event


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "subsampled", "mu": 1.0},
        {"kind": "laplace", "epsilon": 0.5},
        {"kind": "gaussian", "mu": -1.0, "slack": 0},
        {"kind": "gaussian", "mu": float("nan"), "slack": 0},
        {"kind": "gaussian"},
        {},
    ],
)
def test_an_unknown_or_malformed_event_is_refused_not_skipped(value):
    with pytest.raises(LedgerError):
        event_from_json(value)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1e-5), (-1, 1e-5), (math.inf, 1e-5), (1, 0), (1, 1)]
)
def test_a_budget_out_of_range_is_refused(epsilon, delta):
    with pytest.raises(ConfigError):
        Budget(epsilon, delta)


def test_shares_are_in_proportion_and_bad_weights_are_refused():
    assert Plan.of(Budget(1), {"a": 3, "b": 1, "c": 0}).shares == {"a": 0.75, "b": 0.25}
    with pytest.raises(ConfigError, match="weight"):
        Plan.of(Budget(1), {"a": -1, "b": 1})
    with pytest.raises(ConfigError, match="at least one"):
        Plan.of(Budget(1), {})
