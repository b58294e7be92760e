"""Shapes of one thing, drawn together: first one outline around all of them, then each."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.playhouse.canvas import Canvas, Point, circle, limb
from understudy.playhouse.colours import Colour, darker, lighter


@dataclass(frozen=True, slots=True)
class Ink:
    """How lines and shades are drawn.

    Attributes:
        style: ``"flat"``, ``"outlined"`` or ``"soft"``.
        width: Their width in pixels at 64 pixels a side.
    """

    style: str = "flat"
    line: Colour = (38, 30, 36)
    width: float = 1.0


class DrawnFigure:
    """The shapes of a thing; ``draw`` puts them on a canvas with one outline around them all.

    With ``contrast`` the outline is light: it stands out from a dark ground.
    """

    def __init__(self, ink: Ink, *, contrast: bool = False) -> None:
        self._ink = ink
        self._contrast = contrast
        self._shapes: list[tuple[list[float], Colour]] = []

    def add(self, corners: list[float], colour: Colour) -> None:
        """One more shape, over those before it."""
        self._shapes.append((corners, colour))

    def limb(self, start: Point, first: float, end: Point, last: float, colour: Colour) -> None:
        """A tapering limb."""
        self._shapes.append((limb(start, first, end, last), colour))

    def chain(self, points: list[Point], radii: list[float], colour: Colour) -> None:
        """Limbs from point to point."""
        for index in range(len(points) - 1):
            self.limb(points[index], radii[index], points[index + 1], radii[index + 1], colour)

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, colour: Colour, angle: float = 0.0
    ) -> None:
        """An ellipse, turned by ``angle``."""
        self._shapes.append((circle(x, y, rx, ry, angle), colour))

    def draw(self, canvas: Canvas) -> None:
        """Put everything on the canvas."""
        ink = self._ink
        if ink.style == "outlined":
            line, width, opacity = ink.line, 2.2 * ink.width, 255
        else:
            line, width, opacity = ink.line, 1.3 * ink.width, 150
        if self._contrast:
            line, opacity = (250, 248, 240), 230
        for corners, _ in self._shapes:
            canvas.rim(corners, line, width, opacity)
        for corners, colour in self._shapes:
            canvas.polygon(corners, colour)


def shades(colour: Colour, ink: Ink) -> tuple[Colour, Colour, Colour]:
    """The colour, its shade and its light, as far apart as the style wants them."""
    if ink.style == "soft":
        return colour, darker(colour, 0.28), lighter(colour, 0.22)
    return colour, darker(colour, 0.18), lighter(colour, 0.12)
