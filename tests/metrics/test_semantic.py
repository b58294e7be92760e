"""SIM over all pairs written out, and an interval that holds the truth as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.core.errors import InputError
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


def test_the_same_picture_and_the_opposite() -> None:
    one = HERE[None]
    assert semantic_similarity(one, one).value == pytest.approx(1)
    assert semantic_similarity(one, -3 * one).value == pytest.approx(-1)
    assert semantic_similarity(one, THERE[None]).value == pytest.approx(0)


def test_what_shows_the_same_is_nearer() -> None:
    private = about(HERE, 200, 1)
    near, far = (semantic_similarity(private, about(way, 200, 2)) for way in (HERE, THERE))
    assert near.low > far.high


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


def test_what_all_prompts_share_does_not_widen_the_difference() -> None:
    private = about(HERE, 50, 1)
    empty = np.ones((1, 8))
    found = prompt_similarity(private, empty + 0.01 * about(HERE, 50, 2), empty)
    assert found.above.high - found.above.low < (found.prompts.high - found.prompts.low) / 5


def test_refused() -> None:
    good = about(HERE, 5, 1)
    for bad in (good[:0], good[:, :3], good[0], good * 0, good * np.nan):
        with pytest.raises(InputError, match="embedding"):
            semantic_similarity(good, bad)
    with pytest.raises(InputError, match="one empty prompt"):
        prompt_similarity(good, good, good)
