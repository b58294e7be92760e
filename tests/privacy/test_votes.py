"""Votes: the nearest candidate is found exactly, and depends on no other record."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.privacy import nearest
from understudy.privacy.cells import Cells
from understudy.privacy.nearest import Nearest
from understudy.privacy.queries import Votes

DIM, CLASSES, CANDIDATES = 6, 3, 90  # more candidates than are compared straight away


def exactly(centres, values):
    """The nearest by the definition: every row with every centre, in exact arithmetic."""
    rows, places = nearest.rounded(values), nearest.rounded(centres)
    half = 0.5 * np.vecdot(centres, centres)
    return np.array([int((places @ row - half).argmax()) for row in rows], dtype=np.int64)


def cloud(kind, count, rng):
    points = rng.normal(size=(count, 40))
    if kind == "sphere":
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    elif kind == "far away":
        points = 1e-3 * points + 50.0
    elif kind == "crowded":
        points = 1e-7 * points + rng.normal(size=(4, 40))[rng.integers(0, 4, count)]
    elif kind == "twins":
        points = points[rng.integers(0, count // 3, count)]
    elif kind == "all alike":
        points[:] = points[0]
    elif kind == "whole numbers":
        points = np.rint(points)
    return points.astype(np.float32)


@pytest.mark.parametrize(
    "kind", ["sphere", "far away", "crowded", "twins", "all alike", "whole numbers"]
)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e25])
def test_float32_only_chooses_who_is_compared(kind, scale, monkeypatch):
    rng = np.random.default_rng(1)
    centres = cloud(kind, 300, rng).astype(np.float64) * scale
    values = np.concatenate([cloud(kind, 60, rng), centres[:40] / scale]) * np.float32(scale)
    values = values.astype(np.float32)
    expected = exactly(centres, values)
    assert Nearest(centres)(values).tolist() == expected.tolist()
    monkeypatch.setattr(nearest, "_ROWS", 7)
    monkeypatch.setattr(nearest, "_CENTRES", 33)
    assert Nearest(centres)(values).tolist() == expected.tolist()


def test_the_bound_on_float32_scores_holds_and_is_not_far_from_what_they_are_off_by():
    rng = np.random.default_rng(2)
    for offset in (0.0, 3.0):
        centres = rng.normal(size=(500, 64)) + offset
        values = (rng.normal(size=(200, 64)) + offset).astype(np.float32)
        near = Nearest(centres)
        quick, (places, half) = near._quick, near._exact
        scores = values @ quick.columns - quick.halves
        exact = nearest.rounded(values) @ places.T - half
        unit = np.ptp(exact[0]) / np.ptp(scores[0].astype(np.float64))
        off = scores - exact / unit
        off -= np.median(off, axis=1, keepdims=True)  # what all centres share does not matter
        bound = quick.slope * np.linalg.norm(values.astype(np.float64), axis=1) + quick.floor
        assert (np.abs(off).max(axis=1) < bound).all()
        assert (np.abs(off).max(axis=1) > bound / 1000).all()


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_a_vote_depends_on_nobody_else(data, seed):
    """Batches, order and neighbours: what sensitivity rests on, beyond the size of one vote."""
    rng = np.random.default_rng(seed)
    step = data.draw(st.sampled_from([1e-4, 0.5, 1.0]))  # coarse steps make ties
    draw = lambda *shape: np.rint(rng.normal(size=shape) / step) * step  # noqa: E731
    cells = Cells(draw(CLASSES, CANDIDATES, DIM))
    x, y = draw(50, DIM).astype(np.float32), rng.integers(0, CLASSES, 50)
    whole = cells.assign(x, y)
    order = rng.permutation(50)
    assert cells.assign(x[order], y[order]).tolist() == whole[order].tolist()
    cut = data.draw(st.integers(0, 50))
    parts = [cells.assign(x[:cut], y[:cut]), cells.assign(x[cut:], y[cut:])]
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert cells.assign(x.astype(np.float64), y).tolist() == whole.tolist()


def test_values_beyond_float32_are_voted_exactly_too():
    rng = np.random.default_rng(3)
    centres, values = rng.normal(size=(100, 5)), rng.normal(size=(30, 5))
    for scale in (1e60, 1e-60):
        assert (
            Nearest(centres)(values * scale).tolist() == exactly(centres, values * scale).tolist()
        )
        found = Nearest(centres * scale)(values * scale)
        assert found.tolist() == exactly(centres * scale, values * scale).tolist()


def test_no_rows_have_no_votes():
    near = Nearest(np.random.default_rng(0).normal(size=(CANDIDATES, DIM)))
    assert near(np.empty((0, DIM), dtype=np.float32)).shape == (0,)


def test_classes_may_have_different_numbers_of_candidates():
    """Fillers that equal a class's first candidate get no vote and stand for no number."""
    rng = np.random.default_rng(3)
    sizes = np.array([100, 1, 7])
    candidates = rng.normal(size=(3, 100, DIM))
    for label, size in enumerate(sizes):
        candidates[label, size:] = candidates[label, 0]
    values = rng.normal(size=(400, DIM)).astype(np.float32)
    values[:50] = candidates[2, 0]  # as near to each of the fillers
    labels = rng.integers(0, 3, 400)
    query = Votes(candidates, sizes)
    assert query.size == 108
    expected = [
        np.bincount(exactly(candidates[k, :size], values[labels == k]), minlength=size)
        for k, size in enumerate(sizes)
    ]
    summed = query.integer_sum(values, labels, None, 2.0**-20)[:, 0] * 2.0**-20
    np.testing.assert_allclose(summed, np.concatenate(expected), atol=1e-3)
