"""The integer path: any order, any batching, the same sum; any contribution, bounded."""

import math
from copy import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.conformance.test_queries import CLASSES, CLUSTERS, DIM, queries_of_this_package

from understudy.privacy import queries, sums
from understudy.privacy.block_queries import BlockSizes
from understudy.privacy.cells import Cells
from understudy.privacy.queries import (
    ClippedSums,
    CountAndSum,
    Counts,
    DiagonalMoments,
    FullMoments,
    NormHistogram,
    RecallCounts,
    Votes,
)
from understudy.privacy.rows import split_block

KINDS = queries_of_this_package()
QUERIES = range(len(KINDS))

values = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 40), st.just(DIM)),
    elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False),
)


def in_blocks(query, x, y, groups, cuts, grid):
    total = np.zeros((query.slots, query.width), dtype=np.int64)
    for start, stop in zip([0, *cuts], [*cuts, len(x)], strict=True):
        part = None if groups is None else groups[start:stop]
        total += query.integer_sum(x[start:stop], y[start:stop], part, grid)
    return total


@pytest.mark.parametrize("which", QUERIES)
@given(x=values, seed=st.integers(0, 2**32 - 1), data=st.data())
@settings(max_examples=20, deadline=None)
def test_any_order_and_any_batching_give_the_same_sum(which, x, seed, data):
    rng = np.random.default_rng(seed)
    query = copy(KINDS[which])
    y = rng.integers(0, CLASSES, len(x))
    grid = query.grid(query.bound * 5)
    whole = query.integer_sum(x, y, None, grid)
    order = rng.permutation(len(x))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(x)), max_size=4)))
    assert np.array_equal(whole, in_blocks(query, x[order], y[order], None, cuts, grid))


