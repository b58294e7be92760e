"""Random rows: so many, none twice, in order, and all of them without a copy where they fit."""

import numpy as np

from understudy.metrics.subsets import some


def test_so_many_rows_none_twice_in_order_by_the_seed():
    chosen = some(1000, 50, seed=3)
    assert chosen.shape == (50,)
    assert (np.diff(chosen) > 0).all()
    assert np.array_equal(chosen, some(1000, 50, seed=3))
    assert not np.array_equal(chosen, some(1000, 50, seed=4))


def test_every_row_may_come():
    seen = np.unique(np.concatenate([some(10, 3, seed) for seed in range(100)]))
    assert seen.tolist() == list(range(10))


def test_rows_that_fit_are_not_copied():
    rows = np.arange(6).reshape(3, 2)
    for most in (None, 3, 4):
        assert np.shares_memory(rows[some(3, most)], rows)
