"""Processor seconds of whole runs on public drawings: what `understudy plan` estimates times by.

Each run is the command in a process of its own with one thread, default models and settings, in two
sizes. A line for each is printed as ``planning/run_times.json`` has it. Parts are methods.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.commands import command_seconds
from understudy.core.types import Shape
from understudy.planning.dry import model_names
from understudy.planning.public_drawings import drawn_records, public_kinds
from understudy.run.command_words import option_words
from understudy.run.config import make_config
from understudy.run.prepare import prepare

CLASSES = ("eating", "playing", "sleeping", "walking")  # the words that a writer has to know
GREY, COLOUR, LARGE, EMBEDDINGS = (28, 28, 1), (32, 32, 3), (64, 64, 3), (512,)


@dataclass(frozen=True)
class Timed:
    """A method, the shape of a record, the sizes, roles that are as many other drawings, and an
    encoder that is not the default."""

    method: str
    shape: Shape
    sizes: tuple[int, int] = (400, 1_600)
    roles: tuple[str, ...] = ()
    encoder: str | None = None


TIMED = (
    Timed("clustering", GREY, (1_000, 4_000), encoder="embedded:dct"),
    Timed("clustering", COLOUR, (100, 400)),
    Timed("clustering", LARGE, (100, 400)),
    Timed("clustering", EMBEDDINGS, (10_000, 40_000)),
    Timed("labelling", COLOUR, roles=("public",)),
    Timed("selection", GREY, roles=("candidates",)),
    Timed("alignment", COLOUR, (200, 800)),
    Timed("evolution", COLOUR, (200, 800)),
    Timed("finetuning", GREY, (200, 800)),
)


PARTS = tuple(dict.fromkeys(timed.method for timed in TIMED))


def write_records(path: Path, shape: Shape, count: int, seed: int = 0) -> None:
    """Drawings, or embeddings of unequal classes, as an npz."""
    labels = np.arange(count) % len(CLASSES)
    if len(shape) == 1:
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((count, *shape), dtype=np.float32) + labels[:, None]
        np.savez(path, embeddings=values.astype(np.float32), labels=labels)
        return
    sizes = [count // len(CLASSES)] * len(CLASSES)
    draw = public_kinds(shape, len(CLASSES))["shapes"]
    drawn = drawn_records(
        "shapes", lambda label, number: draw(label, number + seed * count), sizes, count, CLASSES
    )
    noise = np.random.default_rng(seed).integers(-4, 5, (count, *shape))  # no two are the same
    images = np.clip(drawn.images[drawn.index].astype(int) + noise, 0, 255).astype(np.uint8)
    np.savez(path, images=images, labels=drawn.labels, classes=np.array(CLASSES))


def options_of(timed: Timed, count: int, folder: Path) -> dict[str, Any]:
    """The options of a run, whose files are written."""
    write_records(folder / "records.npz", timed.shape, count)
    options: dict[str, Any] = {"method": timed.method, "ledger": f"sqlite:///{folder}/ledger.db"}
    if timed.encoder is not None:
        options["encoder"] = timed.encoder
    for role in timed.roles:
        write_records(folder / f"{role}.npz", timed.shape, count, seed=1)
        options[role] = str(folder / f"{role}.npz")
    return options | ({"candidates_public": True} if "candidates" in timed.roles else {})


def seconds_of(options: dict[str, Any], folder: Path) -> float:
    """Processor seconds of one run, everything of its command included."""
    words = ["synthesize", str(folder / "records.npz"), "--epsilon", "4", "--yes"]
    words += ["--out", str(folder / "out"), "--progress", "none"]
    words += [word for name, value in options.items() for word in option_words(name, value)]
    _, processor = command_seconds(*words, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    return processor


def measured(parts: tuple[str, ...]) -> Iterator[dict[str, object]]:
    """What each run took."""
    for timed in TIMED:
        for count in timed.sizes if not parts or timed.method in parts else ():
            with tempfile.TemporaryDirectory() as name:
                options = options_of(timed, count, Path(name))
                given = {"source": f"{name}/records.npz", "out": f"{name}/out", "epsilon": 4.0}
                models = model_names(prepare(make_config({**given, **options})))
                seconds = seconds_of(options, Path(name))
            yield {
                "method": timed.method,
                "models": models,
                "records": count,
                "numbers": math.prod(timed.shape),
                "seconds": round(seconds, 1),
                "date": date.today().isoformat(),
            }


def main(parts: tuple[str, ...] = ()) -> None:
    """Print a line for each run."""
    for line in measured(parts):
        print(json.dumps(line), flush=True)
