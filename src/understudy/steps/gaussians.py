"""Mixtures of Gaussians with classes, and Gaussians whose numbers are cut off.

Features behind a rectifier are never negative; a pixel is not below 0 nor above 1. Where the
numbers of a Gaussian are cut off, its moments are no more what was released. So a latent Gaussian
is chosen such that they hold *after* the cut: the Tobit model (Tobin 1958). All of it is
post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.types import Embeddings, Labels, Vector
from understudy.steps.apportionment import apportion

_TERMS = 6  # of the Hermite series of a covariance
_STEPS = 15  # Newton's
_HALVINGS = 40
_WIDEST = 1e3  # times a deviation after the cut: the one before it
_MOST_CORRELATION = 0.99
_LEAST_MEAN = 1e-3  # of a class, as a part of the mean of all numbers
_LEAST_EIGENVALUE = 1e-4
_MOST_DEVIATION = 3.0  # of a pixel before the cut, over the one after it
_STRONGEST = 4.0  # gain of a contrast
_BISECTIONS = 24
_GREYEST = 0.98  # of the mean, which the mean square reaches where all pixels are black or white


@dataclass(frozen=True)
class Mixture:
    """Gaussian components, each of one class, with covariances A A^T."""

    labels: Labels  # (m,) int64 class of each component
    weights: Vector  # (m,) non-negative, summing to 1
    means: Vector  # (m, d)
    roots: Vector  # A: (f, d, r); or (f, d), the diagonals of diagonal ones
    root_of: Labels  # (m,) which root a component has
    rest: Vector | None = None  # (d, r') root of a covariance that every component has besides

    @property
    def dim(self) -> int:
        """d."""
        return int(self.means.shape[1])

    def root(self, index: int) -> Vector:
        """One of the roots as a matrix, (d, r), without the rest."""
        root = self.roots[index]
        return np.diag(root) if root.ndim == 1 else root

    def allot(self, count: int) -> Labels:
        """How many of ``count`` samples each component gives: (m,), largest remainders first."""
        return apportion(count, self.weights)

    def allot_classes(self, samples: Labels) -> Labels:
        """How many samples each component gives where each class has so many, (classes,): (m,)."""
        sizes = np.zeros(len(self.weights), dtype=np.int64)
        for label in np.unique(self.labels):
            mine = self.labels == label
            sizes[mine] = apportion(int(samples[label]), self.weights[mine])
        return sizes

    def draw(self, components: Labels, rng: np.random.Generator) -> Vector:
        """A sample of each of these components: (n, d)."""
        return self.samples(components, *self.noise(len(components), rng))

    def noise(self, count: int, rng: np.random.Generator) -> tuple[Vector, Vector | None]:
        """What so many samples are made of: standard normal numbers, and those of the rest."""
        own = rng.standard_normal((count, self.roots.shape[-1]))
        return own, None if self.rest is None else rng.standard_normal((count, self.rest.shape[1]))

    def samples(self, components: Labels, noise: Vector, of_rest: Vector | None) -> Vector:
        """Samples (n, d) of these components, made of their `noise`, which is used up."""
        values, root_of = self.means[components], self.root_of[components]
        if self.rest is not None and of_rest is not None:
            values += of_rest @ self.rest.T
        if self.roots.ndim == 2:
            noise *= self.roots[root_of]
            values += noise
            return values
        for root in np.unique(root_of):
            mine = root_of == root
            values[mine] += noise[mine] @ self.roots[root].T
        return values


def cut_moments(a: Vector) -> tuple[Vector, Vector]:
    """Mean and variance of max(0, a + N(0, 1))."""
    density = np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    above = scipy.special.ndtr(a)
    mean = a * above + density
    return mean, np.maximum((a * a + 1) * above + a * density - mean * mean, 1e-12)


@cache
def _ratios() -> tuple[Vector, Vector, Vector]:
    """a, mean / sd and sd of max(0, a + N(0, 1)), on a grid of a."""
    a = np.linspace(-4.0, 12.0, 4000)
    mean, variance = cut_moments(a)
    return a, mean / np.sqrt(variance), np.sqrt(variance)


def latent_moments(mean: Vector, sd: Vector) -> tuple[Vector, Vector]:
    """Mean and deviation of a pixel before the cut to [0, 1] that give these after it, same shape.

    Clipping a Gaussian pixel raises its mean where the background is black, and washes images out.
    Means outside of [0, 1] are moved to its ends, and only the nearer end is reckoned with.
    """
    a, ratio, scale = _ratios()
    sd = sd + 1e-4
    mean = np.clip(mean, 0.0, 1.0)
    upper = mean > 0.5
    height = np.where(upper, 1 - mean, mean)
    location = np.interp(height / sd, ratio, a)
    latent_sd = np.minimum(sd / np.interp(location, a, scale), _MOST_DEVIATION * sd)
    far = height / sd >= ratio[-1]
    latent_sd = np.where(far, sd, latent_sd)
    latent = np.where(far, height, location * latent_sd)
    return np.where(upper, 1 - latent, latent), latent_sd


@dataclass(frozen=True)
class Contrast:
    """A pixel x of 0 to 1 becomes gain (x - offset), cut to 0 and 1."""

    gain: float = 1.0  # 1 or more
    offset: float = 0.0  # what becomes black

    @classmethod
    def of(cls, pixels: Vector, mean: float, square: float) -> Contrast:
        """The one that gives pixels (n,) a mean and a mean square, or none if they have as much."""
        square = min(square, _GREYEST * mean)
        if float(np.square(pixels).mean()) >= square:
            return cls()
        low, high = 1.0, _STRONGEST
        for _ in range(_BISECTIONS):
            gain = (low * high) ** 0.5
            contrast = cls(gain, _offset(pixels, gain, mean))
            lower = np.square(contrast(pixels)).mean() < square
            low, high = (gain, high) if lower else (low, gain)
        return contrast

    def __call__(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Pixels of 0 to 1, any shape."""
        return np.clip((pixels - self.offset) * self.gain, 0.0, 1.0)


