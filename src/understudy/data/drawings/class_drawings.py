"""Public images of classes: drawings whose class can be seen in them, as many classes as asked for.

The families of `understudy.data.drawings` draw images of one kind each, and the classes within a
kind are nothing but more of it. Here a class is a thing of its own: a generator that is seeded by
the class settles what all its images share, and one that is seeded by the image what they do not.

* shapes: a class is an outline in the middle of the image; images move and turn it a little, bend,
  light and colour it.
* textures: a class is one large surface; images are parts of it, lit and worn.
* places: a class is one large layout of patches and bands; images are parts of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Shape
from understudy.data.drawings.plane import Pixels, Plane, over, spline
from understudy.data.drawings.scenes import scene
from understudy.data.drawings.textures import texture_surface

ClassArtist = Callable[[np.random.Generator], NDArray[np.float32]]
"""Draws an image of one class: a generator to (height, width, channels) in [0, 1]."""

_SURFACE = 2  # sides of an image, that a side of the surface of its class has
_STEPS = 6  # points of a spline for each point of an outline


def shape_artist(shape: Shape, class_rng: np.random.Generator) -> ClassArtist:
    """Draws images of one outline: (height, width, channels), and a generator of the class."""
    height, width, channels = shape
    points = int(class_rng.integers(6, 12))
    angles = 2 * np.pi * (np.arange(points) + class_rng.uniform(-0.25, 0.25, points)) / points
    lengths = class_rng.uniform(0.25, 1.0, points)
    outline = lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def draw(rng: np.random.Generator) -> NDArray[np.float32]:
        plane = Plane.of(height, width, channels, rng)
        angle, size = rng.normal(0, 0.12), 0.42 * np.exp(rng.normal(0, 0.08))
        turned = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        bent = (outline + rng.normal(0, 0.05, outline.shape)) @ turned
        body = spline(bent * size + rng.normal(0, 0.03, 2), _STEPS, closed=True)
        light = plane.along(plane.uniform(0, 2 * np.pi))
        ground, hue = plane.uniform(0.15, 0.4), plane.uniform(0.0, 0.1)
        pixels = plane.flat(plane.colour(ground, plane.uniform(0, 0.08)))
        pixels = pixels + (light * plane.uniform(0, 0.4))[:, :, None]
        above = plane.colour(ground + plane.uniform(0.25, 0.5), plane.uniform(0.1, 0.3), hue)
        shaded = above + (light * plane.uniform(0, 0.3))[:, :, None]
        return plane.finished(over(pixels, shaded, plane.polygons([(body, 1.0)])))

    return draw


def texture_artist(shape: Shape, class_rng: np.random.Generator) -> ClassArtist:
    """Draws parts of one surface: (height, width, channels), and a generator of the class."""
    return partial(_part, _large(shape, class_rng, texture_surface), shape)


def place_artist(shape: Shape, class_rng: np.random.Generator) -> ClassArtist:
    """Draws parts of one layout: (height, width, channels), and a generator of the class."""
    surface = _large(shape, class_rng, scene).astype(np.float64)
    return partial(_part, surface, shape)


CLASS_ARTISTS: Mapping[str, Callable[[Shape, np.random.Generator], ClassArtist]] = {
    "shapes": shape_artist,
    "textures": texture_artist,
    "places": place_artist,
}
"""The kinds of drawings: the shape of an image and a generator of the class to what draws it."""


def _large(
    shape: Shape, class_rng: np.random.Generator, draw: Callable[[Plane], NDArray[Any]]
) -> NDArray[Any]:
    """The surface of a class, several times as large as an image."""
    height, width, channels = shape
    return draw(Plane.of(_SURFACE * height, _SURFACE * width, channels, class_rng))


def _part(surface: Pixels, shape: Shape, rng: np.random.Generator) -> NDArray[np.float32]:
    """A part of a surface, mirrored or not, in a light of its own."""
    height, width, channels = shape
    top, left = (int(rng.integers(0, (_SURFACE - 1) * side + 1)) for side in (height, width))
    part = surface[top : top + height, left : left + width]
    part = part[:, ::-1] if rng.random() < 0.5 else part
    plane = Plane.of(height, width, channels, rng)
    contrast, light = plane.uniform(0.7, 1.2), plane.uniform(-0.1, 0.1)
    gradient = plane.along(plane.uniform(0, 2 * np.pi)) * plane.uniform(0, 0.3)
    mean = surface.mean()
    return plane.finished(mean + contrast * (part - mean) + light + gradient[:, :, None])