@pytest.mark.parametrize("which", QUERIES)
@given(x=values, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_one_unit_never_contributes_more_than_the_bound(which, x, seed):
    """Whatever its rows are and however many, over all classes and clusters together."""
    rng = np.random.default_rng(seed)
    query = copy(KINDS[which])
    y = rng.integers(0, CLASSES, len(x))
    grid = query.grid(query.bound * 5)
    total = query.integer_sum(x, y, np.zeros(len(x), dtype=np.int64), grid) * grid
    weights = 1.0 if query.weights is None else query.weights
    assert np.linalg.norm(total * weights) <= query.bound


def test_a_unit_in_several_slots_is_clipped_as_a_whole():
    rows, one = np.full((2, DIM), 10.0), np.zeros(2, dtype=np.int64)
    total = sums.bounded_sum(np.arange(2), rows, one, slots=2, bound=1.0, grid=1e-5)
    assert 0.999 < np.linalg.norm(total * 1e-5) <= 1


@pytest.mark.parametrize("which", QUERIES)
def test_copies_of_a_record_count_as_that_record_in_a_unit(which):
    """So a sum over a count of units is a mean, however many records a unit has."""
    query, one = copy(KINDS[which]), np.zeros(1, dtype=np.int64)
    x, grid = np.full((1, DIM), 0.1, dtype=np.float32), query.grid(query.bound * 5)
    once = query.integer_sum(x, one, one, grid)
    copies = query.integer_sum(x.repeat(3, axis=0), one.repeat(3), one.repeat(3), grid)
    np.testing.assert_allclose(copies, once, rtol=0, atol=1e-4 * np.abs(once).max())


@pytest.mark.parametrize("which", QUERIES)
@given(x=values, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_replacing_a_unit_moves_the_sum_by_no_more_than_the_sensitivity(which, x, seed):
    rng = np.random.default_rng(seed)
    query = copy(KINDS[which])
    grid = query.grid(query.bound * 5)
    groups = np.zeros(len(x), dtype=np.int64)
    weights = 1.0 if query.weights is None else query.weights
    one, two = (
        query.integer_sum(x * sign, rng.integers(0, CLASSES, len(x)), groups, grid) * grid
        for sign in (1, -1)
    )
    moved = np.linalg.norm((one - two) * weights)
    assert moved <= query.sensitivity("replace-one") + 1e-9 * query.bound
    assert query.sensitivity("add-remove") == query.bound


def unclipped(query, factor, groups=None):
    """The sum of three far rows in a query whose own clipping, and that of the sums, is off."""
    x = np.full((3, DIM), factor, dtype=np.float32)
    y = np.zeros(3, dtype=np.int64)
    return query.integer_sum(x, y, groups, query.grid(query.bound))


@pytest.fixture
def no_clipping(monkeypatch):
    monkeypatch.setattr(sums, "_clip_factor", lambda norms, bound: np.ones_like(norms))
    # What a query clips by itself goes too, or no row would be too long for the sums.
    monkeypatch.setattr(
        queries, "clip_rows", lambda rows, radius, out, times=1.0: np.multiply(rows, times, out=out)
    )


@pytest.mark.parametrize("which", QUERIES)
def test_without_the_clipping_the_integers_are_refused(which, no_clipping, monkeypatch):
    """A unit's integers are checked in every query: the only thing left if clipping has a fault.

    A row of a count or a vote is a single 1, within the bound however it is clipped, so those are
    tried with a unit of three rows that have no weights.
    """
    monkeypatch.setattr(sums, "unit_weights", lambda groups, labels: np.ones(len(groups)))
    query = copy(KINDS[which])
    with pytest.raises(RuntimeError, match="exceeds its bound"):
        unclipped(query, 1e3, groups=np.zeros(3, dtype=np.int64))
    if not isinstance(query, Counts | Votes | NormHistogram | RecallCounts | BlockSizes):
        with pytest.raises(RuntimeError, match="exceeds its bound"):
            unclipped(query, 1e3)


@pytest.mark.parametrize("length", [1.01, 1.4, 30.0])
def test_full_moments_just_beyond_the_bound_are_refused(length, no_clipping):
    """The fourth power of the bound stood here once: at 2^18 steps nothing ever reaches that."""
    query = FullMoments(Cells(np.zeros((1, 1, DIM))), 1.7)
    steps = np.zeros((1, DIM))
    steps[0, 0] = length * query.radius
    with pytest.raises(RuntimeError, match="exceeds its bound"):
        sums.bounded_outer_sum(
            np.zeros(1, np.int64),
            steps,
            None,
            slots=1,
            radius=query.radius,
            step=math.sqrt(query.grid(1.0)),
        )


@pytest.mark.parametrize("squares", [[0.0, np.nan], [np.inf], [1.0 + 1e-9]])
def test_the_check_refuses_what_is_not_within_the_bound(squares):
    sums._check_bound(np.array([1.0 - 1e-9, 0.0]), 1.0)
    sums._check_bound(np.zeros(0), 1.0)
    with pytest.raises(RuntimeError, match="exceeds its bound"):
        sums._check_bound(np.array(squares), 1.0)


def test_sums_are_the_sums():
    rng = np.random.default_rng(5)
    x, y = 0.1 * rng.normal(size=(500, DIM)).astype(np.float32), rng.integers(0, CLASSES, 500)
    cells = Cells(0.1 * rng.normal(size=(CLASSES, CLUSTERS, DIM)))
    cell = cells.assign(x, y)
    distance = ((x[:, None] - cells.centres[y]) ** 2).sum(-1)
    assert np.array_equal(cell, y * CLUSTERS + distance.argmin(1))
    residual = x - cells.flat[cell]
    one_hot = np.eye(cells.count)[cell]

    def exact(query):
        return query.integer_sum(x, y, None, query.grid(query.bound)) * query.grid(query.bound)

    counts = exact(Counts(cells))[:, 0]
    assert counts == pytest.approx(one_hot.sum(0))
    assert exact(ClippedSums(cells, 3.0)) == pytest.approx(one_hot.T @ residual, abs=1e-4)
    pair = CountAndSum(cells, 3.0)
    assert pair.counts(exact(pair)) == pytest.approx(counts, rel=1e-4)
    assert pair.sums(exact(pair)) == pytest.approx(one_hot.T @ residual, abs=1e-3)
    squares = exact(DiagonalMoments(cells, 3.0))
    assert squares == pytest.approx(one_hot.T @ residual**2, abs=1e-3)
    full = FullMoments(cells, 3.0)
    assert full.matrices(exact(full))[0] == pytest.approx(residual.T @ residual, abs=1e-2)


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 40), classes=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_weights_of_units_keep_the_bound_of_a_record_without_clipping(seed, rows, classes):
    """Slots are apart for each class: clusters within classes, or the classes themselves."""
    rng = np.random.default_rng(seed)
    labels, units = rng.integers(0, classes, rows), np.sort(rng.integers(0, 3, rows))
    slots = 3 * labels + rng.integers(0, rng.integers(1, 4), rows)
    vectors = rng.normal(size=(rows, DIM)) + 3 * rng.normal(size=DIM)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = sums.unit_weights(units, labels)
    for unit in np.unique(units):
        added = np.zeros((3 * classes, DIM))
        mine = units == unit
        np.add.at(added, slots[mine], (weights[:, None] * vectors)[mine])
        assert np.linalg.norm(added) <= 1 + 1e-9
    # Without classes it is the average, which keeps the bound in one slot as well.
    average = sums.unit_weights(units, None)
    assert np.bincount(units, average)[np.unique(units)] == pytest.approx(1.0)


@pytest.mark.parametrize("which", [which for which in QUERIES if not KINDS[which].pooled])
def test_a_unit_of_several_classes_is_not_clipped_for_it(which):
    """One record in each class, as long as records get: each adds its part to its own slots."""
    query, rng = copy(KINDS[which]), np.random.default_rng(6)
    x, y = 50.0 * rng.normal(size=(CLASSES, DIM)).astype(np.float32), np.arange(CLASSES)
    grid = query.grid(query.bound * 5)
    total = query.integer_sum(x, y, np.zeros(CLASSES, dtype=np.int64), grid) * grid
    alone = query.integer_sum(x, y, None, grid) * grid
    np.testing.assert_allclose(total, alone / math.sqrt(CLASSES), atol=1e-4 * query.bound)


def test_votes_of_a_unit_have_a_norm_of_one_whatever_the_number_of_its_classes():
    # Defect 5 of the field: one vote a class, accounted as one vote a unit.
    x = np.zeros((4, DIM), dtype=np.float32)
    votes = Votes(np.zeros((4, 1, DIM)))
    grid = votes.grid(1.0)
    total = votes.integer_sum(x, np.arange(4), np.zeros(4, dtype=np.int64), grid) * grid
    assert np.linalg.norm(total) == pytest.approx(1.0, abs=1e-5)
    assert total[:, 0] == pytest.approx(np.full(4, 0.5), abs=1e-5)


def test_outer_products_refuse_what_float64_could_not_hold_exactly():
    with pytest.raises(ValueError, match="exact"):
        sums.bounded_outer_sum(
            np.zeros(1, np.int64), np.ones((1, 2)), None, slots=1, radius=1.0, step=2.0**-20
        )


def test_truncation_is_toward_zero_and_never_lengthens():
    rows = np.array([[0.999, -0.999], [1.001, -1.001]]) * 0.5
    total = sums.bounded_sum(np.array([0, 1]), rows, None, slots=2, bound=math.sqrt(2), grid=0.5)
    assert total.tolist() == [[0, 0], [1, -1]]


def test_rows_that_are_worked_on_together_change_nothing_in_many_dimensions():
    """Squared norms, assignments and sums are those of one row at a time, wherever it lies."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(301, 517)).astype(np.float32)
    y = rng.integers(0, CLASSES, len(x))
    cells = Cells(rng.normal(size=(CLASSES, 4, 517)))
    wide = rng.normal(size=(3, 5000))
    for rows in (x, x.astype(np.float64), wide):
        alone = [float(sums.row_squares(row[None].copy())[0]) for row in rows]
        assert sums.row_squares(rows).tolist() == alone
        assert alone == pytest.approx([math.fsum(v * v) for v in rows.astype(np.float64)], 1e-12)
    alone = [int(cells.assign(x[i : i + 1], y[i : i + 1])[0]) for i in range(len(x))]
    assert cells.assign(x, y).tolist() == alone
    for query in (CountAndSum(cells, 20.0), DiagonalMoments(cells, 20.0)):
        grid = query.grid(query.bound)
        assert np.array_equal(
            query.integer_sum(x, y, None, grid),
            in_blocks(query, x, y, None, [1, 2, 9, 100, 300], grid),
        )


def test_ties_fall_to_the_first_centre_and_scales_do_not_matter():
    cells = Cells(np.array([[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]]))
    for scale in (1e-6, 1.0, 1e30):
        x = np.array([[scale, scale], [-scale, scale], [0.0, 0.0], [0.0, -scale]], np.float32)
        assert cells.assign(x, np.zeros(4, np.int64)).tolist() == [0, 1, 0, 0]


def test_sums_too_large_for_float64_are_exact_too():
    """The total of integers near 2^52 has more digits than a float64 holds."""
    rows = np.random.default_rng(8).uniform(0.5, 0.9, size=(200, 1))
    slot = np.zeros(len(rows), dtype=np.int64)
    for grid in (2.0**-52, 2.0**-10):
        total = sums.bounded_sum(slot, rows, None, slots=1, bound=1.0, grid=grid)
        assert int(total[0, 0]) == sum(int(row / grid) for row in rows[:, 0])


def test_pieces_of_a_block_part_no_unit():
    rng = np.random.default_rng(7)
    groups = np.sort(rng.integers(0, 9, 100))
    block = (rng.normal(size=(100, 2)), rng.integers(0, 3, 100), groups)
    for size in (1, 7, 1000):
        parts = list(split_block(block, size))
        for column, whole in enumerate(block):
            assert np.array_equal(np.concatenate([part[column] for part in parts]), whole)
        units = [unit for part in parts for unit in np.unique(part[2])]
        assert len(units) == len(set(units))
    assert [len(part[1]) for part in split_block((*block[:2], None), 30)] == [30, 30, 30, 10]


@pytest.mark.parametrize("which", QUERIES)
@pytest.mark.parametrize("mu", [1e-3, 1.0, 300.0])
def test_no_contribution_takes_more_steps_than_its_stage_allows(which, mu):
    query = copy(KINDS[which])
    for adjacency in ("add-remove", "replace-one"):
        grid = query.grid(query.sensitivity(adjacency) / mu)
        assert query.bound / grid <= sums.steps_of_stage(mu)
