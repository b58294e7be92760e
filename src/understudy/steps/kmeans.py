"""K-means on public points: what a DP k-means does with the votes it was given."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Labels, Vector

_STARTS = 6
_ITERATIONS = 15  # of Lloyd, from each start


def square_distances(left: Vector, right: Vector) -> Vector:
    """(n, m) squared distances between points (n, d) and (m, d)."""
    cross = left @ right.T
    sums = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)
    return np.asarray(np.maximum(sums - 2 * cross, 0.0))


def nearest(points: Vector, centres: Vector) -> Labels:
    """Index of the nearest centre of each point: (n,)."""
    return np.asarray(square_distances(points, centres).argmin(axis=1))


def weighted_kmeans(
    points: Vector, weights: Vector, clusters: int, rng: np.random.Generator
) -> Vector:
    """Centres (k, d) of weighted points (m, d): the best of some k-means++ starts, then Lloyd."""
    points, weights = points[weights > 0], weights[weights > 0]
    distances = square_distances(points, points)
    best, best_cost = points[:1].repeat(clusters, axis=0), np.inf
    for _ in range(_STARTS):
        centres = points[_plus_plus(distances, weights, clusters, rng)]
        for _ in range(_ITERATIONS):
            member = np.eye(clusters)[nearest(points, centres)] * weights[:, None]
            mass = member.sum(axis=0)
            means = member.T @ points / np.maximum(mass, 1e-12)[:, None]
            centres = np.where(mass[:, None] > 0, means, centres)
        cost = float((square_distances(points, centres).min(axis=1) * weights).sum())
        if cost < best_cost:
            best, best_cost = centres, cost
    return best


def _plus_plus(
    distances: Vector, weights: Vector, clusters: int, rng: np.random.Generator
) -> list[int]:
    """Greedy k-means++ (Arthur and Vassilvitskii 2007): the best of five draws each time."""
    indices = [int(rng.choice(len(weights), p=weights / weights.sum()))]
    closest = distances[indices[0]]
    while len(indices) < clusters:
        mass = closest * weights
        flat = mass.sum() <= 0
        draws = rng.choice(len(weights), size=5, p=None if flat else mass / mass.sum())
        after = np.minimum(closest, distances[draws])
        best = int((after @ weights).argmin())
        closest = after[best]
        indices.append(int(draws[best]))
    return indices


def redraw(candidates: Vector, weights: Vector, spread: Vector, rng: np.random.Generator) -> Vector:
    """As many candidates (m, d) again, about those with weights (m,), and a ``spread`` (d,)."""
    indices = rng.choice(len(candidates), size=len(candidates), p=weights / weights.sum())
    return np.asarray(candidates[indices] + spread * rng.standard_normal(candidates.shape))


def popular(votes: Vector, sd: float, least: int) -> Vector:
    """Noisy votes (m,) as weights: those that stand out of the noise, or the highest ``least``."""
    weights = np.where(votes > 2.5 * sd, votes, 0.0)
    if (weights > 0).sum() < least:
        weights = np.zeros_like(votes)
        top = np.argsort(votes)[-min(2 * least, len(votes)) :]
        weights[top] = np.maximum(votes[top], 1e-3)
    return weights
