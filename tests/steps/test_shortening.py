"""Rows whose leading directions are made shorter."""

import numpy as np
import pytest

from understudy.steps.space import Shortening


def rows_of(deviations, n=4000):
    """Gaussian rows in turned axes, and the axes, of these deviations: (n, D), (D, D)."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(len(deviations), len(deviations))))[0]
    return (rng.normal(size=(n, len(deviations))) * deviations) @ axes.T, axes


def test_leading_directions_are_divided_by_a_power_of_their_moments():
    deviations = np.concatenate([[16.0, 8.0], np.ones(98)])
    rows, axes = rows_of(deviations)
    before, after = ((part @ axes).std(axis=0) for part in (rows, Shortening.of(rows)(rows)))
    floor = 0.1 * np.mean(deviations**2)
    factors = ((1 + floor) / (deviations[:2] ** 2 + floor)) ** 0.25
    np.testing.assert_allclose((after / before)[:2], factors, rtol=0.05)
    np.testing.assert_allclose((after / before)[2:], 1.0, atol=0.05)


def test_directions_after_the_leading_ones_stay_as_they_are():
    deviations = np.geomspace(10.0, 0.1, 200)
    rows, _ = rows_of(deviations)
    own = np.linalg.eigh(rows.T @ rows)[1][:, ::-1]
    shorter = Shortening.of(rows)(rows)
    np.testing.assert_allclose(shorter @ own[:, 64:], rows @ own[:, 64:], atol=1e-5)
    assert np.square(shorter @ own[:, :32]).sum() < 0.6 * np.square(rows @ own[:, :32]).sum()


def test_each_row_is_shortened_by_itself_to_the_last_bit():
    rows, _ = rows_of(np.geomspace(10.0, 0.1, 90), n=300)
    shortening = Shortening.of(rows)
    alone = np.concatenate([shortening(rows[k : k + 1]) for k in range(300)])
    assert np.array_equal(alone, shortening(rows))


@pytest.mark.parametrize("dim", [1, 2, 64, 65])
def test_few_numbers_and_rows_of_zeros_are_taken(dim):
    rows, _ = rows_of(np.ones(dim), n=50)
    assert Shortening.of(rows)(rows).shape == rows.shape
    zeros = np.zeros((5, dim))
    assert np.array_equal(Shortening.of(zeros)(zeros), zeros)
