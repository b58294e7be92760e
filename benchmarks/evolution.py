"""The three findings of the SPTI paper on private homes of the playhouse, three seeds.

1. The Frechet distance to the private images falls over the rounds, for both kinds of candidates.
2. Image voting beats text voting.
3. Looking ahead (K = 4) beats not looking (K = 0) where the data is little diverse: one home.

Distances are between the encoder's embeddings of a generation and of all private images, without
noise: they are for the eyes of the owner, here of a benchmark on public images.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.tables import Skipped, Table
from understudy import synthesize
from understudy.backends.embedded.shipped import STUDIO_WEIGHTS

SOURCE = "playhouse:pet-status"
ONE_HOME = "playhouse:pet-status?homes=1&per_home=1000"
EPSILON = 1.0
SEEDS = (0, 1, 2)
ROUNDS = 6  # at most, by default

_IMAGES: dict[str, Any] = {"candidates": "images"}

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "captions, image voting": (SOURCE, {}),
    "captions, text voting": (SOURCE, {"vote": "text"}),
    "images": (SOURCE, _IMAGES),
    "one home, captions, K = 4": (ONE_HOME, {"lookahead": 4}),
    "one home, captions, K = 0": (ONE_HOME, {"lookahead": 0}),
    "one home, images, K = 4": (
        ONE_HOME,
        {"candidates": "images", "variations": 1, "lookahead": 4},
    ),
    "one home, images, K = 0": (
        ONE_HOME,
        {"candidates": "images", "variations": 1, "lookahead": 0},
    ),
}
"""What is run: a private dataset and settings."""


def distances(source: str, settings: dict[str, Any], seed: int, epsilon: float) -> list[float]:
    """Frechet distance of the first population and of the voted of each round."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthesize(
            source,
            out=folder / "out",
            method="evolution",
            epsilon=epsilon,
            ledger=str(folder / "ledger.db"),
            settings=settings,
            count=64,
            seed=seed,
            watch=True,
        )
        text = (folder / "out" / "owner" / "watch.jsonl").read_text(encoding="utf-8")
    return [float(json.loads(line)["frechet"]) for line in text.splitlines()]


def main(epsilon: float = EPSILON) -> None:
    """Print the distance per round, the means over the seeds, and each finding's verdict."""
    if not STUDIO_WEIGHTS.exists():
        raise Skipped(f"{STUDIO_WEIGHTS} is not there: train the studio first")
    rounds = [f"round {number}" for number in range(ROUNDS + 1)]
    table = Table(
        f"Frechet distance to the private images, epsilon {epsilon:g}, mean of {len(SEEDS)} seeds",
        ("", *rounds, "change", "falls in"),
        first=30,
    )
    found: dict[str, list[list[float]]] = {}
    for name, (source, settings) in RUNS.items():
        runs = [distances(source, settings, seed, epsilon) for seed in SEEDS]
        found[name] = runs
        means = [statistics.mean(column) for column in zip(*runs, strict=True)]
        falls = sum(run[-1] < run[0] for run in runs)
        change = f"{100 * (means[-1] / means[0] - 1):+.0f} %"
        missing = [None] * (len(rounds) - len(means))
        table.row(name, *means, *missing, change, f"{falls} of {len(runs)}")
    for line in _findings(found):
        print(line)


def _findings(found: dict[str, list[list[float]]]) -> Iterator[str]:
    """Each finding as a sentence: what the paper says, and in how many seeds it shows here."""
    for candidates in ("captions, image voting", "images"):
        runs = found[candidates]
        fallen = sum(run[-1] <= 0.7 * run[0] for run in runs)
        yield f"{candidates}: falls by at least 30 % in {fallen} of {len(runs)} seeds"
    for better, worse in (
        ("captions, image voting", "captions, text voting"),
        ("one home, captions, K = 4", "one home, captions, K = 0"),
        ("one home, images, K = 4", "one home, images, K = 0"),
    ):
        pairs = list(zip(found[better], found[worse], strict=True))
        wins = sum(one[-1] < other[-1] for one, other in pairs)
        yield f"{better} beats {worse.rpartition(', ')[2]} in {wins} of {len(pairs)} seeds"


if __name__ == "__main__":
    main()
