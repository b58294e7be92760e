"""Public changes of space: where the statistics are taken, and the way back.

Whitening by a covariance that was measured on public images costs nothing, makes the private
covariance easier to estimate under noise, and says what the directions that are left out look like.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import Projection, row_squares
from understudy.core.types import Vector

_RIDGE = 0.1  # part of the mean public variance that is added to each
_SHORTENED = 64  # directions at most
_SHORTENING = 0.25  # power of a direction's second moment, by which it is divided
_LEAST_MOMENT = 0.1  # part of the mean second moment that is added to each
_EXACT_DIM = 512  # up to here all axes are computed; beyond, the leading ones alone


@dataclass(frozen=True)
class Space:
    """An invertible linear change of the embeddings, after a signed power."""

    power: float  # each number x becomes sign(x) |x|^power first; 1 leaves it
    centre: Vector  # (D,) subtracted next
    axes: Vector  # (D, d) orthonormal directions that are kept
    scales: Vector  # (d,) what each is divided by
    residuals: NDArray[np.float32]  # (p, D) of public samples, for the way back
    positive: bool  # whether embeddings are never negative

    @property
    def dim(self) -> int:
        """d."""
        return int(self.axes.shape[1])

    @cached_property
    def _projection(self) -> Projection:
        return Projection(self.axes / self.scales)

    def forward(self, values: NDArray[Any]) -> NDArray[Any]:
        """Embeddings (n, D) to the space (n, d)."""
        offsets = signed_power(values, self.power) - self.centre.astype(np.float32)
        return self._projection(offsets).astype(np.float32)

    def backward(self, values: Vector, rng: np.random.Generator | None) -> NDArray[np.float32]:
        """The space (n, d) to embeddings (n, D); with ``rng`` the rest is of public samples."""
        back = (self.axes * self.scales).T.astype(np.float32)
        result = values.astype(np.float32) @ back + self.centre.astype(np.float32)
        if rng is not None and len(self.residuals):
            result += self.residuals[rng.integers(0, len(self.residuals), len(result))]
        return self.unpowered(result).astype(np.float32)

    @cached_property
    def _way_back(self) -> Projection:
        return Projection((self.axes * self.scales).T)

    def own(self, values: NDArray[Any]) -> Vector:
        """As `backward` without ``rng``, each record by itself to the last bit: a private view."""
        return np.asarray(self.unpowered(self._way_back(values) + self.centre))

    def unpowered(self, values: NDArray[Any]) -> NDArray[Any]:
        """Embeddings after the signed power back to those before it; the same shape."""
        if self.positive:
            values = np.maximum(values, 0.0)
        return np.asarray(signed_power(values, 1 / self.power))

    def moments(self, means: Vector, covariance: Vector) -> tuple[Vector, Vector]:
        """Moments of the space, (m, d) and (d, d), to those of powered embeddings, (m, D), (D, D).

        What was left out has those of public samples.
        """
        back = (self.axes * self.scales).T
        means, covariance = means @ back + self.centre, back.T @ covariance @ back
        if len(self.residuals) > 1:
            means += self.residuals.mean(axis=0)
            covariance += np.cov(self.residuals.T)
        return means, covariance


def signed_power(values: NDArray[Any], power: float) -> NDArray[Any]:
    """sign(x) |x|^power."""
    if power == 1:
        return values
    return np.asarray(np.sign(values) * np.abs(values) ** power)


def whitening(public: NDArray[Any], power: float | None, components: int | None) -> Space:
    """The space in which public embeddings (n, D) have about unit covariance.

    Of the power None, it is 1/2 where no public number is negative (pooled rectified features are
    skewed, and their roots are much less so), else 1. ``components``: leading directions that are
    kept; None: all.
    """
    positive = bool(public.min(initial=0.0) >= 0)
    power = power if power is not None else (0.5 if positive else 1.0)
    samples = signed_power(public.astype(np.float32), power)
    centre = samples.mean(axis=0, dtype=np.float64)
    samples = samples - centre.astype(np.float32)
    dim = samples.shape[1]
    keep = dim if components is None else min(components, dim)
    values, axes = leading_axes(samples, keep)
    scales = np.sqrt(values + _RIDGE * values.mean() + 1e-12)
    residuals = samples[:0]
    if keep < dim:
        narrow = axes.astype(np.float32)
        residuals = samples - (samples @ narrow) @ narrow.T
    return Space(power, centre, axes, scales, residuals, positive)


def leading_axes(samples: NDArray[np.float32], keep: int) -> tuple[Vector, Vector]:
    """The largest variances of centred samples (n, D), (keep,), and their axes, (D, keep).

    Of many dimensions by subspace iteration from a fixed start (Halko, Martinsson and Tropp 2011,
    4.4).
    """
    count, dim = samples.shape
    size = min(dim, keep + 64)
    if dim <= _EXACT_DIM or size == dim:
        values, axes = np.linalg.eigh(samples.T.astype(np.float64) @ samples / max(count - 1, 1))
        return np.maximum(values[::-1][:keep], 0.0), axes[:, ::-1][:, :keep]
    start = np.random.default_rng(0).standard_normal((dim, size)).astype(np.float32)
    basis = np.linalg.qr(start)[0]
    for _ in range(6 if count > size else 1):  # the first finds all that so few samples span
        basis = np.linalg.qr(samples.T @ (samples @ basis))[0]
    projected = (samples @ basis).astype(np.float64)
    values, rotation = np.linalg.eigh(projected.T @ projected / max(count - 1, 1))
    values, rotation = np.maximum(values[::-1][:keep], 0.0), rotation[:, ::-1][:, :keep]
    axes = np.linalg.qr(basis.astype(np.float64) @ rotation)[0]
    return values, axes


@dataclass(frozen=True)
class Leading:
    """The first coordinates of embeddings in order of importance, or all."""

    total: int  # D
    dim: int  # d

    def forward(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n, D) to (n, d)."""
        return values[:, : self.dim]

    def backward(self, values: Vector, rng: np.random.Generator | None) -> Vector:
        """(n, d) to (n, D), zero beyond."""
        return np.pad(values, ((0, 0), (0, self.total - self.dim)))


