"""Clusters within the classes, and rows moved across the DP gap of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.types import Embeddings, Labels, Vector
from understudy.methods import dp_estimators
from understudy.methods.alignment.base_set import Base
from understudy.methods.alignment.gap import ClassMeans, Rule, unclipped, unit_noise
from understudy.methods.alignment.place import Place
from understudy.methods.base import Materials
from understudy.privacy.cells import SplitCells
from understudy.privacy.queries import CountAndSum
from understudy.privacy.vault import Vault
from understudy.steps import alignment as steps
from understudy.steps.kmeans import nearest
from understudy.steps.spectral import centroids, spectral_clusters

_NOISE_PART = 0.1
"""Noise in a cluster's mean, over the usual distance of rows to it, up to which clipping widens."""

_FARTHEST = 1.5
"""A cluster's clipped mean is lengthened by no more: clusters differ less from their class than the
class from the base set, and where private rows vary less than base rows there is less to find."""


@dataclass(frozen=True)
class Moves:
    """Where the rows of a base set go.

    Attributes:
        rows: (n, d) float32, moved.
        cell: (n,) cluster of each, of all classes.
        shares: (classes, k) part of each cluster in its class.
    """

    rows: Embeddings
    cell: Labels
    shares: Vector


def across(
    materials: Materials, place: Place, base: Base, gaps: Vector, found: ClassMeans, rule: Rule
) -> Moves:
    """Lines 11 to 14: clusters, the gap of each, and every row moved across its own.

    With one cluster a class, that is the gap of the class.
    """
    each, cell, shares = gaps, base.labels, np.ones((place.classes, 1))
    if rule.clusters > 1:
        seeds, cell = clusters_of_base(materials, place, base, rule.clusters)
        where = private_places(materials, place, base, seeds, gaps, found.scale, rule.stages)
        each, shares = cluster_gaps(place, base, cell, seeds, where, gaps, found, rule)
    rows = np.asarray(base.rows + each[cell], dtype=np.float32)
    return Moves(rows, cell, shares)


def clusters_of_base(
    materials: Materials, place: Place, base: Base, clusters: int
) -> tuple[Vector, Labels]:
    """ClusterMatch, the synthetic side: centroids (classes, k, p), and the cell of each base row.

    Spectral clustering finds the centroids; then rows belong to the nearest, as private rows will,
    so that two equal sets have no gap in any cell.
    """
    spots = place.places(base)

    def make() -> dict[str, Vector]:
        found = []
        for label in range(place.classes):
            mine = spots[base.labels == label]
            rng = np.random.default_rng([materials.seed, 7, label])
            found.append(centroids(mine, spectral_clusters(mine, clusters, rng), clusters))
        return {"seeds": np.stack(found)}

    seeds = materials.keep("clusters", make)["seeds"]
    cell = np.empty(len(base), dtype=np.int64)
    for label in range(place.classes):
        mine = base.labels == label
        cell[mine] = label * clusters + nearest(spots[mine], seeds[label])
    return seeds, cell


def private_places(
    materials: Materials,
    place: Place,
    base: Base,
    seeds: Vector,
    gaps: Vector,
    scale: float,
    stages: tuple[str, ...],
) -> Vector:
    """Where the cells of private rows lie, (classes, k, p): the match of each synthetic centroid.

    With the partition ``public`` (no stages) these are the synthetic centroids, moved by their
    class's gap. With ``matched`` they come from DP k-means on the private rows, paired with them
    by the Hungarian method.
    """
    moved = _at_class_gap(place, seeds, gaps)
    if not stages:
        return moved
    spots, width = place.places(base), place.turn.shape[1]
    means = np.stack([spots[base.labels == label].mean(axis=0) for label in range(len(seeds))])
    residuals = spots - means[base.labels]
    start = means + gaps @ place.turn if place.joined else means
    found = dp_estimators.dp_kmeans(
        place.both.view(lambda rows: rows[:, :width]),
        start,
        np.eye(width),
        1.5 * residuals.std(axis=0),  # more than the base set's, which may vary less
        seeds.shape[1],
        scale * max(float(np.sqrt((residuals**2).sum(axis=1).mean())), 1e-9),
        stages,
        np.random.default_rng([materials.seed, 8]),
    )
    return np.stack([own[steps.match(own, near)] for own, near in zip(found, moved, strict=True)])


def _at_class_gap(place: Place, seeds: Vector, gaps: Vector) -> Vector:
    """Synthetic centroids (classes, k, p) across the gap of their class, where it can be seen."""
    return seeds + (gaps @ place.turn)[:, None] if place.joined else seeds


def cluster_gaps(
    place: Place,
    base: Base,
    cell: Labels,
    seeds: Vector,
    places: Vector,
    gaps: Vector,
    found: ClassMeans,
    rule: Rule,
) -> tuple[Vector, Vector]:
    """The gap of each cluster, (classes * k, d) (line 13), and its part of its class, (classes, k).

    Shrunk towards the gap of its class, and that to where its cell lies.
    """
    classes, clusters, _ = places.shape
    own = np.repeat(np.arange(classes), clusters)
    means = steps.group_means(base.rows, cell, len(own))
    synthetic = np.bincount(cell, minlength=len(own))
    empty = synthetic == 0
    means[empty] = steps.group_means(base.rows, base.labels, classes)[own[empty]]
    centres = means + gaps[own]
    if place.joined:  # as far from there as its place is
        away = places - _at_class_gap(place, seeds, gaps)
        centres += (away @ place.turn.T).reshape(centres.shape)
    expected = centres - means
    if rule.clip_norm is not None:
        centres = np.zeros_like(means)
    split = SplitCells.of(places, centres.reshape(classes, clusters, -1))
    usual = steps.usual_distance(base.rows, cell, means)
    radius = rule.clip_norm or _cluster_radius(place.both, split, found, usual)
    groups = dp_estimators.group_means(place.both, split, radius, "cluster gaps")
    if rule.clip_norm is None:
        groups = unclipped(groups, centres, radius, found.spread * usual, _FARTHEST)
    query = CountAndSum(split, radius)
    sd = place.both.noise_sd(query, stage="cluster gaps") / query.count_part
    square = (classes, clusters)
    shares = steps.cluster_shares(groups.counts.reshape(square), sd, synthetic.reshape(square))
    raw = groups.means - means
    raw[:, place.numbers :] = expected[:, place.numbers :]  # clusters have one camera
    if not rule.shrink:
        return raw, shares
    apart = steps.shrink_in_blocks(raw - expected, groups.variances, place.axes)
    return expected + apart, shares


def _cluster_radius(vault: Vault, split: SplitCells, found: ClassMeans, usual: float) -> float:
    """Where differences to a cluster's expected mean are clipped.

    At as many usual distances as for classes. Where the noise allows, further, since a cluster's
    own gap may be long: as far as for classes, and no further than where the noise in a cluster's
    mean is a part of ``usual``.
    """
    rows = float(found.groups.counts.sum()) / split.count
    widest = _NOISE_PART * usual * rows / unit_noise(vault, split, "cluster gaps")
    return max(found.scale * usual, min(found.radius, widest))
