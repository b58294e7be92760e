"""Gaussians cut off at zero: the moments that were asked for hold after the cut."""

import numpy as np
import pytest

from understudy.steps.rectified import RectifiedGaussians

DIM = 6


@pytest.fixture(scope="module")
def world():
    """Latent Gaussians of two components, and the moments of many of their samples after a cut."""
    rng = np.random.default_rng(0)
    means = np.stack([np.linspace(-1.5, 1.5, DIM), np.linspace(1.0, -0.5, DIM)])
    root = rng.normal(size=(DIM, DIM)) / 2 + 0.5  # correlated
    components = np.repeat([0, 1], [120_000, 60_000])
    values = np.maximum(means[components] + rng.normal(size=(len(components), DIM)) @ root, 0)
    centres = np.stack([values[components == label].mean(axis=0) for label in (0, 1)])
    residuals = values - centres[components]
    return values, components, centres, residuals.T @ residuals / len(values)


def test_means_covariances_and_zeros_hold_after_the_cut(world):
    values, components, centres, covariance = world
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


def test_a_width_spreads_samples_and_noise_below_zero_does_no_harm():
    means = np.array([[-0.3, 0.0, 5.0]])  # noise moved the first one below zero
    covariance = np.diag([1e-9, 0.1, 1.0])
    gaussians = RectifiedGaussians.of(means, covariance, np.ones(1))
    components = np.zeros(20_000, dtype=np.int64)
    one, two = (gaussians.draw(components, np.random.default_rng(0), width) for width in (1, 2))
    assert np.isfinite(one).all()
    assert two[:, 2].std() == pytest.approx(2 * one[:, 2].std(), rel=0.02)
