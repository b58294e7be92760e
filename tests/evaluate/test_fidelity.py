"""Frechet distances, against what is known of Gaussians."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from understudy.core.errors import ConfigError
from understudy.evaluate.fidelity import Moments, frechet_distance


def gaussian(rows, dim, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, dim)) @ rng.normal(size=(dim, dim)) + shift


def test_it_is_the_published_formula():
    a, b = gaussian(300, 6, 0), gaussian(200, 6, 1, shift=0.5)
    one, two = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    apart = np.square(a.mean(0) - b.mean(0)).sum()
    expected = apart + np.trace(one + two - 2 * sqrtm(one @ two).real)
    assert frechet_distance(a, b) == pytest.approx(expected, rel=1e-9)
    assert frechet_distance(b, Moments.of(a)) == pytest.approx(expected, rel=1e-9)


def test_a_shift_costs_its_square_and_a_set_is_at_no_distance_from_itself():
    a = gaussian(500, 4, 2)
    assert frechet_distance(a, a) == pytest.approx(0.0, abs=1e-9)
    assert frechet_distance(a, a + np.array([3.0, 0.0, 4.0, 0.0])) == pytest.approx(25.0)


def test_fewer_rows_than_dimensions_give_a_number():
    few = gaussian(3, 40, 3)
    assert 0 < frechet_distance(few, gaussian(3, 40, 4)) < np.inf


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (np.zeros((1, 3)), np.zeros((5, 3)), "two or more"),
        (np.zeros((5, 3)), np.zeros((5, 4)), "3 and of 4"),
        (np.full((5, 3), np.nan), np.zeros((5, 3)), "finite"),
    ],
)
def test_what_cannot_be_compared_is_refused(a, b, words):
    with pytest.raises(ConfigError, match=words):
        frechet_distance(a, b)
