"""The protocols of the selection benchmarks, on images and features of a few numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import selection
from benchmarks.selection_images import degraded, draw, near_copy
from benchmarks.selection_judge import (
    accuracy,
    nearest_distance,
    nearest_pairs,
    release_attack,
)
from benchmarks.selection_worlds import Pool, Samples, Sizes, recipe, roles
from tests.metrics.lpips import lpips

from understudy.metrics.similarity import mse

SIZES = Sizes("none", per_class=20, copies=60, blends=12, test=40, attacker=60, held_out=60)
CLASSES = 3
LABELS = np.repeat(np.arange(CLASSES), [120, 100, 90])


def features(rng: np.random.Generator, labels: np.ndarray) -> Samples:
    values = (3 * np.eye(CLASSES, 8)[labels] + rng.normal(size=(len(labels), 8))).astype(np.float32)
    return Samples(labels, values, values)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    rng = np.random.default_rng(0)
    parts = roles(LABELS, SIZES, 0, tuning=False)
    records = features(rng, LABELS[parts.records])
    plan = recipe(records.labels, SIZES, 0)
    noise = np.where(plan.kinds == 2, 1.5, 0.05)[:, None]
    values = records.judge[plan.sources].mean(1) + noise * rng.normal(size=(len(plan.kinds), 8))
    drawn = values.astype(np.float32)

    def candidates(self: Pool, rows: np.ndarray) -> Samples:
        return Samples(plan.labels[rows], drawn[rows], drawn[rows])

    monkeypatch.setattr(Pool, "candidates", candidates)  # no encoder: the features are given
    others = [features(rng, LABELS[one]) for one in (parts.held_out, parts.attacker, parts.test)]
    images = np.zeros((len(records), 4, 4, 3), np.uint8)
    return Pool("none", SIZES, 0, CLASSES, records, plan, images, *others)


def test_no_image_has_two_parts_and_the_test_images_are_the_same_for_every_seed() -> None:
    parts = [roles(LABELS, SIZES, seed, tuning=False) for seed in (0, 1)]
    for one in parts:
        every = np.concatenate([one.records, one.held_out, one.attacker, one.test])
        assert len(every) == len(np.unique(every)) == 120 + 60 + 60 + 40
        assert np.bincount(LABELS[one.records]).tolist() == [40, 40, 40]
    assert np.array_equal(parts[0].test, parts[1].test)
    assert not np.array_equal(parts[0].records, parts[1].records)
    tuning = roles(LABELS, SIZES, 0, tuning=True)
    assert not set(tuning.test) & set(parts[0].test)
    assert np.array_equal(tuning.records, parts[0].records)


def test_a_recipe_draws_skewed_copies_blends_within_classes_and_wrong_labels() -> None:
    labels = np.repeat(np.arange(4), 100)
    sizes = Sizes("none", 50, 600, 100, 1, 1, 1)
    plan = recipe(labels, sizes, 0)
    first, second = plan.sources.T
    assert (labels[first] == labels[second]).all()
    assert ((first == second) == (plan.kinds != 1)).all()
    assert np.bincount(plan.kinds).tolist() == [1440, 480, 800]
    counts = np.bincount(first[plan.kinds == 0], minlength=400)
    assert counts.var() > 2 * counts.mean()  # skewed: a Poisson number has variance = mean
    assert ((plan.labels != labels[first]) == plan.mislabelled).all()
    assert not plan.mislabelled[plan.kinds < 2].any()
    assert plan.mislabelled[plan.kinds == 2].mean() == pytest.approx(0.15, abs=0.04)


def test_a_world_draws_of_its_own_members_and_degrades_the_others(pool: Pool) -> None:
    members = pool.members()
    task = pool.world(members)
    assert np.bincount(task.kinds).tolist() == [60, 12, 120]
    assert (len(task.private), len(task.non_members)) == (60, 60)
    assert (pool.members(1) == ~members).all()
    near = selection.facts_of(task, 0.5)
    copies, others = near.to_private[task.kinds == 0], near.to_private[task.kinds == 2]
    assert copies.max() < np.median(others)


def test_judge_and_attacker_tell_releases_apart(pool: Pool) -> None:
    task = pool.world(pool.members())
    copies = task.candidates.take(np.flatnonzero(task.kinds == 0))
    others = task.candidates.take(np.flatnonzero(task.kinds == 2))
    assert accuracy(task, copies) > 0.8
    assert release_attack(task, copies).auc.value > release_attack(task, others).auc.value + 0.1
    assert nearest_distance(task, copies) < 0.3 < nearest_distance(task, others)
    samples, records = nearest_pairs(task, copies, 5)
    gaps = np.linalg.norm(copies.judge[samples] - task.private.judge[records], axis=1)
    assert (np.diff(gaps) >= 0).all()
    assert len(set(records)) == 5


def test_every_method_of_the_chart_selects(pool: Pool) -> None:
    facts = selection.facts_of(pool.world(pool.members()), 0.5)
    for method in ("random", "trained attack", *selection.VARIANTS):
        chosen = selection.selected(method, facts)
        assert len(chosen) == facts.budgets.sum() == 96


def test_near_copies_stay_nearer_than_degraded_images() -> None:
    rng = np.random.default_rng(0)
    images = np.kron(rng.integers(0, 255, (6, 8, 8, 3)), np.ones((1, 8, 8, 1))).astype(np.uint8)
    numbers = np.arange(6)
    copies, others = (draw(images, how, [0, 1], numbers) for how in (near_copy, degraded))
    assert copies.shape == images.shape
    mirrored = images[:, :, ::-1]
    nearest = [np.minimum(mse(one, images), mse(one, mirrored)) for one in (copies, others)]
    assert nearest[0].mean() < nearest[1].mean()
    assert np.array_equal(copies[2:4], draw(images[2:4], near_copy, [0, 1], numbers[2:4]))


def test_looks_are_lpips_of_the_studios_feature_maps(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And they are near 0 for a copy, computed once for a world, and taken along by a release."""
    perceptual = pytest.importorskip("benchmarks.perceptual")
    monkeypatch.setattr(perceptual, "CACHE", tmp_path)
    rng = np.random.default_rng(0)
    images = np.kron(rng.integers(0, 255, (6, 8, 8, 3)), np.ones((1, 8, 8, 1))).astype(np.uint8)
    weights = [np.ones(48)] * 3
    pairs = lpips(perceptual.feature_maps, weights, images[:3], images[3:])
    np.testing.assert_allclose(np.diag(perceptual.looks_among(images)[:3, 3:]), pairs, rtol=1e-4)
    assert pairs.min() > 0.3

    task = replace(
        pool.world(pool.members()),
        candidates=features(rng, np.array([0, 1, 2])),
        images=lambda rows: images[[0, 4, 5]][rows],
        private_images=images[:3],
    )
    looks = task.looks
    assert looks[0] < 1e-4
    assert looks[1:].min() > 0.3
    assert task.released(np.array([2, 0])).looks.tolist() == looks[[2, 0]].tolist()
    again = replace(task, images=lambda _: 1 / 0)
    assert again.looks.tolist() == looks.tolist()
    assert pool.world(pool.members(1)).key != task.key
