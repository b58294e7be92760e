"""DP k-means: ours beside diffprivlib on the same points, and Google's published times.

All know that the points lie in the unit ball (diffprivlib is even given the tightest box around
them), and none is told the number of rows but diffprivlib. Ours is (epsilon, 1e-5)-DP for adding or
removing a row; diffprivlib is epsilon-DP for the replacement of one.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.kmeans_peers import Clustering, cost, make_clusters, peer
from benchmarks.tables import Table
from understudy.core.types import Stage, Vector
from understudy.data import open_source
from understudy.engine.local import LocalEngine
from understudy.methods import dp_estimators
from understudy.methods.base import stages_of, weights_of
from understudy.methods.dp_estimators import KMeansStages
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.cells import Cells
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault, Vault
from understudy.steps import shrinkage

DELTA = 1e-5
ROWS = 20_000
SEEDS = (0, 1, 2)
SUBSPACE = 64
WORKLOADS = ((16, 5, 1.0, "0.8"), (16, 5, 10.0, None), (512, 10, 1.0, None), (512, 10, 10.0, "6.4"))
"""(dimensions, clusters, epsilon, Google's published seconds on 2 cores)."""

MEAN, COVARIANCE = Stage("mean", 2.0), Stage("covariance", 30.0)
K_MEANS = KMeansStages(
    (Stage("votes 1", 4.0), Stage("votes 2", 4.0)), (Stage("lloyd 1", 10.0), Stage("lloyd 2", 20.0))
)
"""The releases and their weights in the budget."""


def ours(points: NDArray[np.float32], k: int, epsilon: float, delta: float = DELTA) -> Clustering:
    """DP k-means of points in the unit ball by the library's own parts.

    From a file on disk to centres: with the ledger, every charge and every noise, in the seconds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "points.npz", embeddings=points)
        start = time.perf_counter()
        with Ledger(f"sqlite:///{folder}/ledger.db") as ledger:
            source = open_source(folder / "points.npz")
            dataset = ledger.register(source)
            plan = Plan.of(
                Budget(epsilon, delta), weights_of((MEAN, COVARIANCE, *stages_of(K_MEANS)))
            )
            account = Account(ledger, dataset.id, Unit(), plan, folder / "stages")
            vault = PrivateVault(source, account, LocalEngine(), folder)
            centres = _centres(vault, points.shape[1], k)
        seconds = time.perf_counter() - start
    return Clustering("understudy", centres, cost(points, centres), seconds)


def _centres(vault: Vault, dim: int, k: int) -> Vector:
    """Mean, covariance, votes for candidates along its leading axes, Lloyd steps: (k, d)."""
    rng = np.random.default_rng(0)
    mean = dp_estimators.group_means(vault, Cells(np.zeros((1, 1, dim))), 1.0, MEAN)
    # In many dimensions a random subspace, which is public, tells clusters apart as well, and its
    # covariance is far fewer noisy numbers (Johnson and Lindenstrauss 1984).
    subspace = np.linalg.qr(rng.standard_normal((dim, min(dim, SUBSPACE))))[0]
    shadow = vault.view(lambda values: values @ subspace.astype(np.float32))
    centre = (mean.means @ subspace)[None]
    total, sd = dp_estimators.second_moments(shadow, Cells(centre), 1.0, None, COVARIANCE)
    size = float(mean.counts[0])
    covariance = shrinkage.denoise_covariance(total[0] / size, sd / size)
    values, axes = np.linalg.eigh(covariance)
    spread = np.sqrt(np.maximum(values[::-1][:k], 1e-12))
    axes = subspace @ axes[:, ::-1][:, :k]
    return dp_estimators.dp_kmeans(vault, mean.means, axes, spread, k, 1.0, K_MEANS, rng)[0]


def main() -> None:
    """Print seconds and cost of each, the means over a few seeds."""
    table = Table(
        f"DP k-means, {ROWS:,} points, delta {DELTA:g}; cost: mean squared distance to a centre",
        ("", "dim", "k", "epsilon", "seconds", "cost", "true centres", "one centre"),
        first=28,
    )
    for dim, k, epsilon, google in WORKLOADS:
        found: dict[str, list[Clustering]] = {"understudy": [], "diffprivlib": []}
        for seed in SEEDS:
            points, truth = make_clusters(ROWS, dim, k, seed)
            found["understudy"].append(ours(points, k, epsilon))
            found["diffprivlib"].append(peer(points, k, epsilon, seed=seed))
        bounds = cost(points, truth), cost(points, points.mean(0, keepdims=True))
        for name, runs in found.items():
            seconds = float(np.median([run.seconds for run in runs]))
            reached = float(np.mean([run.cost for run in runs]))
            table.row(name, dim, k, f"{epsilon:g}", seconds, reached, *bounds)
        if google:
            table.row("Google, published", dim, k, f"{epsilon:g}", google)


if __name__ == "__main__":
    main()
