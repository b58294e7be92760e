"""Small plots: where axes, ticks, lines and marks stand, the plot in words, and its numbers.

The template ``plot.html`` writes them as inline SVG. Lines take the page's colours and differ in
dash and mark as well, so that they can be told apart in print, in the dark and without colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from understudy.report import meaning

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 28, 40
LINES = 6  # how many lines a plot can hold and still be read

_NEAR = 0.6  # points of the drawing; what is nearer to the last point drawn is left out
_ROWS = 10  # of the table of numbers
_ROC_AT = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
_MARKS = (
    "M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0",
    "M-3,-3h6v6h-6z",
    "M0,-4l4,7h-8z",
    "M0,-4l4,4l-4,4l-4,-4z",
    "M-3,-3l6,6M-3,3l6,-6",
    "M0,4l4,-7h-8z",
)


@dataclass(frozen=True, slots=True)
class PlotLine:
    """One line."""

    name: str  # for the legend
    x: Sequence[float]  # from left to right
    y: Sequence[float]  # as many
    # a word for each point, such as the release it is of; none by default
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis."""

    name: str  # what it shows
    low: float  # where it begins
    high: float  # where it ends, above `low`
    log: bool = False  # whether it is logarithmic; then `low` is above 0

    def place(self, value: float) -> float:
        """Where a value stands, 0 at the beginning to 1 at the end; what is outside, at the end."""
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values on the axis, five or so."""
        if not self.log:
            step = _round_step((self.high - self.low) / 5)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [k * step for k in range(first, last + 1)]
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high))
        decades = [10.0**k for k in range(first, last + 1)]
        if len(decades) > 2:
            return decades[:: math.ceil(len(decades) / 5)]
        fine = [f * 10.0**k for k in range(first - 1, last + 1) for f in (1, 2, 5)]
        return [tick for tick in fine if self.low * 0.999 <= tick <= self.high * 1.001]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over one pair of axes."""

    title: str  # what it shows, in a few words
    x: Axis  # the horizontal axis
    y: Axis  # the vertical axis
    lines: tuple[PlotLine, ...]  # at most `LINES`
    chance: bool = False  # whether to draw where y equals x, which is guessing in a ROC
    marks: bool = False  # whether every point gets a mark

    def describe(self) -> str:
        """The plot in words: its axes, and where each line begins and ends."""
        scale = " (logarithmic)"
        sentences = [
            f"{self.y.name}{scale if self.y.log else ''} over {self.x.name}"
            f"{scale if self.x.log else ''}."
        ]
        for line in self.lines:
            few = _thinned(len(line.x), 3)
            points = [f"{short(line.x[index])}: {short(line.y[index])}" for index in few]
            sentences.append(f"{line.name}: {', '.join(points)}.")
        return " ".join(sentences)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The numbers: a heading and rows, thinned out where there are many."""
        if self.chance:
            head = [self.x.name, *(line.name for line in self.lines)]
            return head, [
                [short(at), *(short(_reached(line, at)) for line in self.lines)] for at in _ROC_AT
            ]
        noted = any(line.notes for line in self.lines)
        head = ["line", self.x.name, self.y.name, *(["release"] if noted else [])]
        rows = []
        for line in self.lines:
            for index in _thinned(len(line.x), _ROWS):
                note = [line.notes[index] if line.notes else ""] if noted else []
                rows.append([line.name, short(line.x[index]), short(line.y[index]), *note])
        return head, rows

    def rows(self) -> list[tuple[str, str | float, str | float, str]]:
        """Every point under a heading: its line, where it stands, and the word for it."""
        points = [
            (line.name, x, y, note)
            for line in self.lines
            for x, y, note in zip(line.x, line.y, line.notes or [""] * len(line.x), strict=True)
        ]
        return [("line", self.x.name, self.y.name, "release"), *points]

    def drawing(self) -> Drawing:
        """Where everything stands."""
        paths = tuple(
            _path([self._point(x, y) for x, y in zip(line.x, line.y, strict=True)])
            for line in self.lines
        )
        marks = tuple(
            Mark(index, *self._point(x, y), _MARKS[index % LINES], note)
            for index, line in enumerate(self.lines if self.marks else ())
            for x, y, note in zip(line.x, line.y, line.notes or [""] * len(line.x), strict=True)
        )
        ends = max(self.x.low, self.y.low), min(self.x.high, self.y.high)
        steps = [
            ends[0] * (ends[1] / ends[0]) ** (k / 32) if self.x.log else k / 32 for k in range(33)
        ]
        return Drawing(
            tuple((self._point(tick, self.y.low)[0], short(tick)) for tick in self.x.ticks()),
            tuple((self._point(self.x.low, tick)[1], short(tick)) for tick in self.y.ticks()),
            paths,
            marks,
            _path([self._point(at, at) for at in steps]) if self.chance else "",
        )

    def _point(self, x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM),
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with a mark."""

    line: int  # which line it is on
    x: float  # across, in the drawing's units
    y: float  # down
    shape: str  # SVG path around the point
    note: str  # a word for it; may be empty


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot in the units of its drawing, `WIDTH` across and `HEIGHT` down."""

    width: ClassVar[int] = WIDTH
    height: ClassVar[int] = HEIGHT
    left: ClassVar[int] = LEFT
    right: ClassVar[int] = WIDTH - RIGHT
    top: ClassVar[int] = TOP
    bottom: ClassVar[int] = HEIGHT - BOTTOM

    # where the ticks of the horizontal axis stand, and what they say
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]  # the same of the vertical axis
    paths: tuple[str, ...]  # SVG paths of the lines
    marks: tuple[Mark, ...]  # marks of all points, where the plot has them
    chance: str  # SVG path of where y equals x; empty where it is not drawn


def around(name: str, values: Sequence[float], *, log: bool | None = None) -> Axis:
    """An axis that holds finite values with a little room on both sides.

    By default it is logarithmic where they are above 0 and the largest is over 20 times the least.
    """
    low, high = min(values), max(values)
    if log is None:
        log = low > 0 and high / low > 20
    if log:
        room = (high / low) ** 0.06 if high > low else 2.0
        return Axis(name, low / room, high * room, log=True)
    room = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return Axis(name, low - room if low < 0 or low > room else 0.0, high + room)


def short(value: float) -> str:
    """A number for a tick or a table: three digits."""
    return meaning.number(float(f"{value:.3g}")) if math.isfinite(value) else "none"


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= least * (1 - 1e-9))


def _thinned(count: int, most: int) -> list[int]:
    """Indices from first to last, evenly, so many at most."""
    if count <= most:
        return list(range(count))
    return [round(k * (count - 1) / (most - 1)) for k in range(most)]


def _reached(line: PlotLine, at: float) -> float:
    """The highest y up to an x: what a threshold that keeps to that x achieves."""
    return max((y for x, y in zip(line.x, line.y, strict=True) if x <= at), default=0.0)


def _path(points: Sequence[tuple[float, float]]) -> str:
    """An SVG path through the points; one that is nearly on the last is left out."""
    vertices = list(points[:1])
    for index, point in enumerate(points[1:], 1):
        if math.dist(point, vertices[-1]) >= _NEAR or index == len(points) - 1:
            vertices.append(point)
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in vertices) if vertices else ""
