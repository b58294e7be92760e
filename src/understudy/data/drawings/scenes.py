"""``procedural:scenes``: layouts of patches, furrows, blocks and winding bands, of no place.

A scene is a plane cut into patches of a few colours, each smooth, rough or furrowed, with any of:
seams between the patches, a slow change of light, rows of blocks, specks, and bands that cross
it straight or winding. Sizes, colours and numbers are drawn over wide ranges. Where dead leaves
(`leaves`) have the spectrum of natural images, scenes have their long and regular structures:
lines, parallels, grids, and large calm areas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.data.drawings.plane import FloatImage, Mask, Pixels, Plane

_FINE = 2  # drawn so many times larger and averaged, so that edges are smooth


@dataclass(frozen=True)
class _Scene(Plane):
    """A plane, and what the things of a scene have in common."""

    angle: float  # the direction that most things of this scene follow
    spread: float  # how far apart its colours are

    def turned(self, jitter: float) -> float:
        """The scene's direction or its perpendicular, give or take."""
        quarter = np.pi / 2 * self.rng.integers(0, 2)
        return float(self.angle + quarter + self.rng.normal(0, jitter))

    def colours(self, count: int, spread: float | None = None) -> Pixels:
        """(count, channels) colours about a common one."""
        rng, spread = self.rng, self.spread if spread is None else spread
        base = rng.uniform(0.1, 0.9) + rng.normal(0, 0.06, self.channels)
        light = rng.normal(0, spread, (count, 1))
        return np.asarray(base + light + rng.normal(0, 0.45 * spread, (count, self.channels)))


