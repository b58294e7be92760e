"""A classifier of a release that may look at private records, and recalls out of noisy counts.

The classifier is linear, so that what it says of a record depends on that record alone, to the last
bit (`understudy.core.independence.Projection`). How many records of each class it finds and misses
is asked once, under differential privacy; from the two noisy counts of a class follows its recall,
with an interval that holds the noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.results import Interval
from understudy.core.types import Labels, Vector

_DECAY = 1e-3  # of the weights of scaled features
_STEPS = 200
_LEAST_VALUE = 1e-9  # of the largest eigenvalue: an axis that no row has a part of is left out
_CONFIDENT = 1.959963984540054  # standard deviations: 95 %
_GRID = np.linspace(0.0, 1.0, 1001)  # recalls that are tried


def softmax_weights(features: NDArray[Any], labels: Labels, classes: int) -> Vector:
    """Weights of a softmax regression, in which every class counts the same.

    Features are centred and scaled to a mean square of 1 first, all by one number: what hardly
    varies in a release, and may in private records, is not blown up. That is undone in the weights,
    so that they take features as they are.

    Args:
        features: (n, d).
        labels: (n,) class of each; a class may have none.
        classes: C.

    Returns:
        (d + 1, C) float64, the last row for the intercept.
    """
    rows = np.asarray(features, dtype=np.float64)
    mean = rows.mean(axis=0)
    scale = float(np.sqrt(np.square(rows - mean).mean())) or 1.0
    rows = (rows - mean) / scale
    axes = None if rows.shape[1] <= len(rows) else _axes(rows)
    if axes is not None:
        rows = rows @ axes
    rows = np.column_stack([rows, np.ones(len(rows))])
    sizes = np.bincount(labels, minlength=classes)
    weights = 1.0 / sizes[labels] / np.count_nonzero(sizes)
    truth = np.eye(classes)[labels]

    def loss(flat: Vector) -> tuple[float, Vector]:
        theta = flat.reshape(-1, classes)
        logs = scipy.special.log_softmax(rows @ theta, axis=1)
        decayed = np.concatenate([theta[:-1], np.zeros((1, classes))])
        gradient = rows.T @ ((np.exp(logs) - truth) * weights[:, None]) + _DECAY * decayed
        value = _DECAY / 2 * np.vdot(decayed, decayed) - weights @ (logs * truth).sum(axis=1)
        return float(value), gradient.ravel()

    start = np.zeros(rows.shape[1] * classes)
    result = scipy.optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
    )
    theta = result.x.reshape(-1, classes)
    weights_of_features = theta[:-1] if axes is None else axes @ theta[:-1]
    weights_of_features /= scale
    return np.vstack([weights_of_features, theta[-1] - mean @ weights_of_features])


def _axes(rows: Vector) -> Vector:
    """Orthonormal axes of all rows, (d, n) or fewer, of n rows of more than n numbers.

    Weights with a decay lie in the span of the rows, and turning that changes no loss.
    """
    values, vectors = np.linalg.eigh(rows @ rows.T)
    large = values > _LEAST_VALUE * values[-1]
    return np.asarray(rows.T @ (vectors[:, large] / np.sqrt(values[large])))


def recall_intervals(counts: Vector, noise_sd: float) -> list[Interval]:
    """The recall of each class with a 95 % interval: of the noise, and of the records as a sample.

    The interval holds every recall r that the counts do not refute: with m missed and f found, both
    noisy, f - r (m + f) has mean 0 and variance s^2 ((1 - r)^2 + r^2) + n r (1 - r) (Fieller 1954,
    with the variance at r itself). A class of few records has one from 0 to 1.

    Args:
        counts: (C, 2) noisy: missed, found.
        noise_sd: s, the standard deviation of the noise of a count.
    """
    intervals = []
    for missed, hits in np.asarray(counts, dtype=np.float64):
        total = missed + hits
        variance = noise_sd**2 * ((1 - _GRID) ** 2 + _GRID**2)
        variance += max(total, noise_sd) * _GRID * (1 - _GRID)
        surplus = (hits - _GRID * total) ** 2 - _CONFIDENT**2 * variance
        possible = _GRID[surplus <= max(0.0, surplus.min())]
        low, high = float(possible[0]), float(possible[-1])
        middle = hits / total if total > 0 else (low + high) / 2
        intervals.append(Interval(float(np.clip(middle, low, high)), low, high))
    return intervals


def mean_interval(parts: list[Interval]) -> Interval:
    """The mean of independent numbers with its interval (Zou and Donner 2008, of a sum)."""
    value = float(np.mean([part.value for part in parts]))
    below = float(np.sqrt(np.sum([(part.value - part.low) ** 2 for part in parts])))
    above = float(np.sqrt(np.sum([(part.high - part.value) ** 2 for part in parts])))
    return Interval(value, value - below / len(parts), value + above / len(parts))
