"""Walls, floors, windows and what stands in a room. x to the right, y down, the frame is 0 to 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from understudy.playhouse.canvas import Canvas, corners
from understudy.playhouse.colours import Colour, darker, lighter, mix
from understudy.playhouse.furniture import PIECES
from understudy.playhouse.outline import Ink
from understudy.playhouse.picture import FLOOR, FURNITURE_CLASSES, WALL, WINDOW

SKIES: Mapping[str, tuple[Colour, Colour]] = {
    "day": ((150, 204, 244), (214, 236, 250)),
    "sunset": ((236, 138, 92), (250, 206, 134)),
    "night": ((26, 34, 72), (52, 62, 108)),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that stands, lies or hangs in a room.

    Attributes:
        name: ``"bed"``, ``"sofa"``, ``"table"``, ``"lamp"``, ``"plant"``, ``"rug"``,
            ``"picture"`` or ``"shelf"``.
        y: Where it stands; the middle of what hangs.
    """

    name: str
    x: float
    y: float
    width: float
    colour: Colour
    second: Colour


@dataclass(frozen=True, slots=True)
class Room:
    """What a room looks like.

    Attributes:
        paper: ``"plain"``, ``"striped"``, ``"panelled"``, ``"dotted"`` or ``"checked"``.
        floor: ``"wooden"``, ``"tiled"`` or ``"carpet"``.
        window: ``"day"``, ``"sunset"``, ``"night"``; None: no window.
        curtain: Colour of curtains; None: none.
        pieces: What is in the room, what is behind first.
    """

    wall: Colour
    paper: str
    floor: str
    ground: Colour
    horizon: float
    window: str | None
    window_x: float
    curtain: Colour | None
    pieces: tuple[Piece, ...]


def draw_room(canvas: Canvas, room: Room, ink: Ink) -> None:
    """Draw a room without its targets."""
    canvas.set_transform(None)
    canvas.kind(WALL)
    PAPERS[room.paper](canvas, room)
    if room.window is not None:
        _window(canvas, room, ink)
    _floor(canvas, room)
    for piece in room.pieces:
        kind, draw = PIECES[piece.name]
        canvas.kind(kind)
        canvas.set_transform((piece.width, 0, piece.x, 0, piece.width, piece.y))
        draw(canvas, piece.colour, piece.second, ink)
    canvas.set_transform(None)
    canvas.kind(FURNITURE_CLASSES)


def _plain(canvas: Canvas, room: Room) -> None:
    canvas.box(-0.5, -0.5, 1.5, room.horizon, room.wall)


def _striped(canvas: Canvas, room: Room) -> None:
    _plain(canvas, room)
    stripe = darker(room.wall, 0.09)
    for number in range(-3, 12):
        left = number * 0.13
        canvas.box(left, -0.5, left + 0.055, room.horizon, stripe)


def _panelled(canvas: Canvas, room: Room) -> None:
    _plain(canvas, room)
    top = room.horizon - 0.24
    canvas.box(-0.5, top, 1.5, room.horizon, darker(room.wall, 0.14))
    canvas.box(-0.5, top - 0.025, 1.5, top, lighter(room.wall, 0.35))
    for number in range(-2, 6):
        left = number * 0.25
        canvas.box(left, top + 0.04, left + 0.2, room.horizon - 0.05, darker(room.wall, 0.05))


def _dotted(canvas: Canvas, room: Room) -> None:
    _plain(canvas, room)
    dot = lighter(room.wall, 0.4)
    for row in range(8):
        for column in range(-1, 9):
            x = column * 0.14 + (0.07 if row % 2 else 0.0)
            canvas.box(x, row * 0.11 - 0.08, x + 0.035, row * 0.11 - 0.045, dot)


