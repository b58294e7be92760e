"""Latents on a grid: what they have in common with others of their kind, and the way back.

A latent of shape (C, H, W) is taken apart by an orthonormal discrete cosine transform of each
channel. Its *description* says how it looks, but not where things are: the mean of each channel;
for each octave of frequencies the energy of each channel and how the leading channels go together;
how skewed the leading channels are; and how much the fine detail gathers in a few places. These are
the statistics that textures are made from (Portilla and Simoncelli 2000), few enough to be measured
under noise.

Where things are comes from public images. The way back takes the public latent whose description
is nearest and moves it: its means to those wanted, and in each octave its channels to the energies
and correlations wanted, by the linear map that moves Gaussians with the least change (optimal
transport). Edges and lines stay what they were and get the colours, contrast and texture that were
asked for. Both ways cost no privacy: forward is a public function of a record, backward sees
no record.
"""

from __future__ import annotations

from dataclasses import dataclass
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
_FAINT = 0.02  # part of the public variance below which energies are not told apart
_MOST = 3.0  # that a channel is amplified or weakened by, at most
_MEAN_WEIGHT = 0.15  # of means in the distance of descriptions: they can be moved freely
_FAR = 6.0  # standard deviations of the public data that a description may lie from its centre
_BLOCK = 512  # latents at a time


def is_grid(shape: Shape) -> bool:
    """Whether a latent of this shape has places: (C, H, W) of 4 x 4 or more."""
    return len(shape) == 3 and min(shape[1:]) >= SMALLEST_GRID


