"""``procedural:leaves``: dead leaves, piles of shapes that hide one another.

Their sizes follow a power law; they have the edges, occlusions and spectra of natural images (Lee,
Mumford and Huang 2001), and networks trained on such images see well (Baradad et al. 2021). Here
each leaf is a rotated diamond, ellipse or box, filled with 1/f texture.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.data.drawings.plane import FloatImage, Plane, power_noise

_MOST_LEAVES = 12


def dead_leaves(plane: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1], 1 to 12 leaves on black or on texture."""
    (height, width), channels, rng = plane.across.shape, plane.channels, plane.rng
    count = int(rng.integers(1, _MOST_LEAVES + 1))
    inside = _shapes(height, width, count, rng)
    if rng.random() < 0.5:
        inside[0] = True  # the lowest leaf covers everything: no black ground
    top = np.where(inside.any(axis=0), count - 1 - inside[::-1].argmax(axis=0), count)
    base = rng.random((count, 1)) + rng.normal(0.0, 0.15, (count, channels))
    tint = 1 + rng.normal(0.0, 0.25, (count, channels))
    black = rng.random(count) < 0.2
    base[black], tint[black] = 0.0, 0.0
    base, tint = (np.pad(part, ((0, 1), (0, 0))) for part in (base, tint))
    texture = np.take_along_axis(_textures(height, width, count, rng), top[None] % count, axis=0)[0]
    pixels = base[top] + tint[top] * texture[:, :, None]
    return np.asarray(np.clip(pixels, 0.0, 1.0), dtype=np.float32)


def _shapes(height: int, width: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(count, height, width): the pixels of each diamond, ellipse or box."""
    y, x = np.mgrid[:height, :width].astype(np.float32)

    def each(values: NDArray[np.float64]) -> NDArray[np.float32]:
        return values.astype(np.float32)[:, None, None]

    size = each(0.7 * min(height, width) * rng.uniform(0.05, 1.0, count) ** 1.5)
    aspect = each(np.exp(rng.normal(0.0, 0.5, count)))
    angle = rng.uniform(0.0, np.pi, count)
    cos, sin = each(np.cos(angle)), each(np.sin(angle))
    down = y - each(rng.uniform(0, height, count))
    right = x - each(rng.uniform(0, width, count))
    along = np.abs(cos * right + sin * down) / (size * aspect)
    across = np.abs(cos * down - sin * right) / (size / aspect)
    kind = rng.integers(0, 3, count)[:, None, None]
    radius = np.select([kind == 0, kind == 1], [along + across, np.hypot(along, across)])
    return np.asarray(np.where(kind == 2, np.maximum(along, across), radius) < 1)


def _textures(height: int, width: int, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """(count, height, width) noise of spectrum 1/f^a, mean 0, each with its own a and contrast."""
    noise = power_noise(height, width, rng.uniform(0.5, 2.0, count), rng)
    contrast = rng.uniform(0.0, 0.3, count)[:, None, None]
    return np.asarray(noise * contrast / np.maximum(noise.std(axis=(1, 2), keepdims=True), 1e-9))
