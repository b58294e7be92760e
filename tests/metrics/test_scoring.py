"""Confusion and calibration, against scikit-learn's and the papers' formulas written out."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.metrics.scoring import calibration, confusion


def answers(n: int = 4000, classes: int = 5, seed: int = 0) -> tuple[NDArray[np.float64], ...]:
    """Probabilities, and classes drawn by them: a calibrated classifier."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.4), n)
    truth = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=classes - 1)
    return p, truth


def published_ece(p: NDArray[np.float64], truth: NDArray[np.int64], bins: int) -> float:
    """Guo et al. 2017, as their code writes it: bins open below, closed above."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == truth
    ends = np.linspace(0, 1, bins + 1)
    total = 0.0
    for low, high in pairwise(ends):
        inside = (sure > low) & (sure <= high)
        if inside.any():
            total += abs(sure[inside].mean() - right[inside].mean()) * inside.mean()
    return total


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_calibration_error_is_the_published_one(bins: int) -> None:
    p, truth = answers()
    sharper = p**2 / (p**2).sum(axis=1, keepdims=True)
    for each in (p, sharper):
        found = calibration(each, truth, bins=bins)
        assert found.ece == pytest.approx(published_ece(each, truth, bins), abs=1e-9)
        assert found.counts.sum() == len(p)


def test_against_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    p, truth = answers()
    found = calibration(p, truth)
    assert found.log_loss == pytest.approx(metrics.log_loss(truth, p), rel=1e-6)
    # scikit-learn has the Brier score of two classes: half of the one over both of them.
    two = p[:, :2] / p[:, :2].sum(axis=1, keepdims=True)
    which = (truth == 1).astype(np.int64)
    brier = metrics.brier_score_loss(which, two[:, 1])
    assert calibration(two, which).brier == pytest.approx(2 * brier)
    said = p.argmax(axis=1)
    assert np.array_equal(confusion(truth, said, 5), metrics.confusion_matrix(truth, said))


def test_an_honest_classifier_is_calibrated_and_a_boastful_one_is_not() -> None:
    p, truth = answers(20_000)
    honest = calibration(p, truth)
    assert honest.ece < 0.02
    sharper = p**4 / (p**4).sum(axis=1, keepdims=True)
    boastful = calibration(sharper, truth)
    assert boastful.ece > 0.1
    assert boastful.brier > honest.brier
    assert boastful.log_loss > honest.log_loss
    assert np.nanmean(boastful.confidence - boastful.accuracy) > 0.05


def test_confusion_has_the_truth_in_rows() -> None:
    found = confusion(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), 4)
    assert found.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
