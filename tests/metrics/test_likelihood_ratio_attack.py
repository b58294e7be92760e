"""Whole-chain LiRA: it finds what leaks, and nothing where nothing does."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.likelihood_ratio_attack import ChainAttack, chain_attack, member_draws, run_worlds

from understudy.metrics.attacks import Shadows

LABELS = np.repeat(np.arange(3), 20)


def test_members_are_half_of_each_class_and_the_others_in_the_next_world() -> None:
    members = member_draws(LABELS, 6, seed=1)
    assert members.shape == (6, 60)
    for inside in members:
        assert np.bincount(LABELS[inside]).tolist() == [10, 10, 10]
    assert (members[0::2] == ~members[1::2]).all()
    assert not (members[0] == members[2]).all()
    assert np.array_equal(members, member_draws(LABELS, 6, seed=1))


def attacked(leak: float, worlds: int = 16, records: int = 200) -> ChainAttack:
    rng = np.random.default_rng(0)
    members = member_draws(np.zeros(records, np.int64), worlds)
    hard = rng.normal(0, 5, records)  # some records are always classified better than others
    confidences = run_worlds(
        lambda inside, number: hard + leak * inside + rng.normal(0, 1, records), members
    )
    return chain_attack(members, confidences)


def test_a_chain_that_leaks_is_caught_as_far_as_it_does() -> None:
    result = attacked(1.0)
    # Two normals a deviation apart, the means of 7 worlds known with a deviation of 0.38.
    assert 0.70 < result.auc.value < 0.78
    assert result.found_at(0.01) > 0.03
    assert result.by_world.shape == (16,)
    assert result.by_world.mean() == pytest.approx(result.auc.value, abs=0.02)
    assert attacked(4.0).found_at(0.01) > 0.9


def test_a_chain_that_does_not_leak_is_not_accused() -> None:
    result = attacked(0.0)
    assert result.auc.low < 0.5 < result.auc.high
    assert result.found_at(0.01) < 0.02


def test_the_scores_are_those_of_shadow_models() -> None:
    rng = np.random.default_rng(3)
    members = member_draws(LABELS, 8)
    confidences = rng.normal(size=members.shape) + members
    result, shadows = chain_attack(members, confidences), Shadows(members, confidences).attack()
    assert result.curve.auc == shadows.auc
    assert np.array_equal(result.curve.tpr, shadows.tpr)


def test_worlds_without_complements_are_attacked_by_all_others() -> None:
    rng = np.random.default_rng(4)
    members = rng.random((9, 300)) < 0.5
    members = members[:, (members.sum(0) > 1) & (members.sum(0) < 8)]
    result = chain_attack(members, 3 * members + rng.normal(size=members.shape))
    assert result.auc.value > 0.9
