"""Figure 3 of SpinML as SVG: accuracy over each of four measures of what is disclosed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from understudy.report.plots import Axis, around, short

MEASURES = ("MI, target", "MI, background", "SIM, target", "SIM, background")
PANEL, HEIGHT, LEFT, TOP, BOTTOM = 270, 300, 48, 46, 40
COLOURS = ("#1b6ca8", "#c0392b", "#27ae60", "#8e44ad", "#d68910", "#16a085", "#2c3e50")


@dataclass(frozen=True)
class Point:
    """One preference."""

    name: str  # such as ``"(L0, L2)"``
    utility: float  # accuracy or AP50 on real photos, in [0, 1]
    disclosed: tuple[float, ...]  # its value of each of `MEASURES`


def trade_off_chart(title: str, points: Sequence[Point]) -> str:
    """The SVG of a task: four panels, further left is more private, higher is more useful."""
    up = around("real", [point.utility for point in points], log=False)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {4 * PANEL} {HEIGHT}" '
        'font-family="sans-serif" font-size="10">',
        f'<rect width="{4 * PANEL}" height="{HEIGHT}" fill="white"/>',
        f'<text x="12" y="18" font-size="13">{escape(title)}</text>',
    ]
    for number, measure in enumerate(MEASURES):
        across = around(measure, [point.disclosed[number] for point in points], log=False)
        parts.append(f'<g transform="translate({number * PANEL},0)">')
        parts += _axes(across, up, measure)
        for k, point in enumerate(points):
            x, y = _at(across, up, point.disclosed[number], point.utility)
            colour = COLOURS[k % len(COLOURS)]
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            parts.append(
                f'<text x="{x + 6:.1f}" y="{y - 4:.1f}" fill="{colour}">{escape(point.name)}</text>'
            )
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _at(across: Axis, up: Axis, x: float, y: float) -> tuple[float, float]:
    wide, tall = PANEL - LEFT - 20, HEIGHT - TOP - BOTTOM
    return LEFT + across.place(x) * wide, HEIGHT - BOTTOM - up.place(y) * tall


def _axes(across: Axis, up: Axis, measure: str) -> list[str]:
    parts = []
    for tick in across.ticks():
        x, y = _at(across, up, tick, up.low)
        parts.append(f'<path d="M{x:.1f},{TOP}V{y:.1f}" stroke="#e4e4e4"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{y + 13:.1f}" text-anchor="middle">{short(tick)}</text>'
        )
    for tick in up.ticks():
        x, y = _at(across, up, across.low, tick)
        parts.append(f'<path d="M{x:.1f},{y:.1f}H{PANEL - 20}" stroke="#e4e4e4"/>')
        parts.append(
            f'<text x="{x - 5:.1f}" y="{y + 3:.1f}" text-anchor="end">{short(tick)}</text>'
        )
    middle = (LEFT + PANEL - 20) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{measure}</text>')
    return parts
