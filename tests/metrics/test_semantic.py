"""SIM over all pairs written out, and an interval that holds the truth as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.metrics.semantic import semantic_similarity


def about(direction: NDArray[np.float64], n: int, seed: int, spread: float = 0.6) -> NDArray:
    rng = np.random.default_rng(seed)
    length = rng.uniform(0.5, 4, (n, 1))  # cosines do not look at it
    return length * (direction + spread * rng.normal(size=(n, len(direction))))


HERE, THERE = np.eye(8)[0], np.eye(8)[1]


def test_all_pairs_written_out() -> None:
    a, b = about(HERE, 20, 1), about(HERE, 30, 2)
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
    assert semantic_similarity(a, b).value == pytest.approx((a @ b.T / norms).mean())


def test_the_interval_holds_the_truth() -> None:
    """200 repeats at 95 %: 179 to 199 hits but for one in 1,000 (binomial, two-sided)."""
    many = about(HERE, 40_000, 0), about(HERE + 0.5 * THERE, 40_000, 1)
    truth = semantic_similarity(*many).value
    hits = 0
    for at in range(200):
        found = semantic_similarity(many[0][at::1000], many[1][at::600])
        hits += found.low <= truth <= found.high
    assert 179 <= hits <= 199
