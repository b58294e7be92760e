"""SIM over all pairs written out, and an interval that holds the truth as often as it says."""

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.metrics.semantic import prompt_similarity, semantic_similarity


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


def test_prompts_beside_the_empty_prompt() -> None:
    private = about(HERE, 300, 1)
    empty = about(THERE, 1, 5, spread=0.1)
    told = prompt_similarity(private, about(HERE, 50, 2), empty)
    assert told.above.low > 0.1
    assert told.above.value == pytest.approx(told.prompts.value - told.empty.value)
    same = prompt_similarity(private, np.repeat(empty, 4, axis=0), empty)
    assert same.above.value == pytest.approx(0)
    assert same.prompts.value == pytest.approx(same.empty.value)
    none = prompt_similarity(private, about(THERE, 200, 7, spread=0.1), empty)
    assert abs(none.above.value) < 0.1