def _offset(pixels: Vector, gain: float, mean: float) -> float:
    """The offset with which pixels of a gain have a mean."""
    low, high = -1.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        brighter = float(np.clip((pixels - middle) * gain, 0.0, 1.0).mean()) > mean
        low, high = (middle, high) if brighter else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class RectifiedGaussians:
    """Latent Gaussians with one covariance; a sample is one of theirs with negative numbers cut."""

    locations: Vector  # (m, D) latent means, in latent deviations
    deviations: Vector  # (D,) latent
    root: Vector  # (D, D) square root of the latent correlations

    @classmethod
    def of(cls, means: Vector, covariance: Vector, weights: Vector) -> RectifiedGaussians:
        """The latent Gaussians of components that have these moments after the cut.

        ``means``: (m, D); what is not positive counts as about zero. ``covariance``: (D, D) within
        components, on average. ``weights``: (m,), summing to 1.
        """
        means = np.maximum(means, _LEAST_MEAN * max(float(means.mean()), 1e-12))
        variances = np.maximum(np.diag(covariance), 1e-12)
        deviations = _latent_deviations(means, variances, weights)
        locations = _location(means / deviations)
        scaled = covariance / np.outer(deviations, deviations)
        values, vectors = np.linalg.eigh(_latent_correlations(locations, scaled, weights))
        root = vectors * np.sqrt(np.maximum(values, _LEAST_EIGENVALUE))
        root = root / np.sqrt((root**2).sum(axis=1, keepdims=True))
        return cls(locations, deviations, np.asarray(root))

    def draw(self, components: Labels, rng: np.random.Generator, width: float = 1.0) -> Embeddings:
        """A sample of each of these components, so much wider: (n, D) float32, 0 or more."""
        noise = rng.standard_normal((len(components), len(self.root)), dtype=np.float32)
        latent = self.locations[components].astype(np.float32)
        latent += noise @ (width * self.root.T).astype(np.float32)
        return np.maximum(latent * self.deviations.astype(np.float32), np.float32(0))


@cache
def _cut_means() -> tuple[Vector, Vector]:
    """a, and the mean of max(0, a + N(0, 1)), on a grid of a."""
    a = np.linspace(-6.0, 12.0, 8000)
    return a, cut_moments(a)[0]


def _location(mean: Vector) -> Vector:
    """The a that has a mean of max(0, a + N(0, 1)); of a large mean, the mean itself."""
    a, cut = _cut_means()
    return np.where(mean >= cut[-1], mean, np.interp(mean, cut, a))


def _latent_deviations(means: Vector, variances: Vector, weights: Vector) -> Vector:
    """Deviations (D,) that give components of these means these variances, on average."""
    low = 0.5 * np.log(variances)
    high = low + np.log(_WIDEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        scale = np.exp(middle)
        wide = weights @ cut_moments(_location(means / scale))[1] * scale**2 > variances
        low, high = np.where(wide, low, middle), np.where(wide, middle, high)
    return np.asarray(np.exp((low + high) / 2))


def _hermite(a: Vector) -> list[Vector]:
    """Coefficients 0, 1, ... of max(0, a + z) in normalised Hermite polynomials of z."""
    density = np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    polynomials = [np.ones_like(a), -a]
    for k in range(2, _TERMS):
        polynomials.append(-a * polynomials[-1] - (k - 1) * polynomials[-2])
    coefficients = [cut_moments(a)[0], scipy.special.ndtr(a)]
    for k in range(2, _TERMS + 1):
        coefficients.append(polynomials[k - 2] * density / np.sqrt(scipy.special.factorial(k)))
    return coefficients


def _latent_correlations(locations: Vector, scaled: Vector, weights: Vector) -> Vector:
    """(D, D) correlations before the cut of numbers with these covariances after it.

    The covariance of two cut numbers is a power series in their correlation, whose coefficients are
    products of their Hermite coefficients (Mehler's formula): Newton's steps solve it.
    """
    most = _MOST_CORRELATION
    parts = [np.sqrt(weights)[:, None] * part for part in _hermite(np.clip(locations, -6.0, 12.0))]
    products = [part.T @ part for part in parts]
    rho = np.clip(scaled / np.maximum(products[1], 1e-9), -most, most)
    for _ in range(_STEPS):
        value, slope, power = np.zeros_like(rho), np.zeros_like(rho), np.ones_like(rho)
        for k in range(1, _TERMS + 1):
            slope += k * power * products[k]
            power *= rho
            value += power * products[k]
        rho = np.clip(rho - (value - scaled) / np.maximum(slope, 1e-6), -most, most)
    np.fill_diagonal(rho, 1.0)
    return rho