def scene(coarse: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1]."""
    (height, width), channels, rng = coarse.across.shape, coarse.channels, coarse.rng
    angle, spread = rng.uniform(0, np.pi), 0.16 * np.exp(rng.normal(0, 0.6))
    fine = Plane.of(_FINE * height, _FINE * width, channels, rng)
    plane = _Scene(fine.across, fine.down, channels, rng, angle, float(spread))
    pixels = _patches(plane)
    light = plane.texture(2.5, 3.5)[0] * rng.normal(0, 0.04)
    pixels = pixels + light[:, :, None] * (1 + rng.normal(0, 0.3, channels))
    if rng.random() < 0.35:
        pixels = _blocks(plane, pixels)
    if rng.random() < 0.25:
        specks = plane.texture(0.2, 1.2)[0] > rng.uniform(0.8, 2.2)
        pixels = np.where(specks[:, :, None], plane.colours(1), pixels)
    for _ in range(int(rng.choice([0, 1, 2, 3, 5], p=[0.4, 0.27, 0.15, 0.1, 0.08]))):
        pixels = _band(plane, pixels)
    pixels = pixels.reshape(height, _FINE, width, _FINE, channels).mean(axis=(1, 3))
    return np.asarray(np.clip(pixels, 0.0, 1.0), dtype=np.float32)


def _patches(plane: _Scene) -> Pixels:
    """(h, w, channels): the plane cut into patches, coloured, textured and furrowed."""
    rng = plane.rng
    cuts = rng.choice([0, 1, 2, 4, 8, 16, 30], p=[0.22, 0.1, 0.15, 0.18, 0.17, 0.1, 0.08])
    patch, seams = _cut(plane, int(cuts))
    count = int(patch.max()) + 1
    palette = plane.colours(int(rng.integers(2, 6)))
    colour = palette[rng.integers(0, len(palette), count)] + rng.normal(0, 0.03, (count, 1))
    textures = plane.texture(0.3, 2.2, 3)
    which = rng.integers(0, 3, count)[patch]
    relief = np.take_along_axis(textures, which[None], axis=0)[0]
    relief *= np.exp(rng.normal(-3.2, 0.9, count))[patch]
    if rng.random() < 0.35:
        period, phase = rng.uniform(0.03, 0.15), rng.uniform(0, 2 * np.pi)
        wave = np.sign(np.sin(2 * np.pi * plane.along(plane.turned(0.0)) / period + phase))
        relief += wave * (rng.random(count) < 0.5)[patch] * rng.uniform(0.01, 0.12)
    pixels = colour[patch] + relief[:, :, None] * (1 + rng.normal(0, 0.25, plane.channels))
    pixels[seams] = plane.colours(1)
    return np.asarray(pixels)


def _cut(plane: _Scene, cuts: int) -> tuple[NDArray[np.int64], Mask]:
    """The patch of each pixel after so many cuts, straight or wavy, and the seams between them."""
    rng = plane.rng
    patch = np.zeros(plane.across.shape, dtype=np.int64)
    seams = np.zeros(plane.across.shape, dtype=bool)
    half_width = rng.choice([0.0, 0.0, 0.006, 0.012])
    wave = plane.texture(1.8, 2.6)[0] * rng.choice([0.0, 0.0, 0.02, 0.08])
    free = rng.random() < 0.3
    for number in range(1, cuts + 1):
        weights = np.bincount(patch.ravel(), minlength=number) ** 1.5
        inside = patch == rng.choice(number, p=weights / weights.sum())
        position = plane.along(rng.uniform(0, np.pi) if free else plane.turned(0.08)) + wave
        line = rng.uniform(*np.quantile(position[inside], [0.2, 0.8]))
        patch[inside & (position > line)] = number
        seams |= inside & (np.abs(position - line) < half_width)
    return patch, seams


def _blocks(plane: _Scene, pixels: Pixels) -> Pixels:
    """Rows of blocks over some part: in each cell of a turned grid one of its own size, or none."""
    rng = plane.rng
    cover = plane.texture(2.0, 3.0)[0] > rng.uniform(-2.5, 0.8)
    cell, aspect = rng.uniform(0.04, 0.16), np.exp(rng.normal(0, 0.3))
    column = plane.along(plane.angle) / cell
    row = plane.along(plane.angle + np.pi / 2) / (cell * aspect)
    rows = np.floor(row).astype(np.int64)
    column = column + (rng.random(211) * rng.integers(0, 2))[rows % 211]
    columns = np.floor(column).astype(np.int64)
    size, length, chance, paint = rng.random((4, 4099))[:, (columns * 7919 + rows * 104729) % 4099]
    windows = cover & (chance < rng.uniform(0.3, 1.0))
    windows &= np.abs(column - columns - 0.5) < 0.2 + 0.3 * size
    windows &= np.abs(row - rows - 0.5) < 0.15 + 0.35 * length
    colours = plane.colours(5, 1.2 * plane.spread)
    return np.where(windows[:, :, None], colours[(paint * 5).astype(np.int64)], pixels)


def _band(plane: _Scene, pixels: Pixels) -> Pixels:
    """A band across the scene, straight, bent or winding, thin or broad, with or without banks."""
    rng = plane.rng
    angle = rng.uniform(0, np.pi) if rng.random() < 0.5 else plane.turned(0.0)
    position = plane.along(angle)
    middle = rng.normal(0, 0.6) * position**2
    winding = rng.normal(0, 0.12) * rng.integers(0, 2)
    middle += winding * np.sin(2 * np.pi * position * rng.uniform(0.5, 2) + rng.uniform(0, 6))
    half_width = 0.012 * np.exp(rng.uniform(0, 3.1))
    off = np.abs(plane.along(angle + np.pi / 2) + rng.uniform(-0.35, 0.35) - middle)
    inside = off < half_width
    if rng.random() < 0.2:
        inside &= position < rng.uniform(-0.2, 0.3)
    rough = plane.texture(0.3, 2.2)[0] * rng.choice([0.0, 0.02, 0.05])
    pixels = np.where(inside[:, :, None], plane.colours(1) + rough[:, :, None], pixels)
    if rng.random() < 0.4:
        banks = (off > half_width) & (off < half_width + rng.uniform(0.008, 0.03))
        pixels = np.where(banks[:, :, None], plane.colours(1), pixels)
    return pixels
