"""Budgets, projections onto them, robust scales, penalties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from understudy.core.errors import ConfigError
from understudy.methods.selection.arithmetic import (
    class_budgets,
    largest_weights,
    project,
    robust_scores,
    selected_count,
)
from understudy.methods.selection.base import ProxySettings
from understudy.methods.selection.penalties import (
    calibrated_distances,
    losses_after_training,
    membership_penalty,
    reconstruction_penalty,
)

CLASSES = 4
LABELS = hnp.arrays(np.int64, st.integers(8, 60), elements=st.integers(0, CLASSES - 1))
SHARES = st.floats(0.01, 1.0)
NUMBERS = st.floats(-5, 5, allow_nan=False, width=32)


def budgets_or_none(labels, keep, kind="proportional"):
    try:
        return class_budgets(labels, CLASSES, keep, kind)
    except ConfigError:
        return None


@given(LABELS, SHARES, st.sampled_from(["proportional", "balanced"]))
def test_budgets_add_up_and_no_class_exceeds_what_it_has(labels, keep, kind):
    sizes = np.bincount(labels, minlength=CLASSES)
    total = selected_count(keep, len(labels))
    budgets = budgets_or_none(labels, keep, kind)
    if budgets is None:
        assert total < (sizes > 0).sum()
        return
    assert budgets.sum() == total
    assert (budgets <= sizes).all()
    assert (budgets[sizes > 0] >= 1).all()


def test_proportional_budgets_are_within_one_of_their_share():
    labels = np.repeat([0, 1, 2], [500, 300, 201])
    budgets = class_budgets(labels, 3, 0.1)
    assert np.abs(budgets - [50, 30, 20.1]).max() < 1


def test_balanced_budgets_give_what_a_class_lacks_to_the_others():
    labels = np.repeat([0, 1, 2], [2, 50, 50])
    assert class_budgets(labels, 3, 30, "balanced").tolist() == [2, 14, 14]


@pytest.mark.parametrize(("keep", "count"), [(0.2, 20), (1, 100), (1.0, 100), (2, 2), (100, 100)])
def test_what_is_kept_is_a_share_or_a_number(keep, count):
    assert selected_count(keep, 100) == count


@given(LABELS, SHARES, st.data())
def test_projected_weights_lie_in_the_box_and_add_up(labels, keep, data):
    budgets = budgets_or_none(labels, keep)
    if budgets is None:
        return
    gamma = data.draw(hnp.arrays(np.float64, len(labels), elements=NUMBERS))
    projected = project(gamma, labels, budgets)
    assert projected.min() >= 0
    assert projected.max() <= 1
    np.testing.assert_allclose(
        np.bincount(labels, weights=projected, minlength=CLASSES), budgets, atol=1e-9
    )
    np.testing.assert_allclose(project(projected, labels, budgets), projected, atol=1e-9)
    # The nearest point: no other one of the set lies in front of it (the variational inequality).
    other = project(
        data.draw(hnp.arrays(np.float64, len(labels), elements=NUMBERS)), labels, budgets
    )
    assert (gamma - projected) @ (other - projected) <= 1e-7


@given(LABELS, SHARES, st.data())
def test_the_largest_of_each_class_are_taken_in_order(labels, keep, data):
    budgets = budgets_or_none(labels, keep)
    if budgets is None:
        return
    gamma = data.draw(hnp.arrays(np.float64, len(labels), elements=st.floats(0, 1, width=16)))
    indices = largest_weights(gamma, labels, budgets)
    assert (np.diff(indices) > 0).all()
    assert np.bincount(labels[indices], minlength=CLASSES).tolist() == budgets.tolist()
    for label in np.unique(labels):
        mine = labels == label
        rest = np.setdiff1d(np.flatnonzero(mine), indices)
        if len(rest):
            assert gamma[rest].max() <= gamma[indices[labels[indices] == label]].min()


@given(hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e6, 1e6)))
def test_robust_scores_are_bounded_and_keep_the_order(values):
    scores = robust_scores(values)
    assert np.abs(scores).max() <= 4
    assert (np.diff(scores[np.argsort(values, kind="stable")]) >= -1e-12).all()


def test_robust_scores_of_normal_values_have_unit_scale_whatever_the_outliers():
    values = np.random.default_rng(0).normal(3, 7, 2000)
    scores = robust_scores(np.append(values, [1e9] * 50))
    assert np.std(scores[:2000]) == pytest.approx(1, abs=0.1)
    assert (scores[2000:] == 4).all()


def test_the_penalty_rises_with_closeness_to_a_private_image():
    rng = np.random.default_rng(0)
    to_private, to_others = rng.uniform(1, 2, 100), rng.uniform(1, 2, 100)
    to_private[7] = 0.0  # a copy
    to_private[8] = to_others[8] = 1e-3  # near to everything: no copy
    penalty = reconstruction_penalty(to_private, to_others)
    assert penalty.argmax() == 7
    assert penalty[7] == 4
    assert abs(penalty[8]) < 1
    assert np.isfinite(calibrated_distances(np.zeros(3), np.zeros(3))).all()


def test_the_penalty_rises_with_what_a_private_model_knows_better():
    private, other = np.array([0.1, 1.0, 1.1, 0.9]), np.array([2.0, 1.0, 1.0, 1.0])
    assert membership_penalty(private, other).argmax() == 0


def test_the_loss_of_a_candidate_is_its_own():
    """Of the probabilities of its classes, which add up to 1, whoever else is a candidate."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    records = 2.0 * np.eye(3)[labels] + rng.normal(size=(60, 3))
    settings = ProxySettings(steps=40, learning_rate=0.5)
    losses = [
        losses_after_training((records, labels), (records[:20], np.full(20, label)), 3, settings)
        for label in range(3)
    ]
    np.testing.assert_allclose(np.exp(-np.array(losses)).sum(0), 1.0)
    alone = losses_after_training((records, labels), (records[4:5], np.array([1])), 3, settings)
    np.testing.assert_allclose(alone, losses[1][4:5])
    assert (np.array(losses).argmin(0) == labels[:20]).mean() > 0.6