@dataclass(frozen=True)
class Sphere:
    """Directions from a centre: x becomes (x - centre) / ||x - centre||.

    On the unit sphere every record has norm 1: nothing is clipped and no radius has to be chosen.
    """

    centre: Vector  # (d,)

    def forward(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n, d) to (n, d) of unit norm."""
        result = values - self.centre.astype(values.dtype)
        norms = np.sqrt(row_squares(result))
        result *= (1 / np.maximum(norms, 1e-12))[:, None].astype(result.dtype)
        return np.asarray(result)

    def backward(self, values: Vector, radii: Vector) -> Vector:
        """Directions (n, d) at distances (n,) from the centre."""
        return np.asarray(self.centre + values * radii[:, None])


@dataclass(frozen=True)
class Shortening:
    """Leading directions of rows made shorter, so that no few numbers fill the norm of a row.

    What is clipped to a norm, and gets noise in proportion, is better measured where that norm is
    spread. Each direction is divided by a power of its second moment, over that of the first which
    stays as it is; whitening would go too far, since in the last directions there is noise alone.
    """

    onto: Projection  # from rows (n, D) to what is taken off them: (n, k)
    back: Projection  # from there to rows

    @classmethod
    def of(cls, rows: Vector) -> Shortening:
        """The one that fits to rows about zero: (n, D)."""
        dim = rows.shape[1]
        moments, axes = leading_axes(rows.astype(np.float32), min(dim, _SHORTENED + 1))
        mean = float(np.square(rows).sum(axis=1).mean()) / dim
        moments = moments + max(_LEAST_MOMENT * mean, 1e-12)
        factors = (moments[-1] / moments) ** _SHORTENING
        return cls(Projection(axes * (1.0 - factors)), Projection(axes.T))

    def __call__(self, rows: Vector) -> Vector:
        """Rows (n, D) with those directions shortened, each row by itself to the last bit."""
        return np.asarray(rows - self.back(self.onto(rows)))


@dataclass(frozen=True)
class Frame:
    """Coordinates for the clusters of a class: axes of the released within-class covariance."""

    axes: Vector  # (d, q) orthonormal
    scales: Vector  # (q,) what each is divided by: 1, or the deviation along it (Mahalanobis)
    spread: Vector  # (q,) standard deviation of each coordinate within a class
    lead: Vector  # (q, s) the leading directions among the coordinates
    lead_spread: Vector  # (s,) standard deviation along those
    rest: Vector  # (d, r) root of the covariance of what lies outside of the axes
    clear: bool = True  # whether every axis stands out of the noise in the covariance that it is of

    @cached_property
    def plain(self) -> bool:
        """Whether the coordinates are those of the space itself."""
        return np.array_equal(self.axes, np.eye(len(self.axes))) and bool((self.scales == 1).all())

    @property
    def whitened(self) -> bool:
        """Whether residuals have about unit covariance."""
        return bool((self.spread == 1).all())

    @property
    def radius(self) -> float:
        """Where residuals are clipped: a little above their root mean square norm."""
        return float(1.1 * np.sqrt((self.spread**2).sum()))

    @cached_property
    def _projection(self) -> Projection:
        return Projection(self.axes / self.scales)

    def forward(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n, d) to (n, q)."""
        if self.plain:
            return values
        return self._projection(values)

    def backward(self, points: Vector, base: Vector) -> Vector:
        """(m, q) to (m, d); what lies outside of the axes is taken from ``base``, (m, d)."""
        return np.asarray(base + ((points - self.forward(base)) * self.scales) @ self.axes.T)

    def roots(self, local: Vector) -> Vector:
        """Covariance roots (f, q, r) to (f, d, r), without the rest.

        Of a plain frame, diagonal ones (f, d) stay as they are.
        """
        if self.plain:
            return local
        return np.asarray(np.einsum("dq,fqr->fdr", self.axes * self.scales, local))


