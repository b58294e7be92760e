"""Files are decoded by several threads, and come in their order all the same."""

import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.run.samples import class_folders

from understudy.data import image_files, open_source
from understudy.data.image_files import in_order


def test_items_come_in_their_order_though_later_ones_are_done_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_files.os, "cpu_count", lambda: 2)
    done = [threading.Event() for _ in range(40)]

    def work(number: int) -> int:
        if number % 2 == 0:  # waits for the one after it
            assert done[number + 1].wait(30)
        done[number].set()
        return number * number

    results = [(item, call()) for item, call in in_order(work, range(40), lambda _: True)]
    assert results == [(number, number * number) for number in range(40)]


def test_only_a_few_are_begun_before_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files.os, "cpu_count", lambda: 2)
    begun: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(1000):
            begun.append(number)
            yield number

    results = in_order(abs, numbers(), lambda _: True)
    assert next(results)[1]() == 0
    assert len(begun) < 20
    results.close()  # type: ignore[attr-defined]


def test_an_error_is_that_of_its_item_and_what_is_not_wanted_is_not_worked_on() -> None:
    filters = list(warnings.filters)
    calls = dict(in_order(lambda number: 6 // number, [3, 0, 2], lambda number: number != 2))
    assert calls[3]() == 2
    with pytest.raises(ZeroDivisionError):
        calls[0]()
    assert calls[2]() == 3  # by the caller
    assert warnings.filters == filters


def test_bad_files_are_named_in_their_order(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "scans", {"cat": 30, "dog": 30})
    bad = sorted(folder.rglob("*.png"))[::7]
    for path in bad:
        path.write_bytes(path.read_bytes()[:60])
    source = open_source(folder, skip_bad=True)
    order = source.locations()
    assert len(source) == 60 - len(bad) == len(order)
    assert sorted(name for name, _ in source.bad) == sorted(map(str, bad))  # type: ignore[attr-defined]
