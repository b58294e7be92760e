"""What evolution does with noisy votes: thresholds, probabilities, selection, schedules."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Embeddings, Labels, Vector


def schedule(first: float, last: float, rounds: int) -> list[float]:
    """How much a variation may change in each round, linearly from the first to the last."""
    return [float(degree) for degree in np.linspace(first, last, rounds)]


def averaged(each: Embeddings) -> Vector:
    """Line 11 of Algorithm 2: K look-ahead embeddings of each candidate, (n, K, d), to (n, d)."""
    return np.asarray(each.mean(axis=1, dtype=np.float64))


def probabilities(votes: Vector, threshold: float) -> Vector:
    """Line 19: noisy votes of each class, (classes, m), to probabilities that sum to 1 in it.

    What is not above ``threshold`` is noise and becomes 0, and the threshold is taken off the rest
    (Lin et al. 2024, Algorithm 2: max(H - threshold, 0)). A class where no vote is above it, an
    empty class for one, has learnt nothing this round: all its candidates are as likely.
    """
    clear = np.maximum(votes - threshold, 0.0)
    totals = clear.sum(axis=1, keepdims=True)
    uniform = np.full_like(clear, 1 / clear.shape[1])
    return np.where(totals > 0, clear / np.where(totals > 0, totals, 1.0), uniform)


def resampled(chances: Vector, count: int, rng: np.random.Generator) -> Labels:
    """Line 21: ``count`` draws with replacement in each class: (classes, count) int64, in order.

    Systematic resampling (Kitagawa 1996): a candidate of probability p is drawn count * p times,
    rounded up or down by chance. Right on average, as independent draws are, and nearer to it.
    """
    classes, candidates = chances.shape
    levels = (rng.random((classes, 1)) + np.arange(count)) / count
    ends = np.cumsum(chances, axis=1)
    indices = [
        np.searchsorted(end / end[-1], level, side="right")
        for end, level in zip(ends, levels, strict=True)
    ]
    return np.asarray(np.minimum(np.stack(indices), candidates - 1), dtype=np.int64)


def ranked(votes: Vector, count: int) -> Labels:
    """Line 25: the ``count`` candidates of each class with the most votes: (classes, count)."""
    order = np.argsort(-votes, axis=1, kind="stable")
    return np.asarray(order[:, :count], dtype=np.int64)


def spread_over(size: int, count: int, rng: np.random.Generator) -> Labels:
    """``count`` positions among ``size``, each as often as any other or once more: (count,).

    In whole rounds over all positions, so that the first ones drawn are as different as can be.
    """
    rounds = [rng.permutation(size) for _ in range(-(-count // size))]
    return np.concatenate([*rounds, np.empty(0, np.int64)])[:count].astype(np.int64)
