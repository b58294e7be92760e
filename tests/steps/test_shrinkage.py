"""Noise that is known leaves the estimates; what stands out of it stays."""

import numpy as np
import pytest
import scipy

from understudy.steps import shrinkage


def orthogonal_noise(d, sd, rng):
    """Symmetric noise as `FullMoments` gets it: off the diagonal smaller by sqrt(2)."""
    upper = np.triu(rng.normal(0, sd / np.sqrt(2), (d, d)), 1)
    return upper + upper.T + np.diag(rng.normal(0, sd, d))


@pytest.mark.parametrize("freedom", [1, 8, 80, 256, 400 / 27])
@pytest.mark.parametrize("deviations", [1.0, 2.0, 2.5])
def test_what_noise_alone_may_have_has_the_deviations_of_a_chi_square(freedom, deviations):
    """In the form of an energy and in that of a mean square: the same numbers, to the last bit."""
    ratio = shrinkage.chance_ratio(freedom, deviations)
    assert ratio == 1 + deviations * np.sqrt(2 / freedom)
    energy = scipy.stats.chi2(freedom)
    assert freedom * ratio == pytest.approx(energy.mean() + deviations * energy.std())
    if freedom in (1, 8, 256):  # the blocks of `importance_blocks`
        assert freedom * ratio == freedom + deviations * np.sqrt(2 * freedom)


def test_means_that_are_all_noise_become_one():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 2.0, (10, 400))
    left = shrinkage.shrink_to_zero(noise, np.full(10, 4.0))
    assert (left**2).sum() < 0.05 * (noise**2).sum()
    together = shrinkage.shrink_to_common(noise + 5, np.full(10, 4.0))
    assert together.std(axis=0).max() < 0.5
    assert together.mean() == pytest.approx(5, abs=0.2)


def test_james_and_stein_beat_the_raw_means():
    rng = np.random.default_rng(1)
    true = 3 + rng.normal(0, 1.0, (8, 200))
    noisy = true + rng.normal(0, 1.0, true.shape)
    better = shrinkage.shrink_to_common(noisy, np.ones(8))
    assert ((better - true) ** 2).sum() < 0.7 * ((noisy - true) ** 2).sum()


def test_no_mean_is_divided_by_a_count_that_is_noise():
    counts, means, variances = shrinkage.noisy_means(
        np.array([-3.0, 1000.0]), np.array([[8.0], [500.0]]), 4.0, 2.0
    )
    np.testing.assert_allclose(counts, [8.0, 1000.0])
    np.testing.assert_allclose(means, [[1.0], [0.5]])
    np.testing.assert_allclose(variances, [1 / 16, 4e-6])


def test_variances_that_are_all_noise_become_their_mean():
    rng = np.random.default_rng(3)
    noisy = 1 + rng.normal(0, 0.1, (3, 500))
    even = shrinkage.shrink_variances(noisy, 0.01, floor=0.02)
    assert even.std() < 0.03
    kept = shrinkage.shrink_variances(np.array([[1.0, 9.0, -4.0]]), 1e-9, floor=0.02)
    np.testing.assert_allclose(kept, [[1.0, 9.0, 0.04]], rtol=1e-6)


def test_a_denoised_covariance_is_nearer_to_the_truth():
    rng = np.random.default_rng(4)
    d, sd = 120, 0.2
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    true = (axes * np.geomspace(8, 0.05, d)) @ axes.T
    noisy = true + orthogonal_noise(d, sd, rng)
    clean = shrinkage.denoise_covariance(noisy, sd)
    raw, better = (np.linalg.norm(m - true) for m in (noisy, clean))
    assert better < 0.75 * raw
    assert np.linalg.eigvalsh(clean).min() > 0
    # The best that keeps the noisy eigenvectors (the oracle of the paper) is hardly better.
    vectors = np.linalg.eigh(noisy)[1]
    oracle = (vectors * np.einsum("ik,ij,jk->k", vectors, true, vectors)) @ vectors.T
    assert better < 1.1 * np.linalg.norm(oracle - true)


def test_pure_noise_leaves_no_directions():
    rng = np.random.default_rng(5)
    clean = shrinkage.denoise_spectrum(
        np.linalg.eigvalsh(np.eye(200) + orthogonal_noise(200, 0.05, rng)), 200 * 0.05**2 / 2
    )
    assert clean.std() < 0.1
    assert clean.mean() == pytest.approx(1.0, abs=0.05)


