"""The coordinates in which the clusters of a class are looked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.types import Vector
from understudy.methods import dp_estimators
from understudy.methods.clustering.embedding_space import Entered
from understudy.privacy.cells import Cells
from understudy.steps import shrinkage
from understudy.steps.space import Frame, plain_frame, principal_frame

_LEAST = 16  # leading coordinates that an image keeps: colours and coarse shapes


def within_class_frame(
    space: Entered,
    centres: Vector,
    size: float,
    clip_radius: float | None,
    *,
    matrix: bool,
    plain: bool,
    clusters: int,
    most: int,
) -> Frame:
    """Axes of the covariance within classes, of which images keep those that rise above the noise.

    Releases: distances to the class means where the rows are not on a sphere and no clipping radius
    is set; the tied covariance where ``matrix``, its diagonal where ``plain`` with clusters.

    Args:
        space: The space.
        centres: (classes, d) released class means.
        size: Noisy number of records.
        clip_radius: Where differences to a class's mean are clipped; None: as the data says.
        matrix: Whether the tied covariance is measured.
        plain: Keep the coordinates as they are (spherical and diagonal covariance).
        clusters: k.
        most: Axes that an image keeps at most.
    """
    dim = centres.shape[1]
    radius = space.residual_radius(centres) if clip_radius is None else clip_radius
    lead, cells = min(dim, max(4, 2 * clusters)), Cells(centres[:, None])
    if plain:
        if clusters == 1:
            return plain_frame(dim, radius, None, lead)
        squares, sd = dp_estimators.squared_moments(space.vault, cells, radius, "covariance")
        noise = sd * np.sqrt(len(squares)) / size
        variances = shrinkage.shrink_variances(squares.sum(axis=0)[None] / size, noise**2, 0.02)[0]
        return plain_frame(dim, radius, variances, lead)
    if not matrix:
        raise ConfigError(f"axes need a covariance: {matrix=}, {plain=}")
    total, sd = dp_estimators.second_moments(space.vault, cells, radius, None, "covariance")
    raw, noise_sd = total[0] / size, sd / size
    if not space.selective:
        covariance = shrinkage.denoise_covariance(raw, noise_sd)
        return principal_frame(covariance, dim, lead, mahalanobis=True, rest=True)
    block, above = clear_block(raw, noise_sd)
    keep, least = above, min(dim, _LEAST)
    if above < least:  # the clusters' means need them all the same
        block = keep = least
    covariance = np.zeros_like(raw)
    covariance[:block, :block] = shrinkage.denoise_covariance(raw[:block, :block], noise_sd)
    lead = min(lead, max(above, 1))
    frame = principal_frame(covariance, min(keep, most), lead, mahalanobis=False, rest=False)
    return replace(frame, clear=above >= least)


def clear_block(matrix: Vector, noise_sd: float) -> tuple[int, int]:
    """The leading coordinates whose covariance shows most signal: how many, and how many axes.

    Noise reaches lower eigenvalues in fewer coordinates (`shrinkage.clear_values`).

    Args:
        matrix: (d, d) noisy, the coordinates in falling order of importance.
        noise_sd: Standard deviation of the diagonal's noise.

    Returns:
        The number of leading coordinates, and that of their axes that stand out of the noise, which
        may be 0.
    """
    best, chosen, block = -1.0, (1, 0), 1
    while True:
        values = np.asarray(np.linalg.eigvalsh(matrix[:block, :block]), dtype=np.float64)
        clear, signals = shrinkage.clear_values(values, noise_sd)
        if (signal := float(signals[clear].sum())) > best:
            best, chosen = signal, (block, int(clear.sum()))
        if block == len(matrix):
            return chosen
        block = min(2 * block, len(matrix))
