"""The three tests of WP216: copies are singled out and linked, an honest release is not accused."""

import numpy as np
import pytest

from understudy.metrics.anonymity import AnonymityTest, infer, link_halves, single_out

RNG = np.random.default_rng(11)
PRIVATE, CONTROL, HONEST = (
    RNG.normal(size=(400, 12)).astype(np.float32) for _ in range(3)
)  # all of one population
COPIES = PRIVATE + RNG.normal(0, 0.05, PRIVATE.shape).astype(np.float32)
SECRETS = [RNG.integers(0, 4, 400) for _ in range(3)]  # nothing tells them but the record itself


@pytest.mark.parametrize("attack", [single_out, link_halves])
def test_copies_leak_and_an_honest_release_does_not(attack) -> None:
    copied, honest = attack(PRIVATE, COPIES, CONTROL), attack(PRIVATE, HONEST, CONTROL)
    assert copied.verdict == "leaks"
    assert copied.risk.low > 0.8
    assert honest.verdict != "leaks"
    assert honest.risk.low <= 0 <= honest.risk.high


def test_a_secret_that_only_copies_know_is_inferred() -> None:
    ours, theirs, others = SECRETS
    copied = infer((PRIVATE, ours), (COPIES, ours), (CONTROL, others))
    honest = infer((PRIVATE, ours), (HONEST, theirs), (CONTROL, others))
    assert copied.risk.low > 0.8
    assert honest.risk.low <= 0 <= honest.risk.high
    assert honest.verdict == "too weak to tell"


def test_what_everybody_knows_is_no_leak() -> None:
    sides = [(rows, (rows[:, 0] > 0).astype(np.int64)) for rows in (PRIVATE, HONEST, CONTROL)]
    test = infer(*sides)
    assert test.main.low > test.naive.high  # the attack works ...
    assert test.verdict == "no leak found"  # ... on everybody alike


def test_few_copies_among_many_samples_are_singled_out() -> None:
    some = np.concatenate([PRIVATE[:40], HONEST[:160]])
    assert single_out(PRIVATE, some, CONTROL).verdict == "leaks"


def test_more_private_records_than_control_are_no_leak() -> None:
    many = RNG.normal(size=(2000, 3)).astype(np.float32)
    few, release = (RNG.normal(size=(n, 3)).astype(np.float32) for n in (200, 300))
    assert single_out(many, release, few).verdict != "leaks"


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    misses = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        hits = [rng.random(300) < 0.3 for _ in range(3)]
        misses += AnonymityTest.of("linkability", *hits).verdict == "leaks"
    assert misses <= 9  # 2.5 % of 100; more than 9 has a chance of 1 in 5,000
