"""What audits prove of the mechanisms and of every shipped DP method at epsilon 1, repeated.

Lower bounds on epsilon at 95 % confidence, by 20 repeats: none may lie above the stated 1. Then
LiRA, beside the same attack on the same networks trained without privacy.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.benches import METHODS, ready
from benchmarks.tables import Table
from understudy.audit.audit import AuditKind, audit, audit_bench, audit_mechanisms
from understudy.core.results import Evaluation
from understudy.metrics.privacy_bounds import (
    EPSILON_BOUND,
    GAUSSIAN_EPSILON_BOUND,
    audit_one_run,
    audit_pairs,
)
from understudy.privacy.accounting import epsilon_of_mu
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import run_mu_of

REPEATS = 20
DRAWS = 100_000
RUNS = {"canaries": 4000, "pairs": 400}
HEADS = ("", "median", "most", "if Gaussian", "most, if so", "refuted", "seconds")


def row(table: Table, name: str, found: Sequence[Evaluation], measured: str, start: float) -> None:
    """Medians and largest of the bounds over the repeats."""
    cells: list[float | None] = []
    for bound in (EPSILON_BOUND, GAUSSIAN_EPSILON_BOUND):
        values = [
            one.value
            for told in found
            for one in told.values
            if one.metric.key == bound.key and measured in one.measured
        ]
        cells += [statistics.median(values), max(values)] if values else [None, None]
    refuted = sum(told.verdicts[0].grade == "poor" for told in found)
    seconds = (time.perf_counter() - start) / len(found)
    table.row(name, *cells, f"{refuted} of {len(found)}", f"{seconds:.0f}")


def methods(how: AuditKind) -> None:
    """Every shipped DP method, again and again."""
    table = Table(f"Methods at epsilon 1: {how}, {RUNS[how]:,}, {REPEATS} times", HEADS, first=26)
    for method in METHODS:
        if (method, how) == ("tied gaussian", "pairs"):
            continue  # hours: every run searches for images
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            it = ready(method, Path(folder))
            found = [audit_bench(it.bench, it.rows, how, RUNS[how]) for _ in range(REPEATS)]
        for box in ("white box", "black box") if how == "pairs" else ("white box",):
            row(table, f"{method}, {box}", found, box, start)


def mechanisms() -> None:
    """Every query, again and again."""
    table = Table(f"Mechanisms at epsilon 1: {DRAWS:,} draws, {REPEATS} times", HEADS, first=26)
    start = time.perf_counter()
    found = [audit_mechanisms(draws=DRAWS) for _ in range(REPEATS)]
    measured = dict.fromkeys(one.measured for one in found[0].values if one.measured)
    for one in measured:
        row(table, one.partition(",")[0].removeprefix("mechanism "), found, one, start)


def main() -> None:
    """Print the tables."""
    mechanisms()
    methods("canaries")
    methods("pairs")
    lira()
    peers()


def lira() -> None:
    """LiRA with and without privacy, on noisy labels that only a network that overfits learns."""
    table = Table("LiRA at epsilon 1, 16 shadow models", ("", "AUC", "low", "high"), first=40)
    with tempfile.TemporaryDirectory() as folder:
        found = audit(overfitted(Path(folder)), how="lira", runs=16, rows=300)
    for one in found.of("attack"):
        table.row(one.measured, one.value, one.low, one.high)


def peers() -> None:
    """Another implementation of such bounds, on the same scores of a Gaussian mechanism."""
    spec = importlib.util.find_spec("jax_privacy")
    if spec is None or not spec.submodule_search_locations:
        print("\nno jax_privacy to compare with: pip install --no-deps jax-privacy")
        return
    # Its package imports jax; the one file needs dp_accounting, NumPy and SciPy.
    place = Path(spec.submodule_search_locations[0]) / "auditing.py"
    file = importlib.util.spec_from_file_location("jax_privacy_auditing", place)
    module = importlib.util.module_from_spec(file)
    sys.modules[file.name] = module
    file.loader.exec_module(module)
    mu, found = run_mu_of(Budget(1.0, 1e-5)), []
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        one, other = rng.normal(mu, 1, 50_000), rng.normal(0, 1, 50_000)
        inside = rng.random(4000) < 0.5
        scores = rng.normal(mu * inside, 1)
        mine, theirs = audit_pairs(one, other, delta=1e-5), module.CanaryScoreAuditor(one, other)
        single = module.CanaryScoreAuditor(scores[inside], scores[~inside])
        split = module.Split(0.5, seed=seed)
        found.append(
            (
                (mine.epsilon, theirs.epsilon_clopper_pearson(
                    0.05, 1e-5, threshold_strategy=split)),
                (epsilon_of_mu(mine.mu, 1e-5), theirs.epsilon_from_gdp(0.05, 1e-5)),
                (audit_one_run(scores, inside, delta=1e-5).epsilon,
                 single.epsilon_one_run(0.05, 1e-5)),
            )
        )  # fmt: skip
    heads = ("", "ours", "ours, most", "jax_privacy", "jax_privacy, most")
    table = Table(f"Bounds at epsilon 1 on the same scores, {REPEATS} times", heads, first=40)
    names = ("100,000 draws", "100,000 draws, if Gaussian", "4,000 canaries, one run")
    values = np.array(found)
    for place_of, name in enumerate(names):
        middle, most = np.median(values[:, place_of], axis=0), values[:, place_of].max(axis=0)
        table.row(name, middle[0], most[0], middle[1], most[1])


def overfitted(folder: Path) -> Path:
    """300 embeddings of 32 numbers, a third of whose labels say nothing."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    values = rng.normal(size=(300, 32)) + 0.5 * labels[:, None]
    labels = np.where(rng.random(300) < 1 / 3, 1 - labels, labels)
    np.savez(folder / "rows.npz", embeddings=values.astype(np.float32), labels=labels)
    return folder / "rows.npz"


if __name__ == "__main__":
    main()
