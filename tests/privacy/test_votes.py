"""Votes: who is nearest is exact and nobody else's business, and one unit moves the sum by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from understudy.core.errors import InputError
from understudy.privacy import nearest
from understudy.privacy.cells import Cells
from understudy.privacy.nearest import Nearest
from understudy.privacy.queries import Counts, Votes

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
    "kind",
    ["sphere", "far away", "crowded", "twins", "all alike", "whole numbers"],
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


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    values = np.zeros((3, DIM), dtype=np.float32)
    values[1, 2] = bad
    with pytest.raises(InputError, match="NaN or infinite"):
        Nearest(np.random.default_rng(0).normal(size=(CANDIDATES, DIM)))(values)


def test_no_rows_have_no_votes():
    near = Nearest(np.random.default_rng(0).normal(size=(CANDIDATES, DIM)))
    assert near(np.empty((0, DIM), dtype=np.float32)).shape == (0,)


# Acceptance line 8: one unit's images move the sum by at most the stated sensitivity.

images = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 9), st.just(DIM)),
    elements=st.floats(-100, 100, width=32, allow_subnormal=False),
)


def queries():
    rng = np.random.default_rng(7)
    return {
        "votes": Votes(rng.normal(size=(CLASSES, CANDIDATES, DIM))),
        "votes of twins": Votes(np.repeat(rng.normal(size=(CLASSES, 30, DIM)), 3, axis=1)),
        "few candidates": Votes(rng.normal(size=(CLASSES, 4, DIM))),
        "sizes": Counts(Cells(np.zeros((CLASSES, 1, 1)))),
    }


def summed(query, parts, grid):
    """The sum over units, each with its images and their classes."""
    x = np.concatenate([x for x, _ in parts])
    y = np.concatenate([y for _, y in parts])
    groups = np.repeat(np.arange(len(parts)), [len(x) for x, _ in parts])
    return query.integer_sum(x, y, groups, grid)


@pytest.mark.parametrize("name", queries())
@pytest.mark.parametrize("several", [False, True])
@given(one=images, two=images, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_one_units_change_moves_the_sum_by_no_more_than_its_sensitivity(
    name, several, one, two, seed
):
    query, rng = queries()[name], np.random.default_rng(seed)
    grid = query.grid(3.0)
    if not several:
        one, two = one[:1], two[:1]
    labelled = [(x, rng.integers(0, CLASSES, len(x))) for x in (one, two)]
    others = [
        (rng.normal(size=(n, DIM)).astype(np.float32), rng.integers(0, CLASSES, n))
        for n in (1, 3, 2)
    ]
    without = summed(query, others, grid)
    having = [summed(query, [*others[:2], mine, *others[2:]], grid) for mine in labelled]
    added = [np.linalg.norm((total - without) * grid) for total in having]
    assert max(added) <= query.sensitivity("add-remove") == 1.0
    replaced = np.linalg.norm((having[0] - having[1]) * grid)
    assert replaced <= query.sensitivity("replace-one") <= 2**0.5
    if not several:
        assert max(added) > 1 - 1e-6  # and no less: the bound is tight


def test_a_unit_of_many_classes_has_one_vote_in_all():
    # Defect 5 of the field: one vote a class, accounted as one vote a unit.
    query = queries()["votes"]
    grid = query.grid(3.0)
    x = np.random.default_rng(0).normal(size=(12, DIM)).astype(np.float32)
    total = summed(query, [(x, np.arange(12) % CLASSES)], grid) * grid
    assert total.sum() == pytest.approx(1.0, abs=1e-5)
    assert (total >= 0).all()
    assert (total.reshape(CLASSES, -1).sum(axis=1) > 0.3).all()


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
