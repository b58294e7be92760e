"""From the map of a one-stage detector to boxes with scores: NumPy alone, for the device too.

A map has a number for each class and four sides for each cell of a coarse grid. The first are
logits of "the middle of an object of this class is here"; the others are logarithms of how far,
in cells, the object's left, top, right and bottom side are from the middle of the cell.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Found
from understudy.metrics.detection import overlaps

BOX_SIDES = 4
"""Numbers of a cell besides those of its classes."""

_MOST = 20  # boxes of an image
_OVERLAP = 0.5  # from which on two boxes are taken for one object


def decode_boxes(
    maps: NDArray[np.float32], size: tuple[int, int], *, certainty: float = 0.05
) -> list[Found]:
    """The boxes that a detector states, best first.

    A cell states a box where its class scores higher there than in the eight cells around it. Of
    two boxes of one class that overlap the better one stands.

    Args:
        maps: (n, classes + 4, rows, columns) float32, as the network gives them.
        size: (height, width) of the images in pixels.
        certainty: Boxes of lower scores are left out.

    Returns:
        For each image `Found`: boxes inside the image, labels index the classes, no masks.

    Raises:
        InputError: No such maps.
    """
    if maps.ndim != 4 or maps.shape[1] <= BOX_SIDES:
        raise InputError(
            f"a detector's maps are (n, classes + {BOX_SIDES}, rows, columns), found {maps.shape}"
        )
    scores = 1 / (1 + np.exp(-np.clip(maps[:, :-BOX_SIDES].astype(np.float64), -30, 30)))
    peaks = scores == scipy.ndimage.maximum_filter(scores, size=(1, 1, 3, 3))
    peaks &= scores >= certainty
    sides = np.exp(np.clip(maps[:, -BOX_SIDES:].astype(np.float64), -6, 6))
    return [
        _best_boxes(score, peak, side, size)
        for score, peak, side in zip(scores, peaks, sides, strict=True)
    ]


def _best_boxes(
    scores: NDArray[np.float64],
    peaks: NDArray[np.bool_],
    sides: NDArray[np.float64],
    size: tuple[int, int],
) -> Found:
    """The boxes of one image."""
    labels, rows, columns = np.nonzero(peaks)
    order = np.argsort(-scores[labels, rows, columns], kind="stable")[: 4 * _MOST]
    labels, rows, columns = labels[order], rows[order], columns[order]
    tall, wide = (pixels / cells for pixels, cells in zip(size, scores.shape[1:], strict=True))
    left, top, right, bottom = sides[:, rows, columns]
    corners = [
        (columns + 0.5 - left) * wide,
        (rows + 0.5 - top) * tall,
        (columns + 0.5 + right) * wide,
        (rows + 0.5 + bottom) * tall,
    ]
    limits = np.array([size[1], size[0], size[1], size[0]], dtype=np.float64)
    boxes = np.clip(np.stack(corners, axis=1), 0, limits)
    standing = _standing(boxes, labels)[:_MOST]
    return Found(
        boxes[standing].astype(np.float32),
        labels[standing].astype(np.int64),
        scores[labels, rows, columns][standing].astype(np.float32),
    )


def _standing(boxes: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of the boxes, best first, that no better one of their class covers."""
    covers = (overlaps(boxes, boxes) >= _OVERLAP) & (labels[:, None] == labels[None])
    standing: list[int] = []
    for box in range(len(boxes)):
        if not covers[box, standing].any():
            standing.append(box)
    return np.array(standing, dtype=np.int64)
