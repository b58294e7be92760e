"""Spectral clustering finds what k-means cannot, and agrees with scikit-learn's."""

import numpy as np
import pytest

from understudy.methods.alignment.arithmetic import centroids, spectral_clusters


def rings(count, seed):
    """Two circles, one inside of the other."""
    rng = np.random.default_rng(seed)
    angle, which = rng.uniform(0, 2 * np.pi, count), np.arange(count) % 2
    radius = np.where(which == 0, 1.0, 4.0) + 0.1 * rng.normal(size=count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), which


def agreement(found, truth):
    same = (found[:, None] == found) == (truth[:, None] == truth)
    return same.mean()


def test_it_tells_a_ring_from_what_lies_inside():
    points, truth = rings(400, 0)
    assert agreement(spectral_clusters(points, 2, np.random.default_rng(0)), truth) > 0.98


def test_it_agrees_with_an_outside_implementation():
    cluster = pytest.importorskip("sklearn.cluster")
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(m, 0.5, (90, 4)) for m in (-3, 0, 3)])
    theirs = cluster.SpectralClustering(3, gamma=0.5, random_state=0)
    ours = spectral_clusters(points, 3, np.random.default_rng(0))
    assert agreement(ours, theirs.fit_predict(points)) > 0.98


def test_many_points_join_the_clusters_of_some():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 3000)
    points = 6 * np.eye(3)[truth] + rng.normal(size=(3000, 3))
    assert agreement(spectral_clusters(points, 3, np.random.default_rng(0)), truth) > 0.98


@pytest.mark.parametrize("count", [1, 2, 5])
def test_points_that_coincide_are_no_trouble(count):
    found = spectral_clusters(np.zeros((count, 3)), min(2, count), np.random.default_rng(0))
    assert found.shape == (count,)
    assert set(found) <= {0, 1}


def test_an_empty_cluster_lies_in_the_middle():
    points = np.array([[0.0, 0.0], [2.0, 0.0]])
    found = centroids(points, np.array([0, 0]), 2)
    np.testing.assert_allclose(found, [[1.0, 0.0], [1.0, 0.0]])
