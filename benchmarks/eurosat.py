"""EuroSAT embeddings: a release and a network on it, beside DP training on the same features.

Needs the EuroSAT tiles and an ONNX encoder in ``../shared/data`` beside the checkout. The space of
the release is whitened on public images, photos of clothes or drawn leaves (the default of the
command line); the rivals have no use for any.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import dp_sgd
from benchmarks.tables import CACHE, DATA, Table, load, need, percent, released, utility
from understudy.backends.registry import load_encoder
from understudy.data import open_source
from understudy.metrics.utility import Labelled

DELTA = 1e-5
EPSILONS = (1.0, 8.0)
ENCODER = "mobilenet_v2_features.onnx"
ENCODERS = ("squeezenet1_1_features.onnx", ENCODER)
LABELS = ("mixture", "classifier")
SIZE = 128
PIXELS = 64  # a side of the tiles, and of the public images
GRID = {"steps": (100, 300), "lr": (200.0, 400.0), "clip": (0.3, 1.0)}

Result = tuple[float, float]  # balanced accuracy in [0, 1], and seconds


def features(name: str, source_name: str | Path, model: str = ENCODER) -> Path:
    """Embeddings of a source and its class names, as npz, made once."""
    path = CACHE / f"{name}-{Path(model).stem}-{SIZE}.npz"
    if path.exists():
        return path
    source = open_source(source_name, size=PIXELS)
    file = need(DATA / "models" / model)
    encoder = load_encoder(f"onnx:{file}?size={SIZE}", shape=source.shape)
    start, parts = time.perf_counter(), []
    for batch in source.batches(256):
        parts.append((encoder.encode(batch.values), np.array(source.classes)[batch.labels]))
    values, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    CACHE.mkdir(parents=True, exist_ok=True)
    known = {"labels": labels} if len(source.classes) > 1 else {}
    np.savez(path, embeddings=values, **known)
    print(f"{len(labels):,} images of {name} embedded in {time.perf_counter() - start:.0f} s")
    return path


def release(train: Path, test: Labelled, public: Path, epsilon: float, **options: Any) -> Result:
    """The two-layer network on a release; the seconds are those of the release alone."""
    start = time.perf_counter()
    samples = released(train, epsilon, delta=DELTA, public=str(public), **options)
    seconds = time.perf_counter() - start
    return utility(samples, test, network="two-layer").balanced, seconds


def rivals(train: Path, test: Path) -> Iterator[tuple[str, Callable[[float], Result]]]:
    """Names, and what each reaches at an epsilon."""
    (x, y), (xt, yt) = (_numbered(path) for path in (train, test))

    def run(peer: Callable[..., dp_sgd.Peer], epsilon: float) -> Result:
        found = peer(x, y, xt, yt, epsilon, DELTA)
        return found.balanced, found.seconds

    best = functools.partial(dp_sgd.best_of, dp_sgd.dp_gd_linear, GRID)
    yield "DP-GD, linear, best of a grid", functools.partial(run, best)
    yield "Opacus, linear", functools.partial(run, dp_sgd.opacus_linear)


def _numbered(path: Path) -> tuple[dp_sgd.Floats, dp_sgd.Labels]:
    with np.load(path, allow_pickle=False) as file:
        return file["embeddings"], np.unique(file["labels"], return_inverse=True)[1]


def compare(model: str, count: int | None) -> None:
    """Print the table of one encoder; releases of ``count`` samples, or as many as records."""
    images = DATA / "images"
    train = features("eurosat-train", need(images / "eurosat" / "train"), model)
    test = features("eurosat-test", need(images / "eurosat" / "test"), model)
    clothes = features("clothing", need(images / "clothing" / "train"), model)
    leaves = features("leaves", "procedural:leaves?channels=3", model)
    held_out = load(test)
    table = Table(
        f"EuroSAT, {Path(model).stem} at {SIZE} px, delta {DELTA:g}: balanced accuracy in % (s)",
        ("trained on / by", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)),
        first=42,
    )
    for words, public in (("leaves", leaves), ("clothes", clothes)):
        for labels in LABELS:
            settings, cells = {"labels": labels}, []
            for epsilon in EPSILONS:
                found = release(train, held_out, public, epsilon, settings=settings, count=count)
                cells.append(_cell(found))
            table.row(f"a release, {words}, labels={labels}", *cells)
    for name, reach in rivals(train, test):
        table.row(name, *(_cell(reach(epsilon)) for epsilon in EPSILONS))
    real = utility(load(train), held_out, network="two-layer")
    table.row("real data, two layers, not private", percent(real.balanced))


def main(count: int | None = None) -> None:
    """Print balanced accuracies on the real test split, in %, and the seconds of one fit."""
    for model in ENCODERS:
        compare(model, count)


def _cell(result: Result) -> str:
    return f"{percent(result[0])} ({result[1]:.0f})"


if __name__ == "__main__":
    main()
