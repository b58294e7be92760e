"""AP50 against pycocotools 2.0.11."""

import math

import numpy as np
import pytest

from understudy.core.types import Found
from understudy.metrics.detection import average_precision

CLASSES = ("cat", "dog", "eel", "fox")


def found(boxes: list[list[float]], labels: list[int], scores: list[float] | None = None) -> Found:
    return Found(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(labels, np.int64),
        np.array(scores if scores is not None else [1.0] * len(labels), np.float32),
    )


def scenes(seed: int) -> tuple[list[Found], list[Found]]:
    """Objects, and boxes about them: none, one or several an object, some of a wrong class."""
    rng = np.random.default_rng(seed)
    told, truth = [], []
    for _ in range(40):
        count = rng.integers(0, 7)
        corner, sides = rng.uniform(0, 60, (count, 2)), rng.uniform(5, 40, (count, 2))
        boxes = np.concatenate([corner, corner + sides], axis=1)
        labels = rng.integers(0, 4, count)
        truth.append(Found(boxes.astype(np.float32), labels, np.ones(count, np.float32)))
        times = rng.integers(0, 4, count)
        about = np.repeat(boxes, times, 0) + rng.normal(0, 4, (times.sum(), 4))
        about[:, 2:] = np.maximum(about[:, 2:], about[:, :2] + 1)
        said = np.repeat(labels, times)
        said = np.where(rng.random(len(said)) < 0.15, rng.integers(0, 4, len(said)), said)
        scores = np.round(rng.random(len(said)), 2).astype(np.float32)  # with ties
        told.append(Found(about.astype(np.float32), said, scores))
    return told, truth


PYCOCOTOOLS = (0.275583195959 + 0.11184648807 + 0.394888893998 + 0.310579627173) / 4
"""Of `scenes(0)`, by pycocotools 2.0.11: COCOeval("bbox"), iouThrs 0.5, all areas, maxDets 100."""


def test_the_figures_of_pycocotools() -> None:
    assert average_precision(*scenes(0), CLASSES) == pytest.approx(PYCOCOTOOLS, abs=1e-9)


def test_one_object_found_twice_counts_once() -> None:
    truth = [found([[0, 0, 10, 10], [50, 50, 60, 60]], [0, 0])]
    twice = [found([[0, 0, 10, 10], [0, 0, 10, 10]], [0, 0], [0.9, 0.8])]
    result = average_precision(twice, truth, ("cat",))
    assert result == pytest.approx(51 / 101)  # precision 1 up to a recall of a half, then 0


def test_a_box_takes_the_next_object_where_its_best_is_taken() -> None:
    truth = [found([[0, 0, 10, 10], [0, 1, 10, 11]], [0, 0])]
    close = [found([[0, 0, 10, 10], [0, 0.2, 10, 10.2]], [0, 0], [0.9, 0.8])]
    assert average_precision(close, truth, ("cat",)) == pytest.approx(1.0)


def test_a_class_without_objects_has_no_score() -> None:
    truth, told = [found([[0, 0, 9, 9]], [0])], [found([[0, 0, 9, 9]] * 2, [0, 1])]
    assert average_precision(told, truth, ("cat", "dog")) == pytest.approx(1.0)
    assert math.isnan(average_precision([found([], [])], [found([], [])], ("cat",)))
