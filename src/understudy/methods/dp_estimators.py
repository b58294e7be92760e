"""Estimates that take one or more releases of a vault; what several methods share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import Projection
from understudy.core.types import Labels, Stage, Vector
from understudy.privacy.cells import Cells
from understudy.privacy.queries import (
    CountAndSum,
    Counts,
    DiagonalMoments,
    FullMoments,
    NormHistogram,
    Votes,
)
from understudy.steps import histogram, kmeans, shrinkage
from understudy.steps.space import Frame

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.methods.base import Context
    from understudy.privacy.vault import Vault

CLEAR = 3.0
"""A released count stands out of its noise from so many standard deviations on."""

_CANDIDATES = 64  # for each first centre, of which votes choose


@dataclass(frozen=True)
class KMeansStages:
    """The releases of `dp_kmeans`."""

    votes: tuple[Stage, Stage]  # two rounds of votes for the first centres
    lloyd: tuple[Stage, ...]  # any number of Lloyd steps

    @classmethod
    def of(cls, lloyd_steps: int, votes: float, lloyd: float) -> KMeansStages:
        """So many Lloyd steps; each round of votes and each step has its weight."""
        steps = tuple(Stage(f"lloyd {i + 1}", lloyd) for i in range(lloyd_steps))
        return cls((Stage("votes 1", votes), Stage("votes 2", votes)), steps)


@dataclass(frozen=True)
class ClusterStages:
    """The releases of `clusters_of_classes`."""

    kmeans: KMeansStages  # those that find the centres
    means: Stage  # counts and means of the clusters


@dataclass(frozen=True)
class Groups:
    """Noisy counts and means of cells."""

    counts: Vector  # (m,) positive
    means: Vector  # (m, d) noisy
    variances: Vector  # (m,) variance of the noise in each number of a mean
    count_sd: float  # standard deviation of the noise in a count of this release


def class_sizes(vault: Vault, classes: int, dim: int, stage: Stage) -> tuple[Vector, float]:
    """Noisy class sizes, (classes,), at least 1, and the standard deviation of their noise."""
    query = Counts(Cells(np.zeros((classes, 1, dim))))
    answer = vault.release(query, stage=stage.name)
    sd = vault.noise_sd(query, stage=stage.name)
    return likely_sizes(answer[:, 0], sd), sd


def likely_sizes(counts: Vector, sd: float) -> Vector:
    """The sizes nearest to noisy counts that are 1 or more and come to the total of the counts.

    Each taken for 1 or more by itself, many small classes would hold far more than there is. A
    total that does not stand out of its noise, of ``sd`` in each count, is taken for as much.
    """
    total = max(float(counts.sum()), np.sqrt(len(counts)) * sd, float(len(counts)))
    spare = np.sort(counts - 1.0)[::-1]
    excess = (np.cumsum(spare) - total + len(counts)) / np.arange(1, len(counts) + 1)
    return np.asarray(1.0 + np.maximum(counts - 1.0 - excess.max(), 0.0))


def units(vault: Vault, sizes: Vector, dim: int, stage: Stage | None) -> float:
    """How many units there are, by which sums over all classes are divided.

    ``sizes``: (classes,) noisy class sizes. ``stage``: None where each unit is of one class, so
    that classes hold all units together. A unit of several counts more than once in them
    (`understudy.privacy.sums.unit_weights`), and at most the root of their number times.
    """
    total = float(sizes.sum())
    if stage is None:
        return total
    query = Counts(Cells(np.zeros((1, 1, dim))))
    counted = vault.unconditional().release(query, stage=stage.name)[0, 0]
    return float(np.clip(counted, total / np.sqrt(len(sizes)), total))


def units_stage(context: Context, classes: int, weight: float) -> Stage | None:
    """The release of `units`, where units may have records of several classes."""
    return Stage("units", weight) if context.mixed_units(classes) else None


def group_means(
    vault: Vault, cells: Cells, radius: float, stage: Stage, sizes: Vector | None = None
) -> Groups:
    """Counts and means of every cell, residuals clipped to ``radius``. One release.

    ``sizes``: (cells,) counts that were released with less noise; None: those of this release.
    """
    query = CountAndSum(cells, radius)
    answer = vault.release(query, stage=stage.name)
    sd = vault.noise_sd(query, stage=stage.name)
    counts, offsets, variances = shrinkage.noisy_means(
        query.counts(answer) if sizes is None else sizes,
        query.sums(answer),
        sd / query.count_part,
        sd / query.sum_part,
    )
    return Groups(counts, cells.flat + offsets, variances, sd / query.count_part)


def second_moments(
    vault: Vault, cells: Cells, radius: float, slot_of_cell: Labels | None, stage: Stage
) -> tuple[Vector, float]:
    """Summed outer products per slot, (slots, d, d), and the noise sd of their diagonal."""
    query = FullMoments(cells, radius, slot_of_cell)
    answer = vault.release(query, stage=stage.name)
    return query.matrices(answer), vault.noise_sd(query, stage=stage.name)


def squared_moments(
    vault: Vault, cells: Cells, radius: float, stage: Stage
) -> tuple[Vector, float]:
    """Summed squares per cell, (cells, d), and the noise sd of each."""
    query = DiagonalMoments(cells, radius)
    return vault.release(query, stage=stage.name), vault.noise_sd(query, stage=stage.name)


def norm_histogram(vault: Vault, cells: Cells, edges: Vector, stage: Stage) -> Vector:
    """The distribution of the distance to the centre of a record's cell, as weights of bins."""
    query = NormHistogram(cells, edges)
    answer = vault.release(query, stage=stage.name)
    return histogram.clean_histogram(answer[:, 0], vault.noise_sd(query, stage=stage.name))


