"""The pieces that a block of records is added up in, and the calls of the views on them."""

import numpy as np
import pytest

from understudy.core.errors import InputError
from understudy.privacy.queries import CACHED
from understudy.privacy.rows import RECORDS_PER_CALL, split_block
from understudy.privacy.vault import _Views


def block(count=1000, classes=5):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 3)).astype(np.float32), rng.integers(0, classes, count), None


def test_pieces_class_after_class_hold_every_record_once_and_few_classes_each():
    values, labels, _ = block()
    parts = list(split_block((values, labels, None), 100, by_class=True))
    rows = {tuple(row): label for row, label in zip(values.tolist(), labels, strict=True)}
    assert sum(len(part[1]) for part in parts) == len(rows) == 1000
    for some, own, groups in parts:
        assert groups is None
        assert [rows[tuple(row)] for row in some.tolist()] == own.tolist()
    assert sum(len(np.unique(part[1])) for part in parts) < len(parts) + 5


def test_pieces_of_units_stay_in_order_whatever_their_classes():
    values, labels, _ = block()
    groups = np.arange(1000) // 3
    parts = list(split_block((values, labels, groups), 100, by_class=True))
    assert np.array_equal(np.concatenate([part[0] for part in parts]), values)
    assert np.array_equal(np.concatenate([part[2] for part in parts]), groups)


@pytest.mark.parametrize("dim", [1, 16, 512, 2000, 10_000])
def test_every_view_sees_as_many_records_in_every_call(dim):
    calls = []

    def noted(rows):
        calls.append(len(rows))
        return rows[:, :1] + 1

    for count in (1, 63, 600):
        values = np.arange(count * dim, dtype=np.float64).reshape(count, dim)
        assert np.array_equal(_Views((noted, noted))(values), values[:, :1] + 2)
    assert len(set(calls)) == 1
    assert RECORDS_PER_CALL <= calls[0] <= max(RECORDS_PER_CALL, CACHED // dim)


def test_a_view_that_loses_a_record_is_refused_also_where_the_next_one_adds_one():
    views = _Views((lambda rows: rows[1:], lambda rows: np.concatenate([rows, rows[:1]])))
    with pytest.raises(InputError, match="one row for each"):
        views(np.zeros((100, 4)))
