"""Reading quantiles and samples off a noisy histogram of norms."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Vector


def clean_histogram(counts: Vector, sd: float) -> Vector:
    """A noisy histogram as weights: bins that are all noise emptied, the rest normalised.

    Args:
        counts: (bins,) noisy counts.
        sd: Standard deviation of the noise in each.

    Returns:
        (bins,) non-negative, summing to 1. All mass in the fullest bin if none stands out.
    """
    kept = np.where(counts > 2.5 * sd, counts, 0.0)
    if kept.sum() <= 0:
        kept = np.zeros_like(counts)
        kept[int(counts.argmax())] = 1.0
    return np.asarray(kept / kept.sum())


def quantile(weights: Vector, edges: Vector, level: float) -> float:
    """The upper edge of the bin in which the cumulative weight passes ``level``.

    Args:
        weights: (bins,) from `clean_histogram`.
        edges: (bins - 1,) increasing; the last, open bin counts as ending at its lower edge.
        level: In (0, 1).
    """
    place = int(np.searchsorted(np.cumsum(weights), level))
    return float(edges[min(place, len(edges) - 1)])


def draw(weights: Vector, edges: Vector, size: int, rng: np.random.Generator) -> Vector:
    """Values from a histogram, uniform within a bin: (size,)."""
    lower = np.concatenate([[0.0], edges])
    upper = np.concatenate([edges, edges[-1:]])
    bins = rng.choice(len(weights), size=size, p=weights)
    return np.asarray(lower[bins] + rng.random(size) * (upper[bins] - lower[bins]))
