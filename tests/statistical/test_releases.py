"""Every query through a whole vault: the answer is the exact sum plus noise of the stated scale.

Two-sided: the right scale is accepted, 30 % less and 30 % more are rejected, by a chi-squared test
that fails by chance once in a billion runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from understudy.data import open_source
from understudy.engine.local import LocalEngine
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.queries import (
    Cells,
    ClippedGradients,
    ClippedSums,
    CountAndSum,
    Counts,
    DiagonalMoments,
    FullMoments,
    NormHistogram,
    Query,
    Votes,
)
from understudy.privacy.unit import Adjacency, Unit
from understudy.privacy.vault import PrivateVault

N, DIM, CLASSES = 60, 12, 3
ENOUGH = 1000  # numbers, for 30 % less or more to be seen at the level below
LEVEL = 1e-9
SHARE = 0.3

rng = np.random.default_rng(0)
CELLS = Cells(rng.normal(size=(CLASSES, 8, DIM)))
QUERIES: dict[str, Callable[[], Query]] = {
    "counts": lambda: Counts(Cells(rng.normal(size=(CLASSES, 60, DIM)))),
    "clipped sums": lambda: ClippedSums(CELLS, 1.3),
    "counts and sums": lambda: CountAndSum(CELLS, 2.0),
    "diagonal moments": lambda: DiagonalMoments(CELLS, 1.7),
    "full moments of each class": lambda: FullMoments(CELLS, 1.7, np.arange(CELLS.count) // 8),
    "full moments of each cell": lambda: FullMoments(CELLS, 0.9, np.arange(CELLS.count)),
    "votes": lambda: Votes(rng.normal(size=(CLASSES, 60, DIM))),
    "gradients": lambda: ClippedGradients(rng.normal(size=(DIM + 1, CLASSES)), 1.4),
    "histogram of norms": lambda: NormHistogram(CELLS, np.linspace(0.1, 9.0, 179)),
}


class Books:
    """A dataset of embeddings of a few people, and a ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, 0
        people = np.array([f"p{i % 25}" for i in range(N)])
        values = rng.normal(size=(N, DIM)).astype(np.float32)
        np.savez(folder / "d.npz", embeddings=values, labels=np.arange(N) % CLASSES, unit=people)
        (folder / "cache").mkdir()

    def release(
        self, query: Query, unit: Unit, epsilon: float
    ) -> tuple[NDArray[Any], NDArray[Any], float, float]:
        """The answer, the exact sum, and the noise that receipt and vault state."""
        self.runs += 1
        source = open_source(self.folder / "d.npz", unit=unit.column)
        with Ledger(self.folder / f"{unit.name}-{unit.adjacency}.db") as ledger:
            plan = Plan.of(Budget(epsilon), {"asked": SHARE, "other": 1 - SHARE})
            place, run = self.folder / f"stages-{self.runs}", f"run-{self.runs}"
            dataset = ledger.register(source).id
            account = Account(ledger, dataset, unit, plan, place, run)
            vault = PrivateVault(source, account, LocalEngine(1), self.folder / "cache").embedded()
            answer = vault.release(query, stage="asked")
            sigma = vault.noise_sd(query, stage="asked")
            grid = query.grid(sigma)
            exact = vault._exact(query, grid) * grid
        return answer, exact, account.receipt().stages[0].sigma, sigma


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    return Books(tmp_path)


def plausible(errors: NDArray[Any], sigma: float) -> bool:
    statistic = float(((errors / sigma) ** 2).sum())
    low, high = stats.chi2.ppf([LEVEL / 2, 1 - LEVEL / 2], errors.size)
    return bool(low < statistic < high)


def errors_of(books: Books, query: Query, unit: Unit, epsilon: float) -> tuple[NDArray[Any], float]:
    """Errors of many releases, (n, width), and the scale they should have where weights are 1."""
    errors: list[NDArray[Any]] = []
    sigma = 0.0
    while sum(part.size for part in errors) < ENOUGH:
        answer, exact, stated, sigma = books.release(query, unit, epsilon)
        assert stated == sigma
        errors.append(answer - exact)
    return np.concatenate(errors), sigma


@pytest.mark.parametrize(
    ("name", "epsilon"), [("counts", 2.0), *((name, 0.05) for name in QUERIES)]
)
def test_the_noise_has_the_scale_that_the_budget_asks_for(
    books: Books, name: str, epsilon: float
) -> None:
    query = QUERIES[name]()
    errors, stated = errors_of(books, query, Unit(), epsilon)
    sigma = query.bound / (Plan.of(Budget(epsilon), {"all": 1.0}).mu * math.sqrt(SHARE))
    assert stated == pytest.approx(sigma)
    if query.weights is not None:
        errors = errors * query.weights  # off the diagonal the noise is smaller by sqrt(2)
        for weight in np.unique(query.weights):
            assert plausible(errors[:, query.weights == weight], sigma)
    assert plausible(errors, sigma)
    assert not plausible(errors * 0.7, sigma)
    assert not plausible(errors * 1.3, sigma)
    assert abs(errors.mean()) < 6.2 * sigma / math.sqrt(errors.size)
    # n draws at s >= 2^24 steps a sigma: two are alike with chance 1 / (2 sqrt(pi) s), so n^2 / 2
    # pairs give 0.01 to 0.03 of them; three or more come once in 200,000 cases.
    assert errors.size - len(np.unique(errors)) <= 2


@pytest.mark.parametrize("size", [1, 3])
def test_an_answer_of_few_numbers_carries_its_noise(books: Books, size: int) -> None:
    """The size of the only class of an unlabelled set is one number."""
    query = NormHistogram(CELLS, np.linspace(2.0, 5.0, size - 1))
    assert query.size == size
    errors = np.concatenate([one_release(books, query)[0] for _ in range(60)])
    _, sigma = one_release(books, query)
    assert np.abs(errors).min() > 1e-6 * sigma  # by chance once in 10,000 runs
    assert plausible(errors, sigma)
    assert not plausible(errors * 0.3, sigma)
    assert not plausible(errors * 2.5, sigma)


def one_release(books: Books, query: Query) -> tuple[NDArray[Any], float]:
    """Errors of one release of a query, and the noise that it states."""
    answer, exact, stated, _ = books.release(query, Unit(), 1.0)
    return (answer - exact).ravel(), stated


@pytest.mark.parametrize(
    ("name", "adjacency"),
    [("counts and sums", "add-remove"), *((name, "replace-one") for name in QUERIES)],
)
def test_units_and_neighbours_have_their_own_scale(
    books: Books, name: str, adjacency: Adjacency
) -> None:
    query = QUERIES[name]()
    unit = Unit("unit", 2, adjacency)
    errors, stated = errors_of(books, query, unit, 1.0)
    more = {"add-remove": 1.0, "replace-one": math.sqrt(2) if query.alike else 2.0}[adjacency]
    mu = Plan.of(Budget(1.0), {"all": 1.0}).mu * math.sqrt(SHARE)
    assert stated == pytest.approx(more * query.bound / mu)
    errors = errors if query.weights is None else errors * query.weights
    assert plausible(errors, stated)
    assert not plausible(errors * 0.7, stated)
    assert not plausible(errors * 1.3, stated)
