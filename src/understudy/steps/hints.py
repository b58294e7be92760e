"""The conditioning of a ControlNet: edges of an image, or a drawn skeleton."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from understudy.core.errors import packages_for
from understudy.core.types import Images

LIMBS: dict[str, tuple[tuple[str, str], ...]] = {
    "person": (
        ("head", "neck"),
        ("neck", "left shoulder"),
        ("left shoulder", "left elbow"),
        ("left elbow", "left wrist"),
        ("neck", "right shoulder"),
        ("right shoulder", "right elbow"),
        ("right elbow", "right wrist"),
        ("neck", "left hip"),
        ("left hip", "left knee"),
        ("left knee", "left ankle"),
        ("neck", "right hip"),
        ("right hip", "right knee"),
        ("right knee", "right ankle"),
    ),
    "dog": (
        ("nose", "eye"),
        ("eye", "ear"),
        ("ear", "neck"),
        ("neck", "shoulder"),
        ("shoulder", "front paw"),
        ("shoulder", "other front paw"),
        ("shoulder", "hip"),
        ("hip", "rear paw"),
        ("hip", "other rear paw"),
        ("hip", "tail"),
    ),
}
"""The lines of a skeleton, by the names of their keypoints."""

_FINE = 4  # drawn so much larger, then made small: smooth lines


def edges(images: Images, *, sigma: float = 0.8) -> NDArray[np.uint8]:
    """Canny's edges (Canny 1986): (n, height, width) uint8, 255 on an edge and 0 elsewhere.

    ``images``: (n, height, width, channels) uint8. ``sigma``: of the Gaussian that smooths first,
    in pixels.

    Raises:
        MissingExtra: scikit-image is not installed.
    """
    with packages_for("edges of images", "models"):
        from skimage.feature import canny

    grey = images.mean(axis=-1) / 255
    maps = [canny(image, sigma=sigma) for image in grey]  # type: ignore[no-untyped-call]
    return np.stack(maps).astype(np.uint8) * 255


def skeleton(
    points: NDArray[np.float32], names: Sequence[str], kind: str, size: tuple[int, int]
) -> Images:
    """One drawn skeleton: (height, width, 3) uint8 on black, every limb in its own colour.

    ``points``: (k, 3): x and y in pixels, and 0 where a keypoint is not seen. ``names``: of the k
    keypoints. ``kind``: ``"person"`` or ``"dog"``. ``size``: height and width.

    Raises:
        KeyError: There is no such kind, or a name of its limbs is missing.
    """
    height, width = size
    sheet = Image.new("RGB", (width * _FINE, height * _FINE))
    pen = ImageDraw.Draw(sheet)
    at = dict(zip(names, points, strict=True))
    thick = max(1, round(height * _FINE / 40))
    limbs = LIMBS[kind]
    for number, (start, end) in enumerate(limbs):
        if at[start][2] > 0 and at[end][2] > 0:
            ends = [(float(x) * _FINE, float(y) * _FINE) for x, y, _ in (at[start], at[end])]
            hue = 6 * number / len(limbs)  # around the wheel, all bright
            wheel = (min(max(abs((hue - k) % 6 - 3) - 1, 0), 1) for k in (0, 2, 4))
            pen.line(ends, fill=tuple(round(255 * part) for part in wheel), width=thick)
    return np.asarray(sheet.reduce(_FINE))
