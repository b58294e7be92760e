"""What the families of drawings share: coordinates, noise, colours, outlines, and the camera.

Coordinates are in units of the shorter side, with the origin in the middle: the shorter side goes
from about -1/2 to 1/2. Distances to an edge are turned into coverage between 0 and 1, so that edges
are smooth without drawing more pixels than asked for. Curves are drawn with Pillow, larger, and
averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter, map_coordinates

Pixels = NDArray[np.float64]
FloatImage = NDArray[np.float32]
Mask = NDArray[np.bool_]

_OVERSIZE = 4  # curves are drawn so many times larger
_CHROMA = np.array([[2.0, -1.0, -1.0], [0.0, 3.0**0.5, -(3.0**0.5)]]) / 6.0**0.5


@cache
def _frequency(height: int, width: int) -> Pixels:
    """(h, w / 2 + 1) distance from the zero frequency, which itself is infinitely far."""
    rows, columns = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    frequency = np.sqrt(rows**2 + columns**2)
    frequency[0, 0] = np.inf
    return np.asarray(frequency)


def power_noise(
    height: int, width: int, slopes: Pixels, rng: np.random.Generator
) -> NDArray[np.float64]:
    """(n, h, w) noise of mean 0 and spectrum 1/f^a, for the slopes a (n,)."""
    frequency = _frequency(height, width)
    waves = rng.standard_normal((2, len(slopes), *frequency.shape))
    spectrum = (waves[0] + 1j * waves[1]) * frequency ** -slopes[:, None, None]
    return np.asarray(np.fft.irfft2(spectrum, s=(height, width)))


def unit_variance(noise: Pixels) -> Pixels:
    """Noise (n, h, w) with a standard deviation of 1 each."""
    return np.asarray(noise / np.maximum(noise.std(axis=(1, 2), keepdims=True), 1e-12))


@dataclass(frozen=True)
class Plane:
    """What all parts of a drawing share."""

    across: Pixels  # (h, w) coordinates to the right
    down: Pixels  # the same downwards
    channels: int  # of the image: 1 or 3
    rng: np.random.Generator  # where everything is drawn from

    @classmethod
    def of(cls, height: int, width: int, channels: int, rng: np.random.Generator) -> Plane:
        """The coordinates of an image of this size."""
        down, across = np.mgrid[:height, :width] / min(height, width)
        return cls(across - across.mean(), down - down.mean(), channels, rng)

    @property
    def pixel(self) -> float:
        """The side of a pixel."""
        return 1.0 / float(min(self.across.shape))

    def chance(self, probability: float) -> bool:
        """True that often."""
        return bool(self.rng.random() < probability)

    def uniform(self, low: float, high: float) -> float:
        """A number between the two."""
        return float(self.rng.uniform(low, high))

    def along(self, angle: float) -> Pixels:
        """The coordinate in a direction: (h, w)."""
        return np.asarray(np.cos(angle) * self.across + np.sin(angle) * self.down)

    def around(self, across: float, down: float) -> tuple[Pixels, Pixels]:
        """Distance and angle of each pixel from a point, both (h, w)."""
        right, below = self.across - across, self.down - down
        return np.hypot(right, below), np.arctan2(below, right)

    def axes_at(self, across: float, down: float, angle: float) -> tuple[Pixels, Pixels]:
        """Coordinates along and across a direction from a point, both (h, w)."""
        right, below = self.across - across, self.down - down
        cos, sin = np.cos(angle), np.sin(angle)
        return cos * right + sin * below, cos * below - sin * right

    def texture(self, low: float, high: float, count: int = 1) -> Pixels:
        """(count, h, w) noise of unit variance and spectrum 1/f^a, a from low to high."""
        slopes = self.rng.uniform(low, high, count)
        height, width = self.across.shape
        return unit_variance(power_noise(height, width, slopes, self.rng))

    def stretched(self, period: float, length: float, angle: float) -> Pixels:
        """(h, w) noise of unit variance: streaks of this width, so many times as long."""
        height, width = self.across.shape
        rows = np.fft.fftfreq(height)[:, None] / self.pixel
        columns = np.fft.rfftfreq(width)[None] / self.pixel
        along = (np.cos(angle) * columns + np.sin(angle) * rows) * length
        sideways = np.cos(angle) * rows - np.sin(angle) * columns
        waves = self.rng.standard_normal((2, *along.shape))
        spectrum = (waves[0] + 1j * waves[1]) / (1 + (period**2 * (along**2 + sideways**2)) ** 1.5)
        spectrum[0, 0] = 0
        return np.asarray(unit_variance(np.fft.irfft2(spectrum, s=(height, width))[None])[0])

    def banded(self, period: float, sharpness: float) -> Pixels:
        """(h, w) noise of unit variance with waves of one length in every direction."""
        radius = _frequency(*self.across.shape) * (period / self.pixel)
        waves = self.rng.standard_normal((2, *radius.shape))
        weight = np.exp(-0.5 * ((radius - 1) * sharpness) ** 2)
        spectrum = (waves[0] + 1j * waves[1]) * weight
        return np.asarray(unit_variance(np.fft.irfft2(spectrum, s=self.across.shape)[None])[0])

    def cover(self, distance: Pixels, softness: float = 0.0) -> Pixels:
        """Coverage from the signed distance to an edge, 1 inside, where it is negative."""
        return np.asarray(np.clip(0.5 - distance / (self.pixel + softness), 0.0, 1.0))

    def colour(self, light: float, saturation: float = 0.0, hue: float | None = None) -> Pixels:
        """(channels,) of this lightness; hue in turns: 0 red, 1/3 green, 2/3 blue; None: any."""
        if self.channels == 1:
            return np.array([light])
        turn_of_hue = 2 * np.pi * (self.rng.random() if hue is None else hue)
        chroma = np.array([np.cos(turn_of_hue), np.sin(turn_of_hue)]) @ _CHROMA
        return np.asarray(light + saturation * chroma)

    def palette(self, count: int, contrast: float, saturation: float) -> Pixels:
        """(count, channels) colours that differ in lightness and hue about a common one."""
        base, hue = self.uniform(0.25, 0.75), self.rng.random()
        lights = base + contrast * self.rng.uniform(-0.5, 0.5, count)
        hues = hue + self.rng.normal(0, 0.08, count)
        return np.stack(
            [self.colour(lights[i], saturation * self.rng.random(), hues[i]) for i in range(count)]
        )

    def graded(self, values: Pixels, colours: Pixels) -> Pixels:
        """(h, w, channels): values from 0 to 1 along a ramp of colours (k, channels)."""
        at = np.linspace(0, 1, len(colours))
        ramp = [np.interp(values, at, colours[:, c]) for c in range(colours.shape[1])]
        return np.stack(ramp, axis=-1)

    def flat(self, colour: Pixels) -> Pixels:
        """(h, w, channels) of one colour."""
        return np.broadcast_to(colour, (*self.across.shape, self.channels)).copy()

    def warped(self, field: Pixels, amount: float) -> Pixels:
        """A field (h, w) pulled about smoothly by so many units."""
        pull = self.texture(2.2, 3.2, 2) * (amount / self.pixel)
        rows, columns = np.mgrid[: field.shape[0], : field.shape[1]]
        at = [rows + pull[0], columns + pull[1]]
        return np.asarray(map_coordinates(field, at, order=1, mode="reflect"))

    def curves(self, lines: Sequence[tuple[Pixels, Pixels, float]]) -> Pixels:
        """(h, w) in [0, 1]: lines on black: points (m, 2), widths (m,), and a lightness."""
        sheet, pen = self._sheet()
        scale = _OVERSIZE / self.pixel
        for points, widths, light in lines:
            at, wide = self._on_sheet(points), widths * scale
            level = round(255 * light)
            if np.ptp(wide) < 1:
                width = max(1, round(float(wide.mean())))
                pen.line(at, fill=level, width=width, joint="curve")
                continue
            for (x, y), (to_x, to_y), one in zip(at[:-1], at[1:], wide[1:], strict=True):
                pen.line((x, y, to_x, to_y), fill=level, width=max(1, round(one)))
            for (x, y), radius in zip(at, wide / 2, strict=True):
                if radius > 1.5:
                    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=level)
        return self._shrunk(sheet)

    def polygons(self, outlines: Sequence[tuple[Pixels, float]]) -> Pixels:
        """(h, w) in [0, 1]: outlines (m, 2), filled one on the other with a lightness, on black."""
        sheet, pen = self._sheet()
        for points, light in outlines:
            pen.polygon([(x, y) for x, y in self._on_sheet(points)], fill=round(255 * light))
        return self._shrunk(sheet)

    def _sheet(self) -> tuple[Image.Image, ImageDraw.ImageDraw]:
        height, width = self.across.shape
        sheet = Image.new("L", (_OVERSIZE * width, _OVERSIZE * height))
        return sheet, ImageDraw.Draw(sheet)

    def _on_sheet(self, points: Pixels) -> list[tuple[float, float]]:
        origin = np.array([self.across[0, 0], self.down[0, 0]]) - self.pixel / 2
        at = (points - origin) * (_OVERSIZE / self.pixel)
        return [(float(x), float(y)) for x, y in at]

    def _shrunk(self, sheet: Image.Image) -> Pixels:
        return np.asarray(sheet.reduce(_OVERSIZE), dtype=np.float64) / 255

    def finished(self, pixels: Pixels, *, noise: float = 0.02) -> FloatImage:
        """Pixels (h, w, channels) as a camera takes them: light, blur and noise; in [0, 1]."""
        if self.chance(0.4):
            pixels = pixels + (self.texture(2.5, 3.5)[0] * self.rng.normal(0, 0.04))[:, :, None]
        if self.chance(0.4):
            pixels = gaussian_filter(pixels, (*[self.uniform(0.3, 0.9)] * 2, 0))
        if self.chance(0.5):
            sensor = self.rng.normal(0, noise * self.rng.random(), pixels.shape)
            pixels = pixels + sensor
        return np.asarray(np.clip(pixels, 0.0, 1.0), dtype=np.float32)


def over(below: Pixels, above: Pixels, coverage: Pixels) -> Pixels:
    """(h, w, channels): a colour or image above another where it covers it, (h, w) in [0, 1]."""
    return np.asarray(below + coverage[:, :, None] * (above - below))


def spline(points: Pixels, steps: int, *, closed: bool = False) -> Pixels:
    """(m, 2): a Catmull-Rom spline through points (k, 2), ``steps`` for each piece."""
    if closed:
        padded = np.concatenate([points[-1:], points, points[:2]])
    else:
        padded = np.concatenate([points[:1], points, points[-1:]])
    one, two, three, four = (padded[i : len(padded) - 3 + i, None] for i in range(4))
    t = np.linspace(0, 1, steps, endpoint=False)[None, :, None]
    pieces = 0.5 * (
        2 * two
        + (three - one) * t
        + (2 * one - 5 * two + 4 * three - four) * t**2
        + (3 * two - one - 3 * three + four) * t**3
    )
    line = pieces.reshape(-1, 2)
    return line if closed else np.concatenate([line, points[-1:]])
