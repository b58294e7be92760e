"""Confusion and calibration, against the paper's formula written out."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.metrics.scoring import calibration_error, confusion


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
        found = calibration_error(each, truth, bins=bins)
        assert found == pytest.approx(published_ece(each, truth, bins), abs=1e-9)


def test_confusion_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    p, truth = answers()
    said = p.argmax(axis=1)
    assert np.array_equal(confusion(truth, said, 5), metrics.confusion_matrix(truth, said))


def test_an_honest_classifier_is_calibrated_and_a_boastful_one_is_not() -> None:
    p, truth = answers(20_000)
    assert calibration_error(p, truth) < 0.02
    sharper = p**4 / (p**4).sum(axis=1, keepdims=True)
    assert calibration_error(sharper, truth) > 0.1


def test_confusion_has_the_truth_in_rows() -> None:
    found = confusion(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), 4)
    assert found.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
