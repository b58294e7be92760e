"""Data selection under differential privacy on Fashion-MNIST, and what a selection costs.

6,000 private images, 5,000 candidates of which 44 % are bad, 20 % kept; a linear judge on the test
half; epsilon 1, delta 1e-5 (`selection_protocols`). Settings were chosen on other images.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable

import numpy as np

from benchmarks.selection_protocols import (
    FashionMnist,
    fashion_mnist,
    linear_accuracy,
    pixel_axes,
    private_selection,
    subset,
)
from benchmarks.tables import Table
from understudy.methods.selection.algorithm import SelectionParams, select_candidates
from understudy.methods.selection.arithmetic import class_budgets
from understudy.methods.selection.base import ProxySettings
from understudy.methods.selection.linear_proxy import LinearProxy
from understudy.methods.selection.reference import RecordReference
from understudy.metrics.utility import Labelled

KEEP = 0.2
ROUNDS = 8, 15  # of the selection without noise
RUNS = 2  # of each private method and seed
DRAWS = 5  # random selections of a seed
SIZES = 2_000, 100_000
PRIVATE_SETTINGS = {
    "epsilon 1, gradients": {},
    "epsilon 1, moments": {"reference": "moments"},
    "epsilon 1, moments, area": {"reference": "moments", "utility": "area"},
}

PARTS = ("fashion_mnist", "speed")


def by_private_records(data: FashionMnist, rounds: int) -> Labelled:
    """What is selected with the private records themselves as the reference: no guarantee."""
    candidates, params = data.candidates, SelectionParams()
    budgets = class_budgets(candidates.labels, len(candidates.classes), KEEP)
    proxy = LinearProxy(
        candidates.values,
        candidates.labels,
        len(candidates.classes),
        float(budgets.sum()),
        params.proxy,
    )
    reference = RecordReference.of(data.private.values, data.private.labels)
    chosen = select_candidates(proxy, candidates.labels, budgets, reference, rounds=rounds)
    return subset(candidates, chosen.indices)


def releases(data: FashionMnist, seed: int) -> Iterable[tuple[str, Labelled]]:
    """Every method's release, by its name; some several times."""
    rng = np.random.default_rng(seed)
    for _ in range(DRAWS):
        drawn = rng.permutation(len(data.candidates.labels))
        yield "random", subset(data.candidates, drawn[: round(KEEP * len(drawn))])
    yield "all candidates", data.candidates
    yield "the private records", data.private
    for rounds in ROUNDS:
        yield f"private reference, {rounds} rounds", by_private_records(data, rounds)
    for name, settings in PRIVATE_SETTINGS.items():
        for _ in range(RUNS):
            yield name, private_selection(data, epsilon=1.0, settings={"keep": KEEP, **settings})


def accuracies(seeds: int) -> None:
    """Accuracy on the test half, and the part of the private reference's gain over random."""
    measured: dict[str, list[float]] = {}
    for seed in range(seeds):
        data = pixel_axes(fashion_mnist(seed))
        for name, release in releases(data, seed):
            measured.setdefault(name, []).append(linear_accuracy(release, data.test))
    means = {name: float(np.mean(values)) for name, values in measured.items()}
    low, high = means["random"], means[f"private reference, {ROUNDS[0]} rounds"]
    table = Table(
        f"Fashion-MNIST, keep {KEEP:.0%}, {seeds} seeds",
        ("selected by", "accuracy %", "deviation", "of the gain %"),
    )
    for name, mean in means.items():
        spread = float(np.std(measured[name]))
        table.row(name, f"{mean:.2f}", f"{spread:.2f}", f"{100 * (mean - low) / (high - low):.0f}")


def speed() -> None:
    """Processor seconds of a whole selection: 64 axes, T 60, 8 rounds; set OMP_NUM_THREADS=1."""
    table = Table("A selection of a fifth", ("candidates, utility", "seconds", "wall s", "peak MB"))
    for count in SIZES:
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 10, count)
        features = (0.3 * rng.normal(size=(10, 64))[labels] + rng.normal(size=(count, 64))).astype(
            np.float32
        )
        budgets = class_budgets(labels, 10, KEEP)
        reference = RecordReference.of(features[:6000], labels[:6000])
        for utility in ("final", "area"):
            settings = ProxySettings(steps=60, utility=utility)
            proxy = LinearProxy(features, labels, 10, float(budgets.sum()), settings)
            processor, wall = time.process_time(), time.perf_counter()
            select_candidates(proxy, labels, budgets, reference)
            table.row(
                f"{count:,}, {utility}",
                f"{time.process_time() - processor:.1f}",
                f"{time.perf_counter() - wall:.1f}",
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f}",
            )


def main(parts: tuple[str, ...] = PARTS, *, seeds: int = 3) -> None:
    """Print both tables, or the ones that are named."""
    if "fashion_mnist" in parts:
        accuracies(seeds)
    if "speed" in parts:
        speed()


if __name__ == "__main__":
    main()
