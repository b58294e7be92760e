"""Work on blocks side by side: one block a thread, and one BLAS thread a block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results in the order of the items, on as many threads as BLAS may use.

    What lies between the products of two blocks (comparing, sorting) then runs in parallel, too.
    No more than two items a thread are taken ahead, so that results do not pile up.
    """
    items = list(items)
    if len(items) <= 1:  # looking for BLAS takes longer than a small block
        yield from map(function, items)
        return
    blas = ThreadpoolController().select(user_api="blas")
    threads = max([int(one["num_threads"]) for one in blas.info()], default=1)
    if threads == 1:
        yield from map(function, items)
        return
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool, blas.limit(limits=1):
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > 2 * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
