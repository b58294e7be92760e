"""An SVG chart of accuracy over what an attack finds: a line a method, a mark a keep ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from understudy.report.plots import Axis, around, short

WIDTH, HEIGHT = 820, 460
LEFT, RIGHT, TOP, BOTTOM = 60, 280, 40, 50
COLOURS = (
    *("#1b6ca8", "#c0392b", "#27ae60", "#8e44ad", "#d68910", "#16a085", "#7f8c8d", "#2c3e50"),
    *("#e84393", "#6c5ce7", "#b5651d", "#000000", "#00a8ff", "#9c88ff"),
)
DASHES = ("", "6 3", "2 2", "8 3 2 3")


@dataclass(frozen=True)
class Curve:
    """One method."""

    name: str  # for the legend
    found: Sequence[float]  # what the attack finds, in %
    accuracies: Sequence[float]  # in %, as many
    keeps: Sequence[str]  # the keep ratios, as many, as text


def chart(title: str, curves: Sequence[Curve]) -> str:
    """The SVG of some curves."""
    across = around("members found at 1 % false alarms, %", _all(curves, "found"), log=False)
    up = around("balanced accuracy, %", _all(curves, "accuracies"), log=False)
    frame = Frame(across, up, LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
        *frame.axes(),
        f'<text transform="translate(16 {(TOP + frame.bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(up.name)}</text>',
    ]
    for number, curve in enumerate(curves):
        parts += _line(curve, number, frame)
    return "\n".join([*parts, "</svg>", ""])


def _all(curves: Sequence[Curve], name: str) -> list[float]:
    return [value for curve in curves for value in getattr(curve, name)]


@dataclass(frozen=True)
class Frame:
    """Where the axes of a chart lie in its drawing."""

    across: Axis
    up: Axis
    left: float
    right: float
    top: float
    bottom: float

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Where a value is drawn."""
        return (
            self.left + self.across.place(x) * (self.right - self.left),
            self.bottom - self.up.place(y) * (self.bottom - self.top),
        )

    def axes(self) -> list[str]:
        """The grid, the numbers of both axes, and the name of the horizontal one."""
        parts = []
        for tick in self.across.ticks():
            x, y = self.point(tick, self.up.low)
            parts.append(f'<path d="M{x:.1f},{self.top}V{y:.1f}" stroke="#ddd"/>')
            place = f'x="{x:.1f}" y="{y + 14:.1f}" text-anchor="middle"'
            parts.append(f"<text {place}>{short(tick)}</text>")
        for tick in self.up.ticks():
            x, y = self.point(self.across.low, tick)
            parts.append(f'<path d="M{x:.1f},{y:.1f}H{self.right}" stroke="#ddd"/>')
            place = f'x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end"'
            parts.append(f"<text {place}>{short(tick)}</text>")
        place = f'x="{(self.left + self.right) / 2}" y="{self.bottom + 34}" text-anchor="middle"'
        return [*parts, f"<text {place}>{escape(self.across.name)}</text>"]


def _line(curve: Curve, number: int, frame: Frame) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    dash = DASHES[number // 4 % len(DASHES)]
    points = [frame.point(x, y) for x, y in zip(curve.found, curve.accuracies, strict=True)]
    path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    stroke = f'stroke="{colour}" stroke-dasharray="{dash}"'
    parts = [f'<path d="{path}" fill="none" {stroke} stroke-width="1.5"/>']
    for (x, y), keep in zip(points, curve.keeps, strict=True):
        note = escape(f"{curve.name}, {keep}")
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{note}</title>'
            f"</circle>"
        )
        parts.append(f'<text x="{x + 5:.1f}" y="{y - 4:.1f}" font-size="8">{escape(keep)}</text>')
    top, left = TOP + 8 + 17 * number, WIDTH - RIGHT + 16
    parts.append(f'<path d="M{left},{top}h24" {stroke} stroke-width="2"/>')
    parts.append(f'<text x="{left + 30}" y="{top + 4}">{escape(curve.name)}</text>')
    return parts
