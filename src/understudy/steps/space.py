"""Public changes of space: where the statistics are taken, and the way back.

Whitening by a covariance that was measured on public images costs nothing, makes the private
covariance easier to estimate under noise, and says what the directions that are left out look like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Vector

_RIDGE = 0.1  # part of the mean public variance that is added to each


@dataclass(frozen=True)
class Space:
    """An invertible linear change of the embeddings, after a signed power.

    Attributes:
        power: Each number x becomes sign(x) |x|^power first; 1 leaves it.
        centre: (D,) subtracted next.
        axes: (D, d) orthonormal directions that are kept.
        scales: (d,) what each is divided by.
        rest_axes: (D, r) directions that are left out.
        rest_scales: (r,) their public standard deviations, for the way back.
    """

    power: float
    centre: Vector
    axes: Vector
    scales: Vector
    rest_axes: Vector
    rest_scales: Vector

    @property
    def dim(self) -> int:
        """d."""
        return int(self.axes.shape[1])

    def forward(self, values: NDArray[Any]) -> NDArray[Any]:
        """Embeddings (n, D) to the space (n, d)."""
        moved = signed_power(values, self.power) - self.centre.astype(np.float32)
        return np.asarray(moved @ (self.axes / self.scales).astype(np.float32))

    def backward(self, values: Vector, rng: np.random.Generator) -> Vector:
        """The space (n, d) to embeddings (n, D); what was left out is drawn as on public images."""
        moved = self.centre + (values * self.scales) @ self.axes.T
        if self.rest_axes.shape[1]:
            noise = rng.standard_normal((len(values), self.rest_axes.shape[1]))
            moved += (noise * self.rest_scales) @ self.rest_axes.T
        return signed_power(moved, 1 / self.power)


def signed_power(values: NDArray[Any], power: float) -> NDArray[Any]:
    """sign(x) |x|^power."""
    return values if power == 1 else np.sign(values) * np.abs(values) ** power


def whitening(public: NDArray[Any], power: float, components: int | None) -> Space:
    """The space in which public embeddings have about unit covariance.

    Args:
        public: (n, D) public embeddings.
        power: See `Space`.
        components: How many of the leading directions are kept; None: all.
    """
    rows = signed_power(public.astype(np.float64), power)
    centre = rows.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov(rows.T))
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    keep = len(values) if components is None else min(components, len(values))
    scales = np.sqrt(values[:keep] + _RIDGE * values[:keep].mean())
    return Space(power, centre, axes[:, :keep], scales, axes[:, keep:], np.sqrt(values[keep:]))


@dataclass(frozen=True)
class Leading:
    """The first coordinates of embeddings that are ordered by importance (or all), after a power.

    Attributes:
        total: D.
        dim: d.
        power: As in `Space`.
    """

    total: int
    dim: int
    power: float = 1.0

    def forward(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n, D) to (n, d)."""
        return signed_power(values[:, : self.dim], self.power)

    def backward(self, values: Vector, rng: np.random.Generator) -> Vector:
        """(n, d) to (n, D), zero beyond."""
        missing = self.total - self.dim
        return signed_power(np.pad(values, ((0, 0), (0, missing))), 1 / self.power)


@dataclass(frozen=True)
class Sphere:
    """Directions from a centre: x becomes (x - centre) / ||x - centre||.

    On the unit sphere every row has norm 1, so nothing is clipped and no radius has to be chosen.

    Attributes:
        centre: (d,).
    """

    centre: Vector

    def forward(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n, d) to (n, d) of unit norm."""
        moved = values - self.centre
        norms = np.sqrt(np.ascontiguousarray(moved * moved).sum(axis=1, keepdims=True))
        return np.asarray(moved / np.maximum(norms, 1e-12))

    def backward(self, values: Vector, radii: Vector) -> Vector:
        """Directions (n, d) at distances (n,) from the centre."""
        return np.asarray(self.centre + values * radii[:, None])


@dataclass(frozen=True)
class Frame:
    """Coordinates for the clusters of a class: axes of the released within-class covariance.

    Attributes:
        axes: (d, q) orthonormal.
        scales: (q,) what each coordinate is divided by: 1 (Euclidean), or the standard deviation
            along it (Mahalanobis).
        spread: (q,) standard deviation of each coordinate within a class.
        lead: (q, s) the leading directions among the coordinates.
        lead_spread: (s,) standard deviation along those.
        rest: (d, r) root of the covariance of what lies outside of the axes.
    """

    axes: Vector
    scales: Vector
    spread: Vector
    lead: Vector
    lead_spread: Vector
    rest: Vector

    @property
    def radius(self) -> float:
        """Where residuals are clipped: a little above their root mean square norm."""
        return float(1.1 * np.sqrt((self.spread**2).sum()))

    def forward(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n, d) to (n, q)."""
        return np.asarray(values @ (self.axes / self.scales).astype(values.dtype))

    def backward(self, points: Vector, base: Vector) -> Vector:
        """(m, q) to (m, d); what lies outside of the axes is taken from ``base``, (m, d)."""
        return np.asarray(base + ((points - self.forward(base)) * self.scales) @ self.axes.T)

    def roots(self, local: Vector) -> Vector:
        """Covariance roots (f, q, r) to (f, d, r'), with the rest added."""
        inside = np.einsum("dq,fqr->fdr", self.axes * self.scales, local)
        rest = np.broadcast_to(self.rest, (len(local), *self.rest.shape))
        return np.concatenate([inside, rest], axis=2)


def principal_frame(
    covariance: Vector, keep: int, lead: int, *, mahalanobis: bool, rest: bool
) -> Frame:
    """The frame of the leading ``keep`` axes of a covariance.

    Args:
        covariance: (d, d) positive semidefinite.
        keep: q.
        lead: s, at most q.
        mahalanobis: Scale the coordinates to unit variance.
        rest: Keep the variance outside of the axes too.
    """
    values, axes = np.linalg.eigh(covariance)
    sd, axes = np.sqrt(np.maximum(values[::-1], 1e-12)), axes[:, ::-1]
    inner = sd[:keep]
    spread = np.ones(keep) if mahalanobis else inner
    outside = axes[:, keep:] * sd[keep:] if rest else np.zeros((len(values), 0))
    scales = inner if mahalanobis else np.ones(keep)
    return Frame(axes[:, :keep], scales, spread, np.eye(keep)[:, :lead], spread[:lead], outside)


def plain_frame(dim: int, radius: float, covariance: Vector | None, lead: int) -> Frame:
    """The coordinates as they are, with the leading axes of a covariance where one is known.

    Args:
        dim: d.
        radius: About the norm of a residual.
        covariance: (d, d), or None.
        lead: s.
    """
    spread = np.full(dim, radius / 1.1 / np.sqrt(dim))
    axes, along = np.zeros((dim, 0)), np.zeros(0)
    if covariance is not None:
        values, vectors = np.linalg.eigh(covariance)
        axes, along = vectors[:, ::-1][:, :lead], np.sqrt(np.maximum(values[::-1][:lead], 1e-12))
    return Frame(np.eye(dim), np.ones(dim), spread, axes, along, np.zeros((dim, 0)))
