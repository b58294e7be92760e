"""Items that are made one ahead."""

import threading

import pytest

from understudy.core.one_ahead import one_ahead


def test_items_come_in_order_and_each_once():
    assert list(one_ahead(iter(range(5)))) == [0, 1, 2, 3, 4]
    assert list(one_ahead([None, None])) == [None, None]
    assert list(one_ahead([])) == []


def test_an_item_is_made_while_the_one_before_it_is_used():
    made = threading.Event()

    def items():
        yield 1
        made.set()
        yield 2

    for item in one_ahead(items()):
        if item == 1:
            assert made.wait(timeout=10)


def test_an_error_comes_where_the_item_would():
    def items():
        yield 1
        raise ValueError("bad item")

    ahead = one_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="bad item"):
        next(ahead)
