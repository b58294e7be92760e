"""What a draw gives: the image and all that is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SEGMENT_CLASSES = (
    *("wall", "floor", "furniture", "window", "lamp", "plant", "rug", "picture"),
    *("dog", "person", "bottle", "frame", "prop"),
)
"""What a pixel can show. A prop is what a target uses: bowl, ball, plate, fork, cup, book."""

WALL, FLOOR, FURNITURE_CLASSES, WINDOW, LAMP, PLANT, RUG, PICTURE = range(8)
DOG, PERSON, BOTTLE, FRAME, PROP = range(8, 13)


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One target in an image.

    Attributes:
        name: ``"dog"``, ``"person"``, ``"bottle"`` or ``"frame"``.
        mask: (height, width) bool: the pixels where it is seen.
        box: (4,) float32: left, top, right, bottom of these pixels; right and bottom are outside.
        keypoints: (k, 3) float32: x and y in pixels, and 1 inside the image or 0; None: it has
            none.
    """

    name: str
    mask: NDArray[np.bool_]
    box: NDArray[np.float32]
    keypoints: NDArray[np.float32] | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class DrawnImage:
    """An image and what is in it.

    Attributes:
        image: (height, width, 3) uint8.
        attributes: Everything a caption can name, such as ``{"target": "dog", ...}``.
        label: Class, an index into the scene's classes; None: the scene has none.
        segments: (height, width) uint8: an index into `SEGMENT_CLASSES`.
        unit: Whose it is: a home, or the public world.
    """

    image: NDArray[np.uint8]
    caption: str
    attributes: dict[str, str]
    label: int | None
    segments: NDArray[np.uint8]
    instances: tuple[Instance, ...] = field(default_factory=tuple)
    unit: str = "world"
