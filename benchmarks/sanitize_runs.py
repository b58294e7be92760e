"""The tables of `sanitize_models` by many processes: every run is written down as it ends.

``python -m benchmarks.sanitize_runs --out FOLDER --processes 10 --seconds 500``; the same command
again goes on with what is missing, and ``--print`` prints what is there. Runs are in order of their
weight: the preferences that the paper compares, at one seed, then at others, then the rest.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import format_exception
from typing import Any

import numpy as np

from benchmarks.sanitize_models import (
    TASKS,
    Levels,
    Models,
    Size,
    averaged,
    measured,
    name_of,
    oracle,
    tests_of,
    trained_score,
    zero_shot,
)
from benchmarks.tables import Table, machine
from understudy.methods.sanitize.training_set import LabelledSet, joined_sets, mixed_set
from understudy.report.images import contact_sheet

MAIN: dict[str, tuple[Levels, ...]] = {
    "pet": ((0, 0), (0, 2), (2, 2)),
    "activity": ((0, 0), (2, 2)),
    "bottle": ((0, 0), (2, 0), (2, 1), (2, 2)),
    "two-objects": ((2, 1, 1),),
}
"""What is asked of each task first: levels of the background, then of the objects."""

NO_SERVER = ("pet", "activity", "bottle")  # tasks with zero-shot models and oracles beside them
LABELLED = (400, 40)  # photos that the oracles learn from


@dataclass(frozen=True)
class Block:
    """What a process does at a time."""

    task: str  # its name
    seed: int  # of the repetition
    # whose photos are tested on: all of them where nothing but words is sent, because all of them
    # get the same model
    homes: tuple[int, ...]
    levels: Levels | None = None  # what is sent; None: nothing is, and no server trains anything
    # train models of images of both of these preferences instead
    mixed: tuple[Levels, Levels] | None = None


def blocks(size: Size) -> list[Block]:
    """All runs, the weightiest first: one repetition of all, of pets all, then the rest."""
    every = tuple(range(size.homes))
    order: list[tuple[int, bool, Block]] = []
    for seed in range(size.seeds):
        for task, main in MAIN.items():
            late = 1 if task == "pet" else 3
            for levels in {*main, *TASKS[task].preferences}:
                first, later = (0, late) if levels in main else (2, late + 1)
                weight = later if seed else first
                groups = [(home,) for home in every] if any(levels) else [every]
                parts = [Block(task, seed, homes, levels) for homes in groups]
                order += [(weight, any(levels), one) for one in parts]
            for pair in TASKS[task].mixed:
                mixtures = [Block(task, seed, (home,), mixed=pair) for home in every]
                order += [(late + 2, True, one) for one in mixtures]
    order += [(2, True, Block(task, 0, (home,))) for task in NO_SERVER for home in every]
    return [block for _, _, block in sorted(order, key=lambda one: one[:2])]


def run_block(block: Block, size: Size, folder: Path, deadline: float) -> None:
    """Measure what is not measured yet, and write each run down."""
    known = set(written(folder))
    for home in block.homes:
        if (block.task, _name(block), home, block.seed) in known or time.time() > deadline:
            continue
        if block.mixed:
            _mixtures(block, block.mixed, home, size, folder)
        elif block.levels is None:
            _without_server(block, home, size, folder)
        else:
            _preference(block, block.levels, home, size, folder)


def _name(block: Block) -> str:
    if block.mixed:
        return " + ".join(map(name_of, block.mixed))
    return "zero-shot" if block.levels is None else name_of(block.levels)


def _preference(block: Block, levels: Levels, home: int, size: Size, folder: Path) -> None:
    """Everything of one preference of one home."""
    start = time.time()
    row, images = measured(TASKS[block.task], levels, home, block.seed, size)
    different = len(np.unique(images.images.reshape(len(images), -1), axis=0))
    _write(
        folder,
        block,
        home,
        _name(block),
        real=row.real,
        synthetic=row.synthetic,
        pieces=row.pieces,
        information=row.information,
        similarity=row.similarity,
        different=different / len(images),
        seconds=time.time() - start,
    )
    if any(levels in pair for pair in TASKS[block.task].mixed):
        file = _set_file(folder, block, home, levels)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(images.to_bytes())
    if not home and not block.seed:
        _sheet(folder, block.task, _name(block), images)


def _mixtures(
    block: Block, pair: tuple[Levels, Levels], home: int, size: Size, folder: Path
) -> None:
    """Models of halves of the images of two preferences, and of all of them, where both exist."""
    files = [_set_file(folder, block, home, one) for one in pair]
    if not all(file.is_file() for file in files):
        return
    sets = [LabelledSet.from_bytes(file.read_bytes()) for file in files]
    task = TASKS[block.task]
    tests = tests_of(task, home, size)
    for name, images in (
        (f"{_name(block)}, all images", joined_sets(sets)),
        (_name(block), mixed_set(sets, block.seed)),
    ):
        synthetic, real = trained_score(task, images, tests, block.seed, size)
        _write(folder, block, home, name, real=real, synthetic=synthetic)


def _set_file(folder: Path, block: Block, home: int, levels: Levels) -> Path:
    whose = home if any(levels) else "all"
    return folder / "sets" / f"{block.task}-{name_of(levels)}-{whose}-{block.seed}.npy"


def _without_server(block: Block, home: int, size: Size, folder: Path) -> None:
    """Zero-shot, and models of labelled photos of the home."""
    task = TASKS[block.task]
    tests = tests_of(task, home, size)
    for count in LABELLED:
        accuracy = oracle(task, home, count, tests, size)
        _write(folder, block, home, f"oracle, {count} photos", real=accuracy)
    _write(folder, block, home, _name(block), real=zero_shot(task, tests))


def _write(folder: Path, block: Block, home: int, name: str, **values: Any) -> None:
    line = {"task": block.task, "name": name, "home": home, "seed": block.seed, **values}
    with (folder / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _sheet(folder: Path, task: str, name: str, images: LabelledSet) -> None:
    """A few images of every class."""
    rows = np.concatenate([np.flatnonzero(images.labels == one)[:16] for one in range(4)])
    sheet = contact_sheet(images.images[rows if len(rows) else np.arange(64)], columns=16)
    (folder / f"{task}-{name}.png".replace(" ", "")).write_bytes(sheet)


def written(folder: Path) -> dict[tuple[str, str, int, int], dict[str, Any]]:
    """The runs that are written down, by task, name, home and seed."""
    file = folder / "runs.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    runs = [json.loads(line) for line in lines]
    return {(one["task"], one["name"], one["home"], one["seed"]): one for one in runs}


def tables(folder: Path) -> None:
    """What is written down, as means and 95 % intervals over the runs."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for (task, name, _, _), run in written(folder).items():
        groups[task][name].append(run)
    for task, names in groups.items():
        columns = ("runs", "synthetic", "real", "MI t, b", "SIM t, b", "pieces", "different", "s")
        table = Table(TASKS[task].name, ("(target, background)", *columns))
        for name, runs in sorted(names.items()):
            table.row(name, str(len(runs)), *_cells(runs))


