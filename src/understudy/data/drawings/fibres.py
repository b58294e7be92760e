"""``procedural:fibres``: lines that run together, branch, or form nets.

Hair and straw line by line; muscle, wood and cloth as streaks; vessels, roots and nerves as trees
whose branches become thinner; and nets with meshes of all sizes, such as foam, cracks and the veins
of leaves.
"""

from __future__ import annotations

import numpy as np

from understudy.data.drawings.plane import FloatImage, Pixels, Plane, over, spline

_MOST_BRANCHES = 60
Line = tuple[Pixels, Pixels, float]


def fibres(plane: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1]."""
    draw = (_streaks, _hair, _tree, _net)[int(plane.rng.choice(4, p=[0.3, 0.25, 0.3, 0.15]))]
    return plane.finished(draw(plane))


def _streaks(plane: Plane) -> Pixels:
    """Fibres beside one another, straight or bent, in one bundle or in two that cross."""
    angle = plane.rng.normal(np.pi / 2, 0.3) if plane.chance(0.4) else np.pi * plane.rng.random()
    period, bend = plane.uniform(0.015, 0.08), plane.uniform(0, 0.15)

    def bundle(direction: float) -> Pixels:
        return plane.warped(plane.stretched(period, plane.uniform(4, 25), direction), bend)

    streaks = bundle(angle)
    if plane.chance(0.25):
        parting = np.clip(0.5 + 3 * plane.texture(2.2, 3)[0], 0, 1)
        streaks = streaks + parting * (bundle(angle + plane.uniform(0.4, 1.6)) - streaks)
    tones = plane.palette(3, plane.uniform(0.2, 0.9), 0.3)
    pixels = plane.graded(np.clip(0.5 + 0.25 * streaks, 0, 1), tones)
    if plane.chance(0.4):  # light from the side, on fibres that bulge
        pixels = pixels + (0.1 * np.gradient(streaks)[1])[:, :, None]
    if plane.chance(0.25):  # striation across the fibres
        across = np.cos(2 * np.pi * plane.along(angle) / plane.uniform(0.04, 0.1))
        pixels = pixels + (plane.uniform(0.02, 0.1) * across)[:, :, None]
    return pixels


def _hair(plane: Plane) -> Pixels:
    """Single lines that sweep the same way, few or many, each with its own lightness."""
    rng = plane.rng
    count = int(np.exp(plane.uniform(1.0, 4.6)))
    angle, spread = rng.uniform(0, np.pi), plane.uniform(0.02, 0.6)
    width = plane.uniform(0.008, 0.03) if count > 25 else plane.uniform(0.015, 0.06)
    common = rng.normal(0, 0.15)
    lines: list[Line] = []
    for _ in range(count):
        direction = angle + rng.normal(0, spread)
        step = np.array([np.cos(direction), np.sin(direction)]) * plane.uniform(0.4, 0.9)
        sideways = np.array([-step[1], step[0]]) * (common + rng.normal(0, 0.15))
        middle = rng.uniform(-0.6, 0.6, 2)
        points = spline(np.stack([middle - step, middle + sideways, middle + step]), 6)
        widths = np.full(len(points), width * np.exp(rng.normal(0, 0.25)))
        lines.append((points, widths, plane.uniform(0.3, 1.0)))
    cover = plane.curves(lines)
    ground = plane.palette(2, plane.uniform(0, 0.4), 0.25)
    pixels = plane.graded(np.clip(0.5 + 0.3 * plane.texture(1.5, 3)[0], 0, 1), ground)
    tones = plane.palette(2, plane.uniform(0.3, 0.9), 0.35)
    return over(pixels, plane.graded(cover, tones), np.clip(4 * cover, 0, 1))


def _tree(plane: Plane) -> Pixels:
    """Branches that become thinner: vessels from a border, roots, or a body with arms."""
    rng = plane.rng
    lines: list[Line] = []
    body = plane.chance(0.25)
    start = rng.normal(0, 0.1, 2) if body else rng.uniform(-0.3, 0.3, 2)
    if not body:
        start[int(rng.integers(0, 2))] = rng.choice([-0.52, 0.52])
    inward = np.arctan2(-start[1], -start[0])
    trunks = int(rng.integers(3, 7)) if body else int(rng.integers(1, 4))
    spread = np.pi if body else 0.5
    width = plane.uniform(0.012, 0.05)
    for _ in range(trunks):
        _grow(plane, lines, start, inward + rng.uniform(-spread, spread), width)
    cover = plane.curves(lines)
    retina = not body and plane.chance(0.35)
    light = plane.uniform(0.2, 0.9)
    hue = rng.normal(0.06, 0.03) if retina else rng.random()
    ground = plane.flat(plane.colour(light, plane.uniform(0, 0.3), hue))
    ground = ground + (plane.uniform(0, 0.06) * plane.texture(1.5, 3)[0])[:, :, None]
    distance = plane.around(0, 0)[0]
    if retina:
        spot = plane.around(*rng.uniform(-0.3, 0.3, 2))[0] - plane.uniform(0.05, 0.1)
        ground = over(ground, plane.colour(0.85, 0.2, 0.12), plane.cover(spot, 0.05))
    dark = light > 0.5 if plane.chance(0.9) else light < 0.5
    colour = plane.colour(light + (-1 if dark else 1) * plane.uniform(0.2, 0.5), 0.2, hue)
    pixels = over(ground, colour, cover * plane.uniform(0.5, 1))
    if body:
        soma = plane.cover(plane.around(start[0], start[1])[0] - plane.uniform(0.04, 0.12), 0.02)
        pixels = over(pixels, colour, soma)
    if retina or plane.chance(0.1):
        edge = plane.cover(distance - plane.uniform(0.42, 0.5), 0.01)
        pixels = over(plane.flat(plane.colour(0.02)), pixels, edge)
    return pixels


def _grow(plane: Plane, lines: list[Line], start: Pixels, direction: float, width: float) -> None:
    """Add a branch that wanders off, and those that leave it."""
    rng = plane.rng
    tips = [(start, direction, width)]
    steady = plane.uniform(0.1, 0.45)
    while tips and len(lines) < _MOST_BRANCHES:
        point, heading, wide = tips.pop(0)
        points = [point]
        for _ in range(int(rng.integers(3, 8))):
            heading += rng.normal(0, steady)
            points.append(points[-1] + 0.05 * np.array([np.cos(heading), np.sin(heading)]))
        line = spline(np.stack(points), 3)
        lines.append((line, np.linspace(wide, 0.85 * wide, len(line)), 1.0))
        if np.abs(points[-1]).max() < 0.55 and wide > 0.004:
            fork = plane.uniform(0.25, 0.8)
            share = plane.uniform(0.5, 0.8)
            tips.append((points[-1], heading + fork * (1 - share), wide * share**0.4))
            tips.append((points[-1], heading - fork * share, wide * (1 - share) ** 0.4))


def _net(plane: Plane) -> Pixels:
    """Meshes about random points, or their borders: foam, cracks, veins, muscle cut across."""
    rng = plane.rng
    count = int(np.exp(plane.uniform(2.0, 4.6)))
    points = rng.uniform(-0.7, 0.7, (2, count, 1, 1))
    stretch = np.exp(rng.normal(0, 0.25))
    bend = plane.texture(2.2, 3, 2) * plane.uniform(0, 0.02)
    right, below = (plane.across + bend[0]) * stretch, (plane.down + bend[1]) / stretch
    squares = (right - points[0]) ** 2 + (below - points[1]) ** 2
    index = squares.argmin(axis=0)
    nearest, second = np.sqrt(np.partition(squares, 1, axis=0)[:2])
    border = plane.cover((second - nearest) - plane.uniform(0.004, 0.05), plane.uniform(0, 0.03))
    tones = plane.palette(3, plane.uniform(0.1, 0.8), 0.3)
    values = np.clip(0.5 + rng.normal(0, 0.25, count), 0, 1)[index]
    values = values + plane.uniform(-1.5, 1.5) * (nearest - nearest.mean())
    pixels = plane.graded(np.clip(values, 0, 1), tones)
    pixels = pixels + (plane.texture(0.3, 2)[0] * plane.uniform(0, 0.06))[:, :, None]
    return over(pixels, plane.colour(rng.random(), 0.2), border)
