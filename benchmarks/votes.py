"""Votes of private rows for candidates: our exact search beside the bare product and its peers.

All in one process, on the same rows, on all cores. The bare product is NumPy's float32 matrix
product of the same size, block by block into one array: no search can be faster that computes every
inner product. Ours runs as it does in a release, by the engine and the query.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import Table
from understudy.engine.local import LocalEngine
from understudy.privacy.queries import Votes
from understudy.privacy.rows import BLOCK

PRIVATE, CANDIDATES, DIM = 50_000, 10_000, 512
REPEATS = 3

Rows = NDArray[np.float32]
Search = Callable[[Rows, Rows], NDArray[np.int64]]


def main() -> None:
    """Print seconds, speed over the bare product's, memory and agreement for two kinds of rows."""
    for name, make in (("random directions", _random), ("20 tight clusters", _clustered)):
        rows, candidates = make(PRIVATE, 1), make(CANDIDATES, 2)
        title = f"{PRIVATE:,} private rows x {CANDIDATES:,} candidates x {DIM} dimensions: {name}"
        table = Table(title, ("", "seconds", "of the bare product", "MB above inputs", "agree"))
        runs: dict[str, list[tuple[float, float]]] = {}
        found: dict[str, NDArray[np.int64] | None] = {}
        # Turn by turn, so that a slow minute of the machine is everybody's.
        for _ in range(REPEATS):
            for who, search in _searches():
                seconds, memory, answer = _measured(search, rows, candidates)
                runs.setdefault(who, []).append((seconds, memory))
                found[who] = answer
        bare = statistics.median(seconds for seconds, _ in runs["bare matrix product"])
        for who, measured in runs.items():
            seconds = statistics.median(seconds for seconds, _ in measured)
            answer, ours = found[who], found["understudy"]
            agree = None if answer is None else f"{100 * np.mean(answer == ours):.3f} %"
            memory = max(memory for _, memory in measured)
            table.row(who, seconds, f"{100 * bare / seconds:.0f} %", f"{memory:.0f}", agree)
        for package in ("scikit-learn", "faiss-cpu"):
            if not _installed(package):
                table.row(f"{package}: not installed")


def _searches() -> Iterator[tuple[str, Callable[[Rows, Rows], NDArray[np.int64] | None]]]:
    yield "bare matrix product", _bare
    yield "understudy", _ours
    if _installed("scikit-learn"):
        yield f"scikit-learn {version('scikit-learn')}", _sklearn
    if _installed("faiss-cpu"):
        yield f"faiss-cpu {version('faiss-cpu')}", _faiss


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _random(count: int, seed: int) -> Rows:
    rows = np.random.default_rng(seed).standard_normal((count, DIM), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _clustered(count: int, seed: int) -> Rows:
    """As embeddings of a few classes are: most pairs of a cluster are nearly as far apart."""
    middles = np.random.default_rng(0).standard_normal((20, DIM), dtype=np.float32)
    rng = np.random.default_rng(seed)
    rows = middles[rng.integers(0, 20, count)]
    rows += 0.3 * rng.standard_normal((count, DIM), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _bare(rows: Rows, candidates: Rows) -> None:
    product = np.empty((BLOCK, len(candidates)), dtype=np.float32)
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        np.matmul(part, candidates.T, out=product[: len(part)])


def _ours(rows: Rows, candidates: Rows) -> NDArray[np.int64]:
    query = Votes(candidates[None].astype(np.float64))
    blocks = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]

    def assigned(block: Rows) -> NDArray[np.int64]:
        return query.cells.assign(block, np.zeros(len(block), dtype=np.int64))

    return np.concatenate(list(LocalEngine().map(assigned, blocks)))


def _sklearn(rows: Rows, candidates: Rows) -> NDArray[np.int64]:
    from sklearn.metrics import pairwise_distances_argmin

    return np.asarray(pairwise_distances_argmin(rows, candidates))


def _faiss(rows: Rows, candidates: Rows) -> NDArray[np.int64]:
    import faiss

    index = faiss.IndexFlatL2(DIM)
    index.add(candidates)
    return np.asarray(index.search(rows, 1)[1][:, 0])


def _measured(
    search: Callable[[Rows, Rows], NDArray[np.int64] | None], rows: Rows, candidates: Rows
) -> tuple[float, float, NDArray[np.int64] | None]:
    """Seconds, the most memory above what there was before in MB, and the answer."""
    before, most, over = _resident(), [0.0], threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            most[0] = max(most[0], _resident())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    start = time.perf_counter()
    answer = search(rows, candidates)
    seconds = time.perf_counter() - start
    over.set()
    watcher.join()
    return seconds, most[0] - before, answer


def _resident() -> float:
    """MB of memory that this process holds."""
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
