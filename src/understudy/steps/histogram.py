"""Reading quantiles, radii and samples off a noisy histogram of norms.

It has weights (bins,) from `clean_histogram` and increasing edges (bins - 1,); the last, open bin
counts as ending at its lower edge.
"""

from __future__ import annotations

import numpy as np

from understudy.core.types import Vector

_CLEAR = 3.8  # deviations of its noise that a bin must exceed: in 1 of 100 histograms noise does


def clean_histogram(counts: Vector, sd: float) -> Vector:
    """Noisy counts (bins,) as weights of sum 1: bins that are all noise (of ``sd``) are emptied.

    All mass is in the fullest bin if none stands out.
    """
    clear = np.where(counts > _CLEAR * sd, counts, 0.0)
    if clear.sum() <= 0:
        clear = np.zeros_like(counts)
        clear[int(counts.argmax())] = 1.0
    return np.asarray(clear / clear.sum())


def quantile(weights: Vector, edges: Vector, level: float) -> float:
    """The upper edge of the bin in which the cumulative weight passes ``level``, in (0, 1)."""
    index = int(np.searchsorted(np.cumsum(weights), level))
    return float(edges[min(index, len(edges) - 1)])


def clipping_radius(weights: Vector, edges: Vector, noise: float) -> float:
    """The edge to clip norms at whose two errors are least together, in their squares.

    The mean of clipped vectors lacks no more than the mean length that is cut off, and has noise in
    proportion to the radius: of a length of ``noise`` for a radius of 1.
    """
    upper = np.concatenate([edges, edges[-1:]])
    lost = np.maximum(upper - edges[:, None], 0.0) @ weights
    return float(edges[(lost**2 + (noise * edges) ** 2).argmin()])


def mean_square(weights: Vector, edges: Vector) -> float:
    """The mean square of what a histogram counts, each bin taken at its middle."""
    lower = np.concatenate([[0.0], edges])
    upper = np.concatenate([edges, edges[-1:]])
    return float(weights @ ((lower + upper) / 2) ** 2)


def draw(weights: Vector, edges: Vector, size: int, rng: np.random.Generator) -> Vector:
    """Values from a histogram, uniform within a bin: (size,)."""
    lower = np.concatenate([[0.0], edges])
    upper = np.concatenate([edges, edges[-1:]])
    bins = rng.choice(len(weights), size=size, p=weights)
    return np.asarray(lower[bins] + rng.random(size) * (upper[bins] - lower[bins]))
