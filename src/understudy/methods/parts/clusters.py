"""DP k-means within classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.core.types import Vector
from understudy.methods.parts import estimators
from understudy.privacy.queries import Cells, Votes
from understudy.privacy.vault import Vault
from understudy.steps import kmeans, shrinkage
from understudy.steps.space import Frame


def clusters_of_classes(
    vault: Vault,
    frame: Frame,
    start: Vector,
    counts: Vector,
    clusters: int,
    stages: Sequence[str],
    rng: np.random.Generator,
) -> tuple[Vector, Vector]:
    """Centres of all clusters, (classes * k, q), and their noisy counts, (classes * k,).

    Args:
        vault: Rows in the coordinates of ``frame``.
        frame: Where the clusters are looked for.
        start: (classes, q) released class means.
        counts: (classes,) noisy counts.
        clusters: k; with one, the class means are the clusters and nothing is released.
        stages: Two vote rounds, then any number of Lloyd steps.
        rng: Public randomness.
    """
    if clusters == 1:
        return start, counts
    centres = _dp_kmeans(
        vault, start, frame.lead, frame.lead_spread, clusters, frame.radius, stages, rng
    )
    found = estimators.group_means(vault, Cells(centres), frame.radius, "cluster means")
    flat = Cells(centres).flat
    return flat + shrinkage.shrink_to_zero(found.means - flat, found.variances), found.counts


def _dp_kmeans(
    vault: Vault,
    start: Vector,
    axes: Vector,
    spread: Vector,
    clusters: int,
    radius: float,
    stages: Sequence[str],
    rng: np.random.Generator,
    candidates: int = 64,
) -> Vector:
    """DP Lloyd from a public initialisation that was chosen by DP votes.

    Candidates are drawn about each class's mean along the leading axes, which are released already.
    Every private row votes for its nearest; the noisy winners are drawn about again and voted on
    once more; weighted k-means on the winners gives the first centres, and Lloyd steps on noisy
    (count, sum) pairs improve them. A centre whose step is all noise stays where it was.

    Args:
        vault: Embeddings.
        start: (classes, d) released class means.
        axes: (d, s) leading axes of the within-class covariance.
        spread: (s,) standard deviation along each.
        clusters: k.
        radius: Clipping radius of residuals to a centre.
        stages: Names of two vote rounds and of any number of Lloyd steps.
        rng: Public randomness.
        candidates: Candidates per cluster.

    Returns:
        (classes, k, d).
    """
    classes, many = len(start), candidates * clusters
    shadow = vault.view(lambda values: values @ axes.astype(np.float32))
    middle = start @ axes
    drawn = middle[:, None] + 1.2 * spread * rng.standard_normal((classes, many, len(spread)))
    centres = np.zeros((classes, clusters, start.shape[1]))
    for step, stage in enumerate(stages[:2]):
        query = Votes(drawn)
        votes = shadow.release(query, stage=stage).reshape(classes, many)
        sd = vault.noise_sd(query, stage=stage)
        for label in range(classes):
            weights = kmeans.popular(votes[label], sd, clusters)
            if step == 0:
                drawn[label] = kmeans.redraw(drawn[label], weights, 0.35 * spread, rng)
            else:
                found = kmeans.weighted_kmeans(drawn[label], weights, clusters, rng)
                centres[label] = start[label] + (found - middle[label]) @ axes.T
    for stage in stages[2:]:
        groups = estimators.group_means(vault, Cells(centres), radius, stage)
        flat = Cells(centres).flat
        moved = flat + shrinkage.shrink_to_zero(groups.means - flat, groups.variances)
        centres = moved.reshape(centres.shape)
    return centres
