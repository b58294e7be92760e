"""Gaussians that are cut off at zero, with the moments that were released.

Features behind a rectifier are never negative, and many are exactly zero. A Gaussian of the same
mean and covariance has none of those zeros, and where its negative numbers are cut off, the means
are wrong. Here a latent Gaussian is chosen such that mean, variance and covariance hold *after* the
cut: the Tobit model (Tobin 1958) in many dimensions. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy

from understudy.core.types import Embeddings, Labels, Vector

_TERMS = 6  # of the Hermite series of a covariance
_STEPS = 15  # Newton's
_HALVINGS = 40
_WIDEST = 1e3  # times a deviation after the cut: the one before it
_MOST = 0.99  # of a correlation
_LEAST_MEAN = 1e-3  # of a class, as a part of the mean of all numbers
_LEAST_EIGENVALUE = 1e-4


@dataclass(frozen=True)
class RectifiedGaussians:
    """Latent Gaussians with one covariance; a sample is one of theirs with negative numbers cut.

    Attributes:
        locations: (m, D) latent means, in latent deviations.
        deviations: (D,) latent.
        root: (D, D) square root of the latent correlations.
    """

    locations: Vector
    deviations: Vector
    root: Vector

    @classmethod
    def of(cls, means: Vector, covariance: Vector, weights: Vector) -> RectifiedGaussians:
        """The latent Gaussians of components that have these moments after the cut.

        Args:
            means: (m, D) of components; what is not positive counts as about zero.
            covariance: (D, D) within components, on average.
            weights: (m,) of components, summing to 1.
        """
        means = np.maximum(means, _LEAST_MEAN * max(float(means.mean()), 1e-12))
        variances = np.maximum(np.diag(covariance), 1e-12)
        deviations = _latent_deviations(means, variances, weights)
        locations = _location(means / deviations)
        scaled = covariance / np.outer(deviations, deviations)
        root = _correlation_root(_latent_correlations(locations, scaled, weights))
        return cls(locations, deviations, root)

    def draw(self, components: Labels, rng: np.random.Generator, width: float = 1.0) -> Embeddings:
        """A sample of each of these components, never negative: (n, D) float32.

        Args:
            components: (n,).
            rng: Public randomness.
            width: Times the deviations before the cut.
        """
        noise = rng.standard_normal((len(components), len(self.root)), dtype=np.float32)
        latent = self.locations[components].astype(np.float32)
        latent += noise @ (width * self.root.T).astype(np.float32)
        return np.maximum(latent * self.deviations.astype(np.float32), np.float32(0))


@cache
def _table() -> tuple[Vector, Vector]:
    """a, and the mean of max(0, a + N(0, 1)), on a grid of a."""
    a = np.linspace(-6.0, 12.0, 8000)
    return a, _cut_moments(a)[0]


def _cut_moments(a: Vector) -> tuple[Vector, Vector]:
    """Mean and variance of max(0, a + N(0, 1))."""
    density = np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    below = scipy.special.ndtr(a)
    mean = a * below + density
    return mean, np.maximum((a * a + 1) * below + a * density - mean * mean, 1e-12)


def _location(mean: Vector) -> Vector:
    """The a that has a mean of max(0, a + N(0, 1)); of a large mean, the mean itself."""
    a, cut = _table()
    return np.where(mean >= cut[-1], mean, np.interp(mean, cut, a))


def _latent_deviations(means: Vector, variances: Vector, weights: Vector) -> Vector:
    """Deviations (D,) that give components of these means these variances, on average."""
    low = 0.5 * np.log(variances)
    high = low + np.log(_WIDEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        scale = np.exp(middle)
        cut_variances = weights @ _cut_moments(_location(means / scale))[1] * scale**2
        wide = cut_variances > variances
        low, high = np.where(wide, low, middle), np.where(wide, middle, high)
    return np.asarray(np.exp((low + high) / 2))


def _hermite(a: Vector) -> list[Vector]:
    """Coefficients 0, 1, ... of max(0, a + z) in normalised Hermite polynomials of z."""
    density = np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    polynomials = [np.ones_like(a), -a]
    for k in range(2, _TERMS):
        polynomials.append(-a * polynomials[-1] - (k - 1) * polynomials[-2])
    coefficients = [_cut_moments(a)[0], scipy.special.ndtr(a)]
    for k in range(2, _TERMS + 1):
        coefficients.append(polynomials[k - 2] * density / np.sqrt(scipy.special.factorial(k)))
    return coefficients


def _latent_correlations(locations: Vector, scaled: Vector, weights: Vector) -> Vector:
    """(D, D) correlations before the cut of numbers with these covariances after it.

    The covariance of two cut numbers is a power series in their correlation, whose coefficients are
    products of their Hermite coefficients (Mehler's formula): Newton's steps solve it.
    """
    parts = [np.sqrt(weights)[:, None] * part for part in _hermite(np.clip(locations, -6.0, 12.0))]
    products = [part.T @ part for part in parts]
    rho = np.clip(scaled / np.maximum(products[1], 1e-9), -_MOST, _MOST)
    for _ in range(_STEPS):
        value, slope, power = np.zeros_like(rho), np.zeros_like(rho), np.ones_like(rho)
        for k in range(1, _TERMS + 1):
            slope += k * power * products[k]
            power *= rho
            value += power * products[k]
        rho = np.clip(rho - (value - scaled) / np.maximum(slope, 1e-6), -_MOST, _MOST)
    np.fill_diagonal(rho, 1.0)
    return rho


def _correlation_root(correlations: Vector) -> Vector:
    """A square root of the positive definite correlations that are about these: (D, D)."""
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(np.maximum(values, _LEAST_EIGENVALUE))
    return np.asarray(root / np.sqrt((root**2).sum(axis=1, keepdims=True)))
