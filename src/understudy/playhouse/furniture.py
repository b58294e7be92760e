"""What stands, lies and hangs in rooms: 1 wide, standing at (0, 0), x to the right, y down."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.playhouse.canvas import Canvas, rounded_rectangle
from understudy.playhouse.colours import Colour, darker, lighter
from understudy.playhouse.outline import DrawnFigure, Ink, shades
from understudy.playhouse.picture import FURNITURE_CLASSES, LAMP, PICTURE, PLANT, RUG

DrawFurniture = Callable[[Canvas, Colour, Colour, Ink], None]

SEATS: Mapping[str, float] = {"sofa": -0.235, "bed": -0.26, "table": -0.42, "shelf": -0.07}
"""Where things rest on a piece, as a part of its width."""


def _sofa(canvas: Canvas, colour: Colour, second: Colour, ink: Ink) -> None:
    main, shade, bright = shades(colour, ink)
    canvas.shadow(0.0, 0.0, 0.52, 0.03)
    figure = DrawnFigure(ink)
    figure.add(rounded_rectangle(-0.44, -0.56, 0.44, -0.1, 0.08), shade)
    figure.add(rounded_rectangle(-0.42, -0.27, 0.42, -0.15, 0.03), bright)
    figure.add(rounded_rectangle(-0.44, -0.17, 0.44, -0.03, 0.02), main)
    figure.add(rounded_rectangle(-0.52, -0.38, -0.37, -0.03, 0.06), main)
    figure.add(rounded_rectangle(0.37, -0.38, 0.52, -0.03, 0.06), main)
    figure.add([-0.46, -0.03, -0.40, -0.03, -0.41, 0.01, -0.45, 0.01], (74, 52, 40))
    figure.add([0.46, -0.03, 0.40, -0.03, 0.41, 0.01, 0.45, 0.01], (74, 52, 40))
    figure.draw(canvas)
    canvas.stroke((0.0, -0.54, 0.0, -0.18), darker(shade, 0.2), 0.012)
    canvas.polygon(rounded_rectangle(-0.36, -0.43, -0.2, -0.27, 0.04), second)


def _bed(canvas: Canvas, colour: Colour, second: Colour, ink: Ink) -> None:
    main, shade, bright = shades(colour, ink)
    canvas.shadow(0.0, 0.0, 0.52, 0.03)
    figure = DrawnFigure(ink)
    figure.add(rounded_rectangle(-0.53, -0.54, -0.45, 0.0, 0.03), second)
    figure.add(rounded_rectangle(0.46, -0.3, 0.53, 0.0, 0.03), second)
    figure.add([-0.47, -0.14, 0.48, -0.14, 0.48, -0.05, -0.47, -0.05], darker(second, 0.2))
    figure.add(rounded_rectangle(-0.46, -0.28, 0.47, -0.12, 0.03), (246, 244, 238))
    figure.add(rounded_rectangle(-0.45, -0.38, -0.24, -0.26, 0.05), (252, 252, 250))
    figure.add([-0.18, -0.30, 0.47, -0.30, 0.47, -0.09, -0.18, -0.09], main)
    figure.draw(canvas)
    canvas.box(-0.18, -0.30, -0.08, -0.09, bright)
    canvas.box(-0.08, -0.13, 0.47, -0.09, shade)


def _table(canvas: Canvas, colour: Colour, second: Colour, ink: Ink) -> None:
    main, shade, bright = shades(colour, ink)
    canvas.shadow(0.0, 0.0, 0.48, 0.03)
    figure = DrawnFigure(ink)
    for x in (-0.42, 0.35):
        figure.add([x, -0.42, x + 0.07, -0.42, x + 0.07, 0.0, x, 0.0], shade)
    figure.add([-0.44, -0.47, 0.44, -0.47, 0.5, -0.39, -0.5, -0.39], bright)
    figure.add([-0.5, -0.39, 0.5, -0.39, 0.5, -0.33, -0.5, -0.33], main)
    figure.draw(canvas)


def _lamp(canvas: Canvas, colour: Colour, second: Colour, ink: Ink) -> None:
    canvas.shadow(0.0, 0.0, 0.4, 0.07)
    kind = LAMP
    canvas.kind(None)
    canvas.ellipse(0.0, -2.75, 1.5, 1.3, (255, 236, 170), 38)
    canvas.ellipse(0.0, -2.75, 0.95, 0.85, (255, 236, 170), 50)
    canvas.kind(kind)
    figure = DrawnFigure(ink)
    figure.add([-0.05, -2.4, 0.05, -2.4, 0.05, 0.0, -0.05, 0.0], (74, 66, 66))
    figure.ellipse(0.0, -0.03, 0.32, 0.07, (74, 66, 66))
    figure.add([-0.3, -3.1, 0.3, -3.1, 0.52, -2.35, -0.52, -2.35], lighter(colour, 0.45))
    figure.draw(canvas)
    canvas.polygon((-0.12, -3.1, 0.14, -3.1, 0.24, -2.35, -0.2, -2.35), (255, 250, 224))


def _plant(canvas: Canvas, colour: Colour, second: Colour, ink: Ink) -> None:
    canvas.shadow(0.0, 0.0, 0.35, 0.06)
    leaf: Colour = (58, 134, 66)
    figure = DrawnFigure(ink)
    for angle, x, y in (
        (-1.0, -0.42, -1.0),
        (1.0, 0.42, -1.0),
        (-0.55, -0.30, -1.45),
        (0.55, 0.30, -1.42),
        (0.0, 0.0, -1.66),
        (-1.3, -0.36, -0.76),
        (1.3, 0.36, -0.78),
    ):
        green = leaf if abs(angle) > 0.6 else lighter(leaf, 0.14)
        figure.ellipse(x, y, 0.15, 0.42, green, angle)
    figure.add([-0.05, -1.4, 0.05, -1.4, 0.05, -0.5, -0.05, -0.5], darker(leaf, 0.3))
    figure.add([-0.34, -0.58, 0.34, -0.58, 0.24, 0.0, -0.24, 0.0], colour)
    figure.add([-0.38, -0.64, 0.38, -0.64, 0.38, -0.5, -0.38, -0.5], lighter(colour, 0.15))
    figure.draw(canvas)


def _rug(canvas: Canvas, colour: Colour, second: Colour, ink: Ink) -> None:
    canvas.ellipse(0.0, 0.0, 0.5, 0.13, colour)
    canvas.ellipse(0.0, 0.0, 0.42, 0.105, second)
    canvas.ellipse(0.0, 0.0, 0.36, 0.088, colour)


def _wall_picture(canvas: Canvas, colour: Colour, second: Colour, ink: Ink) -> None:
    figure = DrawnFigure(ink)
    figure.add([-0.5, -0.4, 0.5, -0.4, 0.5, 0.4, -0.5, 0.4], colour)
    figure.draw(canvas)
    canvas.box(-0.42, -0.32, 0.42, 0.32, lighter(second, 0.6))
    canvas.polygon(
        (-0.42, 0.1, -0.1, -0.16, 0.14, 0.08, 0.42, -0.04, 0.42, 0.32, -0.42, 0.32), second
    )


def _shelf(canvas: Canvas, colour: Colour, second: Colour, ink: Ink) -> None:
    figure = DrawnFigure(ink)
    figure.add([-0.5, -0.07, 0.5, -0.07, 0.5, 0.02, -0.5, 0.02], colour)
    figure.add([-0.38, 0.02, -0.3, 0.02, -0.3, 0.14, -0.38, 0.06], darker(colour, 0.25))
    figure.add([0.38, 0.02, 0.3, 0.02, 0.3, 0.14, 0.38, 0.06], darker(colour, 0.25))
    figure.draw(canvas)


PIECES: Mapping[str, tuple[int, DrawFurniture]] = {
    "sofa": (FURNITURE_CLASSES, _sofa),
    "bed": (FURNITURE_CLASSES, _bed),
    "table": (FURNITURE_CLASSES, _table),
    "shelf": (FURNITURE_CLASSES, _shelf),
    "lamp": (LAMP, _lamp),
    "plant": (PLANT, _plant),
    "rug": (RUG, _rug),
    "picture": (PICTURE, _wall_picture),
}
