"""Recalls out of noisy counts: intervals that hold the truth, and a classifier that learns."""

import numpy as np
import pytest

from understudy.core.results import Interval
from understudy.metrics.recall_estimates import mean_interval, recall_intervals, softmax_weights


@pytest.mark.parametrize(("size", "recall"), [(5_000, 0.8), (300, 0.5), (300, 0.97), (20, 0.1)])
def test_intervals_hold_the_true_recall_nine_times_in_ten_and_more(size, recall):
    """Of 400 samples of records with noise of 15, as at epsilon 1 with a share of 5 %."""
    rng = np.random.default_rng(4)
    hits = rng.binomial(size, recall, 400)
    counts = np.stack([size - hits, hits], axis=1) + rng.normal(0, 15, (400, 2))
    intervals = recall_intervals(counts, 15.0)
    assert np.mean([one.low <= recall <= one.high for one in intervals]) > 0.92
    assert all(0 <= one.low <= one.value <= one.high <= 1 for one in intervals)


def test_an_interval_is_as_narrow_as_the_noise_lets_it_be():
    (sure,) = recall_intervals(np.array([[1_000.0, 9_000.0]]), 5.0)
    assert sure.value == pytest.approx(0.9)
    assert 0.01 < sure.high - sure.low < 0.02
    (noisy,) = recall_intervals(np.array([[1_000.0, 9_000.0]]), 500.0)
    assert noisy.high - noisy.low > 0.15


@pytest.mark.parametrize("counts", [(3.0, -4.0), (-20.0, -30.0), (0.0, 0.0), (4.0, 9.0)])
def test_of_a_class_that_drowns_in_the_noise_nothing_is_said(counts):
    (one,) = recall_intervals(np.array([counts]), 26.0)
    assert (one.low, one.high) == (0, 1)


def test_the_mean_is_surer_than_its_parts():
    mean = mean_interval([Interval(0.8, 0.7, 0.85)] * 4)
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.8, 0.75, 0.825))


def test_the_classifier_separates_what_is_separable_and_knows_small_classes():
    rng = np.random.default_rng(0)
    middles = 4 * rng.normal(size=(3, 5))
    labels = np.repeat([0, 1, 2], [500, 40, 8])
    rows = middles[labels] + rng.normal(size=(548, 5))
    theta = softmax_weights(rows.astype(np.float32), labels, 4)
    assert theta.shape == (6, 4)
    fresh = middles.repeat(100, axis=0) + rng.normal(size=(300, 5))
    hits = (fresh @ theta[:-1] + theta[-1]).argmax(1) == np.repeat([0, 1, 2], 100)
    assert hits.reshape(3, 100).mean(1).min() > 0.95


def test_what_hardly_varies_in_a_release_does_not_decide_about_real_records():
    """Rounding noise of a release becomes a strong feature if it is blown up to unit variance."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 150)
    signal = np.where(labels[:, None], 1.0, -1.0) + 0.5 * rng.normal(size=(300, 1))
    theta = softmax_weights(np.hstack([signal, 1e-3 * rng.normal(size=(300, 60))]), labels, 2)
    real = np.hstack([signal, rng.normal(size=(300, 60))])
    assert np.mean((real @ theta[:-1] + theta[-1]).argmax(1) == labels) > 0.9
