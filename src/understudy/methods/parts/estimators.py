"""Estimates that take one or more releases of a vault; what several methods share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.types import Labels, Vector
from understudy.privacy.queries import (
    Cells,
    CountAndSum,
    DiagonalMoments,
    FullMoments,
    NormHistogram,
    Votes,
)
from understudy.privacy.vault import Vault
from understudy.steps import histogram, kmeans, shrinkage
from understudy.steps.mixture import square_root


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
    Every private row votes for its nearest; the noisy winners are drawn about again and voted on once
    more; weighted k-means on the winners gives the first centres, and Lloyd steps on noisy
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
        groups = group_means(vault, Cells(centres), radius, stage)
        flat = Cells(centres).flat
        moved = flat + shrinkage.shrink_to_zero(groups.means - flat, groups.variances)
        centres = moved.reshape(centres.shape)
    return centres


def cell_covariances(
    vault: Vault,
    cells: Cells,
    counts: Vector,
    radius: float,
    kind: str,
    rank: int,
    stage: str,
) -> tuple[Vector, Labels]:
    """Roots of the cells' covariances, shrunk by the noise that is known to be in them.

    One release. Matrices are shrunk towards their pooled one, variances towards their mean.

    Args:
        vault: Embeddings.
        cells: Clusters about whose centres is measured: (classes, k, d).
        counts: (classes * k,) noisy counts, positive.
        radius: Clipping radius of residuals.
        kind: ``spherical``, ``diagonal``, ``tied``, ``low_rank``, ``class`` or ``full``.
        rank: Kept directions for ``low_rank``.
        stage: The stage.

    Returns:
        (f, d, d) roots, and which of them each cell has.
    """
    each = np.arange(cells.count)
    if kind in ("spherical", "diagonal"):
        squares, sd = squared_moments(vault, cells, radius, stage)
        noise = (sd / counts[:, None]) ** 2
        variances = shrinkage.shrink_variances(squares / counts[:, None], noise, floor=0.02)
        if kind == "spherical":
            variances = np.repeat(variances.mean(axis=1, keepdims=True), cells.dim, axis=1)
        return np.sqrt(variances)[:, :, None] * np.eye(cells.dim), each
    slots = {"tied": np.zeros_like(each), "class": each // cells.centres.shape[1]}
    slot = slots.get(kind, each)
    import os
    if os.environ.get("V","A")=="A": radius*=.25
    totals, sd = second_moments(vault, cells, radius, slot, stage)
    sizes = np.bincount(slot, counts)
    pooled = shrinkage.denoise_covariance(
        totals.sum(axis=0) / sizes.sum(), sd * np.sqrt(len(sizes)) / sizes.sum()
    )
    import os
    V=os.environ.get("V","A")
    if V=="A":
        sc=[cells.dim/radius**2/size for size in sizes]
        found=[shrinkage.denoise_covariance(t*c, sd*c, 0.05) for t,c in zip(totals,sc,strict=True)]
        found=[f*(cells.dim/np.trace(f)) for f in found]
    elif V=="B":
        found=[shrinkage.denoise_covariance(t/c, sd/c, 0.05) for t,c in zip(totals,sizes,strict=True)]
    else:
        found = [
            shrinkage.shrink_matrix(total / size, pooled, sd / size)
            for total, size in zip(totals, sizes, strict=True)
        ]
    if kind == "low_rank":
        found = [shrinkage.low_rank(matrix, min(rank, cells.dim)) for matrix in found]
    return np.stack([square_root(matrix) for matrix in found]), slot
