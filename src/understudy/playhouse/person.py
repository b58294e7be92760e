"""A person who eats, drinks, walks or reads: 1 tall, the feet at y = 0, x to the right, y down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.playhouse.canvas import Canvas, Point
from understudy.playhouse.colours import Colour, darker, lighter
from understudy.playhouse.outline import DrawnFigure, Ink, shades
from understudy.playhouse.picture import FURNITURE_CLASSES, PERSON, PROP

_JOINTS: Mapping[str, tuple[Point, ...]] = {
    "head": ((0.00, -0.86), (0.00, -0.87), (0.04, -0.87), (0.00, -0.87)),
    "neck": ((0.00, -0.74), (0.00, -0.75), (0.01, -0.75), (0.00, -0.75)),
    "left shoulder": ((-0.14, -0.69), (-0.13, -0.70), (-0.02, -0.69), (-0.14, -0.70)),
    "right shoulder": ((0.14, -0.69), (0.13, -0.70), (0.02, -0.69), (0.14, -0.70)),
    "left elbow": ((-0.23, -0.50), (-0.19, -0.54), (0.13, -0.56), (-0.23, -0.52)),
    "right elbow": ((0.31, -0.52), (0.33, -0.68), (-0.15, -0.57), (0.23, -0.52)),
    "left wrist": ((-0.15, -0.42), (-0.18, -0.38), (0.27, -0.50), (-0.18, -0.50)),
    "right wrist": ((0.26, -0.73), (0.17, -0.84), (-0.22, -0.42), (0.18, -0.50)),
    "left hip": ((-0.09, -0.34), (-0.07, -0.42), (-0.02, -0.42), (-0.08, -0.40)),
    "right hip": ((0.09, -0.34), (0.07, -0.42), (0.01, -0.42), (0.08, -0.40)),
    "left knee": ((-0.12, -0.26), (-0.08, -0.22), (-0.10, -0.22), (-0.09, -0.22)),
    "right knee": ((0.12, -0.26), (0.08, -0.22), (0.16, -0.25), (0.09, -0.22)),
    "left ankle": ((-0.12, -0.02), (-0.08, -0.02), (-0.26, -0.07), (-0.09, -0.02)),
    "right ankle": ((0.12, -0.02), (0.08, -0.02), (0.25, -0.03), (0.09, -0.02)),
}
"""Where each joint is: eating, drinking, walking, reading."""
PERSON_POSES: Mapping[str, Mapping[str, Point]] = {
    status: {joint: points[number] for joint, points in _JOINTS.items()}
    for number, status in enumerate(("eating", "drinking", "walking", "reading"))
}
SEATED: Mapping[str, Point] = {
    "left hip": (-0.09, -0.33),
    "right hip": (0.09, -0.33),
    "left knee": (-0.14, -0.27),
    "right knee": (0.14, -0.27),
}
PERSON_STATUSES = tuple(PERSON_POSES)
PERSON_KEYPOINTS = tuple(PERSON_POSES["eating"])


@dataclass(frozen=True, slots=True)
class PersonLook:
    """What makes one person look like themself.

    Attributes:
        cut: ``"short"``, ``"long"`` or ``"bun"``.
        head: Size of the head, about 1.
        build: Thickness of body and limbs, about 1.
        stripes: Colour of stripes on the shirt; None: plain.
        toy: Colour of the cup and of the book's cover.
    """

    shirt: Colour
    trousers: Colour
    hair: Colour
    skin: Colour
    cut: str = "short"
    head: float = 1.0
    build: float = 1.0
    stripes: Colour | None = None
    toy: Colour = (224, 52, 50)
    wood: Colour = (150, 100, 62)


def draw_person(
    canvas: Canvas, status: str, look: PersonLook, ink: Ink, *, light: bool, seated: bool = False
) -> dict[str, Point]:
    """Draw a person at the canvas's place; their joints by name, in their own coordinates."""
    pose = {**PERSON_POSES[status], **SEATED} if seated else PERSON_POSES[status]
    if not seated and status != "eating":
        canvas.shadow(0.0, 0.0, 0.24 if status == "walking" else 0.18, 0.022, 80)
    canvas.kind(PERSON)
    figure = DrawnFigure(ink, contrast=light)
    if look.cut == "long":
        x, y = pose["head"]
        figure.limb((x, y), 0.12 * look.head, (x - 0.01, y + 0.16), 0.10 * look.head, look.hair)
    _legs(figure, pose, look, ink)
    if status == "walking":
        _arm(figure, pose, look, "left", ink)
    _torso(figure, status, pose, look)
    figure.draw(canvas)
    _head(canvas, status, pose["head"], look, ink, light=light)
    over = DrawnFigure(ink, contrast=light)
    if status == "eating":
        _table(canvas, look, ink)
        canvas.kind(PERSON)
    if status == "reading":
        _book(canvas, look, ink)
        canvas.kind(PERSON)
    if status != "walking":
        _arm(over, pose, look, "left", ink)
    _arm(over, pose, look, "right", ink)
    over.draw(canvas)
    if status in ("eating", "drinking"):
        _held(canvas, status, pose["right wrist"], look, ink)
    return dict(pose)