def least_cluster(sigma: float, dim: int) -> float:
    """How many records a cluster needs so that its count and its mean stand out of the noise.

    The count must be `CLEAR` times its noise, and the noise (of multiplier ``sigma``) in the mean
    of ``dim`` numbers no more than half of the deviation within the class (clipped at 1.1 times
    that, as `Frame.radius`).
    """
    root = np.sqrt(dim)
    count, mean = np.sqrt(1 / (1 + root)), np.sqrt(root / (1 + root))
    return float(sigma * max(CLEAR / count, 2 * 1.1 * root / mean))


@dataclass(frozen=True)
class Clusters:
    """The clusters of classes that stand out of the noise."""

    centres: Vector  # (classes, k, q); a class with fewer clusters than k repeats its first
    sizes: Vector  # (classes, k) records of each cluster, of all in the class; 0: a repetition

    @property
    def alive(self) -> NDArray[np.bool_]:
        """(classes * k,) which are clusters and no repetitions."""
        return self.sizes.ravel() > 0


def clusters_of_classes(
    vault: Vault,
    frame: Frame,
    start: Vector,
    sizes: Vector,
    clusters: int,
    stages: ClusterStages | None,
    rng: np.random.Generator,
) -> Clusters:
    """Centres and sizes of the clusters of every class, as far as they stand out of the noise.

    ``vault``: records in the coordinates of ``frame``. ``start``: (classes, q) released class
    means. ``sizes``: (classes,) noisy class sizes, which clusters divide. ``clusters``: k, at most.
    ``stages``: None where the class means are the clusters.
    """
    if stages is None:
        return Clusters(start[:, None], sizes[:, None])
    sigma = vault.noise_sd(CountAndSum(Cells(start[:, None]), 1.0), stage=stages.means.name)
    least = least_cluster(sigma, start.shape[1])
    numbers = np.clip(sizes // least, 1, clusters).astype(np.int64)
    centres = dp_kmeans(
        vault, start, frame.lead, frame.lead_spread, numbers, frame.radius, stages.kmeans, rng
    )
    groups = group_means(vault, Cells(centres), frame.radius, stages.means)
    flat = Cells(centres).flat
    offsets = shrinkage.shrink_to_zero(groups.means - flat, groups.variances)
    means = (flat + offsets).reshape(centres.shape)
    counts = groups.counts.reshape(centres.shape[:2])
    return _divided(start, means, counts, sizes, numbers, CLEAR * groups.count_sd)


def _divided(
    start: Vector, means: Vector, counts: Vector, sizes: Vector, numbers: Labels, least: float
) -> Clusters:
    """Clusters of ``least`` records or more; a class without two of them is one cluster."""
    centres, parts = np.repeat(start[:, None], means.shape[1], axis=1), np.zeros(counts.shape)
    for label, number in enumerate(numbers):
        clear = np.flatnonzero(counts[label, :number] >= least)
        if len(clear) < 2:
            parts[label, 0] = sizes[label]
            if number == 1:
                centres[label] = means[label, 0]
            continue
        mine = counts[label, clear]
        centres[label] = means[label, clear[0]]
        centres[label, : len(clear)] = means[label, clear]
        parts[label, : len(clear)] = sizes[label] * mine / mine.sum()
    return Clusters(centres, parts)


def dp_kmeans(
    vault: Vault,
    start: Vector,
    axes: Vector,
    spread: Vector,
    clusters: int | Labels,
    radius: float,
    stages: KMeansStages,
    rng: np.random.Generator,
) -> Vector:
    """DP Lloyd from a public initialisation that was chosen by DP votes: (classes, k, d).

    Candidates are drawn about each class's mean along the released leading axes, (d, s), with a
    deviation (s,). Every private record votes for its nearest; the noisy winners are drawn about
    again and voted on once more; weighted k-means on the winners gives the first centres, and Lloyd
    steps on noisy (count, sum) pairs improve them. A centre whose step is all noise stays; a class
    with fewer clusters than the most repeats its first.
    """
    numbers = np.broadcast_to(clusters, len(start))
    centres = _voted_centres(vault, start, axes, spread, numbers, stages.votes, rng)
    for stage in stages.lloyd:
        groups = group_means(vault, Cells(centres), radius, stage)
        flat = Cells(centres).flat
        means = flat + shrinkage.shrink_to_zero(groups.means - flat, groups.variances)
        centres = _repeated(means.reshape(centres.shape), numbers)
    return centres


def _repeated(centres: Vector, numbers: Labels) -> Vector:
    """Centres (classes, k, d) with those beyond a class's number replaced by its first."""
    extra = np.arange(centres.shape[1]) >= numbers[:, None]
    return np.where(extra[:, :, None], centres[:, :1], centres)


def _voted_centres(
    vault: Vault,
    start: Vector,
    axes: Vector,
    spread: Vector,
    numbers: Labels,
    stages: tuple[Stage, Stage],
    rng: np.random.Generator,
) -> Vector:
    """The first centres, (classes, k, d): candidates about the class means, voted on twice."""
    classes, clusters = len(start), int(numbers.max())
    many = _CANDIDATES * clusters
    shadow = vault.view(Projection(axes))
    middle = start @ axes
    candidates = middle[:, None] + 1.2 * spread * rng.standard_normal((classes, many, len(spread)))
    centres = np.zeros((classes, clusters, start.shape[1]))
    for step, stage in enumerate(stages):
        query = Votes(candidates)
        votes = shadow.release(query, stage=stage.name).reshape(classes, many)
        sd = vault.noise_sd(query, stage=stage.name)
        for label in range(classes):
            number = int(numbers[label])
            weights = kmeans.popular(votes[label], sd, number)
            if number == 1:
                centres[label] = start[label]
            elif step == 0:
                candidates[label] = kmeans.redraw(candidates[label], weights, 0.35 * spread, rng)
            else:
                means = kmeans.weighted_kmeans(candidates[label], weights, number, rng)
                centres[label, :number] = start[label] + (means - middle[label]) @ axes.T
    return _repeated(centres, numbers)
