"""Clusters by some numbers of a record, and residuals in widths of their own."""

import numpy as np
import pytest

from understudy.privacy.cells import ScaledCells, SplitCells
from understudy.privacy.queries import ClippedSums, CountAndSum

SPLIT, DIM = 2, 4
WIDTH = SPLIT + DIM


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_sensitivity_is_no_larger_than_what_can_happen(adjacency):
    """Two far records in opposite directions reach it, but for the grid and the counts."""
    rng = np.random.default_rng(1)
    cells = SplitCells.of(rng.normal(size=(2, 3, SPLIT)), rng.normal(size=(2, 3, DIM)))
    query = CountAndSum(cells, 0.8)
    grid = query.grid(query.bound * 5)
    far, none = np.full((1, WIDTH), 1e6, np.float32), np.zeros(1, np.int64)
    one = query.integer_sum(far, none, None, grid)
    two = query.integer_sum(-far, none + 1, None, grid)
    moved = one if adjacency == "add-remove" else one - two
    least = 1.0 if adjacency == "add-remove" else np.sqrt(2)
    assert 0.999 * least < np.linalg.norm(moved) * grid <= query.sensitivity(adjacency)


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


def test_residuals_in_widths_are_clipped_all_the_same_and_reused_for_the_same_widths_only():
    centres, widths = np.zeros((2, 1, DIM)), np.array([[0.01], [10.0]])
    query = ClippedSums(ScaledCells(centres, widths), 1.0)
    rows, labels = np.ones((2, DIM)), np.array([0, 1])
    grid = query.grid(1.0)
    sums = query.integer_sum(rows, labels, None, grid) * grid
    np.testing.assert_allclose(np.linalg.norm(sums, axis=1), [1.0, 0.1 * np.sqrt(DIM)], rtol=1e-3)
    assert query.fingerprint() == ClippedSums(ScaledCells(centres, widths), 1.0).fingerprint()
    assert query.fingerprint() != ClippedSums(ScaledCells(centres, 2 * widths), 1.0).fingerprint()
