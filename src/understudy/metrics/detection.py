"""How well objects are found: average precision at an overlap of a half, AP50.

By the rules of COCO (pycocotools): precision at 101 recalls, the best 100 boxes of a class in an
image, a box may take the next best object where its best is taken.

Boxes are left, top, right, bottom in continuous coordinates: a box from 0 to 10 is 10 wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Found, Vector

_IOU = 0.5  # of the area two boxes have together, from which on a box counts as found
_MOST = 100
_RECALLS = np.linspace(0, 1, 101)


def average_precision(
    predictions: Sequence[Found], truth: Sequence[Found], classes: Sequence[str]
) -> float:
    """Mean of AP50 over the classes that have objects, in [0, 1]; NaN without any object.

    Args:
        predictions: What a detector found in each image.
        truth: What is in each image, in the same order; the scores are not looked at.
        classes: The names that the labels of both index.

    Raises:
        InputError: Other numbers of images, no classes, or a label out of range.
    """
    _check(predictions, truth, classes)
    scores = [
        _area(_hits(predictions, truth, label), count)
        for label in range(len(classes))
        if (count := sum(int((one.labels == label).sum()) for one in truth))
    ]
    return float(np.mean(scores)) if scores else float("nan")


def overlaps(boxes: NDArray[Any], others: NDArray[Any]) -> Vector:
    """Intersection over union of every pair: (n, 4) and (m, 4) to (n, m), in [0, 1]."""
    one, two = (np.asarray(each, dtype=np.float64).reshape(-1, 4) for each in (boxes, others))
    corner = np.maximum(one[:, None, :2], two[None, :, :2])
    sides = np.minimum(one[:, None, 2:], two[None, :, 2:]) - corner
    shared = np.prod(np.maximum(sides, 0), axis=2)
    areas = [np.prod(each[:, 2:] - each[:, :2], axis=1) for each in (one, two)]
    whole = areas[0][:, None] + areas[1][None] - shared
    iou: Vector = np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0)
    return iou


def _hits(predictions: Sequence[Found], truth: Sequence[Found], label: int) -> NDArray[np.bool_]:
    """Whether each box of a class found an object of its own, best box of all images first."""
    scores, hits = [], []
    for one, real in zip(predictions, truth, strict=True):
        mine = np.flatnonzero(one.labels == label)
        mine = mine[np.argsort(-one.scores[mine], kind="stable")][:_MOST]
        scores.append(one.scores[mine])
        hits.append(_matched(overlaps(one.boxes[mine], real.boxes[real.labels == label])))
    order = np.argsort(-np.concatenate(scores), kind="stable")
    return np.asarray(np.concatenate(hits)[order])


def _matched(overlap: Vector) -> NDArray[np.bool_]:
    """Of one image, best box first: each takes an object that no better one took."""
    hits = np.zeros(len(overlap), dtype=np.bool_)
    if not overlap.size:
        return hits
    matches = np.zeros(overlap.shape[1], dtype=np.bool_)
    for box, each in enumerate(overlap):
        best = int(np.argmax(np.where(matches, -1.0, each)))
        hits[box] = each[best] >= _IOU and not matches[best]
        matches[best] |= hits[box]
    return hits


def _area(hits: NDArray[np.bool_], objects: int) -> float:
    """Mean of the best precision from each recall on."""
    right = hits.cumsum()
    precision = right / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(right / objects, _RECALLS, side="left")
    return float(np.append(best, 0.0)[at].mean())


def _check(predictions: Sequence[Found], truth: Sequence[Found], classes: Sequence[str]) -> None:
    if len(predictions) != len(truth):
        raise InputError(
            f"what was found and what is there must be of the same images, "
            f"found {len(predictions)} and {len(truth)}"
        )
    if not classes or not predictions:
        raise InputError(
            f"found {len(classes)} classes and {len(predictions)} images: give one or more"
        )
    for one in (*predictions, *truth):
        if len(one.labels) and not 0 <= one.labels.min() <= one.labels.max() < len(classes):
            raise InputError(f"labels must index the {len(classes)} classes, found {one.labels}")
