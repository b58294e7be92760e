"""What alignment asks: a change of one unit's images moves any integer sum by what is stated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from understudy.core.errors import InputError
from understudy.privacy.cells import Cells, SplitCells
from understudy.privacy.queries import CountAndSum, DiagonalMoments, NormHistogram, Votes

CLASSES, CLUSTERS, SPLIT, DIM = 2, 3, 2, 4
WIDTH = SPLIT + DIM


def all_queries():
    """Every query of the method: about class means, about cells, of norms, votes and variances."""
    rng = np.random.default_rng(1)
    means = Cells(np.pad(rng.normal(size=(CLASSES, 1, DIM)), [(0, 0), (0, 0), (SPLIT, 0)]))
    split = SplitCells.of(
        rng.normal(size=(CLASSES, CLUSTERS, SPLIT)), rng.normal(size=(CLASSES, CLUSTERS, DIM))
    )
    return {
        "gap": CountAndSum(means, 1.5),
        "clip norm": CountAndSum(Cells(np.zeros((CLASSES, 1, WIDTH))), 20.0),
        "clip radius": NormHistogram(means, np.array([0.5, 1.0, 2.0])),
        "votes": Votes(rng.normal(size=(CLASSES, 7, WIDTH))),
        "cluster gaps": CountAndSum(split, 0.8),
        "spread": DiagonalMoments(means, 1.2),
        "spread of clusters": DiagonalMoments(split, 1.2),
    }


QUERIES = sorted(all_queries())
values = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 24), st.just(WIDTH)),
    elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False),
)


def summed(query, x, y, groups, grid):
    if not len(x):
        return np.zeros((query.slots, query.width))
    order = np.argsort(groups, kind="stable")
    return query.integer_sum(x[order], y[order], groups[order], grid).astype(np.float64)


@pytest.mark.parametrize("which", QUERIES)
@given(x=values, units=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_adding_or_replacing_a_unit_moves_the_sum_by_no_more_than_stated(which, x, units, seed):
    rng = np.random.default_rng(seed)
    query = all_queries()[which]
    y, groups = rng.integers(0, CLASSES, len(x)), np.sort(rng.integers(0, units, len(x)))
    if rng.random() < 0.5:
        groups = np.arange(len(x))  # one image a unit
    grid = query.grid(query.bound * 5)
    mine = groups == rng.choice(groups)
    whole = summed(query, x, y, groups, grid)
    without = summed(query, x[~mine], y[~mine], groups[~mine], grid)
    other, others = x.copy(), y.copy()
    other[mine], others[mine] = -other[mine] * 3, rng.integers(0, CLASSES, mine.sum())
    replaced = summed(query, other, others, groups, grid)
    removal = np.linalg.norm(whole - without) * grid
    replacement = np.linalg.norm(whole - replaced) * grid
    assert removal <= query.sensitivity("add-remove")
    assert replacement <= query.sensitivity("replace-one") * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_statement_is_no_larger_than_what_can_happen(adjacency):
    """Two far rows in opposite directions reach it, but for the grid and the counts."""
    query = all_queries()["cluster gaps"]
    grid = query.grid(query.bound * 5)
    far, none = np.full((1, WIDTH), 1e6, np.float32), np.zeros(1, np.int64)
    one = query.integer_sum(far, none, None, grid)
    two = query.integer_sum(-far, none + 1, None, grid)
    moved = one if adjacency == "add-remove" else one - two
    least = 1.0 if adjacency == "add-remove" else np.sqrt(2)
    assert np.linalg.norm(moved) * grid > 0.999 * least
    assert np.linalg.norm(moved) * grid <= query.sensitivity(adjacency)


def test_the_first_numbers_choose_the_cell_and_the_others_are_added_up():
    rng = np.random.default_rng(2)
    seeds, centres = rng.normal(size=(2, 3, SPLIT)), rng.normal(size=(2, 3, DIM))
    cells = SplitCells.of(seeds, centres)
    x, y = rng.normal(size=(400, WIDTH)), rng.integers(0, 2, 400)
    nearest = ((x[:, None, :SPLIT] - seeds[y]) ** 2).sum(axis=2).argmin(axis=1)
    assert (cells.count, cells.dim) == (6, DIM)
    np.testing.assert_array_equal(cells.assign(x, y), 3 * y + nearest)
    query = CountAndSum(cells, 50.0)
    grid = query.grid(1.0)
    found = query.integer_sum(x, y, None, grid) * grid
    for cell in range(6):
        mine = 3 * y + nearest == cell
        total = (x[mine, SPLIT:] - centres[cell // 3, cell % 3]).sum(axis=0)
        assert query.counts(found)[cell] == pytest.approx(mine.sum(), rel=1e-4)
        np.testing.assert_allclose(query.sums(found)[cell], total, atol=1e-2)


def test_an_answer_is_reused_for_the_same_places_and_centres_only():
    rng = np.random.default_rng(3)
    seeds, centres = rng.normal(size=(1, 2, SPLIT)), rng.normal(size=(1, 2, DIM))
    same = CountAndSum(SplitCells.of(seeds, centres), 1.0).fingerprint()
    assert CountAndSum(SplitCells.of(seeds.copy(), centres.copy()), 1.0).fingerprint() == same
    for changed in (SplitCells.of(seeds + 1, centres), SplitCells.of(seeds, centres + 1)):
        assert CountAndSum(changed, 1.0).fingerprint() != same


@pytest.mark.parametrize("place", [0, WIDTH - 1])
def test_numbers_that_are_not_finite_are_refused_wherever_they_stand(place):
    x = np.zeros((3, WIDTH), np.float32)
    x[1, place] = np.nan
    for clusters in (1, 2):
        cells = SplitCells.of(np.zeros((1, clusters, SPLIT)), np.zeros((1, clusters, DIM)))
        query = CountAndSum(cells, 1.0)
        with pytest.raises(InputError, match="NaN"):
            query.integer_sum(x, np.zeros(3, np.int64), None, query.grid(1.0))
