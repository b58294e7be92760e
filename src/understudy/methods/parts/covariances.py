"""The covariances of clusters, one release in all."""

from __future__ import annotations

from typing import Literal

import numpy as np

from understudy.core.types import Labels, Vector
from understudy.methods.parts import estimators
from understudy.privacy.cells import Cells
from understudy.privacy.vault import Vault
from understudy.steps import shrinkage
from understudy.steps.mixture import square_root

Covariance = Literal["spherical", "diagonal", "tied", "low_rank", "class", "full"]

_SHORT = 0.25  # of the usual length of residuals: shorter ones hardly occur


def covariance_roots(
    vault: Vault,
    cells: Cells,
    counts: Vector,
    radius: float,
    kind: Covariance,
    rank: int,
    stage: str,
    *,
    whitened: bool,
    lengths: bool,
) -> tuple[Vector, Labels]:
    """Roots of the cells' covariances, shrunk by the noise that is known to be in them.

    Args:
        vault: Embeddings.
        cells: Clusters about whose centres is measured: (classes, k, d).
        counts: (classes * k,) noisy counts, positive.
        radius: About the usual length of residuals.
        kind: How many numbers a covariance has, and who shares it.
        rank: Kept directions for ``low_rank``.
        stage: The stage.
        whitened: Whether residuals have about unit covariance.
        lengths: Whether a class may have longer residuals than another.

    Returns:
        Roots (f, d, d), or (f, d) of diagonal ones; and which of them each cell has.
    """
    each = np.arange(cells.count)
    if kind in ("spherical", "diagonal"):
        return _variances(vault, cells, counts, radius, stage, one=kind == "spherical"), each
    slots = {"tied": np.zeros_like(each), "class": each // cells.centres.shape[1]}
    slot = slots.get(kind, each)
    measure = _covariances
    if whitened and cells.centres.shape[1] == 1:
        measure = _cleaned if lengths else _shapes
    found = list(measure(vault, cells, counts, radius, slot, stage))
    if kind == "low_rank":
        found = [shrinkage.low_rank(matrix, min(rank, cells.dim)) for matrix in found]
    return np.stack([square_root(matrix) for matrix in found]), slot


def _variances(
    vault: Vault, cells: Cells, counts: Vector, radius: float, stage: str, *, one: bool
) -> Vector:
    """Standard deviations of cells, (cells, d), each shrunk towards its cell's mean."""
    squares, sd = estimators.squared_moments(vault, cells, radius, stage)
    noise = (sd / counts[:, None]) ** 2
    variances = shrinkage.shrink_variances(squares / counts[:, None], noise, floor=0.02)
    if one:
        variances = np.repeat(variances.mean(axis=1, keepdims=True), cells.dim, axis=1)
    return np.asarray(np.sqrt(variances))


def _covariances(
    vault: Vault,
    cells: Cells,
    counts: Vector,
    radius: float,
    slot: Labels,
    stage: str,
) -> Vector:
    """Covariances (f, d, d) of groups of cells, shrunk towards their pooled one by the noise."""
    totals, sd = estimators.second_moments(vault, cells, radius, slot, stage)
    sizes = np.bincount(slot, counts)
    pooled = shrinkage.denoise_covariance(
        totals.sum(axis=0) / sizes.sum(), sd * np.sqrt(len(sizes)) / sizes.sum()
    )
    return np.stack(
        [
            shrinkage.shrink_matrix(total / size, pooled, sd / size)
            for total, size in zip(totals, sizes, strict=True)
        ]
    )


def _shapes(
    vault: Vault,
    cells: Cells,
    counts: Vector,
    radius: float,
    slot: Labels,
    stage: str,
) -> Vector:
    """Covariances of directions, in coordinates where those of residuals are about the identity.

    A residual far below ``radius`` in length hardly occurs in many dimensions, so with a short
    radius every residual is clipped to it: all weigh alike, no matter how long, and nothing is
    lost to outliers. Noise leaves the spectrum (`shrinkage.denoise_covariance`); the trace is
    known and set to d. On EuroSAT this beat clipping at the usual length by 1 to 2 points.
    """
    short = _SHORT * radius
    totals, sd = estimators.second_moments(vault, cells, short, slot, stage)
    scales = cells.dim / short**2 / np.bincount(slot, counts)
    found = [
        shrinkage.denoise_covariance(total * scale, sd * scale, floor=0.05)
        for total, scale in zip(totals, scales, strict=True)
    ]
    return np.stack([matrix * (cells.dim / np.trace(matrix)) for matrix in found])


def _cleaned(
    vault: Vault,
    cells: Cells,
    counts: Vector,
    radius: float,
    slot: Labels,
    stage: str,
) -> Vector:
    """Covariances in coordinates where the pooled one is about the identity, each by itself.

    The noise that is known leaves the spectrum; what a class has more or less of than the others,
    its length included, stays.
    """
    totals, sd = estimators.second_moments(vault, cells, radius, slot, stage)
    sizes = np.bincount(slot, counts)
    return np.stack(
        [
            shrinkage.denoise_covariance(total / size, sd / size, floor=0.05)
            for total, size in zip(totals, sizes, strict=True)
        ]
    )
