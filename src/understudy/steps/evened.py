"""Descriptions whose numbers vary about alike and apart, by what is known of public ones.

Noise is as strong in every number. The numbers of a description go together, so many combinations
of them hardly vary, and noise that is small beside a number is large beside these. `EvenedSpace`
turns descriptions to the principal axes of public ones and makes what varies little larger, what
varies much smaller: the noise then falls where there is room for it, and an estimate that is all
noise falls back on about what public images are like.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import Projection
from understudy.core.types import Vector
from understudy.steps.grid import Floats, GridSpace, PriorSpace

_RIDGE = 0.05  # public variance that every axis is granted, of 1 of a number
_LEAST = 1e-3  # public variance along an axis, of 1 of a number, at least
_POWER = 1 / 3  # of the variances that axes are divided by; 1/2 would make all of them alike


@dataclass(frozen=True)
class EvenedSpace:
    """A space of descriptions along the axes of public ones.

    Attributes:
        inner: The descriptions.
        axes: (d, d) orthonormal, in columns, of falling public variance.
        scales: (d,) what each is divided by.
    """

    inner: GridSpace | PriorSpace
    axes: Vector
    scales: Vector

    @classmethod
    def of(cls, inner: GridSpace | PriorSpace, covariance: NDArray[Any]) -> EvenedSpace:
        """The space in which public descriptions of this covariance (d, d) vary about alike."""
        values, axes = np.linalg.eigh(covariance.astype(np.float64))
        scales = (np.maximum(values[::-1], 0.0) + _RIDGE) ** _POWER
        return cls(inner, axes[:, ::-1], scales)

    @property
    def dim(self) -> int:
        """d."""
        return len(self.scales)

    @cached_property
    def variances(self) -> Vector:
        """(d,) of public descriptions along the axes, falling and positive."""
        public = np.maximum(self.scales ** (1 / _POWER) - _RIDGE, _LEAST)
        return np.asarray(public / self.scales**2)

    @cached_property
    def _projection(self) -> Projection:
        return Projection(self.axes / self.scales)

    def forward(self, values: NDArray[Any]) -> Floats:
        """Latents (n, C * H * W) into the space, (n, d)."""
        return self._projection(self.inner.forward(values)).astype(np.float32)

    def backward(self, values: Vector, rng: np.random.Generator | None) -> Floats:
        """Points of the space (n, d) to latents (n, C * H * W), as the inner space makes them."""
        return self.inner.backward((values * self.scales) @ self.axes.T, rng)
