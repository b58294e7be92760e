"""How long the measures of `understudy evaluate` take on 60,000 against 60,000 embeddings.

MobileNet's features have 1,280 numbers. Run it with ``OMP_NUM_THREADS=2`` on an idle machine to
compare; the processor's seconds are those of all threads.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tables import Table
from understudy.metrics.fidelity import frechet_distance, kernel_distance
from understudy.metrics.leakage import closeness
from understudy.metrics.nearest_neighbours import coverage

ROWS, DIM = 60_000, 1280
_PLACES = 10


def embeddings(seed: int, rows: int, dim: int) -> np.ndarray:
    """Rows about ten places, as the classes of a dataset lie."""
    rng = np.random.default_rng(seed)
    places = np.random.default_rng(99).normal(size=(_PLACES, dim)).astype(np.float32)
    made = rng.normal(size=(rows, dim)).astype(np.float32)
    made += 2 * places[rng.integers(0, _PLACES, rows)]
    return made


def main(rows: int = ROWS, dim: int = DIM) -> None:
    """Print seconds of each measure and the memory of the whole process."""
    real, synthetic = embeddings(0, rows, dim), embeddings(1, rows, dim)
    test = embeddings(2, rows // 6, dim)
    table = Table(
        f"{rows:,} against {rows:,} embeddings of {dim:,} numbers",
        ("", "seconds", "processor s", "peak GB"),
        first=52,
    )
    measures: dict[str, Callable[[], Any]] = {
        "Frechet distance": lambda: frechet_distance(real, synthetic),
        "kernel distance, 100 subsets of 1,000": lambda: kernel_distance(real, synthetic),
        "precision, recall, density, coverage": lambda: coverage(real, synthetic),
        "two nearest private rows, with the held-out baseline": lambda: closeness(
            real, synthetic, test
        ),
    }
    for words, measure in measures.items():
        start, used = time.perf_counter(), time.process_time()
        measure()
        table.row(
            words,
            time.perf_counter() - start,
            time.process_time() - used,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        )


if __name__ == "__main__":
    main()
