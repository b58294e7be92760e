"""Estimates from noisy sums: what of them is signal, given the noise that is known to be in them.

All of it is post-processing of released values, so it costs no privacy.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from understudy.core.types import Vector


def noisy_means(
    counts: Vector, sums: Vector, count_sd: float, sum_sd: float
) -> tuple[Vector, Vector, Vector]:
    """Means from noisy counts and sums, never dividing by a count that is all noise.

    Args:
        counts: (m,) noisy counts.
        sums: (m, d) noisy sums.
        count_sd: Standard deviation of the noise in a count.
        sum_sd: The same of each number of a sum.

    Returns:
        The counts, raised to twice the noise in them where they are below; the means (m, d);
        and the variance of the noise in each number of a mean, (m,).
    """
    counts = np.maximum(counts, max(2 * count_sd, 1.0))
    return counts, sums / counts[:, None], (sum_sd / counts) ** 2


def shrink_to_common(means: Vector, variances: Vector) -> Vector:
    """Positive-part James-Stein estimates of several means, towards their weighted average.

    Args:
        means: (m, d) noisy means.
        variances: (m,) variance of the noise in each number of a mean.

    Returns:
        (m, d). A mean that is all noise becomes the average; with one mean alone, that mean.
    """
    if len(means) == 1:
        return means
    weights = 1 / np.maximum(variances, 1e-300)
    centre = (weights[:, None] * means).sum(axis=0) / weights.sum()
    return np.asarray(centre + shrink_to_zero(means - centre, variances))


def shrink_to_zero(rows: Vector, variances: Vector) -> Vector:
    """Positive-part James-Stein estimates towards zero: rows times signal / (signal + noise).

    Args:
        rows: (m, d).
        variances: (m,) variance of the noise in each number of a row.
    """
    energy = np.maximum((rows**2).sum(axis=1), 1e-300)
    keep = np.clip(1 - rows.shape[1] * variances / energy, 0.0, 1.0)
    return np.asarray(keep[:, None] * rows)


def shrink_variances(variances: Vector, noise: float | Vector, floor: float) -> Vector:
    """Noisy variances, shrunk towards the mean of their row by the known noise in them.

    Args:
        variances: (m, d) noisy, possibly negative.
        noise: Variance of the noise in each, broadcastable to (m, d).
        floor: Least variance, as a part of the row's mean.

    Returns:
        (m, d), positive.
    """
    noise = np.broadcast_to(np.asarray(noise, dtype=np.float64), variances.shape)
    mean = np.maximum(variances.mean(axis=1, keepdims=True), 1e-12)
    spread = ((variances - mean) ** 2).mean(axis=1, keepdims=True)
    signal = np.maximum(spread - noise.mean(axis=1, keepdims=True), 0.0)
    keep = signal / np.maximum(spread, 1e-300)
    return np.asarray(np.maximum(mean + keep * (variances - mean), floor * mean))


def denoise_covariance(matrix: Vector, noise_sd: float, floor: float = 0.02) -> Vector:
    """A noisy symmetric matrix with its eigenvalues cleaned of the noise.

    For C + E with E a Gaussian orthogonal ensemble, the best estimate that keeps the eigenvectors
    has eigenvalues l - 2 s^2 H(l), where H is the Hilbert transform of the observed spectrum and
    s^2 the variance of E's semicircle (Bun, Allez, Bouchaud and Potters 2016, equation 18).

    Args:
        matrix: (d, d) symmetric C + E.
        noise_sd: Standard deviation of E's diagonal; off the diagonal it is smaller by sqrt(2).
        floor: Least eigenvalue, as a part of the mean of all.

    Returns:
        (d, d), positive definite.
    """
    values, vectors = np.linalg.eigh(matrix)
    clean = denoise_spectrum(values, len(values) * noise_sd**2 / 2)
    mean = max(float(values.mean()), 1e-12)
    return np.asarray((vectors * np.maximum(clean, floor * mean)) @ vectors.T)


def denoise_spectrum(values: Vector, semicircle: float) -> Vector:
    """The cleaned eigenvalues, in increasing order as given (see `denoise_covariance`)."""
    if semicircle <= 0:
        return values
    gaps = values[:, None] - values[None]
    smoothing = semicircle / len(values)
    hilbert = (gaps / (gaps**2 + smoothing)).mean(axis=1)
    return np.asarray(isotonic_regression(values - 2 * semicircle * hilbert).x)


def shrink_matrix(matrix: Vector, target: Vector, noise_sd: float) -> Vector:
    """A noisy symmetric matrix moved towards a target by signal / (signal + noise).

    Args:
        matrix: (d, d) noisy, noise as in `denoise_covariance`.
        target: (d, d), taken as exact.
        noise_sd: Standard deviation of the diagonal's noise.
    """
    d = len(matrix)
    distance = max(float(((matrix - target) ** 2).sum()), 1e-300)
    keep = max(0.0, 1 - d * d * noise_sd**2 / 2 / distance)
    return np.asarray(target + keep * (matrix - target))


def low_rank(matrix: Vector, rank: int) -> Vector:
    """The leading ``rank`` eigenvalues kept, the rest replaced by their mean: (d, d)."""
    values, vectors = np.linalg.eigh(matrix)
    cut = len(values) - rank
    if cut > 0:
        values = np.concatenate([np.full(cut, max(values[:cut].mean(), 0.0)), values[cut:]])
    return np.asarray((vectors * values) @ vectors.T)
