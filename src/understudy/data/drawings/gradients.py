"""``procedural:gradients``: light that changes slowly, as of X-rays, sections, skies and spheres.

Washes of colour, soft blobs, bodies lit from one side, sections of bright shells with darker
contents, and chests: two dark fields in a bright trunk, with ribs, a spine and a heart.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

from understudy.data.drawings.plane import FloatImage, Pixels, Plane, over


def gradients(plane: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1]."""
    draw = (_wash, _blobs, _solids, _section, _chest)[
        int(plane.rng.choice(5, p=[0.2, 0.2, 0.2, 0.2, 0.2]))
    ]
    pixels = draw(plane)
    if plane.chance(0.3):
        distance = plane.around(0, 0)[0]
        pixels = pixels * (1 - plane.uniform(0, 1.2) * distance**2)[:, :, None]
    return plane.finished(pixels, noise=0.05)


def _tones(plane: Plane) -> Pixels:
    """Colours from dark to light: grey, or of one hue."""
    saturation = plane.uniform(0, 0.2) if plane.chance(0.4) else 0.0
    hue = plane.rng.random()
    lights = np.sort(plane.rng.random(3)) if plane.chance(0.5) else np.array([0.02, 0.4, 0.95])
    return np.stack([plane.colour(light, saturation, hue) for light in lights])


def _wash(plane: Plane) -> Pixels:
    """A slow change in one direction or from a point, of colours that differ."""
    tones = plane.palette(int(plane.rng.integers(2, 4)), plane.uniform(0.1, 1.2), 0.35)
    if plane.chance(0.5):
        values = plane.along(plane.uniform(0, 6.3)) * plane.uniform(0.5, 1.2)
    else:
        values = plane.around(*plane.rng.normal(0, 0.3, 2))[0] * plane.uniform(0.6, 1.6) - 0.5
    values = values + plane.texture(2.8, 3.8)[0] * plane.uniform(0, 0.12)
    return plane.graded(np.clip(0.5 + values, 0, 1), tones)


def _blobs(plane: Plane) -> Pixels:
    """Soft blobs that add up, few or many."""
    rng = plane.rng
    count = int(np.exp(plane.uniform(0.5, 3.2)))
    size = plane.uniform(0.3, 0.9) / (1 + count) ** 0.5
    total = np.zeros(plane.across.shape)
    for x, y in rng.uniform(-0.5, 0.5, (count, 2)) * (0.4 if count < 3 else 1):
        stretch, angle = np.exp(rng.normal(0, 0.3)), rng.uniform(0, np.pi)
        along, sideways = plane.axes_at(x, y, angle)
        wide = size * np.exp(rng.normal(0, 0.3))
        squares = (along * stretch) ** 2 + (sideways / stretch) ** 2
        total += np.exp(-(squares / wide**2)) * rng.uniform(0.4, 1)
    return plane.graded(1 - np.exp(-plane.uniform(0.7, 2.5) * total), _tones(plane))


def _solids(plane: Plane) -> Pixels:
    """Spheres and rounded boxes on a ground, lit from one side, with soft shadows."""
    rng = plane.rng
    ground = plane.palette(2, plane.uniform(0, 0.5), 0.25)
    pixels = plane.graded(np.clip(0.5 + plane.along(rng.uniform(0, 7)), 0, 1), ground)
    angle, height = rng.uniform(0, 2 * np.pi), plane.uniform(0.4, 1.2)
    light = np.array([np.cos(angle), np.sin(angle), height]) / np.hypot(1, height)
    count = int(rng.choice([1, 2, 3, 6], p=[0.5, 0.2, 0.2, 0.1]))
    for number in range(count):
        size = plane.uniform(0.15, 0.4) / count**0.5
        x, y = rng.uniform(-0.3, 0.3, 2) * (0.4 if count == 1 else 1)
        power = rng.choice([2.0, 2.0, 4.0])
        turned = rng.uniform(0, np.pi) * (number % 2)
        along, sideways = plane.axes_at(x, y, turned)
        u, v = along / size, sideways / (size * np.exp(rng.normal(0, 0.2)))
        share = (np.abs(u) ** power + np.abs(v) ** power) ** (1 / power)
        depth = np.sqrt(np.clip(1 - share**2, 0, 1))
        shade = np.clip(light[0] * u + light[1] * v + light[2] * depth, 0, None)
        gloss = plane.uniform(0, 0.6) * np.clip(shade, 0, 1) ** 12
        fall = np.roll(share, (-int(3 * light[1] + 3), int(3 * light[0])), axis=(0, 1))
        pixels = pixels * (1 - 0.5 * plane.cover((fall - 1) * size, 0.15))[:, :, None]
        colour = plane.colour(plane.uniform(0.3, 0.9), plane.uniform(0, 0.35))
        body = colour * (0.25 + 0.75 * shade)[:, :, None] + gloss[:, :, None]
        pixels = over(pixels, body, plane.cover((share - 1) * size))
    return pixels


