"""The coordinates in which the clusters of a class are looked for."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Vector
from understudy.methods.parts import estimators
from understudy.methods.parts.entering import Entered
from understudy.privacy.cells import Cells
from understudy.steps import shrinkage
from understudy.steps.space import Frame, plain_frame, principal_frame

_LEAST = 16  # axes that an image keeps, however noisy


def within_class_frame(
    place: Entered,
    centres: Vector,
    counts: Vector,
    *,
    matrix: bool,
    plain: bool,
    clusters: int,
    most: int,
) -> Frame:
    """Axes of the covariance within classes, of which images keep those that rise above the noise.

    Releases: distances to the class means where the rows are not on a sphere; the tied covariance
    where ``matrix``.

    Args:
        place: The space.
        centres: (classes, d) released class means.
        counts: (classes,) noisy counts.
        matrix: Whether the tied covariance is measured.
        plain: Keep the coordinates as they are (spherical and diagonal covariance).
        clusters: k.
        most: Axes that an image keeps at most.
    """
    dim = centres.shape[1]
    reach = place.reach(centres)
    lead = min(dim, max(4, 2 * clusters))
    if not matrix:
        return plain_frame(dim, reach, None, lead)
    total, sd = estimators.second_moments(
        place.vault, Cells(centres[:, None]), reach, None, "covariance"
    )
    raw, noise_sd = total[0] / counts.sum(), sd / counts.sum()
    covariance = shrinkage.denoise_covariance(raw, noise_sd)
    if plain:
        return plain_frame(dim, reach, covariance, lead)
    keep = dim
    if place.selective:
        edge = 2 * np.sqrt(dim / 2) * noise_sd
        keep = int(np.clip((np.linalg.eigvalsh(raw) > edge).sum(), min(_LEAST, dim), most))
    every = not place.selective
    return principal_frame(covariance, keep, min(lead, keep), mahalanobis=every, rest=every)
