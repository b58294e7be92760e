"""``procedural:garments``: outlines of clothes, shoes, bags and hats, with folds and patterns.

Each garment is a few outlines through points that are moved a little for every image: half an
outline, mirrored, for what is worn on the trunk, a whole one for shoes. It is filled with cloth
(plain, striped, checked, dotted, printed), folds run through it, its edges are in shade, and it
lies on black, white, a plain colour, boards or cloth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from understudy.data.drawings.plane import FloatImage, Pixels, Plane, over, spline


@dataclass(frozen=True)
class _Garment:
    """A kind of garment."""

    # half an outline from the middle of the collar to the middle of the hem, across and down, in
    # halves of a garment's height; a whole one where it is not mirrored
    outline: tuple[tuple[float, float], ...]
    mirrored: bool = True  # whether the other half is like it
    lines: tuple[tuple[tuple[float, float], ...], ...] = ()  # seams and openings, drawn over it


_FRONT = ((0.0, -0.8), (0.0, 0.95))
_SLEEVE = ((0.42, -0.55), (0.4, 0.0), (0.4, 0.5))
_GARMENTS = {
    "t-shirt": _Garment(
        ((0, -0.72), (0.18, -0.82), (0.3, -0.88), (0.52, -0.8), (0.88, -0.32), (0.62, -0.12),
         (0.48, -0.32), (0.48, 0.3), (0.48, 0.9), (0, 0.94)),
    ),
    "pullover": _Garment(
        ((0, -0.74), (0.2, -0.84), (0.5, -0.76), (0.66, -0.4), (0.84, 0.6), (0.66, 0.68),
         (0.47, -0.2), (0.47, 0.4), (0.46, 0.86), (0, 0.88)),
        lines=(((-0.46, 0.78), (0.46, 0.78)), _SLEEVE),
    ),
    "coat": _Garment(
        ((0, -0.8), (0.18, -0.92), (0.46, -0.8), (0.6, -0.4), (0.68, 0.55), (0.52, 0.6),
         (0.45, -0.15), (0.48, 0.4), (0.52, 0.96), (0, 0.97)),
        lines=(_FRONT, ((0.1, -0.85), (0.22, -0.5), (0.0, -0.2)), _SLEEVE),
    ),
    "shirt": _Garment(
        ((0, -0.78), (0.14, -0.9), (0.42, -0.82), (0.6, -0.5), (0.74, 0.35), (0.58, 0.42),
         (0.44, -0.2), (0.44, 0.3), (0.43, 0.88), (0, 0.94)),
        lines=(_FRONT, ((0.0, -0.78), (0.16, -0.62), (0.15, -0.88))),
    ),
    "dress": _Garment(
        ((0, -0.7), (0.12, -0.78), (0.2, -0.96), (0.28, -0.94), (0.3, -0.6), (0.22, -0.2),
         (0.36, 0.3), (0.5, 0.94), (0, 0.97)),
        lines=(((-0.22, -0.2), (0.22, -0.2)),),
    ),
    "sleeved dress": _Garment(
        ((0, -0.8), (0.14, -0.9), (0.36, -0.82), (0.55, -0.2), (0.44, -0.12), (0.3, -0.5),
         (0.24, -0.1), (0.34, 0.4), (0.42, 0.95), (0, 0.97)),
    ),
    "top": _Garment(
        ((0, -0.5), (0.2, -0.62), (0.24, -0.9), (0.36, -0.9), (0.42, -0.4), (0.44, 0.2),
         (0.46, 0.8), (0, 0.84)),
    ),
    "trousers": _Garment(
        ((0, -0.94), (0.32, -0.95), (0.38, -0.6), (0.4, 0.1), (0.36, 0.95), (0.12, 0.96),
         (0.06, 0.1), (0.0, -0.35)),
        lines=(((0.0, -0.9), (0.0, -0.4)), ((-0.33, -0.84), (0.33, -0.84))),
    ),
    "shorts": _Garment(
        ((0, -0.6), (0.45, -0.62), (0.52, -0.2), (0.62, 0.55), (0.12, 0.62), (0.0, 0.0)),
        lines=(((0.0, -0.58), (0.0, 0.0)), ((-0.45, -0.5), (0.45, -0.5))),
    ),
    "skirt": _Garment(
        ((0, -0.72), (0.3, -0.74), (0.42, -0.2), (0.62, 0.72), (0, 0.78)),
        lines=(((-0.3, -0.62), (0.3, -0.62)),),
    ),
    "bag": _Garment(
        ((0, -0.22), (0.6, -0.24), (0.72, -0.1), (0.76, 0.7), (0.66, 0.78), (0, 0.8)),
        lines=(((-0.7, 0.12), (0.0, 0.25), (0.7, 0.12)),),
    ),
    "hat": _Garment(
        ((0, -0.55), (0.32, -0.5), (0.42, -0.1), (0.46, 0.2), (0.95, 0.34), (0.9, 0.46),
         (0.4, 0.5), (0, 0.52)),
        lines=(((-0.45, 0.16), (0.0, 0.2), (0.45, 0.16)),),
    ),
    "sneaker": _Garment(
        ((-0.92, -0.1), (-0.78, -0.36), (-0.5, -0.3), (-0.26, -0.4), (0.05, -0.12), (0.5, 0.02),
         (0.86, 0.12), (0.95, 0.34), (0.9, 0.44), (0.0, 0.44), (-0.9, 0.42)),
        mirrored=False,
        lines=(((-0.92, 0.28), (0.0, 0.3), (0.94, 0.3)), ((-0.2, -0.3), (-0.05, -0.1)),
               ((-0.08, -0.22), (0.05, -0.02)), ((-0.6, 0.2), (-0.1, 0.05), (0.2, 0.25))),
    ),
    "boot": _Garment(
        ((-0.62, -0.92), (-0.05, -0.92), (0.0, -0.3), (0.14, 0.1), (0.5, 0.3), (0.84, 0.46),
         (0.9, 0.72), (0.1, 0.76), (-0.2, 0.72), (-0.26, 0.84), (-0.66, 0.84), (-0.62, 0.2)),
        mirrored=False,
        lines=(((-0.62, 0.66), (0.0, 0.64), (0.88, 0.64)), ((-0.3, -0.9), (-0.24, 0.0))),
    ),
    "heel": _Garment(
        ((-0.86, -0.42), (-0.7, -0.44), (-0.4, -0.02), (0.1, 0.16), (0.5, 0.1), (0.92, 0.4),
         (0.9, 0.5), (0.3, 0.5), (-0.3, 0.28), (-0.64, 0.0), (-0.7, 0.52), (-0.8, 0.52)),
        mirrored=False,
        lines=(((-0.4, -0.02), (-0.3, -0.35)),),
    ),
    "sandal": _Garment(
        ((-0.9, 0.2), (-0.5, 0.26), (0.1, 0.3), (0.9, 0.32), (0.92, 0.46), (0.0, 0.48),
         (-0.9, 0.44)),
        mirrored=False,
        lines=(((-0.85, 0.2), (-0.6, -0.35), (-0.3, 0.25)), ((-0.1, 0.3), (0.2, -0.1), (0.5, 0.3)),
               ((-0.62, -0.3), (-0.1, -0.2), (0.2, 0.28))),
    ),
}  # fmt: skip
_KINDS = tuple(_GARMENTS)


def garments(plane: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1]."""
    kind = _KINDS[int(plane.rng.integers(0, len(_KINDS)))]
    garment = _GARMENTS[kind]
    size = plane.uniform(0.36, 0.5) if plane.chance(0.8) else plane.uniform(0.22, 0.36)
    place = plane.rng.normal(0, 0.03, 2)
    angle = plane.rng.normal(0, 0.06) if plane.chance(0.75) else plane.rng.normal(0, 0.5)
    turned = size * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    turned = turned * np.array([[plane.uniform(0.8, 1.25)], [1.0]])
    if not garment.mirrored and plane.chance(0.5):
        turned = np.array([[-1.0, 0.0], [0.0, 1.0]]) @ turned
    ground, dark = _ground(plane)
    if plane.chance(0.4):
        shadow = gaussian_filter(_filled(plane, garment, turned, place + 0.02), 2)
        ground = ground * (1 - 0.5 * shadow)[:, :, None]
    mask = _filled(plane, garment, turned, place)
    cloth = _cloth(plane, turned, dark)
    cloth = _shaded(plane, cloth, mask)
    pixels = over(ground, cloth, mask)
    pixels = _with_lines(plane, pixels, garment, kind, turned, place, mask)
    return plane.finished(pixels)


