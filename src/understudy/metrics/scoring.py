"""What a classifier's answers on a test split are worth: confusion, recalls and calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Labels, Vector

_LEAST = 1e-12


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


@dataclass(frozen=True, slots=True)
class Calibration:
    """Whether a classifier is as often right as it is sure.

    Attributes:
        ece: Expected calibration error (Guo et al. 2017, Eq. 3), in [0, 1]: the distance between
            confidence and accuracy of a bin, averaged over the rows. 0 is perfect.
        brier: Squared distance of the probabilities from the truth, summed over the classes and
            averaged over the rows (Brier 1950), in [0, 2].
        log_loss: Mean of -log(probability of the true class), in nats.
        confidence: (bins,) mean confidence of each bin; NaN for an empty one.
        accuracy: (bins,) part of its rows that were right; NaN for an empty one.
        counts: (bins,) its rows.
    """

    ece: float
    brier: float
    log_loss: float
    confidence: Vector
    accuracy: Vector
    counts: NDArray[np.int64]


def calibration(probabilities: NDArray[Any], truth: Labels, *, bins: int = 15) -> Calibration:
    """Calibration by bins of equal width of the confidence, the probability of the likeliest class.

    Args:
        probabilities: (n, classes), rows that sum to 1.
        truth: (n,) classes.
        bins: A bin holds its upper end and not its lower one, as in the paper.

    Raises:
        InputError: No rows, no label for each, or rows that are no probabilities.
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
    rows = np.arange(len(p))
    predicted = p.argmax(axis=1)
    sure, right = p[rows, predicted], predicted == truth
    place = np.clip(np.ceil(sure * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        confidence, accuracy = (
            np.bincount(place, weights=each, minlength=bins) / counts for each in (sure, right)
        )
    away = p.copy()
    away[rows, truth] -= 1
    return Calibration(
        ece=float(np.nansum(counts * np.abs(confidence - accuracy)) / len(p)),
        brier=float((away**2).sum(axis=1).mean()),
        log_loss=float(-np.log(np.maximum(p[rows, truth], _LEAST)).mean()),
        confidence=confidence,
        accuracy=accuracy,
        counts=counts,
    )
