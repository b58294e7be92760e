"""Estimates that take one or more releases of a vault; what several methods share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.independence import Projection
from understudy.core.types import Labels, Vector
from understudy.privacy.cells import Cells
from understudy.privacy.queries import (
    CountAndSum,
    DiagonalMoments,
    FullMoments,
    NormHistogram,
    Votes,
)
from understudy.privacy.vault import Vault
from understudy.steps import histogram, kmeans, shrinkage
from understudy.steps.space import Frame


@dataclass(frozen=True)
class Groups:
    """Noisy counts and means of cells.

    Attributes:
        counts: (m,) positive.
        means: (m, d) noisy.
        variances: (m,) variance of the noise in each number of a mean.
    """

    counts: Vector
    means: Vector
    variances: Vector


def group_means(vault: Vault, cells: Cells, radius: float, stage: str) -> Groups:
    """Counts and means of every cell, residuals clipped to ``radius``. One release."""
    query = CountAndSum(cells, radius)
    answer = vault.release(query, stage=stage)
    sd = vault.noise_sd(query, stage=stage)
    counts, offsets, variances = shrinkage.noisy_means(
        query.counts(answer), query.sums(answer), sd / query.count_part, sd / query.sum_part
    )
    return Groups(counts, cells.flat + offsets, variances)


def second_moments(
    vault: Vault, cells: Cells, radius: float, slot_of_cell: Labels | None, stage: str
) -> tuple[Vector, float]:
    """Summed outer products per slot, (slots, d, d), and the noise sd of their diagonal."""
    query = FullMoments(cells, radius, slot_of_cell)
    answer = vault.release(query, stage=stage)
    return query.matrices(answer), vault.noise_sd(query, stage=stage)


def squared_moments(vault: Vault, cells: Cells, radius: float, stage: str) -> tuple[Vector, float]:
    """Summed squares per cell, (cells, d), and the noise sd of each."""
    query = DiagonalMoments(cells, radius)
    return vault.release(query, stage=stage), vault.noise_sd(query, stage=stage)


def norm_histogram(vault: Vault, cells: Cells, edges: Vector, stage: str) -> Vector:
    """The distribution of the distance to the centre of one's cell, as weights of bins."""
    query = NormHistogram(cells, edges)
    answer = vault.release(query, stage=stage)
    return histogram.clean_histogram(answer[:, 0], vault.noise_sd(query, stage=stage))


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
    centres = dp_kmeans(
        vault, start, frame.lead, frame.lead_spread, clusters, frame.radius, stages, rng
    )
    found = group_means(vault, Cells(centres), frame.radius, "cluster means")
    flat = Cells(centres).flat
    return flat + shrinkage.shrink_to_zero(found.means - flat, found.variances), found.counts


def dp_kmeans(
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
    centres = _voted_centres(vault, start, axes, spread, clusters, stages[:2], rng, candidates)
    for stage in stages[2:]:
        groups = group_means(vault, Cells(centres), radius, stage)
        flat = Cells(centres).flat
        moved = flat + shrinkage.shrink_to_zero(groups.means - flat, groups.variances)
        centres = moved.reshape(centres.shape)
    return centres


def _voted_centres(
    vault: Vault,
    start: Vector,
    axes: Vector,
    spread: Vector,
    clusters: int,
    stages: Sequence[str],
    rng: np.random.Generator,
    candidates: int,
) -> Vector:
    """The first centres, (classes, k, d): candidates about the class means, voted on twice."""
    classes, many = len(start), candidates * clusters
    shadow = vault.view(Projection(axes))
    middle = start @ axes
    drawn = middle[:, None] + 1.2 * spread * rng.standard_normal((classes, many, len(spread)))
    centres = np.zeros((classes, clusters, start.shape[1]))
    for step, stage in enumerate(stages):
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
    return centres