def test_blocks_of_noise_leave_and_blocks_of_signal_stay():
    rng = np.random.default_rng(8)
    rows = rng.normal(0, 1.0, (6, 400))
    rows[:, :8] += 20
    shrunk = shrinkage.shrink_in_blocks(rows, np.ones(6))
    assert np.abs(shrunk[:, :8] - rows[:, :8]).max() < 0.2
    assert (shrunk[:, 8:] ** 2).sum() < 0.03 * (rows[:, 8:] ** 2).sum()


def test_a_mean_that_is_all_noise_becomes_the_common_one():
    means, variances = np.array([[50.0] * 8, [1.0] * 8, [-1.0] * 8]), np.array([1.0, 400.0, 400.0])
    origin = np.zeros(8)
    common = shrinkage.common_mean(means, variances, origin)
    assert common == pytest.approx(np.full(8, 49), abs=2)
    np.testing.assert_array_equal(shrinkage.common_mean(0 * means, variances, origin), origin)
    drowned = shrinkage.shrink_to_common(means[1:], variances[1:], origin)
    np.testing.assert_array_equal(drowned, [origin, origin])


def test_only_the_leading_block_that_shows_signal_is_a_matrixs_own():
    rng = np.random.default_rng(9)
    target, sd = np.eye(40), 0.3
    noise = orthogonal_noise(40, sd, rng)
    assert shrinkage.shrink_leading(target, target, sd, clear=False)[1:] == (0, 0.0)
    same, none, keep = shrinkage.shrink_leading(target + noise, target, sd, clear=False)
    np.testing.assert_array_equal(same, target)
    assert (none, keep) == (0, 0.0)
    own = target.copy()
    own[:3, :3] += 4.0
    moved, block, keep = shrinkage.shrink_leading(own + noise, target, sd, clear=False)
    assert 3 <= block <= 12
    assert keep > 0.8
    assert np.linalg.norm(moved - own) < 0.5 * np.linalg.norm(noise)
    np.testing.assert_array_equal(moved[block:, block:], target[block:, block:])


def test_axes_of_noise_are_not_drawn_along():
    rng = np.random.default_rng(10)
    noise = orthogonal_noise(200, 0.1, rng)
    clear, _ = shrinkage.clear_values(np.linalg.eigvalsh(noise), 0.1)
    assert not clear.any()
    alone = shrinkage.clear_part(0.1 * np.eye(200) + noise, 0.1)
    assert np.linalg.matrix_rank(alone, tol=1e-9) == 1
    spiked = noise.copy()
    spiked[0, 0] += 9.0
    spiked[1, 1] += 5.0
    part = shrinkage.clear_part(spiked, 0.1)
    assert np.linalg.matrix_rank(part, tol=1e-9) == 2
    np.testing.assert_allclose(np.diag(part)[:2], [9, 5], rtol=0.2)


def test_variances_that_are_all_noise_become_their_target():
    rng = np.random.default_rng(12)
    target = np.linspace(1, 3, 300)[None]
    noisy = target + rng.normal(0, 0.5, (3, 300))
    noisy[2] = 5 * target + rng.normal(0, 0.5, 300)
    shrunk, keep = shrinkage.shrink_to_target(noisy, target, 0.25, floor=0.02)
    assert np.abs(shrunk[:2] - target).max() < 0.3
    assert keep[2] > 0.95
    assert shrunk.min() > 0


def test_what_no_axis_explains_is_left_out_where_it_is_noise():
    """At 2.5 deviations one matrix in fifty got static of a size of 1 in all, for all samples."""
    rng, nothing = np.random.default_rng(5), np.zeros(256)
    for _ in range(2000):
        noise = np.diag(rng.normal(0, 0.03, 256))
        assert not shrinkage.left_variances(noise, nothing, 0.03).any()
    signal = np.diag(rng.normal(0.02, 0.03, 256))
    assert shrinkage.left_variances(signal, nothing, 0.03)[64:].all()


