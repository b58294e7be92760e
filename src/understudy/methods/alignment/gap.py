"""The DP gap between the private rows and a base set, class by class."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.types import Vector
from understudy.methods import dp_estimators
from understudy.methods.alignment.base_set import Base
from understudy.methods.alignment.place import Place
from understudy.methods.alignment.sensor_noise import common_gap
from understudy.privacy.cells import Cells
from understudy.privacy.queries import CountAndSum, NormHistogram
from understudy.privacy.vault import Vault
from understudy.steps import alignment as steps
from understudy.steps import histogram

RADIUS_STAGE = "clip radius"
"""The stage that measures a clipping radius, where the scale of the embeddings is unknown."""

_LEAST_QUANTILE = 0.75  # of the distances: what is clipped is found again, so no more is needed
_BINS = 120


@dataclass(frozen=True)
class Rule:
    """How gaps are measured.

    Attributes:
        clusters: K, in each class.
        stages: Those of DP k-means, where the private side is clustered too.
        clip_norm: Clip the embeddings themselves at this norm, as the paper does; None: clip their
            difference to the base set's mean, which is shorter, so less noise is needed.
        clip_radius: The radius of that clipping, in usual distances of base rows to their mean;
            None: a DP histogram of distances is released first, and the radius read off it.
        shrink: Whether gaps are shrunk by the noise.
    """

    clusters: int
    stages: tuple[str, ...]
    clip_norm: float | None
    clip_radius: float | None
    shrink: bool


@dataclass(frozen=True)
class ClassMeans:
    """DP means of the classes.

    Attributes:
        groups: Counts, means and the noise in them.
        radius: They were clipped at.
        usual: Usual distance of base rows to the mean of their class.
        spread: That of private rows over it; 1 where it is unknown.
    """

    groups: dp_estimators.Groups
    radius: float
    usual: float
    spread: float = 1.0

    @property
    def scale(self) -> float:
        """The clipping radius in usual distances."""
        return self.radius / self.usual


def class_means(place: Place, base: Base, rule: Rule) -> ClassMeans:
    """DiffPrivMean (Algorithm 2) of every class, in one release with the counts."""
    centres = steps.group_means(base.rows, base.labels, place.classes)
    usual = steps.usual_distance(base.rows, base.labels, centres)
    if rule.clip_norm is not None:
        cells = Cells(np.zeros_like(centres)[:, None])
        groups = dp_estimators.group_means(place.values, cells, rule.clip_norm, "gap")
        return ClassMeans(groups, rule.clip_norm, usual)
    cells, square = Cells(centres[:, None]), None
    if rule.clip_radius is not None:
        radius = rule.clip_radius * usual
    else:
        radius, square = _measured_radius(place, cells, usual)
    groups = dp_estimators.group_means(place.values, cells, radius, "gap")
    spread = 1.0
    if square is not None:
        parts = groups.counts / groups.counts.sum()
        distance = steps.private_distance(
            groups.means - centres, groups.variances, parts, radius, square
        )
        spread = distance / usual
    return ClassMeans(unclipped(groups, centres, radius, spread * usual), radius, usual, spread)


def _measured_radius(place: Place, cells: Cells, usual: float) -> tuple[float, float]:
    """A radius by what clipping and noise cost, and the mean square distance of private rows."""
    edges = np.geomspace(0.02, 50, _BINS) * usual
    query = NormHistogram(cells, edges)
    counts = place.values.release(query, stage=RADIUS_STAGE)[:, 0]
    sd = place.values.noise_sd(query, stage=RADIUS_STAGE)
    weights = histogram.clean_histogram(counts, sd)
    rows = max(float(counts.sum()), 1.0) / place.classes
    radius = max(
        histogram.quantile(weights, edges, _LEAST_QUANTILE),
        histogram.clipping_radius(weights, edges, unit_noise(place.values, cells, "gap") / rows),
    )
    return radius, histogram.mean_square(weights, edges)


def unit_noise(vault: Vault, cells: Cells, stage: str) -> float:
    """Length of the noise in a cell's sum of differences, for a clipping radius of 1. Public."""
    query = CountAndSum(cells, 1.0)
    return float(np.sqrt(cells.dim)) * vault.noise_sd(query, stage=stage) / query.sum_part


def unclipped(
    groups: dp_estimators.Groups,
    centres: Vector,
    radius: float,
    usual: float,
    farthest: float = steps.FARTHEST,
) -> dp_estimators.Groups:
    """Means as they were before differences to ``centres`` were clipped (`steps.unclipped`)."""
    offsets, variances = steps.unclipped(
        groups.means - centres, groups.variances, radius, usual, farthest
    )
    return replace(groups, means=centres + offsets, variances=variances)


def class_gaps(place: Place, base: Base, found: ClassMeans, rule: Rule) -> Vector:
    """DP mean less synthetic mean of each class, (classes, d), shrunk by the noise (line 13)."""
    means = steps.group_means(base.rows, base.labels, place.classes)
    gaps, variances = found.groups.means - means, found.groups.variances
    levels = common_gap(gaps[:, place.numbers :], variances)
    gaps[:, place.numbers :] = 0.0
    if rule.shrink:
        gaps = steps.shrink_gaps(gaps, variances, place.axes)
    gaps[:, place.numbers :] = levels
    return gaps


def facts_of(found: ClassMeans, gaps: Vector) -> dict[str, float | int]:
    """What of it is worth printing; all of it is noisy: rows, length of a gap, and its noise."""
    groups = found.groups
    noise = np.sqrt(gaps.shape[1] * groups.variances)
    return {
        "noisy_rows": round(float(groups.counts.sum())),
        "gap": round(float(np.linalg.norm(gaps, axis=1).mean()), 4),
        "noise_in_a_gap": round(float(noise.mean()), 4),
    }
