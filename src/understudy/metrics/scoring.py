"""What a classifier's answers on a test split are worth: confusion, recalls and calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Labels, Vector


def confusion(truth: Labels, predicted: Labels, classes: int) -> NDArray[np.int64]:
    """How often each class was taken for each: (classes, classes), rows the truth.

    Raises:
        InputError: Not as many answers as rows, or a class out of range.
    """
    if truth.shape != predicted.shape or truth.ndim != 1:
        raise InputError(f"an answer a row: {truth.shape} rows, {predicted.shape} answers")
    for each in (truth, predicted):
        if len(each) and not 0 <= each.min() <= each.max() < classes:
            raise InputError(
                f"classes must be in 0..{classes - 1}, found {each.min()}..{each.max()}"
            )
    return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes)


def recalls(table: NDArray[np.int64]) -> Vector:
    """The part of each class's rows that was found, in [0, 1]; NaN for a class without rows.

    Args:
        table: (classes, classes) counts as of `confusion`, rows the truth.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(np.diag(table) / table.sum(axis=1), dtype=np.float64)


def balanced_accuracy(table: NDArray[np.int64]) -> float:
    """The mean of the recalls of all classes that have rows (Brodersen et al. 2010).

    Naming one class for every row gives one over the number of those classes, whatever their
    sizes: a model that never finds a small class cannot hide it behind the large ones.

    Args:
        table: (classes, classes) counts as of `confusion`, rows the truth.
    """
    return float(np.nanmean(recalls(table)))


def calibration_error(probabilities: NDArray[Any], truth: Labels, *, bins: int = 15) -> float:
    """Expected calibration error (Guo et al. 2017, Eq. 3), in [0, 1]; 0 is perfect.

    The distance between the confidence of a bin, the probability of the likeliest class, and its
    accuracy, averaged over the rows.

    Args:
        probabilities: (n, classes), rows that sum to 1.
        truth: (n,) classes.
        bins: Of equal width; a bin holds its upper end and not its lower one, as in the paper.

    Raises:
        InputError: No rows, no label for each, rows that are no probabilities, or no bins.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or not len(p) or truth.shape != (len(p),):
        raise InputError(f"a label a row: probabilities {p.shape}, labels {truth.shape}")
    if not (p >= -1e-6).all() or not np.allclose(p.sum(axis=1), 1, atol=1e-4):
        raise InputError("these are no probabilities: a row of them is not below 0 and sums to 1")
    if not 0 <= truth.min() <= truth.max() < p.shape[1]:
        raise InputError(f"labels must be in 0..{p.shape[1] - 1}")
    if bins < 1:
        raise InputError(f"bins must be 1 or more, found {bins}")
    sure, right = p.max(axis=1), p.argmax(axis=1) == truth
    place = np.clip(np.ceil(sure * bins).astype(np.int64) - 1, 0, bins - 1)
    excess = np.bincount(place, weights=sure - right, minlength=bins)
    return float(np.abs(excess).sum() / len(p))
