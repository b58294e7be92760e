"""Time and memory from 100,000 to 1,000,000 embeddings of 512 dimensions, from a file to a file.

10 classes, 8 clusters each, diagonal covariances: reading, recognising the dataset, fitting,
sampling as many synthetic rows, writing them. Each size runs in a process of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.tables import Table
from understudy import synthesize

DIM, CLASSES, CLUSTERS = 512, 10, 8
SIZES = (100_000, 400_000, 1_000_000)


def write_rows(path: Path, rows: int, seed: int = 0) -> None:
    """Unequal Gaussian clusters, 8 a class, as npz; rows * 2 KB of memory for a moment."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CLASSES * CLUSTERS, DIM), dtype=np.float32)
    values, labels = np.empty((rows, DIM), np.float32), np.empty(rows, np.int64)
    for start in range(0, rows, 50_000):
        part = slice(start, start + 50_000)
        cluster = rng.integers(0, len(centres), len(labels[part]))
        noise = rng.standard_normal((len(cluster), DIM), dtype=np.float32)
        values[part], labels[part] = centres[cluster] + noise, cluster // CLUSTERS
    np.savez(path, embeddings=values, labels=labels)


def run(path: Path, folder: Path, answer: Path) -> None:
    """One run, and what it took, as JSON."""
    start = time.perf_counter()
    result = synthesize(
        path,
        out=folder / "out",
        epsilon=1.0,
        ledger=f"sqlite:///{folder}/ledger.db",
        settings={"clusters": CLUSTERS, "covariance": "diagonal"},
    )
    seconds = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    peak = usage.ru_maxrss / (1 if sys.platform == "darwin" else 1024)
    busy = usage.ru_utime + usage.ru_stime
    found = {"seconds": seconds, "peak": peak, "busy": busy, "parts": dict(result.seconds)}
    answer.write_text(json.dumps(found), encoding="utf-8")


def main() -> None:
    """Print seconds, processor seconds and peak memory for each size."""
    table = Table(
        f"Embeddings of {DIM} dimensions, {CLASSES} classes, {CLUSTERS} clusters each",
        ("rows", "seconds", "CPU s", "peak MB", "us/row", "us/further", "CPU us/further", "fit s"),
        first=12,
    )
    spawn = multiprocessing.get_context("spawn")  # so that memory is that of the run alone
    before: tuple[int, float, float] | None = None
    for rows in SIZES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for work, args in (
                (write_rows, (folder / "rows.npz", rows)),
                (run, (folder / "rows.npz", folder, folder / "found.json")),
            ):
                process = spawn.Process(target=work, args=args)
                process.start()
                process.join()
            found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
        now = rows, found["seconds"], found["busy"]
        # What a further row costs: without what every run costs, however small.
        further = [
            1e6 * (now[i] - before[i]) / (rows - before[0]) if before else None for i in (1, 2)
        ]
        fit = found["parts"]["embed and fit"]
        table.row(f"{rows:,}", *now[1:], found["peak"], 1e6 * now[1] / rows, *further, fit)
        before = now


if __name__ == "__main__":
    main()