def _legs(figure: DrawnFigure, pose: Mapping[str, Point], look: PersonLook, ink: Ink) -> None:
    colour, shade, _ = shades(look.trousers, ink)
    thick = look.build
    for side, dye in (("left", shade), ("right", colour)):
        hip, knee, ankle = (pose[f"{side} {joint}"] for joint in ("hip", "knee", "ankle"))
        x, y = ankle
        toe = 0.07 if abs(pose["right ankle"][0] - pose["left ankle"][0]) > 0.3 else 0.0
        figure.limb((x, y), 0.038, (x + toe + 0.01, y + 0.008), 0.034, (58, 44, 44))
        figure.chain([hip, knee, (x, y - 0.02)], [0.085 * thick, 0.062 * thick, 0.048 * thick], dye)


def _torso(figure: DrawnFigure, status: str, pose: Mapping[str, Point], look: PersonLook) -> None:
    left, right = pose["left shoulder"], pose["right shoulder"]
    thick = 0.075 * look.build
    x = (pose["left hip"][0] + pose["right hip"][0]) / 2
    y = pose["left hip"][1]
    nx, ny = pose["neck"]
    figure.limb((nx, ny + 0.03), 0.045, (nx, ny - 0.05), 0.045, darker(look.skin, 0.12))
    half = 0.035 if status == "walking" else 0.075
    figure.limb(left, thick, right, thick, look.shirt)
    wide = thick + (0.045 if status == "walking" else 0.0)
    figure.limb((left[0], left[1]), wide, (x - half, y - 0.02), thick, look.shirt)
    figure.limb((right[0], right[1]), wide, (x + half, y - 0.02), thick, look.shirt)
    figure.limb((x, left[1]), 0.09 * look.build, (x, y - 0.02), 0.09 * look.build, look.shirt)
    if look.stripes is not None:
        arm_reach = 0.12 if status == "walking" else 0.17
        for row in range(3):
            top = left[1] + 0.01 + 0.085 * row
            figure.limb((x - arm_reach, top), 0.014, (x + arm_reach, top), 0.014, look.stripes)


def _arm(
    figure: DrawnFigure, pose: Mapping[str, Point], look: PersonLook, side: str, ink: Ink
) -> None:
    shoulder, elbow, wrist = (pose[f"{side} {joint}"] for joint in ("shoulder", "elbow", "wrist"))
    _, shade, _ = shades(look.shirt, ink)
    thick = look.build
    figure.limb(shoulder, 0.058 * thick, elbow, 0.048 * thick, shade)
    figure.limb(elbow, 0.048 * thick, wrist, 0.042 * thick, shade)
    figure.ellipse(*wrist, 0.044, 0.044, look.skin)


def _head(
    canvas: Canvas, status: str, at: Point, look: PersonLook, ink: Ink, *, light: bool
) -> None:
    x, y = at
    size = look.head
    figure = DrawnFigure(ink, contrast=light and max(look.hair) < 120)
    side = 0.03 if status == "walking" else 0.0
    if look.cut == "bun":
        figure.ellipse(x - side * 2, y - 0.13 * size, 0.055, 0.05, look.hair)
    figure.ellipse(x - side, y - 0.025, 0.118 * size, 0.122 * size, look.hair)
    figure.ellipse(x + side, y + 0.015, 0.098 * size, 0.102 * size, look.skin)
    if side:
        figure.ellipse(x + 0.125 * size, y + 0.02, 0.022, 0.02, look.skin)
    figure.draw(canvas)
    fringe = 0.03 if look.cut != "short" else 0.045
    canvas.ellipse(x - side, y - 0.085 * size, 0.105 * size, fringe + 0.01, look.hair)
    dark: Colour = (34, 24, 28)
    eyes = (0.07,) if side else (-0.042, 0.042)
    drop = 0.03 if status == "reading" else 0.012
    for off in eyes:
        if status == "reading":
            canvas.stroke((x + off - 0.02, y + drop, x + off + 0.02, y + drop), dark, 0.02)
        else:
            canvas.ellipse(x + off, y + drop, 0.016, 0.02, dark)
    if status in ("walking", "reading"):
        mouth = 0.07 if side else 0.0
        canvas.stroke(
            (x + mouth - 0.025, y + 0.068, x + mouth + 0.02, y + 0.068), (150, 60, 60), 0.016
        )


