"""Spaces: there and back again, and unit covariance on public rows."""

import numpy as np
import pytest

from understudy.steps.space import (
    Leading,
    Shortening,
    Sphere,
    leading_axes,
    principal_frame,
    whitening,
)


def correlated(n, d, rng):
    return (rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3).astype(np.float32)


def test_whitened_public_rows_have_about_unit_covariance():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6000, 12)).astype(np.float32) * np.linspace(1, 2, 12, dtype=np.float32)
    seen = np.cov(whitening(rows, 1.0, None).forward(rows).T)
    np.testing.assert_allclose(seen - np.diag(np.diag(seen)), 0, atol=1e-3)
    # A tenth of the mean variance is added to each: none is above 1, and the large ones are near.
    assert np.diag(seen).max() < 1
    assert np.diag(seen).min() > 0.75


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_with_all_components_the_way_back_is_exact(power):
    rng = np.random.default_rng(1)
    space = whitening(correlated(500, 10, rng), power, None)
    rows = correlated(40, 10, rng)
    np.testing.assert_allclose(space.backward(space.forward(rows), rng), rows, atol=2e-3)


def test_the_power_is_chosen_by_the_sign_of_public_rows():
    rng = np.random.default_rng(2)
    rows = correlated(300, 6, rng)
    assert whitening(rows, None, None).power == 1.0
    positive = whitening(np.abs(rows), None, None)
    assert positive.power == 0.5
    far = positive.backward(rng.normal(0, 9, (50, 6)), rng)
    assert far.min() >= 0


def test_what_is_left_out_comes_from_public_rows():
    rng = np.random.default_rng(3)
    rows = correlated(3000, 20, rng)
    space = whitening(rows, 1.0, 5)
    back = space.backward(space.forward(rows), rng)
    np.testing.assert_allclose(space.forward(back), space.forward(rows), atol=2e-3)
    np.testing.assert_allclose(
        np.cov(back.T), np.cov(rows.T), atol=0.1 * float(np.cov(rows.T).max())
    )
    flat = space.backward(space.forward(rows), None)
    assert np.linalg.matrix_rank(flat - space.centre, tol=0.1) == 5


def test_leading_axes_of_many_dimensions_agree_with_the_exact_ones():
    rng = np.random.default_rng(4)
    rows = (rng.normal(size=(1500, 600)) * np.geomspace(5, 0.05, 600)).astype(np.float32)
    rows -= rows.mean(axis=0)
    values, axes = leading_axes(rows, 20)
    exact = np.linalg.eigvalsh(np.cov(rows.T))[::-1][:20]
    np.testing.assert_allclose(values, exact, rtol=1e-3)
    np.testing.assert_allclose(axes.T @ axes, np.eye(20), atol=1e-9)
    along = ((rows @ axes) ** 2).sum() / (len(rows) - 1)
    assert along == pytest.approx(exact.sum(), rel=1e-3)


def test_leading_coordinates_and_back():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(7, 9))
    space = Leading(9, 4)
    back = space.backward(space.forward(rows), rng)
    np.testing.assert_allclose(back[:, :4], rows[:, :4])
    assert not back[:, 4:].any()


def test_the_sphere_there_and_back():
    rng = np.random.default_rng(6)
    rows, centre = rng.normal(size=(30, 8)) * 4, rng.normal(size=8)
    sphere = Sphere(centre)
    points = sphere.forward(rows)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)
    radii = np.linalg.norm(rows - centre, axis=1)
    np.testing.assert_allclose(sphere.backward(points, radii), rows)
    np.testing.assert_array_equal(sphere.forward(centre[None]), np.zeros((1, 8)))


def test_a_principal_frame_whitens_and_keeps_the_rest():
    rng = np.random.default_rng(7)
    root = rng.normal(size=(6, 6))
    covariance = root @ root.T
    frame = principal_frame(covariance, 4, 2, mahalanobis=True, rest=True)
    assert frame.whitened
    rows = rng.multivariate_normal(np.zeros(6), covariance, 40000)
    np.testing.assert_allclose(np.cov(frame.forward(rows).T), np.eye(4), atol=0.05)
    inside = frame.roots(np.eye(4)[None])[0]
    whole = inside @ inside.T + frame.rest @ frame.rest.T
    np.testing.assert_allclose(whole, covariance, atol=1e-9)
    base = rows[:5]
    np.testing.assert_allclose(frame.backward(frame.forward(base), base), base)


# Leading directions made shorter


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
