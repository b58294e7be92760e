"""``procedural:cells``: round bodies with nuclei, as under a microscope.

One body in the middle or many of them, apart or over one another, on a bright ground as stained
smears are, or on a dark one as fluorescence is. A body is a disc whose outline bends a little; it
has a rim, a pale middle, specks, or a nucleus of one to four lobes, or none of them. Tissue is a
ground of pale fibres with nuclei on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.data.drawings.plane import FloatImage, Pixels, Plane, over

_HARMONICS = np.arange(2, 5)  # of an outline: oval, three-cornered, four-cornered


@dataclass(frozen=True)
class _Stain:
    """The colours of an image."""

    ground: Pixels  # (channels,) where there is no body
    body: Pixels  # (channels,) of the bodies
    nucleus: Pixels  # (channels,) of their nuclei
    variety: float  # how far bodies differ in lightness


@dataclass(frozen=True)
class _Bodies:
    """What bodies of one image have in common; each number is one of a range."""

    radius: float  # of a body, about
    oval: float  # how far outlines are from circles
    softness: float  # of their edges
    rim: float  # lightness added along the edge
    hollow: float  # lightness added in the middle
    specks: float  # contrast of what is inside
    mottle: Pixels  # (h, w) texture of unit variance, of what is inside
    lobes: int  # of a nucleus; 0: no nucleus
    nucleus: float  # radius of the nucleus in radii of the body
    opacity: float


def cells(plane: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1]."""
    dark = plane.chance(0.3)
    stain = _fluorescence(plane) if dark else _stained(plane)
    pixels = plane.flat(stain.ground)
    kind = plane.rng.choice(["one", "crowd", "tissue"], p=[0.45, 0.35, 0.2])
    if kind == "tissue":
        pixels = _tissue(plane, stain)
        stroma = _bodies(plane, plane.uniform(0.02, 0.07))
        pixels = _scattered(plane, pixels, stain, stroma, int(plane.rng.integers(15, 60)), 0)
    elif kind == "crowd":
        common = _bodies(plane, 0.03 * np.exp(plane.uniform(0, 1.8)))
        most = np.clip(0.35 / common.radius**2, 4, 45)
        lobes = common.lobes if plane.chance(0.6) else 0
        count = int(plane.rng.integers(3, most + 1))
        pixels = _scattered(plane, pixels, stain, common, count, lobes, 0.1)
    else:
        pixels = _alone(plane, pixels, stain)
    if plane.chance(0.4):
        pixels = pixels + plane.texture(0.5, 2.5)[0][:, :, None] * plane.uniform(0, 0.04)
    return plane.finished(pixels, noise=0.04)


def _stained(plane: Plane) -> _Stain:
    """Colours of a bright field: pink and violet above all, but any."""
    hue = plane.rng.normal(0.86, 0.08) if plane.chance(0.7) else plane.rng.random()
    ground = plane.colour(plane.uniform(0.62, 0.97), plane.uniform(0, 0.08))
    body = plane.colour(plane.uniform(0.5, 0.85), plane.uniform(0, 0.28), hue)
    light, saturation = plane.uniform(0.15, 0.5), plane.uniform(0, 0.35)
    nucleus = plane.colour(light, saturation, hue - plane.uniform(0, 0.18))
    return _Stain(ground, body, nucleus, plane.uniform(0, 0.12))


def _fluorescence(plane: Plane) -> _Stain:
    """Colours of a dark field."""
    hue = plane.rng.random()
    ground = plane.colour(plane.uniform(0.0, 0.12), plane.uniform(0, 0.04), hue)
    body = plane.colour(plane.uniform(0.15, 0.6), plane.uniform(0, 0.3), hue)
    other = hue + (plane.uniform(0.2, 0.8) if plane.chance(0.5) else 0)
    nucleus = plane.colour(plane.uniform(0.4, 0.95), plane.uniform(0, 0.4), other)
    return _Stain(ground, body, nucleus, plane.uniform(0, 0.25))


def _bodies(plane: Plane, radius: float) -> _Bodies:
    """What bodies about as large have in common."""
    return _Bodies(
        radius=radius,
        oval=plane.uniform(0.02, 0.2),
        softness=radius * plane.uniform(0.02, 0.4),
        rim=plane.rng.normal(0, 0.1) if plane.chance(0.6) else 0.0,
        hollow=plane.uniform(-0.1, 0.35) if plane.chance(0.4) else 0.0,
        specks=plane.uniform(0, 0.12) if plane.chance(0.6) else 0.0,
        mottle=plane.texture(0.2, 1.6)[0],
        lobes=int(plane.rng.choice([0, 1, 2, 3, 4], p=[0.2, 0.5, 0.12, 0.12, 0.06])),
        nucleus=plane.uniform(0.25, 0.85),
        opacity=plane.uniform(0.5, 1.0),
    )


