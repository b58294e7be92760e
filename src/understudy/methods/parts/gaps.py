"""The DP gap between private rows and a base set: of classes, of clusters, and of variances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Embeddings, Labels, Vector
from understudy.methods.parts import estimators
from understudy.methods.parts.base import Base
from understudy.methods.parts.interface import Materials
from understudy.privacy.cells import Cells
from understudy.privacy.partitioned import SplitCells, project
from understudy.privacy.queries import CountAndSum, clip_rows
from understudy.privacy.vault import Vault
from understudy.steps import alignment as steps
from understudy.steps import histogram
from understudy.steps.kmeans import nearest
from understudy.steps.spectral import centroids, spectral_clusters

_AXES = 256  # principal axes that gaps are shrunk along; what lies outside is one block
_SPREAD_AXES = 16  # principal axes along which variances are aligned


@dataclass(frozen=True)
class Place:
    """The private rows where gaps are measured, and what of the space is public.

    Attributes:
        values: Vault of the embeddings that are moved, (n, d).
        both: Vault of (n, p + d): where a row lies for the partition, then its embedding.
        classes: Number of classes.
        axes: (d, r) principal axes of the base set within its classes.
        turn: (c, p) from what the partition looks at to the p dimensions it is made in.
        joined: Whether the partition looks at the embeddings that are moved.
    """

    values: Vault
    both: Vault
    classes: int
    axes: Vector
    turn: Vector
    joined: bool

    def places(self, base: Base) -> Vector:
        """Where rows of the base set lie for the partition: (n, p)."""
        return np.asarray((base.rows if base.cues is None else base.cues) @ self.turn)


def enter(materials: Materials, base: Base, *, dimensions: int, conditional: bool) -> Place:
    """Line 10: embed the private rows once, by both encoders where the partition has its own."""
    context, vault = materials.context, materials.vault
    encoder, other = context.encoder, context.cluster_encoder
    seen = base.rows if base.cues is None else base.cues

    def make() -> dict[str, Vector]:
        axes = steps.within_axes(base.rows, base.labels, _AXES)[1]
        return {"axes": axes, "turn": steps.within_axes(seen, base.labels, dimensions)[1]}

    kept = materials.keep("axes", make)
    turn = kept["turn"]
    split = turn.shape[1]
    if other is not None and encoder is not None:

        def encode(images: NDArray[Any]) -> Embeddings:
            seen, rows = other.encode(images), encoder.encode(images)
            return np.concatenate([project(seen, turn), rows], axis=1)

        both = vault.map(encode)
        values = both.view(lambda rows: rows[:, split:])
    else:
        values = vault.embedded() if encoder is None else vault.map(encoder.encode)
        both = values.view(lambda rows: np.concatenate([project(rows, turn), rows], axis=1))
    if not conditional:
        values, both = values.unconditional(), both.unconditional()
    classes = len(materials.classes) if conditional else 1
    return Place(values, both, classes, kept["axes"], kept["turn"], other is None)


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
    gaps = found.groups.means - means
    return steps.shrink_gaps(gaps, found.groups.variances, place.axes) if rule.shrink else gaps


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
    if rule.clusters == 1:
        rows = np.asarray(base.rows + gaps[base.labels], dtype=np.float32)
        return Moves(rows, base.labels, np.ones((place.classes, 1)))
    seeds, cell = clusters_of_base(materials, place, base, rule.clusters)
    where = private_places(materials, place, base, seeds, gaps, found.scale, rule.stages)
    each, shares = cluster_gaps(place, base, cell, seeds, where, gaps, found, rule)
    return Moves(np.asarray(base.rows + each[cell], dtype=np.float32), cell, shares)


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
    found = estimators.dp_kmeans(
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
    radius = found.scale * steps.usual_distance(base.rows, cell, means)
    if rule.kappa is not None:
        centres, radius = np.zeros_like(means), rule.kappa
    split = SplitCells.of(places, centres.reshape(classes, clusters, -1))
    groups = estimators.group_means(place.both, split, radius, "cluster gaps")
    query = CountAndSum(split, radius)
    sd = place.both.noise_sd(query, stage="cluster gaps") / query.count_part
    square = (classes, clusters)
    shares = steps.cluster_shares(groups.counts.reshape(square), sd, synthetic.reshape(square))
    raw = groups.means - means
    if not rule.shrink:
        return raw, shares
    apart = steps.shrink_in_blocks(raw - expected, groups.variances, place.axes)
    return expected + apart, shares


def facts(found: ClassMeans, gaps: Vector) -> dict[str, float | int]:
    """What of it is worth printing; all of it is noisy: rows, length of a gap, and its noise."""
    groups = found.groups
    noise = np.sqrt(gaps.shape[1] * groups.variances)
    return {
        "noisy_rows": round(float(groups.counts.sum())),
        "gap": round(float(np.linalg.norm(gaps, axis=1).mean()), 4),
        "noise_in_a_gap": round(float(noise.mean()), 4),
    }


def align_variances(
    place: Place, moved: Embeddings, labels: Labels, counts: Vector, reach: float
) -> Embeddings:
    """Beyond the paper: DP variances along the leading axes, about the means just aligned."""
    means = steps.group_means(moved, labels, place.classes)
    axes = place.axes[:, :_SPREAD_AXES]
    scales = np.maximum(((moved - means[labels]) @ axes).std(axis=0), 1e-9)
    turn = axes / scales
    radius = reach * float(np.sqrt(axes.shape[1]))
    cells = Cells((means @ turn)[:, None])
    squares, sd = estimators.squared_moments(
        place.values.view(lambda rows: project(rows, turn)), cells, radius, "spread"
    )
    seen = (moved - means[labels]) @ turn
    clipped = clip_rows(seen, radius, np.empty_like(seen))
    synthetic = np.maximum(steps.group_means(clipped**2, labels, place.classes), 1e-6)
    factors = steps.variance_factors(squares / counts[:, None], sd / counts, synthetic, scales**2)
    return steps.stretch(moved, labels, means, axes, factors)
