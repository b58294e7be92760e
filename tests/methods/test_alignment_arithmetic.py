"""Gaps, their noise and what is moved across them."""

import numpy as np
import pytest

from understudy.methods.alignment import arithmetic
from understudy.methods.alignment.arithmetic import spectral_clusters

RNG = np.random.default_rng(0)


def axes_of(dim):
    return np.linalg.qr(np.random.default_rng(5).normal(size=(dim, dim)))[0]


def test_shrinking_takes_noise_and_leaves_signal():
    dim, axes = 64, axes_of(64)
    noise = RNG.normal(size=(200, dim))
    left = arithmetic.shrink_along_axes(noise, np.ones(200), axes)
    assert (left**2).sum() < 0.15 * (noise**2).sum()
    gaps = 20 * axes[:, 0] + noise
    found = arithmetic.shrink_along_axes(gaps, np.ones(200), axes)
    errors = [((x - 20 * axes[:, 0]) ** 2).sum(axis=1).mean() for x in (found, gaps)]
    assert errors[0] < 0.4 * errors[1]
    np.testing.assert_allclose(arithmetic.shrink_along_axes(gaps, np.zeros(200), axes), gaps)


@pytest.mark.parametrize("known", [0, 8, 20, 64])
def test_what_lies_outside_of_the_axes_is_a_block_of_its_own(known):
    axes = axes_of(64)[:, :known]
    gaps = RNG.normal(size=(3, 64))
    np.testing.assert_allclose(
        arithmetic.shrink_along_axes(gaps, np.zeros(3), axes), gaps, atol=1e-9
    )
    assert np.abs(arithmetic.shrink_along_axes(gaps, np.full(3, 1e9), axes)).max() == 0


def test_a_class_that_is_all_noise_gets_the_common_gap_and_noise_alone_gets_none():
    axes = axes_of(32)
    common = 3 * axes[:, 1]
    gaps = np.stack([common, common, common, 500 * RNG.normal(size=32)])
    variances = np.array([1e-6, 1e-6, 1e-6, 500.0**2])
    found = arithmetic.shrink_gaps(gaps, variances, axes)
    assert np.linalg.norm(found[3] - common) < 0.2 * np.linalg.norm(gaps[3] - common)
    np.testing.assert_allclose(found[0], common, atol=0.01)
    for classes in (1, 4):
        none = arithmetic.shrink_gaps(np.ones((classes, 32)), np.full(classes, 1e6), axes)
        assert np.abs(none).max() == 0


