"""``procedural:textures``: surfaces that are alike all over.

Waves, plaids and weaves, bricks and tiles, checks and dots, marble, clouds, spots and labyrinths as
reactions and diffusion leave them, and stone. Each is turned, bent, lit and worn a little; some
images have two of them, one beside the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.data.drawings.plane import FloatImage, Pixels, Plane, over


def textures(plane: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1]."""
    pixels = texture_surface(plane)
    if plane.chance(0.2):
        edge = plane.along(plane.rng.uniform(0, 2 * np.pi)) + 0.05 * plane.texture(2, 3)[0]
        pixels = over(pixels, texture_surface(plane), plane.cover(edge - plane.uniform(-0.2, 0.2)))
    if plane.chance(0.4):
        light = plane.along(plane.rng.uniform(0, 2 * np.pi)) * plane.uniform(0, 0.5)
        pixels = pixels * (1 + light)[:, :, None]
    return plane.finished(pixels)


def texture_surface(plane: Plane) -> Pixels:
    """(h, w, channels): one of the surfaces, coloured and worn."""
    draw = _SURFACES[int(plane.rng.integers(0, len(_SURFACES)))]
    tones = plane.palette(int(plane.rng.integers(2, 5)), plane.uniform(0.15, 1.0), 0.25)
    pixels = plane.graded(np.clip(draw(plane), 0, 1), tones)
    wear = plane.texture(0.3, 2.0)[0] * np.exp(plane.rng.normal(-3.5, 0.8))
    return np.asarray(pixels + wear[:, :, None])


def _turned(plane: Plane) -> tuple[Pixels, Pixels]:
    """Coordinates turned a little or by any angle, and bent a little."""
    angle = plane.rng.normal(0, 0.08) if plane.chance(0.6) else np.pi * plane.rng.random()
    bend = plane.texture(2.5, 3.5, 2) * (plane.uniform(0, 0.03) if plane.chance(0.4) else 0.0)
    depth = 1 + plane.along(angle + 1.6) * (plane.uniform(0, 0.8) if plane.chance(0.2) else 0.0)
    along, sideways = plane.along(angle), plane.along(angle + np.pi / 2)
    return (along + bend[0]) / depth, (sideways + bend[1]) / depth


def _gabor(plane: Plane) -> Pixels:
    """Waves in one to three directions, everywhere or in patches."""
    total = np.zeros(plane.across.shape)
    count = int(plane.rng.integers(1, 4))
    for _ in range(count):
        period = 0.04 * np.exp(plane.uniform(0, 2))
        phase = 2 * np.pi * plane.along(plane.uniform(0, np.pi)) / period
        wave = np.cos(phase + plane.uniform(0, 6))
        if plane.chance(0.4):
            wave = wave * np.clip(plane.texture(2.2, 3)[0], 0, 1.5)
        total += wave
    return 0.5 + 0.4 * total / count


def _plaid(plane: Plane) -> Pixels:
    """Stripes of several widths both ways."""
    u, v = _turned(plane)
    period = plane.uniform(0.1, 0.5)
    levels = plane.rng.random((2, 24)).repeat(plane.rng.integers(1, 5, 24), axis=1)

    def stripes(at: Pixels, row: Pixels) -> Pixels:
        return row[np.floor(at / period * len(row)).astype(np.int64) % len(row)]

    one, other = stripes(u, levels[0]), stripes(v, levels[1])
    return one if plane.chance(0.3) else 0.5 * (one + other)


def _weave(plane: Plane) -> Pixels:
    """Threads over and under one another, also as knit and twill."""
    u, v = _turned(plane)
    cell = plane.uniform(0.035, 0.14)
    rise = int(plane.rng.integers(1, 4))
    i, j = np.floor(u / cell), np.floor(v / cell)
    first = (i + j) % (rise + 1) < max(1, rise - 1)
    inside = np.where(first, u / cell - i, v / cell - j)
    light = np.where(first, 1, plane.uniform(0.4, 1))
    return np.where(first, 0.25, 0.1) + 0.7 * np.sin(np.pi * inside) * light


def _bricks(plane: Plane) -> Pixels:
    """Courses of bricks or tiles with joints between them."""
    u, v = _turned(plane)
    high = plane.uniform(0.06, 0.25)
    wide = high * plane.uniform(1, 3.2)
    row = np.floor(v / high)
    shifted = u / wide + (row % 2) * (0.5 if plane.chance(0.7) else 0)
    column = np.floor(shifted)
    across = wide * (0.5 - np.abs(shifted - column - 0.5))
    off = np.minimum(across, high * (0.5 - np.abs(v / high - row - 0.5)))
    tones = plane.rng.random(997)[(row * 31 + column * 17).astype(np.int64) % 997]
    joint = plane.cover(off - plane.uniform(0.004, 0.02))
    return np.asarray((0.45 + 0.45 * tones) * (1 - joint) + joint * plane.uniform(0, 0.3))


def _checks(plane: Plane) -> Pixels:
    """A board of squares."""
    u, v = _turned(plane)
    cell = plane.uniform(0.05, 0.3)
    edge = np.sin(np.pi * u / cell) * np.sin(np.pi * v / cell) * cell
    return plane.cover(edge)


def _dots(plane: Plane) -> Pixels:
    """Discs, holes or scales in rows."""
    u, v = _turned(plane)
    cell = plane.uniform(0.06, 0.25)
    row = np.floor(v / cell)
    right = u / cell + 0.5 * (row % 2) * plane.rng.integers(0, 2)
    distance = np.hypot(right - np.floor(right) - 0.5, v / cell - row - 0.5) * cell
    if plane.chance(0.3):
        return 1 - distance / cell
    return plane.cover(distance - cell * plane.uniform(0.15, 0.45), plane.uniform(0, 0.04))


def _marble(plane: Plane) -> Pixels:
    """Veins: waves that turbulence pulls about."""
    swirl = plane.texture(1.2, 2.4)[0]
    wave = plane.along(plane.uniform(0, 6)) * plane.uniform(1, 5) + swirl * plane.uniform(0.2, 0.8)
    return np.asarray(np.abs(np.sin(np.pi * wave)) ** plane.uniform(0.3, 2))


def _clouds(plane: Plane) -> Pixels:
    """Noise with the spectrum 1/f^a, smooth or rough, also folded."""
    noise = plane.texture(0.4, 2.6)[0]
    return np.asarray(np.abs(noise) / 2 if plane.chance(0.3) else 0.5 + 0.25 * noise)


def _labyrinth(plane: Plane) -> Pixels:
    """Spots or winding bands of one width, as Turing's reactions leave them."""
    period = 0.05 * np.exp(plane.uniform(0, 1.5))
    field = plane.banded(period, plane.uniform(2, 8))
    return 0.5 + 0.5 * np.tanh(plane.uniform(1, 5) * (field + plane.rng.normal(0, 0.6)))


def _stone(plane: Plane) -> Pixels:
    """Grains of noise that is cut at some level, on grains of another size."""
    ground = 0.5 + 0.15 * plane.texture(0.2, 1.5)[0]
    for _ in range(int(plane.rng.integers(1, 4))):
        blots = plane.texture(0.8, 2.2)[0] > plane.uniform(0.3, 1.8)
        ground = np.where(blots, plane.rng.random(), ground)
    return np.asarray(ground)


_SURFACES: tuple[Callable[[Plane], Pixels], ...] = (
    *(_gabor, _plaid, _weave, _bricks, _checks, _dots),
    *(_marble, _clouds, _labyrinth, _stone),
)
