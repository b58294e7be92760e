"""DP filters of clustering on EuroSAT embeddings: what is released, and what a network learns.

Each epsilon is run without a filter and with ``filter=embeddings``, some seeds each: the samples
that were asked for and released, the largest difference of a class's share to that in the private
set, and the accuracy of the two-layer network on the real test split. Needs what
``benchmarks.eurosat`` needs.
"""

from __future__ import annotations

import numpy as np

from benchmarks.eurosat import DELTA, features
from benchmarks.tables import DATA, Table, load, need, percent, released, utility
from understudy.metrics.utility import Labelled

EPSILONS = (1.0, 2.0, 4.0, 8.0)
COUNT = 5000
SEEDS = 2


def shares(data: Labelled) -> np.ndarray:
    """Share of each class."""
    return np.bincount(data.labels, minlength=len(data.classes)) / len(data.labels)


def main() -> None:
    """Print counts, class shares and accuracies, in %."""
    images = DATA / "images"
    train = features("eurosat-train", need(images / "eurosat" / "train"))
    test = features("eurosat-test", need(images / "eurosat" / "test"))
    leaves = features("leaves", "procedural:leaves?channels=3")
    held_out, real = load(test), shares(load(train))
    table = Table(
        f"EuroSAT embeddings, {COUNT:,} samples asked for, delta {DELTA:g}, {SEEDS} seeds each",
        ("filter", "epsilon", "fewest released", "share off by", "accuracy", "per seed"),
        first=14,
    )
    for epsilon in EPSILONS:
        for kind in ("none", "embeddings"):
            options = {"count": COUNT, "settings": {"filter": kind}}
            runs = [
                released(train, epsilon, delta=DELTA, public=str(leaves), seed=s, **options)
                for s in range(SEEDS)
            ]
            scores = [utility(run, held_out, network="two-layer").balanced for run in runs]
            table.row(
                kind,
                f"{epsilon:g}",
                f"{min(len(run.labels) for run in runs):,}",
                percent(max(float(np.abs(shares(run) - real).max()) for run in runs)),
                percent(float(np.mean(scores))),
                " ".join(percent(score) for score in scores),
            )


if __name__ == "__main__":
    main()
