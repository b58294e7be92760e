"""``procedural:strokes``: handwriting: digits, letters and marks, drawn as splines.

Each character is a few strokes through points of a grid, which are moved, slanted and turned a
little for every image, and drawn with a pen whose width changes along the stroke. Most images have
one character in the middle; others a word, or lines of writing. The pen is light on dark or dark on
light, mostly without colours.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

from understudy.data.drawings.plane import FloatImage, Pixels, Plane, over, spline

_DIGITS = (
    ("20", "01", "03", "05", "26", "45", "43", "41", "20"),
    ("11", "20", "20", "23", "26"),
    ("01", "10", "30", "41", "32", "14", "06", "06", "26", "46"),
    ("00", "30", "41", "33", "23", "33", "44", "35", "16", "05"),
    ("20", "02", "04", "04", "24", "44", "", "31", "33", "36"),
    ("40", "10", "10", "03", "03", "23", "44", "35", "16", "05"),
    ("30", "11", "03", "05", "26", "45", "44", "23", "04"),
    ("00", "20", "40", "40", "23", "16"),
    ("23", "01", "20", "41", "23", "05", "26", "45", "23"),
    ("41", "20", "01", "13", "33", "41", "43", "35", "26"),
)
_LETTERS = (
    ("06", "13", "20", "20", "33", "46", "", "04", "24", "44"),
    ("00", "03", "06", "", "00", "30", "41", "33", "03", "33", "45", "36", "06"),
    ("41", "20", "01", "05", "26", "45"),
    ("00", "03", "06", "", "00", "20", "42", "44", "26", "06"),
    ("40", "00", "00", "03", "06", "06", "46", "", "03", "33"),
    ("40", "00", "00", "03", "06", "", "03", "33"),
    ("41", "20", "01", "05", "26", "45", "43", "43", "23"),
    ("00", "06", "", "40", "46", "", "03", "43"),
    ("10", "30", "", "20", "26", "", "16", "36"),
    ("40", "45", "26", "05"),
    ("00", "06", "", "40", "03", "03", "46"),
    ("00", "06", "06", "46"),
    ("06", "00", "00", "24", "24", "40", "40", "46"),
    ("06", "00", "00", "46", "46", "40"),
    ("06", "00", "30", "41", "33", "03"),
    ("20", "01", "05", "26", "45", "41", "20", "", "24", "46"),
    ("06", "00", "30", "41", "33", "03", "", "23", "46"),
    ("41", "20", "01", "12", "33", "45", "26", "05"),
    ("00", "40", "", "20", "26"),
    ("00", "04", "26", "44", "40"),
    ("00", "26", "26", "40"),
    ("00", "16", "16", "22", "22", "36", "36", "40"),
    ("00", "46", "", "40", "06"),
    ("00", "23", "23", "40", "", "23", "26"),
    ("00", "40", "40", "06", "06", "46"),
    ("42", "22", "03", "05", "16", "35", "42", "42", "46"),
    ("00", "06", "03", "22", "44", "35", "16", "05"),
    ("04", "34", "42", "22", "03", "05", "16", "45"),
    ("30", "21", "26", "", "12", "42"),
    ("42", "22", "03", "14", "44", "42", "46", "28", "07"),
    ("00", "06", "04", "22", "43", "46"),
    ("02", "06", "03", "12", "23", "26", "23", "32", "43", "46"),
    ("00", "26", "", "20", "06", "", "03", "43"),
)
_STEPS = 5  # points of a spline for each point of the grid


def strokes(plane: Plane) -> FloatImage:
    """One image: (height, width, channels) in [0, 1]."""
    kind = plane.rng.choice(["one", "word", "page", "marks"], p=[0.65, 0.15, 0.1, 0.1])
    if kind == "one":
        ink = _written(plane, [(0.0, 0.0)], plane.uniform(0.28, 0.45))
    elif kind == "word":
        count = int(plane.rng.integers(2, 5))
        word = [(float(x), 0.0) for x in np.linspace(-0.5, 0.5, count + 2)[1:-1]]
        ink = _written(plane, word, plane.uniform(0.5, 0.75) / (count + 1))
    elif kind == "page":
        size = plane.uniform(0.04, 0.09)
        rows, columns = np.arange(-0.5, 0.5, 3.2 * size), np.arange(-0.5, 0.5, 1.8 * size)
        places = [(x, y) for y in rows for x in columns if plane.chance(0.85)]
        ink = _written(plane, places, size)
    else:
        ink = _marks(plane)
    if plane.chance(0.3):
        ink = gaussian_filter(ink, plane.uniform(0.3, 0.8))
    if plane.chance(0.3):  # a dry pen
        ink = ink * np.clip(1.2 + plane.uniform(0, 0.4) * plane.texture(0.3, 1.5)[0], 0, 1)
    return plane.finished(_inked(plane, ink), noise=0.03)


def _inked(plane: Plane, ink: Pixels) -> Pixels:
    """Ink (h, w) on paper: white on black, black on white, or any colour on any other."""
    kind = plane.rng.choice(["black", "paper", "colour"], p=[0.4, 0.3, 0.3])
    if kind == "black":
        return over(plane.flat(plane.colour(0.0)), plane.colour(plane.uniform(0.8, 1.0)), ink)
    if kind == "paper":
        paper = plane.flat(plane.colour(plane.uniform(0.7, 1.0), plane.uniform(0, 0.06)))
        if plane.chance(0.5):
            paper = paper + (plane.texture(1, 3)[0] * plane.uniform(0, 0.04))[:, :, None]
        return over(paper, plane.colour(plane.uniform(0, 0.35), plane.uniform(0, 0.2)), ink)
    tones = plane.palette(2, plane.uniform(0, 0.5), 0.3)
    paper = plane.graded(np.clip(0.5 + plane.along(plane.uniform(0, 7)), 0, 1), tones)
    away = -1 if tones[:, 0].mean() > 0.5 else 1
    light = np.clip(tones.mean() + away * plane.uniform(0.3, 0.7), 0, 1)
    return over(paper, plane.colour(float(light), plane.uniform(0, 0.35)), ink)


def _written(plane: Plane, places: list[tuple[float, float]], size: float) -> Pixels:
    """(h, w): characters of one hand at these places, ``size`` being half their height."""
    rng = plane.rng
    slant, aspect = rng.normal(0.05, 0.2), plane.uniform(0.45, 0.85)
    shear = np.array([[aspect, 0.0], [-slant, 1.0]])
    angle = rng.normal(0, 0.12)
    turn_matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    pen = size * plane.uniform(0.1, 0.4)
    tapered = plane.uniform(0, 0.5)
    characters = _DIGITS if plane.chance(0.5) else _LETTERS
    lines = []
    for place in places:
        character = characters[int(rng.integers(0, len(characters)))]
        for points in _strokes_of(character):
            outline = (points + rng.normal(0, 0.11, points.shape)) @ shear @ turn_matrix
            line = spline(outline * size + np.array(place), _STEPS)
            pressure = 1 - tapered * np.abs(np.linspace(-1, 1, len(line))) ** 2
            widths = pen * pressure * np.exp(rng.normal(0, 0.05, len(line)))
            lines.append((line, widths, 1.0))
    return plane.curves(lines)


def _strokes_of(character: tuple[str, ...]) -> list[Pixels]:
    """The strokes of a character, each (k, 2) from -1 to 1, or 1.7 for what hangs below."""
    parts: list[list[tuple[float, float]]] = [[]]
    for point in character:
        if point:
            parts[-1].append((int(point[0]) / 2 - 1, int(point[1]) / 3 - 1))
        else:
            parts.append([])
    return [np.array(part) for part in parts]


def _marks(plane: Plane) -> Pixels:
    """(h, w): lines, loops and arcs of no alphabet."""
    rng = plane.rng
    lines = []
    for _ in range(int(rng.integers(1, 6))):
        points = np.cumsum(rng.normal(0, 0.22, (int(rng.integers(2, 7)), 2)), axis=0)
        points = points - points.mean(axis=0) + rng.normal(0, 0.1, 2)
        closed = len(points) > 3 and plane.chance(0.3)
        line = spline(points, _STEPS, closed=closed)
        lines.append((line, np.full(len(line), plane.uniform(0.01, 0.08)), plane.uniform(0.6, 1)))
    return plane.curves(lines)
