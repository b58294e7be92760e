"""Spectral clustering of public points."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from understudy.core.types import Labels, Vector
from understudy.steps.kmeans import nearest, square_distances, weighted_kmeans

_MOST = 1000  # points whose affinities are decomposed: half a second, and enough for ten clusters


def spectral_clusters(
    points: Vector, clusters: int, rng: np.random.Generator, *, neighbours: int = 7
) -> Labels:
    """Normalised spectral clustering (Ng, Jordan and Weiss 2002).

    Affinities exp(-||x - y||^2 / (s_x s_y)), where s is the distance to a point's seventh
    neighbour (Zelnik-Manor and Perona 2004), so that no scale has to be chosen. Of many points a
    random part is clustered, and the others join the nearest centroid.

    Args:
        points: (n, d), n at least ``clusters``.
        clusters: k.
        rng: Public randomness.
        neighbours: Which neighbour's distance is a point's scale.

    Returns:
        (n,) cluster of each point in [0, k).
    """
    if clusters == 1:
        return np.zeros(len(points), dtype=np.int64)
    if len(points) <= _MOST:
        return _clustered(points, clusters, rng, neighbours)
    some = points[rng.permutation(len(points))[:_MOST]]
    return nearest(points, centroids(some, _clustered(some, clusters, rng, neighbours), clusters))


def centroids(points: Vector, cluster: Labels, clusters: int) -> Vector:
    """Mean of each cluster's points, (k, d); an empty cluster gets the mean of all points."""
    member = np.eye(clusters)[cluster]
    sizes = member.sum(axis=0)[:, None]
    means = member.T @ points / np.maximum(sizes, 1)
    return np.asarray(np.where(sizes > 0, means, points.mean(axis=0)))


def _clustered(points: Vector, clusters: int, rng: np.random.Generator, neighbours: int) -> Labels:
    distances = square_distances(points, points)
    seventh = min(neighbours, len(points) - 1)
    scale = np.sqrt(np.partition(distances, seventh, axis=1)[:, seventh])
    scale = np.maximum(scale, 1e-6 * scale.max() + 1e-12)
    affinity = np.exp(-distances / (scale[:, None] * scale))
    np.fill_diagonal(affinity, 0.0)
    root = 1 / np.sqrt(np.maximum(affinity.sum(axis=1), 1e-12))
    last = len(points) - 1
    _, vectors = eigh(root[:, None] * affinity * root, subset_by_index=(last - clusters + 1, last))
    rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return nearest(rows, weighted_kmeans(rows, np.ones(len(rows)), clusters, rng))
