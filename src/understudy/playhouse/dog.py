"""A dog that eats, sits, sleeps or plays: seen from the side, facing right, 1 long.

Coordinates: x to the right, y down, the ground at y = 0 under the middle of the dog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.playhouse.canvas import Canvas, Point
from understudy.playhouse.colours import Colour, darker, lighter
from understudy.playhouse.outline import DrawnFigure, Ink, shades
from understudy.playhouse.picture import DOG, PROP

DOG_KEYPOINTS = (
    *("nose", "eye", "ear", "neck", "shoulder", "hip", "tail"),
    *("front paw", "other front paw", "rear paw", "other rear paw"),
)
_JOINTS: Mapping[str, tuple[Point, ...]] = {
    "hip": ((-0.16, -0.19), (-0.30, -0.45), (-0.22, -0.17), (-0.28, -0.42)),
    "shoulder": ((0.09, -0.46), (0.05, -0.42), (0.10, -0.17), (0.07, -0.54)),
    "head": ((0.17, -0.76), (0.29, -0.27), (0.31, -0.15), (0.24, -0.74)),
    "snout": ((0.35, -0.71), (0.40, -0.14), (0.45, -0.075), (0.40, -0.78)),
    "front paw": ((0.20, -0.04), (0.10, -0.03), (0.42, -0.03), (0.42, -0.40)),
    "other front paw": ((0.11, -0.04), (0.00, -0.04), (0.32, -0.03), (0.34, -0.28)),
    "rear paw": ((0.00, -0.04), (-0.34, -0.03), (-0.02, -0.04), (-0.56, -0.16)),
    "other rear paw": ((-0.06, -0.05), (-0.24, -0.04), (-0.06, -0.04), (-0.42, -0.10)),
    "front knee": ((0.17, -0.24), (0.09, -0.22), (0.22, -0.05), (0.24, -0.42)),
    "other front knee": ((0.08, -0.24), (0.00, -0.22), (0.18, -0.06), (0.18, -0.34)),
    "rear knee": ((-0.02, -0.20), (-0.36, -0.23), (-0.14, -0.07), (-0.40, -0.26)),
    "other rear knee": ((-0.08, -0.20), (-0.25, -0.23), (-0.16, -0.08), (-0.28, -0.22)),
    "tail middle": ((-0.40, -0.06), (-0.48, -0.62), (-0.46, -0.08), (-0.46, -0.60)),
    "tail": ((-0.52, -0.22), (-0.50, -0.80), (-0.30, -0.03), (-0.54, -0.78)),
}
"""Where each joint is: sitting, eating, sleeping, playing."""
DOG_POSES: Mapping[str, Mapping[str, Point]] = {
    status: {joint: points[number] for joint, points in _JOINTS.items()}
    for number, status in enumerate(("sitting", "eating", "sleeping", "playing"))
}
_SPOTS = (
    (-0.1, -0.03, 0.085, 0.07),
    (0.35, 0.05, 0.065, 0.055),
    (0.65, -0.06, 0.085, 0.065),
    (1.05, 0.05, 0.06, 0.07),
    (0.3, -0.1, 0.045, 0.035),
)
"""Part of the way from hip to shoulder, height off it, and radii of each spot."""
DOG_STATUSES = ("eating", "sitting", "sleeping", "playing")


@dataclass(frozen=True, slots=True)
class DogLook:
    """What makes one dog look like itself.

    Attributes:
        ears: ``"hanging"`` or ``"pointed"``.
        head: Size of the head, about 1.
        legs: Thickness of the legs and tail, about 1.
        body: Thickness of the body, about 1.
        pattern_colour: Colour of the pattern on the fur; None: one colour.
        pattern: ``"spotted"`` or ``"patched"``, where there is such a pattern.
        collar: Colour of a collar; None: none.
    """

    coat: Colour
    ears: str = "hanging"
    head: float = 1.0
    legs: float = 1.0
    body: float = 1.0
    pattern_colour: Colour | None = None
    pattern: str = "spotted"
    collar: Colour | None = None
    toy: Colour = (224, 52, 50)
    muzzle: float = 0.2


def draw_dog(
    canvas: Canvas, status: str, look: DogLook, ink: Ink, *, light: bool
) -> dict[str, Point]:
    """Draw a dog at the canvas's place; its joints by name, in its own coordinates."""
    pose = DOG_POSES[status]
    if status == "playing":
        canvas.shadow(0.0, 0.05, 0.36, 0.045, 80)
    else:
        canvas.shadow(0.0, 0.0, 0.46, 0.05, 70)
    canvas.kind(DOG)
    coat, shade, _ = shades(look.coat, ink)
    figure = DrawnFigure(ink, contrast=light)
    _behind(figure, pose, look, shade)
    _body(figure, status, pose, look)
    _front(figure, pose, look, coat)
    if look.pattern_colour is not None:
        _patches(figure, pose, look, look.pattern_colour)
    eye, ear = _head(figure, status, pose, look)
    figure.draw(canvas)
    _face(canvas, status, pose, look, eye)
    _props(canvas, status, look, ink)
    x, y = pose["snout"]
    nose = (x + 0.055 * look.head, y - 0.02) if status != "eating" else (x + 0.04, y + 0.04)
    neck = _between(pose["shoulder"], pose["head"], 0.5)
    return {**pose, "nose": nose, "eye": eye, "ear": ear, "neck": neck}


