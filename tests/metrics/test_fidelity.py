"""Frechet distances, against what is known of Gaussians."""

import numpy as np
import pytest

from understudy.metrics.fidelity import frechet_distance, kernel_distance


def gaussian(rows, dim, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, dim)) @ rng.normal(size=(dim, dim)) + shift


def test_a_shift_costs_its_square_and_a_set_is_at_no_distance_from_itself():
    a = gaussian(500, 4, 2)
    assert frechet_distance(a, a) == pytest.approx(0.0, abs=1e-9)
    assert frechet_distance(a, a + np.array([3.0, 0.0, 4.0, 0.0])) == pytest.approx(25.0)


def test_a_kernel_distance_of_like_sets_is_nothing_within_its_error():
    rng = np.random.default_rng(7)
    like = kernel_distance(rng.normal(size=(900, 6)), rng.normal(size=(900, 6)), size=300)
    assert abs(like.value) < 0.02
    other = kernel_distance(rng.normal(size=(900, 6)), rng.normal(size=(900, 6)) + 0.5, size=300)
    assert other.value > 10 * other.error > 0
