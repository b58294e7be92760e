"""Samples have a mixture's moments, and hold those that were released after a cut at zero."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.steps import histogram
from understudy.steps.gaussians import Contrast, Mixture, RectifiedGaussians, latent_moments
from understudy.steps.kmeans import nearest, popular, weighted_kmeans
from understudy.steps.shrinkage import square_root

COVARIANCES = np.array([[[2.0, 0.8], [0.8, 1.0]], [[0.5, -0.2], [-0.2, 0.4]]])
DIAGONAL = np.array([[1.0, 3.0], [0.5, 0.1]])
REST = np.array([[1.0], [-2.0]])


def mixture(roots):
    means = np.array([[0.0, 0.0], [10.0, 5.0], [-8.0, 2.0]])
    return Mixture(
        np.array([0, 1, 1]), np.array([0.5, 0.3, 0.2]), means, roots, np.array([0, 1, 1])
    )


@pytest.mark.parametrize(
    ("roots", "covariances", "rest"),
    [
        (np.stack([square_root(c) for c in COVARIANCES]), COVARIANCES, None),
        (DIAGONAL, np.stack([np.diag(sd**2) for sd in DIAGONAL]), None),
        (DIAGONAL, np.stack([np.diag(sd**2) + REST @ REST.T for sd in DIAGONAL]), REST),
    ],
)
def test_samples_have_the_moments_of_their_component(roots, covariances, rest):
    model = replace(mixture(roots), rest=rest)
    components = np.repeat(np.arange(3), model.allot(120_000))
    np.testing.assert_array_equal(np.bincount(components), [60_000, 36_000, 24_000])
    points = model.draw(components, np.random.default_rng(3))
    for index, root in enumerate(model.root_of):
        mine = points[components == index]
        np.testing.assert_allclose(mine.mean(axis=0), model.means[index], atol=0.08)
        np.testing.assert_allclose(np.cov(mine.T), covariances[root], rtol=0.03, atol=0.06)
        own = covariances[root] - (0 if rest is None else rest @ rest.T)
        np.testing.assert_allclose(model.root(root) @ model.root(root).T, own, atol=1e-9)


def test_counts_add_up_whatever_the_weights():
    model = mixture(np.ones((2, 2)))
    for count in (1, 2, 3, 7, 101):
        assert model.allot(count).sum() == count
    np.testing.assert_array_equal(model.allot(10), [5, 3, 2])
    np.testing.assert_array_equal(model.allot_classes(np.array([4, 10])), [4, 6, 4])


def test_bins_of_noise_are_emptied_and_quantiles_read():
    counts = np.array([3.0, -2.0, 40.0, 50.0, 10.0, 1.0])
    weights = histogram.clean_histogram(counts, sd=2.0)
    np.testing.assert_allclose(weights, [0, 0, 0.4, 0.5, 0.1, 0])
    edges = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert histogram.quantile(weights, edges, 0.3) == 3.0
    assert histogram.quantile(weights, edges, 0.8) == 4.0
    assert histogram.clean_histogram(np.array([1.0, 2.0]), sd=9.0).tolist() == [0.0, 1.0]


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


# Cut at zero, and at black and white

DIM = 6


@pytest.fixture(scope="module")
def cut_world():
    """Latent Gaussians of two components, and the moments of many of their samples after a cut."""
    rng = np.random.default_rng(0)
    means = np.stack([np.linspace(-1.5, 1.5, DIM), np.linspace(1.0, -0.5, DIM)])
    root = rng.normal(size=(DIM, DIM)) / 2 + 0.5  # correlated
    components = np.repeat([0, 1], [120_000, 60_000])
    values = np.maximum(means[components] + rng.normal(size=(len(components), DIM)) @ root, 0)
    centres = np.stack([values[components == label].mean(axis=0) for label in (0, 1)])
    residuals = values - centres[components]
    return values, components, centres, residuals.T @ residuals / len(values)


def test_means_covariances_and_zeros_hold_after_the_cut(cut_world):
    values, components, centres, covariance = cut_world
    gaussians = RectifiedGaussians.of(centres, covariance, np.array([2 / 3, 1 / 3]))
    drawn = gaussians.draw(components, np.random.default_rng(1)).astype(np.float64)
    assert drawn.min() == 0.0
    means = np.stack([drawn[components == label].mean(axis=0) for label in (0, 1)])
    np.testing.assert_allclose(means, centres, atol=0.02)
    residuals = drawn - means[components]
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    found = residuals.T @ residuals / len(drawn)
    np.testing.assert_allclose(found / scale, covariance / scale, atol=0.03)
    np.testing.assert_allclose((drawn == 0).mean(axis=0), (values == 0).mean(axis=0), atol=0.02)


def test_numbers_far_from_zero_stay_gaussian():
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    gaussians = RectifiedGaussians.of(np.array([[9.0, 30.0]]), covariance, np.ones(1))
    drawn = gaussians.draw(np.zeros(50_000, dtype=np.int64), np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), [9.0, 30.0], atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.06)


@pytest.mark.parametrize(("mean", "sd"), [(0.02, 0.05), (0.1, 0.15), (0.95, 0.1), (0.5, 0.1)])
def test_rectified_pixels_have_the_wanted_moments(mean, sd):
    latent, latent_sd = latent_moments(np.array([mean]), np.array([sd]))
    rng = np.random.default_rng(2)
    seen = np.clip(latent + latent_sd * rng.standard_normal(400000), 0, 1)
    assert seen.mean() == pytest.approx(mean, abs=0.006)
    assert seen.std() == pytest.approx(sd, rel=0.05)


@pytest.fixture(scope="module")
def grey():
    """Mostly black pixels, and some grey ones."""
    return np.clip(np.random.default_rng(0).normal(-0.1, 0.3, 20000), 0, 1)


@pytest.mark.parametrize("more", [1.1, 1.5])
def test_greyer_pixels_get_the_contrast_that_is_wanted(grey, more):
    mean, square = grey.mean(), more * np.square(grey).mean()
    made = Contrast.of(grey, mean, square)
    assert made.gain > 1
    assert made(grey).mean() == pytest.approx(mean, rel=0.01)
    assert np.square(made(grey)).mean() == pytest.approx(square, rel=0.01)
