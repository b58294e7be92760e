"""Bounds of a probability, against published values and against the tails that define them."""

import pytest
from scipy import stats

from understudy.metrics.roc import clopper_pearson, rate_at_least, rate_at_most


def test_clopper_and_pearson():
    assert clopper_pearson(0, 10) == pytest.approx((0, 0.3085), abs=1e-4)
    assert clopper_pearson(10, 10) == pytest.approx((0.6915, 1), abs=1e-4)
    assert clopper_pearson(7, 10) == pytest.approx((0.3475, 0.9333), abs=1e-4)


@pytest.mark.parametrize("hits", [1, 7, 19])
def test_at_a_bound_the_count_is_as_unlikely_as_stated(hits):
    low, high = rate_at_least(hits, 20, 0.03), rate_at_most(hits, 20, 0.03)
    assert stats.binom.sf(hits - 1, 20, low) == pytest.approx(0.03)
    assert stats.binom.cdf(hits, 20, high) == pytest.approx(0.03)