def test_numbers_that_are_all_noise_become_their_average():
    rng, sizes = np.random.default_rng(6), np.full(200, 50.0)
    noise = rng.normal(1.0, 0.5, 200)
    same = shrinkage.shrink_to_average(noise, np.full(200, 0.25), sizes)
    assert same.std() < 0.2
    few = [
        shrinkage.shrink_to_average(rng.normal(1.0, 0.5, 10), np.full(10, 0.25), sizes[:10]).std()
        for _ in range(1000)
    ]
    assert np.mean(few) < 0.02
    clear = np.repeat([0.0, 3.0], 100)
    moved = shrinkage.shrink_to_average(clear + noise, np.full(200, 0.25), sizes)
    assert np.corrcoef(moved, clear)[0, 1] > 0.9
    assert moved.std() > 1.3


def test_variances_without_noise_stay() -> None:
    variances = np.array([9.0, 4.0, 1.0, 0.8, 1.2, 0.9, 1.1, 1.0, 1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(shrinkage.smooth_variances(variances, 0.0), variances, rtol=1e-6)


def test_smooth_variances_are_nearer_than_what_was_measured_and_than_their_mean() -> None:
    rng, true = np.random.default_rng(0), 0.2 + 3.0 * np.exp(-np.arange(80) / 8)
    for noise_sd in (0.2, 0.6):
        measured = true + noise_sd * rng.standard_normal((40, 80))
        smooth = np.stack([shrinkage.smooth_variances(row, noise_sd) for row in measured])
        error = np.square(smooth - true).mean()
        assert error < 0.75 * np.square(measured - true).mean()
        assert error < 0.5 * np.square(true - true.mean()).mean()


def test_variances_that_are_all_alike_are_one_number() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        smooth = shrinkage.smooth_variances(1 + 0.3 * rng.standard_normal(80), 0.3)
        assert np.ptp(smooth) < 0.75  # of 1.5 that was measured


def test_no_inverse_follows_directions_that_noise_alone_made_narrow():
    """It tells two means apart about as well as in the directions that noise leaves alone."""
    rng, dim, sd = np.random.default_rng(0), 128, 0.025
    values, axes = np.geomspace(0.03, 10, dim), np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    covariance = (axes * values) @ axes.T
    difference = axes @ np.where(values > 0.5, np.sqrt(values), 0)
    best = difference @ np.linalg.solve(covariance, difference)
    for _ in range(10):
        noisy = covariance + orthogonal_noise(dim, sd, rng)
        root = shrinkage.SpikedCovariance.of(noisy, np.zeros(dim, int), sd).root(noises=2.0)
        weights = np.linalg.solve(root @ root.T, difference)
        apart = (weights @ difference) ** 2 / (weights @ covariance @ weights)
        assert apart > 0.75 * best


def test_draws_of_a_class_take_the_covariance_that_was_measured_and_no_noise():
    rng = np.random.default_rng(1)
    root = np.diag([3.0, 2.0, 0.1, 0.1])
    shapes = shrinkage.ClassShapes.along(root, np.ones((2, 4)), 2)
    exact = np.array([[1.0, 0.8], [0.8, 1.0]])
    sums = 1000 * np.stack([exact, np.eye(2)])
    sums[1] += orthogonal_noise(2, 20.0, rng)
    shapes = shapes.measured(sums, 20.0)
    noise = rng.normal(size=(20_000, 4)) @ root.T
    first, second = (shapes.turned(noise, np.full(len(noise), label)) for label in (0, 1))
    correlation = np.corrcoef(first.T)
    assert abs(correlation[0, 1]) == pytest.approx(0.8, abs=0.05)
    np.testing.assert_allclose(first.std(axis=0), np.diag(root), rtol=0.05)
    np.testing.assert_allclose(second, noise, atol=0.5)
    np.testing.assert_array_equal(first[:, 2:], noise[:, 2:])
    widths = np.array([np.full(4, 2.0), np.ones(4)])
    pooled = (4 * np.cov(first.T) + np.cov(second.T)) / 2
    np.testing.assert_allclose(shapes.pooled(root, widths), pooled, rtol=0.1, atol=0.2)
    none = shrinkage.ClassShapes.along(root, np.ones((2, 4)), 0)
    np.testing.assert_array_equal(none.turned(noise, np.zeros(len(noise), int)), noise)