def _filled(plane: Plane, garment: _Garment, turned: Pixels, place: Pixels) -> Pixels:
    """(h, w): coverage of a garment, with its outline moved a little.

    Its outline is the same again for the same garment on the same plane.
    """
    rng = np.random.default_rng(round(1e6 * abs(float(turned[0, 0]))))
    points = np.array(garment.outline, dtype=np.float64)
    points = points * np.exp(rng.normal(0, 0.06, 2)) + rng.normal(0, 0.025, points.shape)
    if garment.mirrored:
        points[[0, -1], 0] = 0.0
        other = points[-2:0:-1] * np.array([-1.0, 1.0])
        points = np.concatenate([points, other + rng.normal(0, 0.012, other.shape)])
    between = 0.5 * (points + np.roll(points, -1, axis=0))  # corners are rounded
    about = between + np.roll(between, 1, axis=0)
    corners = np.stack([points * 0.9 + 0.05 * about, between], 1)
    points = spline(corners.reshape(-1, 2), 3, closed=True)
    return plane.polygons([(points @ turned + place, 1.0)])


def _ground(plane: Plane) -> tuple[Pixels, bool]:
    """What a garment lies on, and whether it is black."""
    rng = plane.rng
    kind = rng.choice(
        ["black", "white", "plain", "boards", "cloth"], p=[0.25, 0.2, 0.25, 0.15, 0.15]
    )
    if kind == "black":
        return plane.flat(plane.colour(0.0)), True
    if kind == "white":
        return plane.flat(plane.colour(plane.uniform(0.88, 1.0), 0.02)), False
    tones = plane.palette(2, plane.uniform(0, 0.3), 0.2)
    if kind == "boards":
        angle = rng.choice([0.0, np.pi / 2]) + rng.normal(0, 0.2)
        streaks = plane.stretched(plane.uniform(0.02, 0.05), plane.uniform(5, 15), angle)
        pixels = plane.graded(np.clip(0.5 + 0.3 * streaks, 0, 1), tones)
        joints = np.abs(np.sin(np.pi * plane.along(angle + np.pi / 2) / plane.uniform(0.15, 0.4)))
        return pixels * (1 - 0.4 * plane.cover(joints - 0.05))[:, :, None], False
    light = plane.along(rng.uniform(0, 7)) + 0.15 * plane.texture(2, 3)[0]
    pixels = plane.graded(np.clip(0.5 + light, 0, 1), tones)
    if kind == "cloth":
        pixels = pixels + (plane.uniform(0.01, 0.06) * plane.texture(0.5, 2)[0])[:, :, None]
    return pixels, False


