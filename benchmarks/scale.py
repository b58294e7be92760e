"""Time and memory from 100,000 to 1,000,000 embeddings of 512 dimensions, from a file to a file.

10 classes, 8 clusters each, diagonal covariances: reading, recognising the dataset, fitting,
sampling as many synthetic rows, writing them. Each size runs in a process of its own. The part
``ray`` does the same by the workers of a Ray cluster of this machine; ``images`` 400 colour images
of 64 pixels (public drawings) by the default, which searches for every image that it draws; and
``samples`` as many by the generator of `evolution` and by the network of `finetuning`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.run_times import LARGE, write_records
from benchmarks.tables import Table
from understudy import synthesize

DIM, CLASSES, CLUSTERS = 512, 10, 8
CLUSTERED = {"settings": {"clusters": CLUSTERS, "covariance": "diagonal"}}
SIZES = (100_000, 400_000, 1_000_000)
IMAGES = 400
SAMPLERS: dict[str, dict[str, Any]] = {
    "evolution": {"settings": {"rounds": 1, "population": 40, "lookahead": 0}},
    "finetuning": {"settings": {"steps": 2, "images": 64, "pretraining": 2}},
}
"""Methods whose generator or network draws the samples, with little before that."""


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


def run(path: Path, folder: Path, answer: Path, workers: int, options: Mapping[str, Any]) -> None:
    """One run, and what it took, as JSON; with ``workers`` by so many of Ray's."""
    start = time.perf_counter()
    with workers_of_ray(workers) if workers else nullcontext():
        started = time.perf_counter()
        result = synthesize(
            path,
            out=folder / f"out{workers}",
            epsilon=1.0,
            ledger=f"sqlite:///{folder}/ledger{workers}.db",
            engine="ray" if workers else "local",
            **options,
        )
        seconds = time.perf_counter() - started
    usage, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    peak = usage.ru_maxrss / (1 if sys.platform == "darwin" else 1024)
    measured = {
        "seconds": seconds,
        "start": started - start,
        "peak": peak,
        "busy": usage.ru_utime + usage.ru_stime + others.ru_utime + others.ru_stime,
        "parts": dict(result.seconds),
    }
    answer.write_text(json.dumps(measured), encoding="utf-8")


