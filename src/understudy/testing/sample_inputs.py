"""Images, prompts and loading that the suites share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

from understudy.backends.registry import load_model
from understudy.core.errors import BackendError
from understudy.core.types import Images, Shape

P = TypeVar("P")

CLOSE = 2
"""Of 255: what rounding in another order may change in a pixel."""


_LOADED: dict[tuple[type, str], Any] = {}


def load_once(port: type[P], name: str) -> P:
    """The model of a name, loaded when it is first asked for."""
    if (port, name) not in _LOADED:
        _LOADED[port, name] = load_model(port, name)
    model: P = _LOADED[port, name]
    return model


def extreme_images(shape: Shape, count: int) -> Images:
    """Noise, black, white, a chessboard of pixels, stripes, one bright pixel: at least five."""
    images = np.random.default_rng(3).integers(0, 256, (count, *shape), dtype=np.uint8)
    images[0], images[1] = 0, 255
    row, column = np.indices(shape[:2])
    images[2] = 255 * ((row + column) % 2)[..., None]
    images[3] = 255 * (row % 2)[..., None]
    images[4] = 0
    images[4, shape[0] // 2, shape[1] // 2] = 255
    return images


def striped_images(shape: Shape = (40, 56, 3), count: int = 6) -> Images:
    """Noise, a flat image and soft stripes, no two alike; they cannot be written to."""
    images = np.random.default_rng(8).integers(0, 256, (count, *shape), dtype=np.uint8)
    images[1] = 90
    row, column = np.indices(shape[:2])
    images[2] = (127 + 120 * np.sin(row / 5 + column / 9)).astype(np.uint8)[..., None]
    images.setflags(write=False)
    return images


def largest_difference(images: Images, others: Images) -> int:
    """Of any pixel, 0 to 255."""
    return int(np.abs(images.astype(int) - others.astype(int)).max())


def check_stated(model: Any) -> None:
    """Every model states its name and its licence."""
    assert model.name
    assert model.licence


def check_refusals(call: Callable[[Any], object]) -> None:
    """A model of images refuses what is no stack of uint8 images of 1 or 3 channels."""
    with pytest.raises(BackendError, match="uint8 images"):
        call(striped_images().astype(np.float32))
    with pytest.raises(BackendError, match="uint8 images"):
        call(striped_images()[0])
    with pytest.raises(BackendError, match="uint8 images"):
        call(np.zeros((2, 8, 8, 4), dtype=np.uint8))