def _cloth(plane: Plane, turned: Pixels, dark: bool) -> Pixels:
    """(h, w, channels): plain, striped, checked, dotted, mottled, or with a print."""
    rng = plane.rng
    least = 0.3 if dark else 0.05
    light = plane.uniform(least, 0.98)
    base = plane.colour(light, plane.uniform(0, 0.35) if plane.chance(0.6) else 0.02)
    other_light = float(np.clip(light + rng.normal(0, 0.35), least, 1))
    second = plane.colour(other_light, plane.uniform(0, 0.4))
    pixels = plane.flat(base)
    kind = rng.choice(
        ["plain", "stripes", "checks", "dots", "mottled", "print"],
        p=[0.5, 0.13, 0.09, 0.06, 0.1, 0.12],
    )
    inverse = np.linalg.inv(turned)
    u, v = (inverse[0, i] * plane.across + inverse[1, i] * plane.down for i in (0, 1))
    period = plane.uniform(0.12, 0.5)
    if kind == "stripes":
        at = v if plane.chance(0.65) else u
        pattern = plane.cover(np.cos(2 * np.pi * at / period) * period / 8 + rng.normal(0, 0.02))
    elif kind == "checks":
        pattern = sum((np.cos(2 * np.pi * at / period) > 0).astype(float) for at in (u, v)) / 2
    elif kind == "dots":
        bumps = np.cos(2 * np.pi * u / period) * np.cos(2 * np.pi * v / period)
        pattern = np.clip(4 * (np.abs(bumps) - 0.6), 0, 1)
    elif kind == "mottled":
        pattern = np.clip(0.5 + plane.texture(0.6, 2.2)[0], 0, 1)
    elif kind == "print":
        blots = 0.5 * plane.texture(1.2, 2)[0]
        across, down = rng.normal(0, 0.05), plane.uniform(-0.35, 0.1)
        half = plane.uniform(0.12, 0.3)
        inside = np.maximum(np.abs(u - across), np.abs(v - down) * plane.uniform(0.7, 2)) < half
        pattern = inside * np.clip(0.7 + blots, 0, 1)
    else:
        return pixels
    return over(pixels, second, pattern)


