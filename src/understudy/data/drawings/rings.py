"""``procedural:rings``: lines about a middle, and lines that follow one another.

Year rings, targets, ripples, irises, spirals, ridges as of fingerprints, contour lines, and rings
as bodies with light and shade. What they share is that a phase grows outwards; its waves are
coloured by a ramp.
"""

from __future__ import annotations

import numpy as np

from understudy.data.drawings.plane import FloatImage, Pixels, Plane, over


def rings(plane: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1]."""
    draw = (_concentric, _ridges, _tori, _iris, _spiral)[
        int(plane.rng.choice(5, p=[0.3, 0.2, 0.25, 0.12, 0.13]))
    ]
    return plane.finished(draw(plane))


def _ramp(plane: Plane) -> Pixels:
    """(k, channels) colours for the phases of a wave."""
    colours = plane.palette(int(plane.rng.integers(2, 5)), plane.uniform(0.3, 1.0), 0.22)
    return np.concatenate([colours, colours[:1]]) if plane.chance(0.5) else colours


def _waves(plane: Plane, phase: Pixels) -> Pixels:
    """(h, w) in [0, 1]: smooth, narrow or saw-toothed waves, one for each unit of phase."""
    kind = plane.rng.integers(0, 3)
    if kind == 0:
        return 0.5 + 0.5 * np.cos(2 * np.pi * phase)
    if kind == 1:
        sharpness = plane.uniform(1, 4)
        return np.clip(0.5 + sharpness * np.cos(2 * np.pi * phase), 0, 1)
    fraction = phase - np.floor(phase)
    return np.asarray(fraction ** plane.uniform(0.5, 4))


def _concentric(plane: Plane) -> Pixels:
    """Rings about one or two points, bent, of widths that differ."""
    rng = plane.rng
    distance, angle = plane.around(*rng.normal(0, 0.2, 2))
    if plane.chance(0.5):
        distance = distance * (1 + plane.uniform(0, 0.15) * np.cos(angle * rng.integers(1, 6)))
    distance = distance + plane.texture(2.0, 3.2)[0] * plane.uniform(0, 0.03)
    if plane.chance(0.2):
        distance = np.minimum(distance, plane.around(*rng.normal(0, 0.35, 2))[0])
    count = np.exp(plane.uniform(0.7, 2.7))
    uneven = np.cumsum(np.exp(rng.normal(0, plane.uniform(0, 0.7), 64)))
    phase = np.interp(distance * count, np.arange(64), uneven - uneven[0])
    pixels = plane.graded(_waves(plane, phase), _ramp(plane))
    pixels = pixels + (plane.texture(0.3, 2)[0] * plane.uniform(0, 0.06))[:, :, None]
    if plane.chance(0.2):  # cracks from the middle
        crack = np.abs(np.sin((angle - rng.uniform(0, 6)) / 2)) * distance
        pixels = over(pixels, plane.colour(0.1), plane.cover(crack - 0.006))
    if plane.chance(0.5):
        edge = distance - plane.uniform(0.3, 0.48)
        pixels = over(plane.flat(plane.colour(rng.random(), 0.2)), pixels, plane.cover(edge))
    return pixels


def _ridges(plane: Plane) -> Pixels:
    """Ridges that run beside one another, within an oval or everywhere."""
    rng = plane.rng
    stretch = plane.uniform(0.8, 2)
    right, below = plane.across - rng.normal(0, 0.12), plane.down - rng.normal(0, 0.12)
    field = np.hypot(right * stretch, below) + 0.08 * plane.texture(2.6, 3.6)[0]
    if plane.chance(0.4):
        field = plane.texture(2.8, 3.8)[0] * plane.uniform(0.1, 0.25)
    ridges = _waves(plane, field * np.exp(plane.uniform(1.6, 3.0)))
    ridges = np.clip(ridges + plane.texture(0.2, 1.5)[0] * plane.uniform(0, 0.25), 0, 1)
    light = plane.colour(plane.uniform(0.6, 1), 0.1)
    dark = plane.colour(plane.uniform(0, 0.35), 0.1)
    if plane.chance(0.3):
        light, dark = dark, light
    pixels = over(plane.flat(light), dark, ridges)
    if plane.chance(0.5):
        oval = np.hypot(plane.across * 1.25, plane.down) - plane.uniform(0.35, 0.48)
        pixels = over(plane.flat(light), pixels, plane.cover(oval, 0.05))
    return pixels


def _tori(plane: Plane) -> Pixels:
    """Rings as bodies, one or many, turned to the eye, with light and shade."""
    rng = plane.rng
    ground = plane.palette(2, plane.uniform(0, 0.4), 0.3)
    pixels = plane.graded(np.clip(0.5 + plane.along(rng.uniform(0, 7)), 0, 1), ground)
    count = int(rng.choice([1, 2, 4, 8, 14], p=[0.4, 0.2, 0.2, 0.1, 0.1]))
    size = plane.uniform(0.25, 0.42) if count == 1 else 0.5 / (count + 1) ** 0.5
    light_from = rng.uniform(0, 2 * np.pi)
    thickness, gloss = plane.uniform(0.12, 0.75), plane.uniform(0, 0.5)
    colours = plane.palette(4, plane.uniform(0.2, 0.9), 0.5)
    for number in range(count):
        spread = 0.06 if count == 1 else 0.4
        centre, tilt = rng.uniform(-spread, spread, 2), rng.uniform(0, np.pi)
        along, sideways = plane.axes_at(centre[0], centre[1], tilt)
        sideways = sideways * np.exp(abs(rng.normal(0, 0.3)))
        outer = size * np.exp(rng.normal(0, 0.2))
        half = 0.5 * outer * thickness
        distance = np.hypot(along, sideways)
        off = (distance - (outer - half)) / half
        facing = off * np.cos(plane.around(centre[0], centre[1])[1] - light_from)
        relief = np.sqrt(np.clip(1 - off**2, 0, 1))
        shade = 0.3 * gloss * facing + 0.5 * gloss * (relief - 0.7)
        colour = colours[number % 4] + shade[:, :, None]
        pixels = over(pixels, colour, plane.cover((np.abs(off) - 1) * half))
    return pixels


def _iris(plane: Plane) -> Pixels:
    """A disc with streaks to its middle, a dark middle and a pale surround."""
    rng = plane.rng
    distance, angle = plane.around(*rng.normal(0, 0.06, 2))
    outer = plane.uniform(0.25, 0.48)
    inner = outer * plane.uniform(0.15, 0.6)
    streaks = np.zeros_like(distance)
    for count in rng.integers(5, 60, 4):
        bent = count * angle + 6 * plane.texture(2.5, 3.5)[0] * 0.3
        streaks += np.cos(bent + rng.uniform(0, 7)) / 4
    depth = (distance - inner) / (outer - inner)
    tones = plane.palette(3, plane.uniform(0.2, 0.8), 0.5)
    pixels = plane.graded(np.clip(depth + 0.3 * streaks, 0, 1), tones)
    surround = plane.flat(plane.colour(rng.random(), 0.2))
    pixels = over(surround, pixels, plane.cover(distance - outer, plane.uniform(0, 0.04)))
    middle = plane.colour(plane.uniform(0, 0.3) if plane.chance(0.7) else rng.random(), 0.1)
    pixels = over(pixels, middle, plane.cover(distance - inner, plane.uniform(0, 0.03)))
    if plane.chance(0.4):
        glint = plane.around(*(rng.normal(0, 0.12, 2)))[0] - 0.03
        pixels = over(pixels, plane.colour(0.95), plane.cover(glint, 0.02))
    return pixels


def _spiral(plane: Plane) -> Pixels:
    """Arms that wind outwards, thinning out or as far as the border."""
    rng = plane.rng
    distance, angle = plane.around(*rng.normal(0, 0.08, 2))
    tilt = np.exp(rng.normal(0, 0.3))
    distance = np.hypot(plane.across * tilt, plane.down / tilt) if plane.chance(0.5) else distance
    arms = int(rng.integers(1, 6)) * rng.choice([-1, 1])
    if plane.chance(0.5):
        wound = distance * np.exp(plane.uniform(0.5, 2.5))
    else:
        wound = np.log(distance + 0.03) * plane.uniform(0.3, 1.5)
    phase = wound + arms * angle / (2 * np.pi) + 0.06 * plane.texture(2, 3)[0]
    waves = _waves(plane, phase)
    if plane.chance(0.5):
        waves = waves * np.exp(-((distance / plane.uniform(0.15, 0.5)) ** 2))
    return plane.graded(waves, _ramp(plane))