def _checked(canvas: Canvas, room: Room) -> None:
    _plain(canvas, room)
    band = darker(room.wall, 0.25)
    for number in range(-2, 9):
        start, end = number * 0.16, number * 0.16 + 0.06
        canvas.box(start, -0.5, end, room.horizon, band, 120)
        if end < room.horizon:
            canvas.box(-0.5, start, 1.5, end, band, 120)


PAPERS: Mapping[str, Callable[[Canvas, Room], None]] = {
    "plain": _plain,
    "striped": _striped,
    "panelled": _panelled,
    "dotted": _dotted,
    "checked": _checked,
}


def _floor(canvas: Canvas, room: Room) -> None:
    canvas.kind(FLOOR)
    top, ground = room.horizon, room.ground
    canvas.box(-0.5, top, 1.5, 1.5, ground)
    if room.floor == "wooden":
        line = darker(ground, 0.22)
        for row, depth in enumerate((0.06, 0.14, 0.25, 0.40)):
            canvas.stroke((-0.5, top + depth, 1.5, top + depth), line, 0.009)
            below = (0.0, 0.06, 0.14, 0.25, 0.40)[row]
            for column in range(-1, 3):
                x = column * 0.55 + (0.25 if row % 2 else 0.05)
                canvas.stroke((x, top + below, x, top + depth), line, 0.009)
    elif room.floor == "tiled":
        line = lighter(ground, 0.45)
        for depth in (0.07, 0.16, 0.28, 0.44):
            canvas.stroke((-0.5, top + depth, 1.5, top + depth), line, 0.013)
        for column in range(-4, 5):
            canvas.stroke((0.5 + column * 0.17, top, 0.5 + column * 0.36, top + 0.5), line, 0.013)
    else:
        canvas.polygon(
            (-0.5, top, 1.5, top, 1.5, top + 0.09, -0.5, top + 0.09), darker(ground, 0.3), 60
        )
    skirting = mix(lighter(room.wall, 0.5), (255, 255, 255), 0.2)
    canvas.kind(WALL)
    canvas.box(-0.5, top - 0.03, 1.5, top, skirting)


def _window(canvas: Canvas, room: Room, ink: Ink) -> None:
    high, low = SKIES[room.window or "day"]
    x, top, half, tall = room.window_x, 0.09, 0.14, 0.30
    canvas.kind(WINDOW)
    canvas.box(x - half - 0.02, top - 0.02, x + half + 0.02, top + tall + 0.02, (246, 244, 238))
    canvas.box(x - half, top, x + half, top + tall, high)
    canvas.box(x - half, top + tall * 0.55, x + half, top + tall, low)
    if room.window == "night":
        canvas.ellipse(x + 0.06, top + 0.08, 0.035, 0.035, (250, 244, 206))
        for dx, dy in ((-0.08, 0.06), (-0.05, 0.16), (0.08, 0.2)):
            canvas.ellipse(x + dx, top + dy, 0.009, 0.009, (240, 240, 250))
    elif room.window == "day":
        canvas.ellipse(x - 0.05, top + 0.1, 0.055, 0.025, (250, 252, 255))
        canvas.ellipse(x + 0.06, top + 0.17, 0.05, 0.022, (250, 252, 255))
    else:
        canvas.ellipse(x + 0.03, top + 0.2, 0.05, 0.05, (252, 240, 170))
    white: Colour = (246, 244, 238)
    canvas.box(x - 0.009, top, x + 0.009, top + tall, white)
    canvas.box(x - half, top + tall * 0.48, x + half, top + tall * 0.48 + 0.018, white)
    canvas.box(x - half - 0.04, top + tall + 0.02, x + half + 0.04, top + tall + 0.045, white)
    if room.curtain is not None:
        for side in (-1, 1):
            edge = x + side * (half + 0.05)
            inner = x + side * (half - 0.045)
            fold = (x + side * (half - 0.02), top + tall * 0.6)
            hem = (edge, top + tall + 0.06)
            cloth = corners((edge, top - 0.05), (inner, top - 0.05), fold, hem)
            canvas.polygon(cloth, room.curtain)
