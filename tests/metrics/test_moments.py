"""Sums gathered in batches are the moments of everything at once."""

import numpy as np
import pytest

from understudy.metrics.fidelity import frechet_distance, frechet_interval
from understudy.metrics.moments import Moments, MomentSums


def rows(count=500, dim=5, seed=0):
    rng = np.random.default_rng(seed)
    # Far from the origin, where plain sums of squares would lose the spread.
    return rng.normal(size=(count, dim)) @ rng.normal(size=(dim, dim)) + 1e6


@pytest.mark.parametrize("cuts", [[], [1], [7, 8, 300], list(range(1, 500, 3))])
def test_any_batches_give_the_same_moments(cuts):
    everything = rows()
    sums = MomentSums(5)
    for part in np.split(everything, cuts):
        sums.add(part)
    found = sums.moments()
    assert found.mean == pytest.approx(everything.mean(axis=0), rel=1e-12)
    assert found.covariance == pytest.approx(np.cov(everything, rowvar=False), rel=1e-9)
    assert Moments.of(everything).covariance == pytest.approx(found.covariance, rel=1e-9)


def test_a_bootstrap_interval_holds_the_distance_that_more_rows_have():
    """Of 40 intervals at 95 %, at least 31 (chance of fewer: 1 in 1,000)."""
    rng = np.random.default_rng(0)
    private = Moments(np.zeros(3), np.eye(3))
    hits = 0
    for seed in range(40):
        drawn = rng.normal(size=(400, 3)) + np.array([1.0, 0, 0])
        value = frechet_distance(private, drawn)
        found = frechet_interval(private, drawn, value, resamples=20, seed=seed)
        assert found.low < value < found.high
        hits += found.low <= 1.0 <= found.high
    assert hits >= 31
    assert found.high - found.low < 0.6
