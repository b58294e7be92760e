"""Whether embeddings tell classes apart, and whether noisy votes say anything: measures of fit.

All of it works on public rows and on released values, so it costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from understudy.core.types import Labels, Vector

_MOST_ROWS = 1024  # their inner products take eight megabytes
_SHUFFLES = 99


@dataclass(frozen=True)
class Separation:
    """How often a row is nearest to the mean of its own class, itself left out of it.

    Attributes:
        accuracy: Part of the rows.
        recalls: (classes,) part of the rows of each class.
        chance: Mean accuracy with the labels shuffled.
        significant: Whether the labels do better than every one of the shuffles.
    """

    accuracy: float
    recalls: Vector
    chance: float
    significant: bool


def separation(
    rows: NDArray[np.floating], labels: Labels, count: int, rng: np.random.Generator
) -> Separation:
    """How well classes are told apart, beside a permutation of the labels.

    Args:
        rows: (n, d), two or more of each class.
        labels: (n,) in [0, count).
        count: Number of classes.
        rng: Public randomness of the shuffles.
    """
    some = np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).astype(np.int64)
    values, labels = rows[some].astype(np.float64), labels[some]
    values = values - values.mean(axis=0)
    products = values @ values.T
    right = _nearest_means(products, labels, count) == labels
    shuffled = [rng.permutation(labels) for _ in range(_SHUFFLES)]
    by_chance = [(_nearest_means(products, other, count) == other).mean() for other in shuffled]
    sizes = np.maximum(np.bincount(labels, minlength=count), 1)
    return Separation(
        float(right.mean()),
        np.bincount(labels, weights=right, minlength=count) / sizes,
        float(np.mean(by_chance)),
        bool(right.mean() > max(by_chance)),
    )


def _nearest_means(products: Vector, labels: Labels, count: int) -> Labels:
    """The class whose mean is nearest to each row, (n,), by the inner products of rows (n, n)."""
    member = np.eye(count)[labels]
    sums = products @ member
    squares = (member * sums).sum(axis=0)
    sizes, norms = member.sum(axis=0), np.diag(products)[:, None]
    others = np.maximum(sizes - member, 1)  # rows of each class, this one left out
    inner = (sums - member * norms) / others
    square = (squares - member * (2 * sums - norms)) / others**2
    distances = square - 2 * inner
    distances[np.broadcast_to(sizes - member < 1, distances.shape)] = np.inf
    return np.asarray(distances.argmin(axis=1))


@dataclass(frozen=True)
class VoteSpread:
    """What a noisy histogram of votes says of its candidates.

    Attributes:
        effective: Number of candidates that would share the votes of a class equally with the same
            collision probability (exp of the Renyi entropy of order 2), the noise taken off; the
            mean over the classes.
        chance: Probability of votes as uneven as these if each fell on any candidate alike.
    """

    effective: float
    chance: float


def vote_spread(votes: Vector, sd: float) -> VoteSpread:
    """How votes are spread over the candidates of each class, by what noise alone would do.

    Votes that fall anywhere alike have the variance of a multinomial, total / m each, and noise
    adds its own: the sum of squared differences from the mean follows chi squared.

    Args:
        votes: (classes, m) noisy.
        sd: Standard deviation of the noise in each.
    """
    classes, size = votes.shape
    totals = np.maximum(votes.sum(axis=1), 0.0)
    apart = ((votes - votes.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    expected = np.maximum(sd**2 + totals / size, 1e-300)
    chance = stats.chi2.sf(float((apart / expected).sum()), max(classes * (size - 1), 1))
    squares = np.maximum((votes**2).sum(axis=1) - size * sd**2, 1e-300)
    effective = np.clip(totals**2 / squares, 1, size)
    return VoteSpread(float(effective.mean()), float(chance))
