"""Attacks find what is there to be found, and nothing where there is nothing."""

import numpy as np
import pytest

from understudy.core.errors import InputError
from understudy.metrics.attacks import (
    Shadows,
    by_calibrated_distance,
    by_density_ratio,
    by_distance,
    by_distance_ratio,
    by_loss,
)
from understudy.metrics.roc import roc


def world(seed, rows, dim=6):
    """Rows in a dense place and in a thin one."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, dim)) * np.where(rng.random((rows, 1)) < 0.5, 0.2, 2.0)


MEMBERS, OTHERS, REFERENCE, FRESH = world(0, 200), world(1, 200), world(2, 400), world(3, 400)
ATTACKS = {
    "distance": lambda rows, release: by_distance(rows, release),
    "calibrated": lambda rows, release: by_calibrated_distance(rows, release, REFERENCE),
    "ratio": lambda rows, release: by_distance_ratio(rows, release, REFERENCE),
    "density": lambda rows, release: by_density_ratio(rows, release, REFERENCE),
}


def area(attack, release):
    return roc(ATTACKS[attack](MEMBERS, release), ATTACKS[attack](OTHERS, release)).auc


@pytest.mark.parametrize("attack", ATTACKS)
def test_copies_are_found_and_fresh_rows_give_nothing_away(attack):
    blurred = MEMBERS + np.random.default_rng(4).normal(size=MEMBERS.shape) * 0.05
    assert area(attack, np.concatenate([blurred, FRESH[:50]])).low > 0.6
    fresh = area(attack, FRESH)
    assert fresh.low < 0.5 < fresh.high


def test_a_reference_takes_out_what_dense_places_tell():
    blurred = MEMBERS + np.random.default_rng(5).normal(size=MEMBERS.shape) * 0.15
    assert area("calibrated", blurred).value > area("distance", blurred).value


@pytest.mark.parametrize("axes", [0, 1, 3])
def test_a_density_of_samples_in_a_plane_is_one_in_the_plane(axes):
    """A release whose samples are all alike, or on a line, is measured and not refused."""
    flat = np.where(np.arange(MEMBERS.shape[1]) < axes, MEMBERS, 1.0)
    _, _, frame = np.linalg.svd(REFERENCE - REFERENCE.mean(axis=0), full_matrices=False)
    released = REFERENCE.mean(axis=0) + flat @ frame
    scores = by_density_ratio(np.concatenate([MEMBERS, OTHERS]), released, REFERENCE)
    assert np.isfinite(scores).all()
    assert (scores == 0).all() == (axes == 0)
    same = np.ones((50, 6))
    assert (by_density_ratio(MEMBERS, same, same) == 0).all()


def test_a_ratio_finds_copies_that_are_as_near_as_their_surroundings_are_dense():
    lengths = np.linalg.norm(MEMBERS, axis=1, keepdims=True)
    blurred = MEMBERS + np.random.default_rng(5).normal(size=MEMBERS.shape) * 0.1 * lengths
    released = np.concatenate([blurred[::2], FRESH])
    assert area("ratio", released).value > area("calibrated", released).value


def test_a_copy_scores_highest_of_all():
    assert (by_distance(MEMBERS, MEMBERS) == 0).all()
    ratios = by_distance_ratio(np.concatenate([MEMBERS, OTHERS]), MEMBERS, REFERENCE)
    assert np.isfinite(ratios).all()
    assert ratios[: len(MEMBERS)].min() > ratios[len(MEMBERS) :].max()


def nearest_class_means(rows, labels, seed):
    """A model that remembers: the class of the nearest row it was trained on, softly."""
    del seed

    def model(asked):
        apart = ((asked[:, None] - rows[None]) ** 2).sum(-1)
        near = np.stack([apart[:, labels == c].min(axis=1) for c in range(2)], axis=1)
        p = np.exp(-near)
        return p / p.sum(axis=1, keepdims=True)

    return model


def class_means(rows, labels, seed):
    """A model that generalises: distances to the two class means."""
    del seed
    means = np.stack([rows[labels == c].mean(axis=0) for c in range(2)])

    def model(asked):
        p = np.exp(-((asked[:, None] - means[None]) ** 2).sum(-1) / 10)
        return p / p.sum(axis=1, keepdims=True)

    return model


def labelled(rows=200):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(rows, 5))
    return x, (x[:, 0] + rng.normal(size=rows) > 0).astype(np.int64)


def test_lira_finds_a_model_that_remembers_and_not_one_that_does_not():
    x, y = labelled()
    remembers = Shadows.train(nearest_class_means, x, y, models=8).attack()
    assert remembers.auc.low > 0.8
    generalises = Shadows.train(class_means, x, y, models=8).attack()
    assert abs(generalises.auc.value - 0.5) < 0.06


def test_shadow_models_come_by_pairs_on_a_half_and_on_the_other():
    x, y = labelled(50)
    inside = Shadows.train(class_means, x, y, models=6).inside
    assert (inside[::2] == ~inside[1::2]).all()
    assert 0 < inside.mean(axis=1).min() < 1
    for models in (2, 5):
        with pytest.raises(
            InputError, match=f"four shadow models or more, by pairs, found {models}"
        ):
            Shadows.train(class_means, x, y, models=models)


def test_a_model_under_attack_is_not_asked_about_itself():
    x, y = labelled(60)
    shadows = Shadows.train(nearest_class_means, x, y, models=4)
    changed = Shadows(shadows.inside, shadows.confidences.copy())
    changed.confidences[2] = 99.0
    target = shadows.confidences[2]
    assert (changed.score(target, leave_out=2) == shadows.score(target, leave_out=2)).all()
    assert (changed.score(target) != shadows.score(target)).any()


def test_the_loss_tells_rows_that_were_learnt_and_no_others():
    x, y = labelled(300)
    members, others, fresh = ((x[at : at + 100], y[at : at + 100]) for at in (0, 100, 200))
    remembers, honest = (nearest_class_means(*rows, 0) for rows in (members, fresh))
    found, chance = (
        roc(*(by_loss(model, *side) for side in (members, others))).auc
        for model in (remembers, honest)
    )
    assert found.low > 0.7
    assert chance.low < 0.5 < chance.high


def test_lira_is_fair_where_nothing_leaks():
    """Confidences of pure chance; an interval of 95 % holds a half 180 to 198 times of 200.

    Left out alone, without its twin, a model would make members look like others.
    """
    rng = np.random.default_rng(8)
    held, areas = 0, []
    for _ in range(200):
        halves = rng.random((3, 60)) < 0.5
        inside = np.stack([halves, ~halves], axis=1).reshape(6, 60)
        area = Shadows(inside, rng.normal(size=(6, 60))).attack().auc
        held += area.low < 0.5 < area.high
        areas.append(area.value)
    assert 180 <= held <= 198
    assert abs(np.mean(areas) - 0.5) < 4 * np.std(areas) / np.sqrt(200)