def _between(start: Point, end: Point, part: float) -> Point:
    return start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part


def _behind(figure: DrawnFigure, pose: Mapping[str, Point], look: DogLook, shade: Colour) -> None:
    """The tail and the legs of the far side."""
    thick = look.legs
    tail = [pose["hip"], pose["tail middle"], pose["tail"]]
    figure.chain(tail, [0.07 * thick, 0.05 * thick, 0.028 * thick], shade)
    far = [pose["shoulder"], pose["other front knee"], pose["other front paw"]]
    figure.chain(far, [0.08, 0.052 * thick, 0.045 * thick], shade)
    far = [pose["hip"], pose["other rear knee"], pose["other rear paw"]]
    figure.chain(far, [0.1, 0.06 * thick, 0.045 * thick], shade)


def _body(figure: DrawnFigure, status: str, pose: Mapping[str, Point], look: DogLook) -> None:
    coat, thick = look.coat, look.body
    hip, shoulder = pose["hip"], pose["shoulder"]
    rear = {"sitting": 0.19, "sleeping": 0.17}.get(status, 0.135) * thick
    fore = {"sitting": 0.135, "sleeping": 0.15}.get(status, 0.145) * thick
    if status == "sleeping":  # the back is higher than a mere hull would be
        figure.ellipse(-0.07, -0.19, 0.32, 0.17 * thick, coat)
    figure.limb(hip, rear, shoulder, fore, coat)
    figure.limb(shoulder, fore * 0.85, pose["head"], 0.10 * look.head, coat)
    if look.muzzle > 0.3 and status in ("sitting", "playing"):
        chest = _between(shoulder, pose["head"], 0.15)
        figure.ellipse(chest[0] + 0.05, chest[1] + 0.06, 0.07, 0.11, lighter(coat, look.muzzle))


def _front(figure: DrawnFigure, pose: Mapping[str, Point], look: DogLook, coat: Colour) -> None:
    """The legs of the near side."""
    thick = look.legs
    near = [pose["hip"], pose["rear knee"], pose["rear paw"]]
    figure.chain(near, [0.125, 0.075 * thick, 0.05 * thick], coat)
    x, y = pose["rear paw"]
    figure.limb((x - 0.01, y), 0.045 * thick, (x + 0.05, y + 0.005), 0.04 * thick, coat)
    near = [pose["shoulder"], pose["front knee"], pose["front paw"]]
    figure.chain(near, [0.095, 0.058 * thick, 0.048 * thick], coat)
    x, y = pose["front paw"]
    figure.limb((x, y), 0.045 * thick, (x + 0.05, y + 0.005), 0.04 * thick, coat)


def _patches(figure: DrawnFigure, pose: Mapping[str, Point], look: DogLook, colour: Colour) -> None:
    hip, shoulder = pose["hip"], pose["shoulder"]
    if look.pattern == "patched":  # a saddle on the back and a sock on a front leg
        back, end = _between(hip, shoulder, 0.1), _between(hip, shoulder, 0.75)
        figure.limb(back, 0.105, end, 0.11, colour)
        sock = _between(pose["front paw"], pose["front knee"], 0.45)
        figure.limb(pose["front paw"], 0.05, sock, 0.05, colour)
        return
    for part, lift, rx, ry in _SPOTS:
        x, y = _between(hip, shoulder, part)
        figure.ellipse(x, y + lift, rx, ry, colour)


