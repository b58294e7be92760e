"""From a detector's map to boxes: middles, sides, overlaps."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from understudy.metrics.box_maps import decode_boxes


def blank(classes: int = 2, n: int = 1) -> NDArray[np.float32]:
    """Maps of 16 x 16 cells on which nothing is."""
    maps = np.zeros((n, classes + 4, 16, 16), np.float32)
    maps[:, :classes] = -12
    return maps


def test_a_cell_states_a_box_by_its_middle_and_its_sides() -> None:
    maps = blank()
    maps[0, 1, 5, 3] = 2.0
    maps[0, 2:, 5, 3] = np.log([1.0, 2.0, 3.0, 0.5])
    (found,) = decode_boxes(maps, (64, 128))
    assert_allclose(found.boxes, [[(3.5 - 1) * 8, (5.5 - 2) * 4, (3.5 + 3) * 8, 6 * 4]], atol=1e-4)
    assert found.labels.tolist() == [1]
    assert_allclose(found.scores, [1 / (1 + np.exp(-2.0))], atol=1e-6)


def test_of_two_boxes_on_one_object_the_better_one_stands() -> None:
    maps = blank()
    maps[0, 2:] = np.log(2.5)
    maps[0, 0, 5, 5], maps[0, 0, 5, 7] = 1.0, 3.0  # overlap of one half and more
    maps[0, 1, 5, 6] = 0.0  # of another class
    maps[0, 0, 12, 12] = -1.0
    (found,) = decode_boxes(maps, (64, 64), overlap=0.4)
    assert found.labels.tolist() == [0, 1, 0]
    assert (np.diff(found.scores) < 0).all()
    assert_allclose(found.boxes[0], [(7.5 - 2.5) * 4, 12, 40, 32], atol=1e-4)
    assert len(decode_boxes(maps, (64, 64), overlap=0.9)[0].labels) == 4


def test_unsure_boxes_and_boxes_beyond_the_most_are_left_out() -> None:
    maps = blank(n=2)
    maps[1, 0, ::4, ::4] = np.linspace(-2, 2, 16).reshape(4, 4)
    maps[:, 2:] = np.log(0.5)
    first, second = decode_boxes(maps, (64, 64), certainty=0.5, most=5)
    assert first.boxes.shape == (0, 4)
    assert len(second.labels) == 5
    assert second.scores.min() >= 0.5
