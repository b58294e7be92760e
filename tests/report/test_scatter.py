"""Synthetic embeddings as points: inside the drawing, classes where they are, on both pages."""

from __future__ import annotations

import numpy as np

from understudy.report.scatter import DRAWING_SIDE, NAMED, POINTS, scatter_of


def test_classes_that_lie_apart_are_drawn_apart() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(4 * POINTS) % 3
    rows = rng.normal(size=(len(labels), 9)) + 20 * np.eye(9)[labels]
    scatter = scatter_of(rows.astype(np.float32), labels, ("cat", "dog", "eel"))
    assert scatter.count == sum(len(one.points) for one in scatter.classes) == POINTS
    assert scatter.named
    assert sum(scatter.explained) > 0.9
    places = np.concatenate([one.points for one in scatter.classes])
    assert places.min() >= 0
    assert places.max() <= DRAWING_SIDE
    for one in scatter.classes:
        others = [other.middle for other in scatter.classes if other is not one]
        assert min(np.linalg.norm(np.subtract(others, one.middle), axis=1)) > 150
        assert np.linalg.norm(np.subtract(one.points, one.middle), axis=1).mean() < 60


def test_few_rows_one_dimension_and_many_classes_are_drawn_too() -> None:
    one = scatter_of(np.ones((1, 5), np.float32), np.zeros(1, np.int64), ())
    assert (one.count, one.named, [c.name for c in one.classes]) == (1, False, ["all"])
    line = np.arange(60, dtype=np.float32)[:, None]
    names = tuple(f"class {number}" for number in range(NAMED + 1))
    many = scatter_of(line, np.arange(60) % len(names), names)
    assert not many.named
    assert many.explained == (1.0, 0.0)