def description_length(shape: Shape) -> int:
    """How many numbers describe a latent of this shape."""
    described, leading = min(shape[0], _DESCRIBED), min(shape[0], _LEADING)
    octave = described + leading * (leading - 1) // 2
    return described + len(_octaves(shape)) * octave + min(shape[0], _SKEWED) + len(_groups(shape))


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
    """Channels along the principal axes that public latents have there.

    Attributes:
        axes: (C, C) orthonormal, in columns, of falling variance.
        variances: (C,) public variances along them, positive.
    """

    axes: Floats
    variances: Floats

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
class GridSpace:
    """Latents as descriptions, and back by way of public latents.

    Attributes:
        shape: (C, H, W).
        centre: (C,) the public mean of each channel's mean.
        means: The basis of the channels' means.
        octaves: A basis for each octave.
        usual: (2, d) mean and standard deviation of the public descriptions.
        public: (p, C * H * W) public latents.
    """

    shape: Shape
    centre: Floats
    means: Basis
    octaves: tuple[Basis, ...]
    usual: Floats
    public: Floats

    @classmethod
    def of(cls, public: NDArray[Any], shape: Shape) -> GridSpace:
        """The space that public latents (p, C * H * W) span."""
        latents = np.asarray(public, dtype=np.float32)
        waves = _waves(latents, shape)
        centre = waves[:, :, 0, 0].mean(axis=0)
        channels = shape[0]
        octaves = tuple(
            Basis.of(np.moveaxis(waves[:, :, mask], 1, 2).reshape(-1, channels))
            for mask in _octaves(shape)
        )
        usual = np.zeros((2, description_length(shape)), dtype=np.float32)
        usual[1] = 1.0
        space = cls(shape, centre, Basis.of(waves[:, :, 0, 0] - centre), octaves, usual, latents)
        descriptions = space.forward(latents)
        usual = np.stack([descriptions.mean(axis=0), descriptions.std(axis=0) + 1e-6])
        return cls(shape, centre, space.means, octaves, usual, latents)

    @cached_property
    def _projection(self) -> Projection:
        return Projection(self.means.axes)

    @cached_property
    def _masks(self) -> list[NDArray[np.bool_]]:
        return _octaves(self.shape)

    @property
    def _described(self) -> int:
        return min(self.shape[0], _DESCRIBED)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.triu_indices(min(self.shape[0], _LEADING), 1)

    @property
    def dim(self) -> int:
        """d."""
        return int(self.usual.shape[1])

    def forward(self, values: NDArray[Any]) -> Floats:
        """Latents (n, C * H * W) to descriptions (n, d), each number of about unit variance."""
        descriptions = np.empty((len(values), self.dim), dtype=np.float32)
        for start in range(0, len(values), _BLOCK):
            latents = np.asarray(values[start : start + _BLOCK], dtype=np.float32)
            descriptions[start : start + _BLOCK] = self._describe(_waves(latents, self.shape))
        return np.asarray((descriptions - self.usual[0]) / self.usual[1])

    def _describe(self, waves: Floats) -> Floats:
        means = self._projection(waves[:, :, 0, 0] - self.centre)
        parts = [means[:, : self._described].astype(np.float32)]
        for mask, basis in zip(self._masks, self.octaves, strict=True):
            part = basis.forward(waves[:, :, mask])
            faint = _FAINT * basis.variances
            energy = (part**2).mean(axis=2) + faint
            parts.append(np.log(energy[:, : self._described]))
            deviation = np.sqrt(energy)
            first, second = self._pairs
            together = (part[:, first] * part[:, second]).mean(axis=2)
            parts.append(np.arctanh(0.97 * together / (deviation[:, first] * deviation[:, second])))
        return np.concatenate([*parts, self._skewness(waves), self._gathering(waves)], axis=1)

    def _skewness(self, waves: Floats) -> Floats:
        """Of the leading channels over the grid, without their means: (n, up to 4)."""
        basis = self.octaves[0]
        turned = basis.forward(waves.reshape(*waves.shape[:2], -1))[:, :_SKEWED]
        turned = turned.reshape(len(waves), -1, *self.shape[1:])
        turned[:, :, 0, 0] = 0
        values_on_grid = scipy.fft.idctn(turned, axes=(2, 3), norm="ortho").reshape(
            *turned.shape[:2], -1
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

    def backward(self, values: Vector, rng: np.random.Generator | None) -> Floats:
        """Descriptions (n, d) to latents (n, C * H * W) that have about these; ``rng`` is unused.

        Two equal descriptions give equal latents.
        """
        latents = np.empty((len(values), self.public.shape[1]), dtype=np.float32)
        for start in range(0, len(values), _BLOCK):
            wanted = np.clip(values[start : start + _BLOCK], -_FAR, _FAR).astype(np.float32)
            waves = _waves(self.public[self._nearest(wanted)], self.shape)
            self._move(waves, wanted * self.usual[1] + self.usual[0])
            latents[start : start + _BLOCK] = scipy.fft.idctn(
                waves, axes=(2, 3), norm="ortho"
            ).reshape(len(wanted), -1)
        return latents

    @cached_property
    def _weights(self) -> Floats:
        weights = np.ones(self.dim, dtype=np.float32)
        weights[: self._described] = _MEAN_WEIGHT
        return weights

    @cached_property
    def _targets(self) -> tuple[Floats, Floats]:
        """Weighted public descriptions, and half their squared norms."""
        targets = self.forward(self.public) * self._weights
        return targets, 0.5 * (targets**2).sum(axis=1)

    def _nearest(self, descriptions: Floats) -> NDArray[np.int64]:
        """The public latent of the nearest description: (n,)."""
        targets, half = self._targets
        return np.asarray(((descriptions * self._weights) @ targets.T - half).argmax(axis=1))

    def _move(self, waves: Floats, wanted: Floats) -> None:
        """Give waves (n, C, H, W) the means, energies and correlations wanted, in place."""
        described, (first, second) = self._described, self._pairs
        means = (waves[:, :, 0, 0] - self.centre) @ self.means.axes
        means[:, :described] = wanted[:, :described]
        waves[:, :, 0, 0] = means @ self.means.axes.T + self.centre
        start = described
        for mask, basis in zip(self._masks, self.octaves, strict=True):
            middle, end = start + described, start + described + len(first)
            faint = _FAINT * basis.variances[:described]
            energy = np.maximum(np.exp(wanted[:, start:middle]) - faint, 0.1 * faint)
            joint: Floats = np.asarray(np.tanh(wanted[:, middle:end]) / np.float32(0.97))
            part = basis.forward(waves[:, :, mask])
            waves[:, :, mask] = basis.backward(_moved(part, energy, joint, faint, (first, second)))
            start = end


def _waves(latents: Floats, shape: Shape) -> Floats:
    """(n, C * H * W) as cosine coefficients (n, C, H, W)."""
    return np.asarray(
        scipy.fft.dctn(latents.reshape(len(latents), *shape), axes=(2, 3), norm="ortho")
    )


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
    moved = part.copy()
    moved[:, :described] *= np.clip(gains, 1 / _MOST, _MOST)[:, :, None]
    head = part[:, :leading]
    ridge = np.eye(leading) * (0.25 * faint[:leading])
    now = head @ head.swapaxes(1, 2) / head.shape[2] + ridge
    deviation = np.sqrt(energy[:, :leading] + faint[:leading])
    wanted = np.zeros((len(part), leading, leading))
    wanted[:, first, second] = joint * deviation[:, first] * deviation[:, second]
    wanted += wanted.swapaxes(1, 2) + np.eye(leading) * energy[:, None, :leading] + ridge
    moved[:, :leading] = _transport(now, wanted) @ head
    return moved


def _transport(now: Vector, wanted: Vector) -> Floats:
    """The symmetric maps A with A now A = wanted, (n, q, q), none of which amplifies too much."""
    root, inverse = _power(now, 0.5, 1e-4), _power(now, -0.5, 1e-4)
    inner = _power(root @ _power(wanted, 1.0, 1e-3) @ root, 0.5, 0.0)
    maps = inverse @ inner @ inverse
    largest = np.linalg.norm(maps, 2, axis=(1, 2))
    return np.asarray(maps * np.minimum(1, 1.3 * _MOST / largest)[:, None, None], dtype=np.float32)


def _power(matrices: Vector, power: float, floor: float) -> Vector:
    """Powers of symmetric matrices (n, q, q), eigenvalues at least ``floor`` times the largest."""
    values, vectors = np.linalg.eigh(matrices)
    values = np.maximum(values, np.maximum(floor * values[:, -1:], 1e-30)) ** power
    return np.asarray((vectors * values[:, None]) @ vectors.swapaxes(1, 2))
