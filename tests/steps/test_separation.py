"""Measures of fit, against brute force and against chance."""

import numpy as np
import pytest

from understudy.steps.separation import separation, separation_fit, vote_spread


def clouds(apart, per_class=30, classes=4, dim=12, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(classes), per_class)
    rows = rng.normal(size=(len(labels), dim)) + apart * np.eye(dim)[labels]
    return rows.astype(np.float32), labels


def test_a_row_is_judged_by_means_that_it_has_no_part_in():
    rows, labels = clouds(1.0)
    right = []
    for index, row in enumerate(rows):
        others = np.arange(len(rows)) != index
        means = [rows[others & (labels == c)].mean(axis=0) for c in range(4)]
        right.append(np.linalg.norm(row - np.stack(means), axis=1).argmin() == labels[index])
    found = separation(rows, labels, 4, np.random.default_rng(1))
    assert found.accuracy == pytest.approx(np.mean(right))
    for label in range(4):
        assert found.recalls[label] == pytest.approx(np.mean(np.array(right)[labels == label]))


def test_classes_apart_are_told_apart_and_equal_ones_are_not():
    far = separation(*clouds(8.0), 4, np.random.default_rng(1))
    assert far.accuracy == 1.0
    assert far.significant
    rare = 0
    for seed in range(20):
        found = separation(*clouds(0.0, seed=seed), 4, np.random.default_rng(1))
        assert abs(found.accuracy - found.chance) < 0.15
        assert found.chance == pytest.approx(0.23, abs=0.05)
        rare += found.significant
    assert rare <= 2


def test_images_that_are_too_few_to_tell_are_said_to_be():
    fit = separation_fit(*clouds(8.0, per_class=2, classes=2), ["a", "b"])
    assert fit.value == 1.0
    assert "they are too few to tell" in fit.warning
    alike = separation_fit(*clouds(0.0), list("abcd"))
    assert "they show the classes alike" in alike.warning


@pytest.mark.parametrize("sd", [0.5, 8.0])
def test_votes_that_fall_anywhere_are_chance_and_uneven_ones_are_not(sd):
    rng = np.random.default_rng(2)
    even = rng.multinomial(300, np.ones(40) / 40, size=4) + sd * rng.normal(size=(4, 40))
    assert vote_spread(even, sd)[1] > 0.01
    assert vote_spread(sd * rng.normal(size=(4, 40)), sd)[1] > 0.01
    popular = np.zeros((40, 40))
    popular[:, :10] = 20
    effective, chance = vote_spread(popular + sd * rng.normal(size=(40, 40)), sd)
    assert chance < 1e-6
    assert effective == pytest.approx(10, rel=0.15)


def test_chance_is_uniform_under_chance():
    rng = np.random.default_rng(3)
    found = [
        vote_spread(
            rng.multinomial(200, np.ones(20) / 20, size=3) + 3 * rng.normal(size=(3, 20)), 3.0
        )[1]
        for _ in range(300)
    ]
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.04)