@contextmanager
def workers_of_ray(workers: int) -> Iterator[None]:
    """A cluster of this machine with so many workers, however many processors there are."""
    from understudy.engine.ray_engine import ray  # it sets a token before Ray is imported

    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def in_process(work: Callable[..., None], *arguments: Any) -> None:
    """Carry out something in a process of its own, so that memory is that of it alone."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} ended with {process.exitcode}")


def measured_run(
    path: Path, folder: Path, workers: int = 0, options: Mapping[str, Any] = CLUSTERED
) -> dict[str, Any]:
    """What `run` measures."""
    in_process(run, path, folder, folder / "measured.json", workers, options)
    answer: dict[str, Any] = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    return answer


def sizes() -> None:
    """Print seconds, processor seconds and peak memory for each size."""
    table = Table(
        f"Embeddings of {DIM} dimensions, {CLASSES} classes, {CLUSTERS} clusters each",
        ("rows", "seconds", "CPU s", "peak MB", "us/row", "us/further", "CPU us/further", "fit s"),
        first=12,
    )
    before: tuple[int, float, float] | None = None
    for rows in SIZES:
        with tempfile.TemporaryDirectory() as name:
            in_process(write_rows, Path(name) / "rows.npz", rows)
            measured = measured_run(Path(name) / "rows.npz", Path(name))
        now = rows, measured["seconds"], measured["busy"]
        # What a further row costs: without what every run costs, however small.
        further = [
            1e6 * (now[i] - before[i]) / (rows - before[0]) if before else None for i in (1, 2)
        ]
        fit = measured["parts"]["embed and fit"]
        table.row(f"{rows:,}", *now[1:], measured["peak"], 1e6 * now[1] / rows, *further, fit)
        before = now


def by_ray(records: int | None = None) -> None:
    """Print the same runs by Ray beside local ones, and what they say of 100 million records.

    The model: what the driver does alone (to recognise the records, to sample as many and write
    them) grows with the records, and what the workers do with the records of each.
    """
    table = Table(
        f"Embeddings of {DIM} dimensions by Ray, {os.cpu_count()} processors",
        ("rows, workers", "seconds", "of local", "CPU s", "fit s", "of local", "recognise s"),
        first=20,
    )
    points: list[tuple[int, int, float, float]] = []
    runs = [(rows, (0, 2)) for rows in SIZES[:2]] + [(SIZES[2], (0, 2, 1, 4))]
    for rows, workers in [(records, (0, 2, 1, 4))] if records else runs:
        with tempfile.TemporaryDirectory() as name:
            in_process(write_rows, Path(name) / "rows.npz", rows)
            local: dict[str, Any] = {}
            for count in workers:
                one = measured_run(Path(name) / "rows.npz", Path(name), count)
                local = local or one
                parts, of_local = one["parts"], local["parts"]
                fit, alone = parts["embed and fit"], parts["recognise the dataset"]
                table.row(
                    f"{rows:,}, {count or 'local'}",
                    one["seconds"],
                    one["seconds"] / local["seconds"],
                    one["busy"],
                    fit,
                    fit / of_local["embed and fit"],
                    alone,
                )
                if count:
                    points.append((rows, count, fit, alone + parts["sample and write"]))
    used = [point for point in points if point[1] <= (os.cpu_count() or 1)]
    shares = np.array([(1.0, rows / workers) for rows, workers, *_ in used])
    fixed, each = np.linalg.lstsq(shares, np.array([fit for *_, fit, _ in used]), rcond=None)[0]
    alone = max(serial / rows for rows, _, _, serial in used)
    print(f"\nfitted: {fixed:.1f} s + {1e6 * each:.1f} us a record and worker; alone ", end="")
    print(f"{1e6 * alone:.1f} us a record")
    for workers in (2, 16, 128):
        fit_hours = (fixed + each * 1e8 / workers) / 3600
        print(f"a model, not a measurement: 100,000,000 records by {workers} workers: ", end="")
        print(f"{fit_hours:.1f} h by workers, {alone * 1e8 / 3600:.1f} h by the driver alone")


def images(
    records: int, counts: Sequence[int] = (0, 1, 2, 4), options: Mapping[str, Any] | None = None
) -> None:
    """Print what runs take whose workers also make the images; of the default without options."""
    options = options or {}
    method = options.get("method", "the default")
    table = Table(
        f"{records} colour images of {LARGE[0]} pixels by {method}, {os.cpu_count()} processors",
        ("workers", "seconds", "of local", "CPU s", "fit s", "draw s", "of local"),
    )
    with tempfile.TemporaryDirectory() as name:
        path, local = Path(name) / "records.npz", {}
        write_records(path, LARGE, records)
        for workers in counts:
            one = measured_run(path, Path(name), workers, options)
            local = local or one
            seconds, drawing = one["seconds"], one["parts"]["sample and write"]
            table.row(
                str(workers or "local"),
                seconds,
                seconds / local["seconds"],
                one["busy"],
                one["parts"]["embed and fit"],
                drawing,
                drawing / local["parts"]["sample and write"],
            )


PARTS = ("sizes", "ray", "images", "samples")


def main(parts: Sequence[str] = ("sizes",), records: int | None = None) -> None:
    """Print the tables of the parts, of so many records where a number is given (not sizes)."""
    for part in parts:
        if part == "sizes":
            sizes()
        elif part == "ray":
            by_ray(records)
        elif part == "images":
            images(records or IMAGES)
        else:
            count = records or IMAGES
            for method, options in SAMPLERS.items():
                images(count, (0, 1, 2), {"method": method, "count": count, **options})


if __name__ == "__main__":
    main()