def _shaded(plane: Plane, cloth: Pixels, mask: Pixels) -> Pixels:
    """Cloth with folds, light from one side, and shade along its edges."""
    folds = plane.stretched(
        plane.uniform(0.03, 0.1), plane.uniform(2, 7), np.pi / 2 + plane.rng.normal(0, 0.4)
    )
    folds = plane.warped(folds, 0.04) * plane.uniform(0.01, 0.09)
    wide = plane.uniform(0.015, 0.07) / plane.pixel
    depth = np.clip(2 * gaussian_filter(mask, wide) - 1, 0, 1)
    side = plane.along(plane.uniform(0, 2 * np.pi)) * plane.uniform(0, 0.3)
    light = 1 + folds + side - plane.uniform(0, 0.4) * (1 - depth)
    weave = plane.rng.normal(0, plane.uniform(0, 0.04), mask.shape)
    return np.asarray(cloth * (light + weave)[:, :, None])


def _with_lines(
    plane: Plane,
    pixels: Pixels,
    garment: _Garment,
    kind: str,
    turned: Pixels,
    place: Pixels,
    mask: Pixels,
) -> Pixels:
    """The image with seams, straps, handles and openings."""
    rng = plane.rng
    colour = pixels.reshape(-1, plane.channels)[mask.argmax()]
    darker = np.clip(colour * plane.uniform(0.3, 0.9), 0, 1)
    if kind == "bag":
        high = plane.uniform(0.4, 0.75)
        handle = np.array([(-0.4, -0.2), (-0.36, -0.2 - high), (0.36, -0.2 - high), (0.4, -0.2)])
        lines = [(spline(handle, 5) @ turned + place, np.full(16, 0.03), 1.0)]
        return over(pixels, darker, plane.curves(lines))
    curves = []
    sides = (1.0, -1.0) if garment.mirrored else (1.0,)
    for line in garment.lines:
        for side in sides:
            points = spline(np.array(line) * np.array([side, 1.0]), 4) @ turned + place
            width = plane.uniform(0.008, 0.02) if kind != "sandal" else plane.uniform(0.02, 0.05)
            curves.append((points, np.full(len(points), width), 1.0))
    if kind in ("shirt", "coat") and plane.chance(0.7):
        for y in np.arange(-0.6, 0.9, 0.25):
            button = (np.array([[0.03, y], [0.031, y]]) @ turned) + place
            curves.append((button, np.full(2, 0.025), 1.0))
    if not curves or plane.chance(0.2):
        return pixels
    cover = plane.curves(curves)
    limit = 1.0 if kind == "sandal" else mask
    opacity = 1.0 if kind == "sandal" else plane.uniform(0.3, 1.0)
    thread = darker if rng.random() < 0.8 else np.ones(plane.channels)
    return over(pixels, thread, cover * limit * opacity)
