"""Anti-aliased drawing and, in step with it, the map of what each pixel shows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import atan2, cos, hypot, pi, sin
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import packages_for
from understudy.playhouse.colours import Colour

Point = tuple[float, float]
Affine = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): (x, y) goes to (a x + b y + c, d x + e y + f)."""

_STEPS = 24
_CIRCLE = [(cos(2 * pi * step / _STEPS), sin(2 * pi * step / _STEPS)) for step in range(_STEPS)]
_ARC = 8  # corners of each end of a limb


def _aggdraw() -> Any:
    with packages_for("playhouse", "playhouse"):
        import aggdraw
    return aggdraw


@lru_cache(maxsize=4096)
def _brush(colour: Colour, opacity: int) -> Any:
    return _aggdraw().Brush(colour, opacity)


@lru_cache(maxsize=4096)
def _pen(colour: Colour, width: float, opacity: int = 255) -> Any:
    return _aggdraw().Pen(colour, width, opacity)


def after(outer: Affine, inner: Affine) -> Affine:
    """The map that does ``inner`` first and ``outer`` then."""
    a, b, c, d, e, f = outer
    g, h, i, j, k, m = inner
    return (
        a * g + b * j,
        a * h + b * k,
        a * i + b * m + c,
        d * g + e * j,
        d * h + e * k,
        d * i + e * m + f,
    )


def circle(x: float, y: float, rx: float, ry: float, angle: float = 0.0) -> list[float]:
    """Corners of an ellipse, turned by ``angle`` radians."""
    if angle == 0.0:
        return [part for c, s in _CIRCLE for part in (x + rx * c, y + ry * s)]
    cosine, lift = cos(angle), sin(angle)
    return [
        part
        for c, s in _CIRCLE
        for part in (x + rx * c * cosine - ry * s * lift, y + rx * c * lift + ry * s * cosine)
    ]


def limb(start: Point, first: float, end: Point, last: float) -> list[float]:
    """Corners of the hull of two circles: a limb that tapers, with round ends."""
    across, down = end[0] - start[0], end[1] - start[1]
    length = hypot(across, down)
    if length <= abs(first - last):
        x, y, radius = (*start, first) if first > last else (*end, last)
        return circle(x, y, radius, radius)
    along = atan2(down, across)
    # The sides touch both circles: they lean by the difference of the radii.
    lean = pi / 2 + (last - first) / length
    corners: list[float] = []
    for step in range(_ARC):
        angle = along - lean + 2 * lean * step / (_ARC - 1)
        corners += (end[0] + last * cos(angle), end[1] + last * sin(angle))
    for step in range(_ARC):
        angle = along + lean + (2 * pi - 2 * lean) * step / (_ARC - 1)
        corners += (start[0] + first * cos(angle), start[1] + first * sin(angle))
    return corners


def corners(*points: Point) -> list[float]:
    """x, y, x, y, ... of points, as polygons are drawn."""
    return [part for point in points for part in point]


def rounded_rectangle(
    left: float, top: float, right: float, bottom: float, by: float, *, below: bool = False
) -> list[float]:
    """Corners of a rectangle whose upper corners are round; ``below``: the lower ones too."""
    cut = by * 0.3
    upper = corners(
        (left + by, top), (right - by, top), (right - cut, top + cut), (right, top + by)
    )
    lower = corners((right, bottom), (left, bottom))
    if below:
        lower = corners(
            (right, bottom - by),
            (right - cut, bottom - cut),
            (right - by, bottom),
            (left + by, bottom),
            (left + cut, bottom - cut),
            (left, bottom - by),
        )
    return upper + lower + corners((left, top + by), (left + cut, top + cut))


class Canvas:
    """A square picture in coordinates from 0 to 1, seen through a camera.

    What is drawn later hides what was drawn before, in the picture and in the map alike. Where
    nothing was drawn, the map says 0.

    `camera`: From room coordinates to the frame, both 0 to 1.
    """

    def __init__(self, size: int, camera: Affine, ground: Colour) -> None:
        agg = _aggdraw()
        self.size = size
        self._draw = agg.Draw("RGB", (size, size), ground)
        self._map = agg.Draw("L", (size, size), 0)
        self._map.setantialias(False)
        self._camera = after((size, 0, 0, 0, size, 0), camera)
        self._kind: Any = None
        self._local: Affine = self._camera
        self._unit = 1.0
        self.set_transform(None)
        self.kind(None)

    def kind(self, number: int | None) -> None:
        """What the next shapes are: an index into the segment classes. None: paint, no thing."""
        self._kind = None if number is None else _brush((number, number, number), 255)

    def set_transform(self, affine: Affine | None) -> None:
        """Draw in the coordinates of a thing, which ``affine`` puts into the room."""
        self._local = self._camera if affine is None else after(self._camera, affine)
        self._draw.settransform(self._local)
        self._map.settransform(self._local)
        a, b, _, d, e, _ = self._local
        self._unit = abs(a * e - b * d) ** 0.5

    def pixel(self, point: Point) -> Point:
        """Where a point of the present coordinates lies in the picture, in pixels."""
        a, b, c, d, e, f = self._local
        return a * point[0] + b * point[1] + c, d * point[0] + e * point[1] + f

    def polygon(self, corners: Sequence[float], colour: Colour, opacity: int = 255) -> None:
        """Fill x, y, x, y, ..."""
        self._draw.polygon(corners, _brush(colour, opacity))
        if self._kind is not None:
            self._map.polygon(corners, self._kind)

    def rim(self, corners: Sequence[float], colour: Colour, width: float, opacity: int) -> None:
        """The edge of a shape, ``width`` pixels wide at 64 pixels a side: half of it outside."""
        self._draw.polygon(corners, _pen(colour, width * self.size / 64, opacity))

    def box(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        colour: Colour,
        opacity: int = 255,
    ) -> None:
        """A filled rectangle."""
        self.polygon((left, top, right, top, right, bottom, left, bottom), colour, opacity)

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, colour: Colour, opacity: int = 255
    ) -> None:
        """A filled ellipse."""
        self.polygon(circle(x, y, rx, ry), colour, opacity)

    def stroke(self, points: Sequence[float], colour: Colour, width: float) -> None:
        """A line, ``width`` in the present coordinates."""
        self._draw.line(points, _pen(colour, round(width * self._unit, 2)))

    def shadow(self, x: float, y: float, rx: float, ry: float, opacity: int = 70) -> None:
        """A dark spot on the ground, which is no thing."""
        kind, self._kind = self._kind, None
        self.polygon(circle(x, y, rx, ry), (24, 18, 24), opacity)
        self._kind = kind

    def image(self) -> NDArray[np.uint8]:
        """(size, size, 3)."""
        return np.frombuffer(self._draw.tobytes(), np.uint8).reshape(self.size, self.size, 3)

    def segments(self) -> NDArray[np.uint8]:
        """(size, size): what each pixel shows."""
        return np.frombuffer(self._map.tobytes(), np.uint8).reshape(self.size, self.size)