def _oval(plane: Plane, centre: tuple[float, float], radii: tuple[float, float]) -> Pixels:
    """(h, w): signed distance, about, to an oval with a bent outline."""
    right, below = plane.across - centre[0], plane.down - centre[1]
    angle = np.arctan2(below, right)
    bends = plane.rng.normal(0, 0.05, 3)
    outline = 1 + sum(b * np.cos((k + 2) * angle + 6 * b) for k, b in enumerate(bends))
    return np.asarray((np.hypot(right / radii[0], below / radii[1]) / outline - 1) * min(radii))


def _section(plane: Plane) -> Pixels:
    """A bright shell on black with folded contents and a few ovals in it."""
    rng = plane.rng
    radii = (plane.uniform(0.28, 0.46), plane.uniform(0.28, 0.46))
    outer = _oval(plane, (rng.normal(0, 0.02), rng.normal(0, 0.02)), radii)
    folds = plane.banded(plane.uniform(0.06, 0.16), 3)
    inside = plane.uniform(0.25, 0.6) + plane.uniform(0, 0.12) * folds
    values = np.where(outer < -plane.uniform(0.02, 0.06), inside, plane.uniform(0.6, 1.0))
    for _ in range(int(rng.integers(0, 6))):
        centre = (rng.normal(0, 0.12), rng.normal(0, 0.12))
        size = (plane.uniform(0.02, 0.12), plane.uniform(0.02, 0.12))
        hole = plane.cover(_oval(plane, centre, size), plane.uniform(0, 0.05))
        values = values + hole * (rng.random() - values)
    if plane.chance(0.5):  # alike on both sides
        values = 0.5 * (values + values[:, ::-1])
    values = values * plane.cover(outer, 0.01)
    return plane.graded(np.clip(values, 0, 1), _tones(plane))


def _chest(plane: Plane) -> Pixels:
    """Two dark fields in a bright trunk, with ribs across, a spine, and a heart on one side."""
    rng = plane.rng
    apart, high = plane.uniform(0.16, 0.22), plane.uniform(0.26, 0.38)
    values = 0.75 - 0.25 * plane.cover(np.abs(plane.across) - plane.uniform(0.4, 0.5), 0.1)
    values = values + 0.15 * np.exp(-((plane.across / 0.05) ** 2))
    fields = np.zeros_like(values)
    for side in (-1, 1):
        centre = (side * apart + rng.normal(0, 0.01), rng.normal(-0.02, 0.03))
        fields += plane.cover(_oval(plane, centre, (plane.uniform(0.11, 0.16), high)), 0.05)
    values = values - plane.uniform(0.25, 0.5) * np.clip(fields, 0, 1)
    count = plane.uniform(7, 12)
    sag = plane.down - plane.uniform(0.3, 0.9) * (np.abs(plane.across) - 0.2) ** 2
    ribs = np.clip(np.cos(2 * np.pi * count * (sag + 0.12 * np.abs(plane.across))), -0.2, 1)
    values = values + plane.uniform(0.02, 0.12) * ribs
    heart = _oval(plane, (plane.uniform(0.02, 0.1), plane.uniform(0.06, 0.16)), (0.13, 0.12))
    values = values + plane.uniform(0.1, 0.35) * plane.cover(heart, 0.05)
    for _ in range(int(rng.integers(0, 3))):
        spot = plane.around(*rng.normal(0, 0.2, 2))[0] - plane.uniform(0.01, 0.08)
        values = values + plane.uniform(-0.1, 0.2) * plane.cover(spot, 0.06)
    values = gaussian_filter(values, plane.uniform(0.3, 1.2))
    grey = not plane.chance(0.2)
    tones = np.stack([plane.colour(0.02), plane.colour(0.98)]) if grey else _tones(plane)
    return plane.graded(np.clip(values, 0, 1), tones)