@pytest.mark.parametrize("gap", [0.3, 1.0, 2.0])
def test_means_of_clipped_differences_are_lengthened_to_what_they_were(gap):
    """In 200 dimensions, at several times the radius that leaves all as it is."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4000, 200)) / np.sqrt(200) + gap * np.eye(200)[0]
    radius = 1.5
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    mean = (rows * np.minimum(1, radius / lengths)).mean(axis=0, keepdims=True)
    found, variances = arithmetic.unclipped(mean, np.full(1, 1e-6), radius, 1.0)
    assert found[0, 0] == pytest.approx(gap, rel=0.05)
    assert variances[0] >= 1e-6
    if gap == 2.0:
        assert mean[0, 0] < 0.75 * gap


def test_a_mean_of_pure_noise_is_not_lengthened():
    noise = np.full((1, 100), 0.2)
    found, _ = arithmetic.unclipped(noise, np.full(1, 0.04), 1.5, 1.0)
    np.testing.assert_allclose(found, noise)


def test_centroids_are_matched_so_that_the_distances_are_least():
    synthetic = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    order = np.array([2, 0, 1])
    private = synthetic[order] + 0.5
    np.testing.assert_array_equal(private[arithmetic.match(private, synthetic)], synthetic + 0.5)
    # Greedily, both would go to the first.
    assert arithmetic.match(np.array([[1.0], [9.0]]), np.array([[1.1], [2.0]])).tolist() == [0, 1]


def test_distances_are_matched_and_not_their_squares():
    """Distances 0 + 5 are less than 3 + 3, and 0 + 25 more than 9 + 9."""
    synthetic = np.array([[0.0, 0.0], [3.0, 0.0]])
    private = np.array([[0.0, 0.0], [-7 / 6, np.sqrt(9 - 49 / 36)]])
    np.testing.assert_allclose(np.linalg.norm(private[1] - synthetic, axis=1), [3, 5])
    assert arithmetic.match(private, synthetic).tolist() == [0, 1]


@pytest.mark.parametrize("spread", [0.2, 1.0, 2.0])
def test_the_distance_of_private_rows_follows_from_that_to_public_centres(spread):
    """One class at the centre and one 2 from it; half of the differences are clipped."""
    rng = np.random.default_rng(6)
    gaps = np.stack([np.zeros(300), 2 * np.eye(300)[0]])
    rows = spread * rng.normal(size=(2, 3000, 300)) / np.sqrt(300) + gaps[:, None]
    lengths = np.linalg.norm(rows, axis=2, keepdims=True)
    radius = float(np.median(lengths))
    means = (rows * np.minimum(1, radius / lengths)).mean(axis=1)
    found = arithmetic.private_distance(
        means, np.zeros(2), np.full(2, 0.5), radius, float((lengths**2).mean())
    )
    assert found == pytest.approx(spread, rel=0.05)


def test_cluster_shares_follow_counts_that_stand_out_of_the_noise():
    synthetic = np.array([[50, 50], [50, 50], [100, 0]])
    counts = np.array([[90.0, 10.0], [90.0, 10.0], [50.0, 50.0]])
    sure = arithmetic.cluster_shares(counts, 0.1, synthetic)
    np.testing.assert_allclose(sure[0], [0.9, 0.1], atol=1e-4)
    np.testing.assert_allclose(sure[2], [1.0, 0.0])
    np.testing.assert_allclose(arithmetic.cluster_shares(counts, 1e4, synthetic)[0], [0.5, 0.5])


def test_variance_factors_are_the_ratio_or_one():
    truth = np.array([[2.0, 2.0, 0.5, 1.0]])
    synthetic, weights = np.full((1, 4), 3.0), np.ones(4)
    private = truth * synthetic
    sure = arithmetic.variance_factors(private, np.array([1e-6]), synthetic, weights)
    np.testing.assert_allclose(sure, truth, rtol=1e-3)
    unsure = arithmetic.variance_factors(private, np.array([1e3]), synthetic, weights)
    np.testing.assert_allclose(unsure, 1.0)
    far = arithmetic.variance_factors(1e3 * private, np.array([1e-6]), synthetic, weights)
    assert far.max() == 4.0


def test_stretching_changes_the_variances_asked_for_and_no_other():
    axes = axes_of(6)[:, :2]
    labels = np.arange(900) % 3
    rows = RNG.normal(size=(900, 6)).astype(np.float32) + labels[:, None]
    means = arithmetic.means_by_group(rows, labels, 3)
    factors = np.array([[4.0, 1.0], [1.0, 1.0], [0.25, 2.0]])
    found = arithmetic.stretch(rows, labels, means, axes, factors)
    for label in range(3):
        before, after = ((x[labels == label] - means[label]) for x in (rows, found))
        ratio = (after @ axes).var(axis=0) / (before @ axes).var(axis=0)
        np.testing.assert_allclose(ratio, factors[label], rtol=1e-3)
        outside = np.eye(6) - axes @ axes.T
        np.testing.assert_allclose(after @ outside, before @ outside, atol=1e-4)


# Spectral clustering finds what k-means cannot, and agrees with scikit-learn's


def agreement(found, truth):
    same = (found[:, None] == found) == (truth[:, None] == truth)
    return same.mean()


def test_it_agrees_with_an_outside_implementation():
    cluster = pytest.importorskip("sklearn.cluster")
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(m, 0.5, (90, 4)) for m in (-3, 0, 3)])
    theirs = cluster.SpectralClustering(3, gamma=0.5, random_state=0)
    ours = spectral_clusters(points, 3, np.random.default_rng(0))
    assert agreement(ours, theirs.fit_predict(points)) > 0.98
