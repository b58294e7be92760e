"""AP50 against the two usual rules written out; the COCO figures are pycocotools 2.0.11's."""

from __future__ import annotations

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


def published(told: list[Found], truth: list[Found], label: int, rule: str, iou: float) -> float:
    """One class, as the PASCAL VOC kit's and COCO's evaluation loop over the boxes."""
    every = [
        (-float(score), image, number, box)
        for image, one in enumerate(told)
        for number, (box, score) in enumerate(
            zip(one.boxes[one.labels == label], one.scores[one.labels == label], strict=True)
        )
    ]
    taken: set[tuple[int, int]] = set()
    right, recalls, precisions = 0, [], []
    objects = sum(int((one.labels == label).sum()) for one in truth)
    for seen, (_, image, _, box) in enumerate(sorted(every, key=lambda one: one[:3]), 1):
        best, which = -1.0, -1
        for place, real in enumerate(truth[image].boxes[truth[image].labels == label]):
            if rule == "coco" and (image, place) in taken:
                continue
            width = min(box[2], real[2]) - max(box[0], real[0])
            height = min(box[3], real[3]) - max(box[1], real[1])
            shared = float(max(width, 0) * max(height, 0))
            areas = [(x[2] - x[0]) * (x[3] - x[1]) for x in (box, real)]
            overlap = shared / (sum(map(float, areas)) - shared)
            if overlap > best:
                best, which = overlap, place
        if best >= iou and (image, which) not in taken:
            taken.add((image, which))
            right += 1
        recalls.append(right / objects)
        precisions.append(right / seen)
    if rule == "coco":
        steps = [i / 100 for i in range(101)]
        return sum(
            max((p for r, p in zip(recalls, precisions, strict=True) if r >= step), default=0.0)
            for step in steps
        ) / len(steps)
    area, before = 0.0, 0.0
    for at, recall in enumerate(recalls):
        area += (recall - before) * max(precisions[at:])
        before = recall
    return area


@pytest.mark.parametrize("rule", ["coco", "voc"])
@pytest.mark.parametrize("iou", [0.5, 0.75])
def test_the_rules_are_the_published_ones(rule: str, iou: float) -> None:
    for seed in range(3):
        told, truth = scenes(seed)
        result = average_precision(told, truth, CLASSES, iou=iou, rule=rule)
        expected = [published(told, truth, label, rule, iou) for label in range(4)]
        assert list(result.per_class.values()) == pytest.approx(expected, abs=1e-9)
        assert result.mean == pytest.approx(np.mean(expected))


PYCOCOTOOLS = [0.275583195959, 0.11184648807, 0.394888893998, 0.310579627173]
"""Of `scenes(0)`, by pycocotools 2.0.11: COCOeval("bbox"), iouThrs 0.5, all areas, maxDets 100."""


def test_the_figures_of_pycocotools() -> None:
    result = average_precision(*scenes(0), CLASSES)
    assert list(result.per_class.values()) == pytest.approx(PYCOCOTOOLS, abs=1e-9)


def test_one_object_found_twice_counts_once() -> None:
    truth = [found([[0, 0, 10, 10], [50, 50, 60, 60]], [0, 0])]
    twice = [found([[0, 0, 10, 10], [0, 0, 10, 10]], [0, 0], [0.9, 0.8])]
    result = average_precision(twice, truth, ("cat",), rule="voc")
    assert result.mean == 0.5
    assert result.recalls["cat"].tolist() == [0.5, 0.5]
    assert result.precisions["cat"].tolist() == [1.0, 0.5]


def test_the_rules_differ_where_the_best_object_is_taken() -> None:
    truth = [found([[0, 0, 10, 10], [0, 1, 10, 11]], [0, 0])]
    close = [found([[0, 0, 10, 10], [0, 0.2, 10, 10.2]], [0, 0], [0.9, 0.8])]
    assert average_precision(close, truth, ("cat",), rule="coco").mean == pytest.approx(1.0)
    assert average_precision(close, truth, ("cat",), rule="voc").mean == pytest.approx(0.5)


def test_a_class_without_objects_has_no_score() -> None:
    truth, told = [found([[0, 0, 9, 9]], [0])], [found([[0, 0, 9, 9]] * 2, [0, 1])]
    result = average_precision(told, truth, ("cat", "dog"))
    assert result.per_class == {"cat": pytest.approx(1.0), "dog": None}
    assert result.objects == {"cat": 1, "dog": 0}
    assert math.isnan(average_precision([found([], [])], [found([], [])], ("cat",)).mean)
