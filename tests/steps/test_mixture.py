"""Samples have the mixture's moments; histograms and rectified pixels keep theirs."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.methods.clustering.sampling import latent_moments
from understudy.steps import histogram
from understudy.steps.kmeans import nearest, popular, weighted_kmeans
from understudy.steps.mixture import Mixture, square_root


def mixture(roots):
    means = np.array([[0.0, 0.0], [10.0, 5.0], [-8.0, 2.0]])
    return Mixture(
        np.array([0, 1, 1]), np.array([0.5, 0.3, 0.2]), means, roots, np.array([0, 1, 1])
    )


def test_samples_have_the_moments_of_their_component():
    covariances = np.array([[[2.0, 0.8], [0.8, 1.0]], [[0.5, -0.2], [-0.2, 0.4]]])
    model = mixture(np.stack([square_root(c) for c in covariances]))
    parts = list(model.sample(model.allot(60000), seed=3))
    points, component = (np.concatenate(part) for part in zip(*parts, strict=True))
    np.testing.assert_array_equal(np.bincount(component), [30000, 18000, 12000])
    for index, root in enumerate(model.root_of):
        mine = points[component == index]
        np.testing.assert_allclose(mine.mean(axis=0), model.means[index], atol=0.05)
        np.testing.assert_allclose(np.cov(mine.T), covariances[root], atol=0.06)


def test_diagonal_roots_are_standard_deviations():
    model = mixture(np.array([[1.0, 3.0], [0.5, 0.1]]))
    points, component = next(model.sample(model.allot(20000), seed=0, block=20000))
    np.testing.assert_allclose(points[component == 0].std(axis=0), [1.0, 3.0], rtol=0.05)
    np.testing.assert_array_equal(model.root(1), np.diag([0.5, 0.1]))


def test_the_rest_is_added_to_every_component():
    rest = np.array([[1.0], [-2.0]])
    model = replace(mixture(np.array([[1.0, 3.0], [0.5, 0.1]])), rest=rest)
    points, component = next(model.sample(model.allot(60000), seed=0, block=60000))
    for index, root in enumerate([[1.0, 3.0], [0.5, 0.1], [0.5, 0.1]]):
        covariance = np.diag(np.square(root)) + rest @ rest.T
        np.testing.assert_allclose(np.cov(points[component == index].T), covariance, atol=0.3)


def test_the_same_seed_gives_the_same_samples():
    model = mixture(np.ones((2, 2)))
    first, again = (
        np.concatenate([p for p, _ in model.sample(model.allot(99), seed=5)]) for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != np.concatenate([p for p, _ in model.sample(model.allot(99), seed=6)])).any()


def test_counts_add_up_whatever_the_weights():
    model = mixture(np.ones((2, 2)))
    for count in (1, 2, 3, 7, 101):
        assert model.allot(count).sum() == count
    np.testing.assert_array_equal(model.allot(10), [5, 3, 2])


def test_a_square_root_of_lower_rank_keeps_the_largest():
    root = square_root(np.diag([1.0, 9.0, 4.0]), rank=2)
    assert root.shape == (3, 2)
    np.testing.assert_allclose(root @ root.T, np.diag([0.0, 9.0, 4.0]), atol=1e-12)


def test_bins_of_noise_are_emptied_and_quantiles_read():
    counts = np.array([3.0, -2.0, 40.0, 50.0, 10.0, 1.0])
    weights = histogram.clean_histogram(counts, sd=2.0)
    np.testing.assert_allclose(weights, [0, 0, 0.4, 0.5, 0.1, 0])
    edges = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert histogram.quantile(weights, edges, 0.3) == 3.0
    assert histogram.quantile(weights, edges, 0.8) == 4.0
    assert histogram.clean_histogram(np.array([1.0, 2.0]), sd=9.0).tolist() == [0.0, 1.0]


def test_draws_follow_the_histogram():
    rng = np.random.default_rng(0)
    edges = np.array([1.0, 2.0, 4.0])
    drawn = histogram.draw(np.array([0.25, 0.0, 0.75, 0.0]), edges, 20000, rng)
    assert ((drawn < 1).mean()) == pytest.approx(0.25, abs=0.02)
    assert ((drawn >= 2) & (drawn < 4)).mean() == pytest.approx(0.75, abs=0.02)
    assert drawn[drawn >= 2].mean() == pytest.approx(3.0, abs=0.05)


def test_weighted_kmeans_finds_planted_clusters():
    rng = np.random.default_rng(1)
    planted = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    points = np.concatenate([c + rng.normal(0, 0.4, (60, 2)) for c in planted])
    stray = np.array([[90.0, 90.0]])
    weights = np.concatenate([rng.uniform(0.5, 2, 240), [0.0]])
    found = weighted_kmeans(np.concatenate([points, stray]), weights, 4, rng)
    order = nearest(planted, found)
    assert len(set(order)) == 4
    np.testing.assert_allclose(found[order], planted, atol=0.3)


def test_votes_that_are_noise_count_for_nothing():
    votes = np.array([1.0, -2.0, 30.0, 2.0, 50.0])
    np.testing.assert_allclose(popular(votes, 2.0, 2), [0, 0, 30, 0, 50])
    assert (popular(votes, 100.0, 2) > 0).sum() == 4


@pytest.mark.parametrize(("mean", "sd"), [(0.02, 0.05), (0.1, 0.15), (0.95, 0.1), (0.5, 0.1)])
def test_rectified_pixels_have_the_wanted_moments(mean, sd):
    latent, latent_sd = latent_moments(np.array([mean]), np.array([sd]))
    rng = np.random.default_rng(2)
    seen = np.clip(latent + latent_sd * rng.standard_normal(400000), 0, 1)
    assert seen.mean() == pytest.approx(mean, abs=0.006)
    assert seen.std() == pytest.approx(sd, rel=0.05)
