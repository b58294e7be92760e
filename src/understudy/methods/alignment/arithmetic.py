"""The gap between a synthetic set and noisy means of a private one, and moving across it.

All of it works on public embeddings and on released values, so it costs no privacy. Words and
symbols are those of PASDA. Of noisy vectors (m, d), ``variances`` (m,) are those of the noise in
each number; axes (d, r) are orthonormal, the most important first.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.types import Embeddings, Labels, Vector
from understudy.steps import shrinkage
from understudy.steps.kmeans import nearest, square_distances, weighted_kmeans
from understudy.steps.row_arithmetic import evenly_spread
from understudy.steps.space import leading_axes

_SAME_LENGTH = 0.01  # lengths that vary by less, in parts of their mean, are one length
FARTHEST = 3.0
"""A mean of clipped differences is lengthened by no more than this."""

_LOOKED_AT = 8192  # embeddings, for the axes within classes
_NEIGHBOUR = 7  # whose distance is the scale of a point's affinities
_MOST = 1000  # points whose affinities are decomposed: half a second, and enough for ten clusters
_FACTORS = (0.25, 4.0)  # of a variance: more than that is hardly ever a difference of domains


def means_by_group(embeddings: NDArray[np.floating], groups: Labels, count: int) -> Vector:
    """Mean of each group's embeddings, (count, d); zero for a group without any."""
    sizes = np.bincount(groups, minlength=count)
    means = np.zeros((count, embeddings.shape[1]))
    for group in np.flatnonzero(sizes):
        means[group] = embeddings[groups == group].mean(axis=0, dtype=np.float64)
    return means


def usual_distance(embeddings: NDArray[np.floating], groups: Labels, centres: Vector) -> float:
    """Root of the mean squared distance of embeddings to the centre of their group."""
    total = 0.0
    for group in np.unique(groups):
        total += float(((embeddings[groups == group] - centres[group]) ** 2).sum())
    return max(float(np.sqrt(total / len(embeddings))), 1e-9)


def unclipped(
    offsets: Vector, variances: Vector, radius: float, usual: float, farthest: float = FARTHEST
) -> tuple[Vector, Vector]:
    """Means of clipped differences as they were before, and the variance of the noise in them.

    In many dimensions records at a distance u (``usual``) about a mean that lies delta from the
    centre have differences of length sqrt(delta^2 + u^2). Where that is more than the radius R,
    clipping left a mean of length m = R delta / sqrt(delta^2 + u^2), so delta = m u / sqrt(R^2 -
    m^2). Means are lengthened by no more than ``farthest``.
    """
    lengths = np.maximum((offsets**2).sum(axis=1) - offsets.shape[1] * variances, 0.0)
    left = np.maximum(radius**2 - lengths, (usual / farthest) ** 2)
    factors = np.maximum(usual / np.sqrt(left), 1.0)
    return offsets * factors[:, None], variances * factors**2


def private_distance(
    offsets: Vector, variances: Vector, parts: Vector, radius: float, square: float
) -> float:
    """The usual distance u of private records to their class's mean, from a DP histogram.

    The mean square of their distances to the public centres, before clipping at ``radius``, is u^2
    plus that of the gaps, which `unclipped` finds for a given u; both grow with u, so bisection
    solves it. ``parts``: (m,) part of the records in each class.
    """
    low, high = 0.0, float(np.sqrt(square))
    for _ in range(50):
        middle = (low + high) / 2
        gaps, noise = unclipped(offsets, variances, radius, middle)
        squares = np.maximum((gaps**2).sum(axis=1) - gaps.shape[1] * noise, 0.0)
        low, high = (middle, high) if middle**2 + parts @ squares < square else (low, middle)
    return max(low, 1e-9)


def within_axes(embeddings: Embeddings, labels: Labels, keep: int) -> tuple[Vector, Vector]:
    """Principal axes about the means of the classes: variances (r,) and axes (d, r), r <= keep.

    Of embeddings (n, d) and labels (n,), of which some are looked at.
    """
    some = evenly_spread(len(embeddings), _LOOKED_AT)
    embeddings, labels = embeddings[some], labels[some]
    means = means_by_group(embeddings, labels, int(labels.max()) + 1)
    spread = (embeddings - means[labels]).astype(np.float32)
    return leading_axes(spread, min(keep, embeddings.shape[1], len(embeddings)))


def shrink_along_axes(gaps: Vector, variances: Vector, axes: Vector) -> Vector:
    """Gaps shrunk towards zero in blocks, along principal axes of the public embeddings.

    Noise is the same in all directions, and most of a gap lies along the leading axes of the data.
    So each block of axes (8, 8, 16, 32, ..., and what lies outside of all) is kept by its own
    signal / (signal + noise), as in Cai's block James-Stein rule (1999).
    """
    along = gaps @ axes
    rest = gaps - along @ axes.T
    outside = max(gaps.shape[1] - axes.shape[1], 1)
    inside = shrinkage.shrink_in_blocks(along, variances)
    return np.asarray(inside @ axes.T + rest * shrinkage.signal_part(rest, outside, variances))


def shrink_gaps(gaps: Vector, variances: Vector, axes: Vector) -> Vector:
    """Gaps (m, d) of classes, shrunk towards their common one, and that one towards none.

    A gap that is all noise becomes the common one, or zero where that is noise too.
    """
    average = shrinkage.weighted_average(gaps, variances)[None]
    precision = (1 / np.maximum(variances, 1e-300)).sum()
    common = shrink_along_axes(average, np.array([1 / precision]), axes)
    if len(gaps) == 1:
        return common
    return np.asarray(common + shrink_along_axes(gaps - common, variances, axes))


