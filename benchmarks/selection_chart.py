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
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
        *_axes(across, up),
    ]
    for number, curve in enumerate(curves):
        parts += _line(curve, number, across, up)
    return "\n".join([*parts, "</svg>", ""])


def _all(curves: Sequence[Curve], name: str) -> list[float]:
    return [value for curve in curves for value in getattr(curve, name)]


def _point(across: Axis, up: Axis, x: float, y: float) -> tuple[float, float]:
    return (
        LEFT + across.place(x) * (WIDTH - LEFT - RIGHT),
        HEIGHT - BOTTOM - up.place(y) * (HEIGHT - TOP - BOTTOM),
    )


def _axes(across: Axis, up: Axis) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for tick in across.ticks():
        x, _ = _point(across, up, tick, up.low)
        parts.append(f'<path d="M{x:.1f},{TOP}V{bottom}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{short(tick)}</text>'
        )
    for tick in up.ticks():
        _, y = _point(across, up, across.low, tick)
        parts.append(f'<path d="M{LEFT},{y:.1f}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    middle = (LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">{escape(across.name)}</text>'
    )
    parts.append(
        f'<text transform="translate(16 {(TOP + bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(up.name)}</text>'
    )
    return parts


def _line(curve: Curve, number: int, across: Axis, up: Axis) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    dash = DASHES[number // 4 % len(DASHES)]
    points = [_point(across, up, x, y) for x, y in zip(curve.found, curve.accuracies, strict=True)]
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
