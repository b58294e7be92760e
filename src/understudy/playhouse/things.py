"""The two small targets: a medicine bottle and a photo frame, both standing at (0, 0), 1 tall."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.playhouse.canvas import Canvas, Point, corners, rounded_rectangle
from understudy.playhouse.colours import Colour, darker, lighter
from understudy.playhouse.outline import DrawnFigure, Ink, shades
from understudy.playhouse.picture import BOTTLE, FRAME

BOTTLE_KEYPOINTS = ("cap", "label", "base")
FRAME_KEYPOINTS = ("top left", "top right", "bottom right", "bottom left")


@dataclass(frozen=True, slots=True)
class BottleLook:
    """Colours of a bottle, of its cap and of the mark on its label; how wide it is."""

    body: Colour
    cap: Colour
    mark: Colour = (200, 50, 50)
    wide: float = 0.29


@dataclass(frozen=True, slots=True)
class FrameLook:
    """Colour of a frame, of the sky and the hill in its photo; half its width."""

    border: Colour
    sky: Colour = (140, 190, 232)
    hill: Colour = (92, 150, 84)
    wide: float = 0.42


def draw_bottle(canvas: Canvas, look: BottleLook, ink: Ink, *, light: bool) -> dict[str, Point]:
    """A bottle; its points by name."""
    canvas.shadow(0.04, 0.0, look.wide + 0.06, 0.05, 80)
    canvas.kind(BOTTLE)
    wide = look.wide
    body, shade, bright = shades(look.body, ink)
    figure = DrawnFigure(ink, contrast=light)
    figure.add(rounded_rectangle(-wide, -0.70, wide, 0.0, 0.09, below=True), body)
    figure.add(
        [-wide * 0.6, -0.78, wide * 0.6, -0.78, wide * 0.6, -0.66, -wide * 0.6, -0.66], shade
    )
    figure.add(
        rounded_rectangle(-wide * 0.85, -1.0, wide * 0.85, -0.76, 0.04, below=True), look.cap
    )
    figure.draw(canvas)
    if max(look.cap) > 90:
        for x in (-0.5, -0.17, 0.17, 0.5):
            canvas.stroke((wide * x, -0.96, wide * x, -0.79), darker(look.cap, 0.3), 0.025)
    canvas.box(wide * 0.72, -0.62, wide * 0.95, -0.08, shade)
    label = (250, 248, 240) if min(look.body) < 200 else lighter(look.mark, 0.75)
    canvas.box(-wide, -0.54, wide, -0.16, label)
    canvas.box(-wide, -0.54, wide, -0.47, look.mark)
    canvas.box(-0.045, -0.43, 0.045, -0.20, look.mark)
    canvas.box(-0.115, -0.355, 0.115, -0.275, look.mark)
    canvas.box(-wide * 0.82, -0.64, -wide * 0.6, -0.57, lighter(bright, 0.4))
    return {"cap": (0.0, -0.88), "label": (0.0, -0.35), "base": (0.0, 0.0)}


def draw_frame(canvas: Canvas, look: FrameLook, ink: Ink, *, light: bool) -> dict[str, Point]:
    """A photo frame; its corners by name."""
    wide = look.wide
    canvas.shadow(0.05, -0.01, wide + 0.06, 0.04, 70)
    canvas.kind(FRAME)
    border, shade, _ = shades(look.border, ink)
    figure = DrawnFigure(ink, contrast=light)
    figure.add([-wide, -1.0, wide, -1.0, wide, 0.0, -wide, 0.0], border)
    figure.draw(canvas)
    edge = wide - 0.06
    outer = ((wide, -1.0), (wide, 0.0), (-wide, 0.0))
    canvas.polygon(corners(*outer, (-edge, -0.06), (edge, -0.06), (edge, -0.94)), shade)
    inner = wide - 0.11
    canvas.box(-inner, -0.89, inner, -0.11, (252, 250, 244))
    photo = inner - 0.05
    canvas.box(-photo, -0.84, photo, -0.16, look.sky)
    canvas.ellipse(photo * 0.4, -0.66, 0.08, 0.08, (252, 226, 110))
    ridge = ((-photo, -0.36), (-photo * 0.3, -0.56), (photo * 0.3, -0.34), (photo, -0.48))
    canvas.polygon(corners(*ridge, (photo, -0.16), (-photo, -0.16)), look.hill)
    return {
        "top left": (-wide, -1.0),
        "top right": (wide, -1.0),
        "bottom right": (wide, 0.0),
        "bottom left": (-wide, 0.0),
    }