def _cells(runs: Sequence[dict[str, Any]]) -> list[str]:
    def cell(key: str) -> str:
        values = [run[key] for run in runs if key in run]
        return averaged(values) if values else "-"

    def pair(key: str) -> str:
        values = [run[key] for run in runs if key in run]
        return ", ".join(f"{100 * one:.1f}" for one in np.mean(values, axis=0)) if values else "-"

    seconds = [run["seconds"] for run in runs if "seconds" in run]
    return [
        cell("synthetic"),
        cell("real"),
        pair("information"),
        pair("similarity"),
        cell("pieces"),
        cell("different"),
        f"{np.mean(seconds):.0f}" if seconds else "-",
    ]


def _ready() -> None:
    """Load the models of a process."""
    import torch

    torch.set_num_threads(1)
    Models.generator()
    Models.segmenter()


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sanitize_runs", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="no run begins after these")
    parser.add_argument("--count", type=int, default=400, help="images a class")
    parser.add_argument("--homes", type=int, default=5, help="private homes")
    parser.add_argument("--seeds", type=int, default=3, help="repetitions")
    parser.add_argument("--steps", type=int, default=400, help="of DreamBooth")
    parser.add_argument("--tasks", nargs="*", default=list(MAIN), help="those to run")
    parser.add_argument("--print", action="store_true", help="only print what is there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    deadline = time.time() + options.seconds
    size = replace(
        Size(), homes=options.homes, seeds=options.seeds, images=options.count, steps=options.steps
    )
    if not options.print:
        print(machine(), flush=True)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.processes, context, initializer=_ready) as pool:
            wanted = [one for one in blocks(size) if one.task in options.tasks]
            jobs = {pool.submit(run_block, one, size, options.out, deadline): one for one in wanted}
            for job in as_completed(jobs):
                if (error := job.exception()) is not None:
                    print(f"{jobs[job]} failed:", *format_exception(error), flush=True)
    tables(options.out)


if __name__ == "__main__":
    main()
