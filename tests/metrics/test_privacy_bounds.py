"""Audits of the Gaussian mechanism: below the truth, near it, and faults are caught."""

import numpy as np
import pytest

from understudy.core.errors import InputError
from understudy.metrics.noise_checks import noise_ratio
from understudy.metrics.privacy_bounds import audit_one_run, audit_pairs, learned_scores
from understudy.privacy.accounting import run_event

DELTA = 1e-5
MU = run_event(1.0, DELTA).mu  # sensitivity over noise at epsilon 1


def pairs(seed, mu=MU, runs=20_000):
    rng = np.random.default_rng(seed)
    return audit_pairs(rng.normal(mu, 1, runs), rng.normal(0, 1, runs), delta=DELTA, claimed=1.0)


def one_run(seed, mu=MU, canaries=4000):
    rng = np.random.default_rng(seed)
    inside = rng.random(canaries) < 0.5
    return audit_one_run(rng.normal(mu * inside, 1), inside, delta=DELTA, claimed=1.0)


@pytest.mark.parametrize(("audit", "least"), [(pairs, 0.3), (one_run, 0.2)])
def test_the_gaussian_mechanism_keeps_its_promise_and_is_seen_to(audit, least):
    found = [audit(seed) for seed in range(5)]
    assert not any(one.broken for one in found)
    assert np.median([one.epsilon for one in found]) >= least


def test_a_sixth_of_the_noise_is_caught_by_one_run():
    assert all(one_run(seed, mu=6 * MU).broken for seed in range(3))


def test_half_the_noise_is_caught_by_pairs():
    assert all(pairs(seed, mu=2 * MU, runs=100_000).broken for seed in range(5))


def test_the_threshold_is_chosen_on_other_runs_than_it_is_judged_on():
    """Pure noise: chosen and judged on the same runs, some threshold would look like a proof."""
    rng = np.random.default_rng(3)
    found = [
        audit_pairs(rng.normal(size=60), rng.normal(size=60), delta=0, confidence=0.9).epsilon
        for _ in range(40)
    ]
    assert np.mean(np.array(found) > 0) <= 0.12


def test_a_claim_of_gaussian_dp_is_refuted_from_fewer_runs():
    rng = np.random.default_rng(5)
    one, other = rng.normal(2 * MU, 1, 5000), rng.normal(0, 1, 5000)
    told = {"delta": DELTA, "claimed": 1.0}
    assert not audit_pairs(one, other, **told).broken
    found = audit_pairs(one, other, **told, claimed_mu=MU)
    assert found.broken
    assert MU < found.mu < 2 * MU


def test_several_numbers_are_learnt_to_be_one_score():
    """Two numbers that tell the two sides apart only together, and six that say nothing."""
    rng = np.random.default_rng(6)
    inside, outside = rng.normal(size=(2, 400, 8))
    inside[:, 1] = inside[:, 0] + 0.1 * inside[:, 1] + 0.5
    outside[:, 1] = outside[:, 0] + 0.1 * outside[:, 1]
    inside, outside = (1e6 * np.hstack([side, np.ones((400, 1))]) for side in (inside, outside))
    scores = learned_scores(inside, outside)
    assert audit_pairs(*scores, delta=0).epsilon > 2
    assert audit_pairs(inside[:, 1], outside[:, 1], delta=0).epsilon < 1


def test_the_scale_of_noise_has_an_interval():
    rng = np.random.default_rng(7)
    squares = [(rng.normal(0, 0.9, 500) ** 2).sum() for _ in range(400)]
    found = [noise_ratio(square, 500) for square in squares]
    covered = np.mean([one.low < 0.9 < one.high for one in found])
    assert 0.91 < covered < 0.985  # 0.95, and four standard errors
    assert noise_ratio(500 * 0.25, 500).value == pytest.approx(0.5)
    with pytest.raises(InputError, match="released nothing"):
        noise_ratio(0.0, 0)