def principal_frame(
    covariance: Vector, keep: int, lead: int, *, mahalanobis: bool, rest: bool
) -> Frame:
    """The frame of the leading ``keep`` axes of a covariance (d, d), the first ``lead`` leading.

    ``mahalanobis``: scale coordinates to unit variance. ``rest``: keep the variance outside of the
    axes.
    """
    values, axes = np.linalg.eigh(covariance)
    sd, axes = np.sqrt(np.maximum(values[::-1], 1e-12)), axes[:, ::-1]
    inner = sd[:keep]
    spread = np.ones(keep) if mahalanobis else inner
    outside = axes[:, keep:] * sd[keep:] if rest else np.zeros((len(values), 0))
    scales = inner if mahalanobis else np.ones(keep)
    return Frame(axes[:, :keep], scales, spread, np.eye(keep)[:, :lead], spread[:lead], outside)


def plain_frame(dim: int, radius: float, variances: Vector | None, lead: int) -> Frame:
    """The coordinates as they are, with ``lead`` leading directions where variances (d,) are known.

    These are random ones of a fixed seed, drawn with those variances: they tell clusters apart as
    well as others of their number (Johnson and Lindenstrauss 1984) and need no covariance matrix.
    ``radius``: about the norm of a residual.
    """
    spread = np.full(dim, radius / 1.1 / np.sqrt(dim))
    axes, along = np.zeros((dim, 0)), np.zeros(0)
    if variances is not None:
        directions = np.random.default_rng(0).standard_normal((dim, min(dim, lead)))
        axes = np.linalg.qr(directions * np.sqrt(variances)[:, None])[0]
        along = np.sqrt(variances @ axes**2)
    return Frame(np.eye(dim), np.ones(dim), spread, axes, along, np.zeros((dim, 0)))
