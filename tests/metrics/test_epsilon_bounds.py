"""Lower bounds on epsilon: never above the truth more often than said, and near it."""

import numpy as np
import pytest
from scipy import stats

from understudy.core.errors import InputError
from understudy.metrics.privacy_bounds import (
    epsilon_from_one_run,
    epsilon_from_pairs,
    mu_from_pairs,
    one_run_p_value,
)


def test_randomised_response_is_found_out_to_be_what_it_is():
    """It answers truly with probability e / (1 + e): epsilon 1 exactly."""
    q = 1 / (1 + np.exp(-1))
    rng = np.random.default_rng(0)
    bounds = [
        epsilon_from_pairs(
            rng.binomial(20_000, q), 20_000, rng.binomial(20_000, 1 - q), 20_000, delta=0
        )
        for _ in range(200)
    ]
    assert np.mean(np.array(bounds) > 1) <= 0.05
    assert np.median(bounds) > 0.9


def test_delta_forgives_what_it_covers():
    assert epsilon_from_pairs(40, 1000, 0, 1000, delta=0) > 1
    assert epsilon_from_pairs(40, 1000, 0, 1000, delta=0.05) == 0


def test_the_answer_out_counts_as_much_as_in():
    assert epsilon_from_pairs(500, 1000, 100, 1000, delta=0) == pytest.approx(
        epsilon_from_pairs(900, 1000, 500, 1000, delta=0)
    )
    assert epsilon_from_pairs(100, 1000, 500, 1000, delta=0) == 0


@pytest.mark.slow
def test_one_run_of_randomised_response():
    q = 1 / (1 + np.exp(-1))
    rng = np.random.default_rng(1)
    bounds = [epsilon_from_one_run(rng.binomial(2000, q), 2000, 2000, delta=0) for _ in range(200)]
    assert 0.01 <= np.mean(np.array(bounds) > 1) <= 0.09  # tight: the confidence is 0.95
    assert np.median(bounds) > 0.85


def test_one_run_is_the_binomial_tail_where_delta_is_nothing():
    found = epsilon_from_one_run(75, 100, 500, delta=0, confidence=0.95)
    q = 1 / (1 + np.exp(-found))
    assert stats.binom.sf(74, 100, q) == pytest.approx(0.05, abs=1e-6)
    assert epsilon_from_one_run(75, 100, 500, delta=1e-3) < found
    assert epsilon_from_one_run(50, 100, 100, delta=0) == 0


def test_mu_of_the_gaussian_mechanism_is_bounded_from_below_and_tightly():
    """At the threshold mu / 2, 20,000 tries a side: short of the truth by 0.04, seldom by 0.08."""
    mu, tries = 0.268, 20_000
    rates = stats.norm.sf(mu / 2 - mu), stats.norm.sf(mu / 2)
    rng = np.random.default_rng(2)
    hits = rng.binomial(tries, rates, size=(400, 2))
    bounds = np.array([mu_from_pairs(a, tries, b, tries) for a, b in hits.tolist()])
    assert np.mean(bounds > mu) <= 0.05
    assert np.median(bounds) == pytest.approx(mu - 2 * 1.96 * 1.2533 / np.sqrt(tries), abs=0.004)


def test_nothing_is_proven_of_mu_without_a_difference():
    assert mu_from_pairs(500, 1000, 500, 1000) == 0
    assert mu_from_pairs(0, 1000, 0, 1000) == 0
    assert mu_from_pairs(1000, 1000, 1000, 1000) == 0
    assert mu_from_pairs(1000, 1000, 0, 1000) > 5
    with pytest.raises(InputError, match="counts of runs"):
        mu_from_pairs(5, 4, 0, 1)


# Made with jax_privacy 2.0.0, auditing._one_run_p_value(canaries, guesses, right, epsilon, delta).
OUTSIDE = [
    ((60, 100, 1000, 0.1, 1e-5), 0.08131273769213938),
    ((700, 1000, 4000, 0.7, 1e-5), 0.018570937539276224),
    ((2600, 4000, 4000, 0.6, 1e-4), 0.29902653187059397),
]


@pytest.mark.parametrize(("told", "outside"), OUTSIDE)
def test_p_values_are_those_of_another_implementation(told, outside):
    assert one_run_p_value(*told) == pytest.approx(outside, rel=1e-9)
