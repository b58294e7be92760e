"""Estimates that take one or more releases of a vault; what several methods share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.types import Labels, Vector
from understudy.privacy.queries import (
    Cells,
    CountAndSum,
    DiagonalMoments,
    FullMoments,
    NormHistogram,
)
from understudy.privacy.vault import Vault
from understudy.steps import histogram, shrinkage


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