def _head(
    figure: DrawnFigure, status: str, pose: Mapping[str, Point], look: DogLook
) -> tuple[Point, Point]:
    """The head; where its eye and its ear are."""
    coat, size = look.coat, look.head
    x, y = pose["head"]
    snout = pose["snout"]
    figure.ellipse(x, y, 0.155 * size, 0.145 * size, coat)
    pale = lighter(coat, look.muzzle)
    figure.limb(_between((x, y), snout, 0.35), 0.085 * size, snout, 0.06 * size, pale)
    along = 1 if status != "eating" else 0
    eye = (x + (0.06 if along else 0.075) * size, y - (0.045 if along else -0.005) * size)
    dark = darker(coat, 0.3) if max(coat) > 80 else lighter(coat, 0.16)
    if look.ears == "pointed":
        tip = (x - 0.09 * size, y - 0.29 * size) if along else (x - 0.22 * size, y - 0.2 * size)
        corners = [x - 0.14 * size, y - 0.04 * size, *tip, x + 0.02 * size, y - 0.12 * size]
        figure.add(corners, dark)
        ear = tip
    else:
        tip = (x - 0.11 * size, y + 0.13 * size) if along else (x - 0.14 * size, y + 0.06 * size)
        figure.limb((x - 0.07 * size, y - 0.07 * size), 0.05 * size, tip, 0.07 * size, dark)
        ear = tip
    return eye, ear


def _face(
    canvas: Canvas, status: str, pose: Mapping[str, Point], look: DogLook, eye: Point
) -> None:
    black: Colour = (20, 16, 20)
    size = look.head
    bright = max(look.coat) > 80
    x, y = pose["snout"]
    if status == "eating":
        canvas.ellipse(x + 0.035, y + 0.04, 0.035, 0.03, black)
    else:
        nose = black if bright else (8, 6, 10)
        canvas.ellipse(x + 0.05 * size, y - 0.025 * size, 0.042 * size, 0.038 * size, nose)
    ex, ey = eye
    if status == "sleeping":
        line = black if bright else (235, 230, 225)
        canvas.stroke(
            (ex - 0.045, ey - 0.01, ex - 0.01, ey + 0.022, ex + 0.03, ey + 0.018), line, 0.024
        )
    else:
        canvas.ellipse(ex, ey, 0.036 * size, 0.038 * size, (250, 250, 248))
        canvas.ellipse(ex + 0.008, ey + 0.004, 0.026 * size, 0.029 * size, black)
    if status == "playing":
        canvas.polygon(
            (x - 0.1, y + 0.05, x + 0.01, y + 0.05, x - 0.01, y + 0.13, x - 0.06, y + 0.14),
            (226, 92, 108),
        )
    if look.collar is not None:
        head, shoulder = pose["head"], pose["shoulder"]
        cx, cy = _between(shoulder, head, 0.52)
        across, down = head[0] - shoulder[0], head[1] - shoulder[1]
        length = (across**2 + down**2) ** 0.5
        dx, dy = -down / length * 0.125, across / length * 0.125
        canvas.stroke((cx - dx, cy - dy, cx + dx, cy + dy), look.collar, 0.055)


def _props(canvas: Canvas, status: str, look: DogLook, ink: Ink) -> None:
    """The bowl of an eating dog, the ball of a playing one."""
    canvas.kind(PROP)
    if status == "eating":
        figure = DrawnFigure(ink)
        figure.ellipse(0.47, -0.13, 0.15, 0.035, (122, 78, 44))
        figure.add([0.31, -0.13, 0.63, -0.13, 0.58, 0.02, 0.36, 0.02], look.toy)
        figure.draw(canvas)
        canvas.ellipse(0.47, -0.135, 0.125, 0.026, (140, 90, 52))
        canvas.ellipse(0.47, -0.055, 0.035, 0.03, lighter(look.toy, 0.6))
    elif status == "playing":
        figure = DrawnFigure(ink)
        figure.ellipse(0.62, -0.94, 0.125, 0.125, look.toy)
        figure.draw(canvas)
        canvas.stroke((0.51, -0.92, 0.60, -0.89, 0.73, -0.97), (250, 250, 246), 0.036)
        canvas.ellipse(0.585, -0.99, 0.035, 0.03, lighter(look.toy, 0.7))
