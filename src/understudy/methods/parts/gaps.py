"""The DP gap between the private rows and a base set, class by class."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.types import Vector
from understudy.methods.parts import estimators
from understudy.methods.parts.base import Base
from understudy.methods.parts.grain import common_gap
from understudy.methods.parts.place import Place
from understudy.privacy.cells import Cells
from understudy.steps import alignment as steps
from understudy.steps import histogram


@dataclass(frozen=True)
class Rule:
    """How gaps are measured.

    Attributes:
        clusters: K, in each class.
        stages: Those of DP k-means, where the private side is clustered too.
        kappa: Clip the embeddings themselves at this norm, as the paper does; None: clip their
            difference to the base set's mean, which is shorter, so less noise is needed.
        reach: The radius of that clipping, in usual distances of base rows to their mean.
        known: Whether the encoder's norm is known, so that the base set's distances tell those of
            private rows; else a DP quantile of them is released first.
        shrink: Whether gaps are shrunk by the noise.
    """

    clusters: int
    stages: tuple[str, ...]
    kappa: float | None
    reach: float
    known: bool
    shrink: bool


@dataclass(frozen=True)
class ClassMeans:
    """DP means of the classes.

    Attributes:
        groups: Counts, means and the noise in them.
        scale: The clipping radius over the usual distance of base rows to their mean.
    """

    groups: estimators.Groups
    scale: float


def class_means(place: Place, base: Base, rule: Rule) -> ClassMeans:
    """DiffPrivMean (Algorithm 2) of every class, in one release with the counts."""
    centres = steps.group_means(base.rows, base.labels, place.classes)
    usual = steps.usual_distance(base.rows, base.labels, centres)
    radius = rule.reach * usual
    if rule.kappa is not None:
        centres, radius = np.zeros_like(centres), rule.kappa
    elif not rule.known:
        edges = np.geomspace(0.02, 50, 120) * usual
        found = estimators.norm_histogram(place.values, Cells(centres[:, None]), edges, "reach")
        radius = histogram.quantile(found, edges, 0.75)
    groups = estimators.group_means(place.values, Cells(centres[:, None]), radius, "gap")
    if rule.kappa is None:
        groups = _unclipped(groups, centres, radius, usual)
    return ClassMeans(groups, radius / usual)


def _unclipped(
    groups: estimators.Groups, centres: Vector, radius: float, usual: float
) -> estimators.Groups:
    offsets, variances = steps.unclipped(groups.means - centres, groups.variances, radius, usual)
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
