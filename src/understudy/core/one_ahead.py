"""Work for two processors where one step's result feeds the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def one_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items in their order; a thread makes each while the one before it is used."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        pending = thread.submit(next, iterator, end)
        while (item := pending.result()) is not end:
            pending = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # not the mark of the end