def _table(canvas: Canvas, look: PersonLook, ink: Ink) -> None:
    """The table that an eater sits at, and the plate."""
    canvas.kind(FURNITURE_CLASSES)
    top, shade, bright = shades(look.wood, ink)
    figure = DrawnFigure(ink)
    figure.add([-0.42, -0.34, -0.34, -0.34, -0.34, 0.0, -0.42, 0.0], shade)
    figure.add([0.34, -0.34, 0.42, -0.34, 0.42, 0.0, 0.34, 0.0], shade)
    figure.add([-0.44, -0.43, 0.44, -0.43, 0.50, -0.34, -0.50, -0.34], bright)
    figure.add([-0.50, -0.34, 0.50, -0.34, 0.50, -0.28, -0.50, -0.28], top)
    figure.draw(canvas)
    canvas.kind(PROP)
    plate = DrawnFigure(ink)
    plate.ellipse(0.02, -0.395, 0.17, 0.04, (248, 248, 250))
    plate.draw(canvas)
    canvas.ellipse(0.02, -0.415, 0.095, 0.045, (220, 110, 50))
    canvas.ellipse(0.06, -0.425, 0.05, 0.03, (96, 160, 60))


def _book(canvas: Canvas, look: PersonLook, ink: Ink) -> None:
    canvas.kind(PROP)
    figure = DrawnFigure(ink)
    figure.add(
        [-0.21, -0.61, 0.0, -0.57, 0.21, -0.61, 0.21, -0.39, 0.0, -0.35, -0.21, -0.39], look.toy
    )
    figure.draw(canvas)
    page: Colour = (252, 250, 242)
    canvas.polygon((-0.19, -0.63, 0.0, -0.58, 0.0, -0.385, -0.19, -0.425), page)
    canvas.polygon((0.19, -0.63, 0.0, -0.58, 0.0, -0.385, 0.19, -0.425), page)
    edge = (-0.19, -0.63, 0.0, -0.58, 0.19, -0.63, 0.19, -0.425, 0.0, -0.385, -0.19, -0.425)
    canvas.rim(edge, (70, 60, 64), 0.7, 200)
    canvas.stroke((0.0, -0.58, 0.0, -0.37), (120, 110, 110), 0.018)
    for row in range(3):
        y = -0.57 + 0.045 * row
        canvas.stroke((-0.16, y, -0.03, y + 0.03), (150, 148, 150), 0.012)
        canvas.stroke((0.16, y, 0.03, y + 0.03), (150, 148, 150), 0.012)


def _held(canvas: Canvas, status: str, wrist: Point, look: PersonLook, ink: Ink) -> None:
    """The fork on its way to the mouth, or the cup at it."""
    canvas.kind(PROP)
    x, y = wrist
    if status == "eating":
        metal: Colour = (222, 226, 232)
        fork = (x + 0.03, y + 0.04, x - 0.15, y - 0.06)
        canvas.stroke(fork, (60, 56, 64), 0.046)
        canvas.stroke(fork, metal, 0.034)
        bite = DrawnFigure(ink)
        bite.ellipse(x - 0.16, y - 0.065, 0.03, 0.027, (224, 120, 50))
        bite.draw(canvas)
        canvas.kind(PERSON)
        canvas.ellipse(x + 0.005, y + 0.005, 0.044, 0.044, look.skin)
        return
    figure = DrawnFigure(ink)
    figure.add(
        [x - 0.15, y - 0.02, x - 0.03, y - 0.10, x + 0.03, y + 0.0, x - 0.07, y + 0.07], look.toy
    )
    figure.draw(canvas)
    canvas.polygon(
        (x - 0.15, y - 0.02, x - 0.13, y - 0.035, x - 0.05, y + 0.055, x - 0.07, y + 0.07),
        lighter(look.toy, 0.5),
    )
    canvas.kind(PERSON)
    canvas.ellipse(x + 0.01, y + 0.0, 0.044, 0.044, look.skin)
