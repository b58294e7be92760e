"""Latents on a grid: what they have in common with others of their kind, and the way back.

A latent (C, H, W) is taken apart by an orthonormal cosine transform of each channel. Its
*description* says how it looks: the mean of each channel; the *layout*, the leading directions of
the lowest frequencies, which say roughly where things are; how skewed the leading channels are; how
much the fine detail gathers in a few places; and for each octave of frequencies the energy of each
channel and how the leading channels go together: the statistics that textures are made from
(Portilla and Simoncelli 2000). It is few numbers, which can be measured under noise.

What is a description is settled by public latents (`Description`). The way back goes by the public
latent whose description is nearest (`GridSpace`): its means are moved to those that are asked for,
and in each octave its channels to the energies and correlations, by the linear map that moves
Gaussians with the least change (optimal transport). Neither way costs privacy: forward is a public
function of a record, backward sees none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.independence import Projection
from understudy.core.types import Shape, Vector

Floats = NDArray[np.float32]

SMALLEST_GRID = 4
"""A grid of fewer places a side has no texture to speak of."""

_DESCRIBED = 32  # channels described, the public data's leading ones; the rest stay as they are
_LEADING = 6  # channels whose correlations are described
_SKEWED = 4  # channels whose skewness is described
_GROUPS = ((0, 2), (2, 8), (8, None))  # channels whose fine detail is looked at together
_LAYOUT = 32  # numbers of the layout
_LOWEST = 4  # half periods a side that the layout's frequencies have fewer of
_FAINT = 0.02  # part of the public variance below which energies are not told apart
_MOST = 3.0  # that a channel is amplified or weakened by, at most
_MEAN_WEIGHT = 0.15  # of means in the distance of descriptions: they can be moved freely
_LAYOUT_WEIGHT = 0.5  # of the layout
_FAR = 6.0  # standard deviations of the public data that a description may lie from its centre
_BLOCK = 512  # latents at a time


def is_grid(shape: Shape) -> bool:
    """Whether a latent of this shape has places: (C, H, W) of 4 x 4 or more."""
    return len(shape) == 3 and min(shape[1:]) >= SMALLEST_GRID


def description_length(shape: Shape) -> int:
    """How many numbers describe a latent of this shape."""
    return sum(description_parts(shape))


def description_parts(shape: Shape) -> tuple[int, ...]:
    """How many numbers of a description every size of grid has, and how many each octave adds."""
    described, leading = min(shape[0], _DESCRIBED), min(shape[0], _LEADING)
    general = described + _layout_length(shape) + min(shape[0], _SKEWED) + len(_groups(shape))
    octave = described + leading * (leading - 1) // 2
    return general, *(octave,) * len(_octaves(shape))


def _layout_length(shape: Shape) -> int:
    return min(_LAYOUT, shape[0] * (_LOWEST**2 - 1))


def _octaves(shape: Shape) -> list[NDArray[np.bool_]]:
    """Masks (H, W) of frequencies: 1 to 3 half periods a side, 4 to 7, 8 to 15, ..."""
    highest = np.maximum(*np.mgrid[: shape[1], : shape[2]])
    edges = [1, 4]
    while edges[-1] <= highest.max():
        edges.append(2 * edges[-1])
    return [(highest >= low) & (highest < high) for low, high in pairwise(edges)]


def _groups(shape: Shape) -> list[slice]:
    described = min(shape[0], _DESCRIBED)
    return [slice(low, high) for low, high in _GROUPS if low < described]


@dataclass(frozen=True)
class Basis:
    """Channels along the principal axes that public latents have there."""

    axes: Floats  # (C, C) orthonormal, in columns, of falling variance
    variances: Floats  # (C,) public variances along them, positive

    @classmethod
    def of(cls, channels: NDArray[Any]) -> Basis:
        """The basis of centred channels (n, C)."""
        values, axes = np.linalg.eigh(
            channels.T.astype(np.float64) @ channels / max(1, len(channels))
        )
        values = np.maximum(values[::-1], 1e-6 * values[-1] + 1e-12)
        return cls(axes[:, ::-1].astype(np.float32), values.astype(np.float32))

    def forward(self, part: Floats) -> Floats:
        """(n, C, f) into the basis."""
        return np.asarray(self.axes.T @ part)

    def backward(self, part: Floats) -> Floats:
        """(n, C, f) out of it."""
        return np.asarray(self.axes @ part)


@dataclass(frozen=True)
class Description:
    """What is measured of a latent, in terms of what public latents are like."""

    shape: Shape  # (C, H, W)
    centre: Floats  # (C,) the public mean of each channel's mean
    means: Basis  # the basis of the channels' means
    layout: Floats  # (C * 15, k) orthonormal, of the lowest frequencies, of falling variance
    octaves: tuple[Basis, ...]  # a basis for each octave
    usual: Floats  # (2, d) mean and standard deviation of the public descriptions

    @classmethod
    def of(cls, public: NDArray[Any], shape: Shape) -> Description:
        """What public latents (p, C * H * W) have in common."""
        latents = np.asarray(public, dtype=np.float32)
        waves = _waves(latents, shape)
        centre = waves[:, :, 0, 0].mean(axis=0)
        octaves = tuple(
            Basis.of(np.moveaxis(waves[:, :, mask], 1, 2).reshape(-1, shape[0]))
            for mask in _octaves(shape)
        )
        plain = np.zeros((2, description_length(shape)), dtype=np.float32)
        plain[1] = 1.0
        layout = Basis.of(_lowest(waves)).axes[:, : _layout_length(shape)]
        means = Basis.of(waves[:, :, 0, 0] - centre)
        description = cls(shape, centre, means, np.ascontiguousarray(layout), octaves, plain)
        values = description.forward(latents)
        usual = np.stack([values.mean(axis=0), values.std(axis=0) + 1e-6])
        return replace(description, usual=usual)

    @property
    def dim(self) -> int:
        """d."""
        return int(self.usual.shape[1])

    @property
    def _described(self) -> int:
        return min(self.shape[0], _DESCRIBED)

    @cached_property
    def _masks(self) -> list[NDArray[np.bool_]]:
        return _octaves(self.shape)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.triu_indices(min(self.shape[0], _LEADING), 1)

    @cached_property
    def _mean_projection(self) -> Projection:
        return Projection(self.means.axes)

    @cached_property
    def _layout_projection(self) -> Projection:
        return Projection(self.layout)

    def forward(self, values: NDArray[Any]) -> Floats:
        """Latents (n, C * H * W) to descriptions (n, d), each number of about unit variance."""
        descriptions = np.empty((len(values), self.dim), dtype=np.float32)
        for start in range(0, len(values), _BLOCK):
            latents = np.asarray(values[start : start + _BLOCK], dtype=np.float32)
            waves = _waves(latents, self.shape)
            descriptions[start : start + _BLOCK] = self._describe(waves)
        return np.asarray((descriptions - self.usual[0]) / self.usual[1])

    def _describe(self, waves: Floats) -> Floats:
        means = self._mean_projection(waves[:, :, 0, 0] - self.centre)[:, : self._described]
        layout = self._layout_projection(_lowest(waves))
        parts: list[NDArray[Any]] = [means, layout, self._skewness(waves), self._gathering(waves)]
        for mask, basis in zip(self._masks, self.octaves, strict=True):
            part = basis.forward(waves[:, :, mask])
            faint = _FAINT * basis.variances
            energy = (part**2).mean(axis=2) + faint
            parts.append(np.log(energy[:, : self._described]))
            deviation = np.sqrt(energy)
            first, second = self._pairs
            together = (part[:, first] * part[:, second]).mean(axis=2)
            parts.append(np.arctanh(0.97 * together / (deviation[:, first] * deviation[:, second])))
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _skewness(self, waves: Floats) -> Floats:
        """Of the leading channels over the grid, without their means: (n, up to 4)."""
        basis = self.octaves[0]
        rotation = basis.forward(waves.reshape(*waves.shape[:2], -1))[:, :_SKEWED]
        rotation = rotation.reshape(len(waves), -1, *self.shape[1:])
        rotation[:, :, 0, 0] = 0
        values_on_grid = scipy.fft.idctn(rotation, axes=(2, 3), norm="ortho").reshape(
            *rotation.shape[:2], -1
        )
        spread = (values_on_grid**2).mean(axis=2) + _FAINT * basis.variances[:_SKEWED]
        return np.asarray((values_on_grid**3).mean(axis=2) / spread**1.5)

    def _gathering(self, waves: Floats) -> Floats:
        """How unevenly the energy of the detail lies over the grid: (n, groups), 0 if evenly."""
        basis = self.octaves[-1]
        fine = waves.copy()
        fine[:, :, :2, :2] = 0
        values_on_grid = scipy.fft.idctn(fine, axes=(2, 3), norm="ortho").reshape(
            *waves.shape[:2], -1
        )
        squares = basis.forward(values_on_grid)[:, : self._described] ** 2
        logarithms = []
        for group in _groups(self.shape):
            energy = squares[:, group].sum(axis=1) + 1e-3 * basis.variances[group].sum()
            logarithms.append(np.log((energy**2).mean(axis=1) / energy.mean(axis=1) ** 2))
        return np.stack(logarithms, axis=1)

    @cached_property
    def weights(self) -> Floats:
        """(d,) what each number counts for in the distance of two descriptions."""
        weights = np.ones(self.dim, dtype=np.float32)
        layout = self._described + self.layout.shape[1]
        weights[: self._described], weights[self._described : layout] = _MEAN_WEIGHT, _LAYOUT_WEIGHT
        return weights

    def moved(self, latents: NDArray[Any], descriptions: NDArray[Any]) -> Floats:
        """Latents (n, C * H * W) with the means, energies, correlations of descriptions (n, d)."""
        result = np.empty((len(latents), math.prod(self.shape)), dtype=np.float32)
        for start in range(0, len(latents), _BLOCK):
            rows = slice(start, start + _BLOCK)
            targets = _within_reach(descriptions[rows]) * self.usual[1] + self.usual[0]
            waves = _waves(np.asarray(latents[rows], dtype=np.float32), self.shape)
            self._move(waves, targets)
            back = scipy.fft.idctn(waves, axes=(2, 3), norm="ortho")
            result[rows] = back.reshape(len(targets), -1)
        return result

    def _move(self, waves: Floats, targets: Floats) -> None:
        """Give waves (n, C, H, W) the means, energies and correlations wanted, in place."""
        described = self._described
        means = (waves[:, :, 0, 0] - self.centre) @ self.means.axes
        means[:, :described] = targets[:, :described]
        waves[:, :, 0, 0] = means @ self.means.axes.T + self.centre
        first, second = self._pairs
        start = description_parts(self.shape)[0]
        for mask, basis in zip(self._masks, self.octaves, strict=True):
            middle, end = start + described, start + described + len(first)
            faint = _FAINT * basis.variances[:described]
            energy = np.maximum(np.exp(targets[:, start:middle]) - faint, 0.1 * faint)
            joint: Floats = np.asarray(np.tanh(targets[:, middle:end]) / np.float32(0.97))
            part = basis.forward(waves[:, :, mask])
            waves[:, :, mask] = basis.backward(_moved(part, energy, joint, faint, (first, second)))
            start = end


@dataclass(frozen=True)
class GridSpace:
    """Latents as descriptions, and back by way of public latents."""

    description: Description  # what is measured of them
    public: Floats  # (p, C * H * W) public latents

    @classmethod
    def of(cls, public: NDArray[Any], shape: Shape) -> GridSpace:
        """The space that public latents (p, C * H * W) span."""
        latents = np.asarray(public, dtype=np.float32)
        return cls(Description.of(latents, shape), latents)

    @property
    def dim(self) -> int:
        """d."""
        return self.description.dim

    def forward(self, values: NDArray[Any]) -> Floats:
        """Latents (n, C * H * W) to descriptions (n, d), each number of about unit variance."""
        return self.description.forward(values)

    def backward(self, values: Vector, rng: np.random.Generator | None) -> Floats:
        """Descriptions (n, d) to latents (n, C * H * W), ``rng`` is unused."""
        return self.description.moved(self.public[self._nearest(_within_reach(values))], values)

    @cached_property
    def _targets(self) -> tuple[Floats, Floats]:
        """Weighted public descriptions, and half their squared norms."""
        targets = self.forward(self.public) * self.description.weights
        return targets, 0.5 * (targets**2).sum(axis=1)

    def _nearest(self, descriptions: Floats) -> NDArray[np.int64]:
        """The public latent of the nearest description: (n,)."""
        targets, half = self._targets
        nearest = np.empty(len(descriptions), dtype=np.int64)
        for start in range(0, len(descriptions), _BLOCK):
            weighted = descriptions[start : start + _BLOCK] * self.description.weights
            nearest[start : start + _BLOCK] = (weighted @ targets.T - half).argmax(axis=1)
        return nearest


def _within_reach(descriptions: NDArray[Any]) -> Floats:
    """Descriptions (n, d) no farther from those of public latents than can be made sense of."""
    return np.asarray(np.clip(descriptions, -_FAR, _FAR), dtype=np.float32)


def _waves(latents: Floats, shape: Shape) -> Floats:
    """(n, C * H * W) as cosine coefficients (n, C, H, W)."""
    return np.asarray(
        scipy.fft.dctn(latents.reshape(len(latents), *shape), axes=(2, 3), norm="ortho")
    )


def _lowest(waves: Floats) -> Floats:
    """The lowest frequencies but the mean, of all channels: (n, C * 15)."""
    lowest = waves[:, :, :_LOWEST, :_LOWEST].reshape(*waves.shape[:2], -1)
    return lowest[:, :, 1:].reshape(len(waves), -1)


def _moved(
    part: Floats,
    energy: Floats,
    joint: Floats,
    faint: Floats,
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Floats:
    """An octave (n, C, f) with the energies (n, described) and correlations (n, pairs) wanted."""
    described, (first, second) = energy.shape[1], pairs
    leading = int(second.max(initial=0)) + 1
    gains = np.sqrt(energy / ((part[:, :described] ** 2).mean(axis=2) + 0.1 * faint))
    result = part.copy()
    result[:, :described] *= np.clip(gains, 1 / _MOST, _MOST)[:, :, None]
    head = part[:, :leading]
    ridge = np.eye(leading) * (0.25 * faint[:leading])
    now = head @ head.swapaxes(1, 2) / head.shape[2] + ridge
    deviation = np.sqrt(energy[:, :leading] + faint[:leading])
    target = np.zeros((len(part), leading, leading))
    target[:, first, second] = joint * deviation[:, first] * deviation[:, second]
    target += target.swapaxes(1, 2) + np.eye(leading) * energy[:, None, :leading] + ridge
    result[:, :leading] = _transport(now, target) @ head
    return result


def _transport(now: Vector, target: Vector) -> Floats:
    """The symmetric maps A with A now A = target, (n, q, q), none of which amplifies too much."""
    root, inverse = _power(now, 0.5, 1e-4), _power(now, -0.5, 1e-4)
    inner = _power(root @ _power(target, 1.0, 1e-3) @ root, 0.5, 0.0)
    maps = inverse @ inner @ inverse
    largest = np.linalg.norm(maps, 2, axis=(1, 2))
    return np.asarray(maps * np.minimum(1, 1.3 * _MOST / largest)[:, None, None], dtype=np.float32)


def _power(matrices: Vector, power: float, floor: float) -> Vector:
    """Powers of symmetric matrices (n, q, q), eigenvalues at least ``floor`` times the largest."""
    values, vectors = np.linalg.eigh(matrices)
    values = np.maximum(values, np.maximum(floor * values[:, -1:], 1e-30)) ** power
    return np.asarray((vectors * values[:, None]) @ vectors.swapaxes(1, 2))
