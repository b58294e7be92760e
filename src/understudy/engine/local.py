"""The threads of this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from understudy.core.one_ahead import results_ahead

T = TypeVar("T")
R = TypeVar("R")


@lru_cache(maxsize=1)
def _blas_libraries(modules: int) -> ThreadpoolController:
    """The libraries that are loaded, looked for anew where modules were imported since."""
    return ThreadpoolController()


class LocalEngine:
    """A thread pool that reads no more than two blocks a thread ahead.

    NumPy and BLAS release the interpreter lock where the time goes. Integer sums know no order, so
    any number of threads gives the same result bit for bit. BLAS gets one thread a call meanwhile:
    its own threads would only wait for a processor.

    Args:
        threads: Number of threads; by default, of processors.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._threads)  # starts a thread when it first needs one
        self._blas = _blas_libraries(len(sys.modules))

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of the items; the first error ends the map."""
        with self._blas.limit(limits=1, user_api="blas"):
            yield from results_ahead(self._pool, function, items, 2 * self._threads)
