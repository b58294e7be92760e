"""Figure 3 of SpinML as SVG: accuracy over each of four measures of what is disclosed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.selection_chart import Frame
from understudy.report.plots import around

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
        frame = Frame(across, up, LEFT, PANEL - 20, TOP, HEIGHT - BOTTOM)
        parts += frame.axes()
        for k, point in enumerate(points):
            x, y = frame.point(point.disclosed[number], point.utility)
            colour = COLOURS[k % len(COLOURS)]
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            parts.append(
                f'<text x="{x + 6:.1f}" y="{y - 4:.1f}" fill="{colour}">{escape(point.name)}</text>'
            )
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])
