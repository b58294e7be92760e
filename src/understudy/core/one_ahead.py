"""Work that threads do ahead of where its results are used, which come in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def one_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items in their order; a thread makes each while the one before it is used."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        pending = thread.submit(next, iterator, end)
        while (item := pending.result()) is not end:
            pending = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # not the mark of the end


def results_ahead(
    pool: ThreadPoolExecutor, function: Callable[[T], R], items: Iterable[T], most: int
) -> Iterator[R]:
    """The results in the order of the items, of which a pool takes so many ahead at most.

    The first error ends it.
    """
    pending: deque[Future[R]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > most:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