def match(private: Vector, synthetic: Vector) -> Labels:
    """Hungarian matching by distance (section 3.2): (k,) the private centroid of each."""
    distances = np.sqrt(square_distances(synthetic, private))
    return np.asarray(scipy.optimize.linear_sum_assignment(distances)[1])


def cluster_shares(counts: Vector, sd: float, synthetic: NDArray[np.int64]) -> Vector:
    """Each cluster's part of its class among private records, (m, k), by noisy counts (m, k).

    Shrunk towards the parts of synthetic counts by the noise, of ``sd``; nothing where there are no
    samples.
    """
    totals = counts.sum(axis=1, keepdims=True)
    start = synthetic / synthetic.sum(axis=1, keepdims=True)
    apart = counts / totals - start
    energy = np.maximum((apart**2).sum(axis=1, keepdims=True), 1e-300)
    keep = np.clip(1 - counts.shape[1] * (sd / totals) ** 2 / energy, 0.0, 1.0)
    shares = np.where(synthetic > 0, start + keep * apart, 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def variance_factors(
    private: Vector, noise_sd: Vector, synthetic: Vector, weights: Vector
) -> Vector:
    """What variances (m, r) have to be multiplied with, in [1/4, 4], shrunk by the noise (m,).

    A factor that drowns in noise becomes the common one of its class, which sets the sum of the
    variances right; and that one becomes 1 where it is noise too. ``weights``: (r,) the variance
    along each axis.
    """
    ratio, noise = private / synthetic, (noise_sd[:, None] / synthetic) ** 2
    part = weights / weights.sum()
    level, unsure = (ratio @ part)[:, None], (noise @ part**2)[:, None]
    sure = np.clip(1 - unsure / np.maximum((level - 1) ** 2, 1e-300), 0.0, 1.0)
    level = 1 + sure * (level - 1)
    # Signal is what squares of the differences have beyond the noise; sure ones weigh more.
    sureness = 1 / np.maximum(noise, 1e-300)
    beyond = (sureness * ((ratio - level) ** 2 - noise)).sum(axis=1) / sureness.sum(axis=1)
    signal = np.maximum(beyond, 0.0)[:, None]
    keep = signal / np.maximum(signal + noise, 1e-300)
    return np.asarray(np.clip(level + keep * (ratio - level), *_FACTORS))


def stretch(
    embeddings: Embeddings, labels: Labels, centres: Vector, axes: Vector, factors: Vector
) -> Embeddings:
    """Embeddings (n, d) with variances along axes times factors (m, r), about class centres."""
    along = (embeddings - centres[labels]) @ axes
    stretched_embeddings = embeddings + (along * (np.sqrt(factors) - 1)[labels]) @ axes.T
    return np.asarray(stretched_embeddings, dtype=np.float32)


def equal_lengths(embeddings: Embeddings) -> bool:
    """Whether all embeddings have the same length, as those of CLIP and its like have."""
    lengths = np.linalg.norm(embeddings, axis=1)
    return bool(lengths.std() < _SAME_LENGTH * lengths.mean())


def with_lengths(embeddings: Embeddings, lengths: NDArray[np.floating]) -> Embeddings:
    """Embeddings brought to these lengths, (n,); one of zeros stays."""
    now = np.maximum(np.linalg.norm(embeddings, axis=1), 1e-12)
    return np.asarray(embeddings * (lengths / now)[:, None], dtype=np.float32)


def spectral_clusters(points: Vector, clusters: int, rng: np.random.Generator) -> Labels:
    """Normalised spectral clustering (Ng, Jordan and Weiss 2002) of points (n, d): (n,) in [0, k).

    Affinities exp(-||x - y||^2 / (s_x s_y)), where s is the distance to a point's seventh neighbour
    (Zelnik-Manor and Perona 2004), so that no scale has to be chosen. Of many points a random part
    is clustered, and the others join the nearest centroid.
    """
    if clusters == 1:
        return np.zeros(len(points), dtype=np.int64)
    if len(points) <= _MOST:
        return _clustered(points, clusters, rng)
    some = points[rng.permutation(len(points))[:_MOST]]
    return nearest(points, centroids(some, _clustered(some, clusters, rng), clusters))


def centroids(points: Vector, cluster: Labels, clusters: int) -> Vector:
    """Mean of each cluster's points, (k, d); an empty cluster gets the mean of all points."""
    member = np.eye(clusters)[cluster]
    sizes = member.sum(axis=0)[:, None]
    means = member.T @ points / np.maximum(sizes, 1)
    return np.asarray(np.where(sizes > 0, means, points.mean(axis=0)))


def _clustered(points: Vector, clusters: int, rng: np.random.Generator) -> Labels:
    distances = square_distances(points, points)
    seventh = min(_NEIGHBOUR, len(points) - 1)
    scale = np.sqrt(np.partition(distances, seventh, axis=1)[:, seventh])
    scale = np.maximum(scale, 1e-6 * scale.max() + 1e-12)
    affinity = np.exp(-distances / (scale[:, None] * scale))
    np.fill_diagonal(affinity, 0.0)
    root = 1 / np.sqrt(np.maximum(affinity.sum(axis=1), 1e-12))
    last = len(points) - 1
    _, vectors = scipy.linalg.eigh(
        root[:, None] * affinity * root, subset_by_index=(last - clusters + 1, last)
    )
    directions = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return nearest(directions, weighted_kmeans(directions, np.ones(len(directions)), clusters, rng))
