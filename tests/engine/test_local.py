"""The threads: results in order, a little read ahead, errors passed on."""

import threading

import pytest

from understudy.engine.local import LocalEngine


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_results_come_in_the_order_of_the_items(threads, count):
    assert list(LocalEngine(threads).map(lambda x: x * x, range(count))) == [
        x * x for x in range(count)
    ]


def test_items_are_read_only_a_little_ahead():
    read = []

    def items():
        for item in range(1000):
            read.append(item)
            yield item

    results = LocalEngine(2).map(lambda x: x, items())
    assert next(results) == 0
    assert len(read) <= 2 * 2 + 1
    assert list(results) == list(range(1, 1000))


def test_the_work_is_done_by_as_many_threads_as_asked():
    everyone = threading.Barrier(3, timeout=30)
    assert len(list(LocalEngine(3).map(lambda _: everyone.wait(), range(3)))) == 3


def test_the_first_error_ends_the_map_and_the_engine_lives_on():
    engine, done = LocalEngine(1), []

    def work(item):
        if item == 3:
            raise ValueError("item 3")
        done.append(item)
        return item

    with pytest.raises(ValueError, match="item 3"):
        list(engine.map(work, range(1000)))
    # Nothing but what had been handed to the thread by then.
    assert len(done) <= 3 + 2
    assert list(engine.map(work, [7])) == [7]


def test_an_error_while_reading_is_passed_on():
    def items():
        yield 1
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        list(LocalEngine(2).map(lambda x: x, items()))