def _alone(plane: Plane, pixels: Pixels, stain: _Stain) -> Pixels:
    """One body in the middle, often with paler ones about it."""
    common = _bodies(plane, plane.uniform(0.18, 0.42))
    if plane.chance(0.6):
        paler = replace(stain, body=stain.body + plane.uniform(-0.05, 0.15))
        others = _bodies(plane, common.radius * plane.uniform(0.4, 0.9))
        pixels = _scattered(plane, pixels, paler, others, int(plane.rng.integers(1, 12)), 0)
    at = plane.rng.normal(0, 0.05, 2)
    return _with_body(plane, pixels, stain, common, (at[0], at[1]), common.lobes)


def _tissue(plane: Plane, stain: _Stain) -> Pixels:
    """A ground of pale fibres, with holes or without."""
    period, length = plane.uniform(0.03, 0.12), plane.uniform(1, 6)
    streaks = plane.warped(plane.stretched(period, length, np.pi * plane.rng.random()), 0.06)
    mixed = np.clip(0.5 + 0.3 * streaks, 0, 1) * plane.uniform(0.3, 1.0)
    pixels = over(plane.flat(stain.body), stain.ground, mixed)
    if plane.chance(0.4):
        holes = plane.texture(1.8, 2.8)[0]
        pixels = over(pixels, stain.ground, np.clip(2 * (holes - plane.uniform(0.7, 2)), 0, 1))
    return pixels


def _scattered(
    plane: Plane,
    pixels: Pixels,
    stain: _Stain,
    common: _Bodies,
    count: int,
    lobes: int,
    beyond: float = 0.0,
) -> Pixels:
    """So many bodies all over the image; small ones without lobes are themselves nuclei."""
    half_down, half_across = np.abs(plane.down).max(), np.abs(plane.across).max()
    across = plane.rng.uniform(-half_across - beyond, half_across + beyond, count)
    down = plane.rng.uniform(-half_down - beyond, half_down + beyond, count)
    for point in zip(across, down, strict=True):
        pixels = _with_body(plane, pixels, stain, common, point, lobes)
    return pixels


def _with_body(
    plane: Plane,
    pixels: Pixels,
    stain: _Stain,
    common: _Bodies,
    point: tuple[float, float],
    lobes: int,
) -> Pixels:
    """The image with one body more; only the part of the image that it may cover is touched."""
    rng = plane.rng
    radius = common.radius * np.exp(rng.normal(0, 0.12))
    window = _window(plane, point, 1.5 * radius + 2 * plane.pixel)
    right, below = plane.across[window] - point[0], plane.down[window] - point[1]
    if right.size == 0:
        return pixels
    distance, angle = np.hypot(right, below), np.arctan2(below, right)
    bends = common.oval / _HARMONICS * rng.normal(0, 1, len(_HARMONICS))
    phases = rng.uniform(0, 2 * np.pi, len(_HARMONICS))
    waves = np.cos(angle[..., None] * _HARMONICS + phases)
    share = distance / (radius * np.exp(waves @ bends))
    inside = plane.cover((share - 1) * radius, common.softness)
    light = common.rim * np.clip(4 * share - 3, 0, 1)
    light = light + common.hollow * np.clip(1 - 1.6 * share, 0, 1)
    light = light + rng.normal(0, 1) * stain.variety
    if common.specks:
        light = light + common.specks * common.mottle[window]
    nuclear = not lobes and common.radius < 0.08
    colour = (stain.nucleus if nuclear else stain.body) + light[:, :, None]
    part = over(pixels[window], colour, inside * common.opacity)
    if lobes:
        nucleus = _nucleus(plane, right, below, radius * common.nucleus, lobes)
        mottled = stain.nucleus + 0.5 * common.specks * common.mottle[window][:, :, None]
        part = over(part, mottled, nucleus * inside)
    pixels[window] = part
    return pixels


def _window(plane: Plane, point: tuple[float, float], radius: float) -> tuple[slice, slice]:
    """The rows and columns that a body about a point may cover."""

    def part(coordinates: Pixels, centre: float) -> slice:
        low, high = np.searchsorted(coordinates, [centre - radius, centre + radius])
        return slice(int(low), int(high))

    return part(plane.down[:, 0], point[1]), part(plane.across[0], point[0])


def _nucleus(plane: Plane, right: Pixels, below: Pixels, radius: float, lobes: int) -> Pixels:
    """Coverage of a nucleus: one disc off the middle, or several that touch along a bow."""
    rng = plane.rng
    if lobes == 1:
        at, sizes = rng.normal(0, 0.25 * radius, (1, 2)), np.array([radius])
    else:
        bow = rng.uniform(0, 2 * np.pi) + np.linspace(0, rng.uniform(1.5, 4.5), lobes)
        at = 0.62 * radius * np.stack([np.cos(bow), np.sin(bow)], axis=1)
        sizes = radius * rng.uniform(0.4, 0.62, lobes)
    stretch = np.exp(rng.normal(0, 0.12))
    apart = [
        np.hypot((right - x) * stretch, (below - y) / stretch) - size
        for (x, y), size in zip(at, sizes, strict=True)
    ]
    return plane.cover(np.min(apart, axis=0), 0.15 * radius)
