"""Curves and intervals, against pairs counted one by one and against simulation."""

import numpy as np
import pytest
from scipy import stats

from understudy.metrics.roc import clopper_pearson, rate_at_least, rate_at_most, roc


def test_the_area_is_the_part_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    members, others = rng.integers(0, 6, 40) + 1.0, rng.integers(0, 6, 30) * 1.0  # with ties
    found = roc(members, others)
    pairs = members[:, None] - others[None]
    assert found.auc.value == pytest.approx((pairs > 0).mean() + (pairs == 0).mean() / 2)
    assert np.trapezoid(found.tpr, found.fpr) == pytest.approx(found.auc.value)
    assert found.others == 30


def test_a_perfect_attack_and_a_reversed_one():
    perfect = roc([3.0, 4.0, 5.0], [0.0, 1.0, 2.0])
    assert perfect.auc.value == perfect.advantage == perfect.tpr_at[0.001].value == 1
    reversed_ = roc([0.0, 1.0], [2.0, 3.0])
    assert (reversed_.auc.value, reversed_.advantage) == (0, 0)


def test_the_true_positive_rate_is_read_at_the_rate_and_not_beyond():
    others = np.arange(1000.0)
    members = np.concatenate([np.full(30, 989.5), np.full(70, -1.0)])  # ten others lie above
    found = roc(members, others)
    assert [found.tpr_at[rate].value for rate in (0.001, 0.01)] == [0, 0.3]
    low, high = clopper_pearson(30, 100)
    assert (found.tpr_at[0.01].low, found.tpr_at[0.01].high) == (low, high)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_intervals_hold_the_truth_as_often_as_they_say(shift):
    truth = stats.norm.cdf(shift / np.sqrt(2))
    rng = np.random.default_rng(1)
    inside = [
        (found := roc(rng.normal(shift, 1, 60), rng.normal(0, 1, 80)).auc).low
        <= truth
        <= found.high
        for _ in range(400)
    ]
    assert 0.92 <= np.mean(inside) <= 0.98


def test_clopper_and_pearson():
    assert clopper_pearson(0, 10) == pytest.approx((0, 0.3085), abs=1e-4)
    assert clopper_pearson(10, 10) == pytest.approx((0.6915, 1), abs=1e-4)
    assert clopper_pearson(7, 10) == pytest.approx((0.3475, 0.9333), abs=1e-4)


@pytest.mark.parametrize("hits", [1, 7, 19])
def test_at_a_bound_the_count_is_as_unlikely_as_stated(hits):
    low, high = rate_at_least(hits, 20, 0.03), rate_at_most(hits, 20, 0.03)
    assert stats.binom.sf(hits - 1, 20, low) == pytest.approx(0.03)
    assert stats.binom.cdf(hits, 20, high) == pytest.approx(0.03)
