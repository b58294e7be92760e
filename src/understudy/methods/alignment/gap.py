"""The DP gap between the private records and a base set: of classes, clusters and variances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import Projection
from understudy.core.types import Embeddings, Labels, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.alignment import arithmetic
from understudy.methods.alignment.base_set import AlignedSamples, Base
from understudy.methods.alignment.sensor_noise import common_gap, embedding_length
from understudy.methods.base import Materials, planned
from understudy.methods.dp_estimators import KMeansStages
from understudy.privacy.cells import Cells, SplitCells
from understudy.privacy.queries import CountAndSum, NormHistogram, clip_rows
from understudy.steps import histogram
from understudy.steps.kmeans import nearest

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.methods.alignment.algorithm import AlignmentParams
    from understudy.privacy.vault import Vault

_AXES = 256  # principal axes that gaps are shrunk along; what lies outside is one block
_SPREAD_AXES = 16  # principal axes along which variances are aligned
_LEAST_QUANTILE = 0.75  # of the distances: what is clipped is found again, so no more is needed
_BINS = 120
_NOISE_PART = 0.1
"""Noise in a cluster's mean, over the usual distance of samples to it, up to which clipping
widens."""

_LEAST_SHARE = 1e-9  # of a class, for a cluster that samples were drawn in

_FARTHEST = 1.5
"""A cluster's clipped mean is lengthened by no more: clusters differ less from their class than the
class from the base set, and where private records vary less than base samples there is less to
find."""


@dataclass(frozen=True)
class AlignmentStages:
    """The releases of alignment, in their order."""

    radius: Stage | None  # a histogram of distances, where the scale of the embeddings is unknown
    gap: Stage  # counts and means of the classes
    kmeans: KMeansStages | None  # DP k-means, where the private side is clustered too
    cluster_gaps: Stage | None  # counts and means of the clusters, where there are several
    spread: Stage | None  # second moments, where variances are aligned


@dataclass(frozen=True)
class GapSpace:
    """The private records where gaps are measured, and what of the space is public."""

    embeddings: Vault  # vault of the embeddings that are moved, (n, d)
    positioned: Vault  # vault of (n, p + d): a position for the partition, then the embedding
    classes: int
    axes: Vector  # (d, r) principal axes of the base set within its classes
    projection: Vector  # (c, p) from what the partition looks at to the p dimensions it is made in
    same_encoder: bool  # whether the partition looks at the embeddings that are moved
    length: int  # numbers of a vector that are its embedding; the others are noise levels

    def positions(self, base: Base) -> Vector:
        """Positions of the base set for the partition: (n, p)."""
        return np.asarray(_cluster_embeddings(base) @ self.projection)

    def across_class_gap(self, centroids: Vector, gaps: Vector) -> Vector:
        """Centroids (classes, k, p) across the gap of their class, where the partition sees it."""
        return centroids + (gaps @ self.projection)[:, None] if self.same_encoder else centroids


def _cluster_embeddings(base: Base) -> Embeddings:
    return base.embeddings if base.cluster_embeddings is None else base.cluster_embeddings


def embed_records(materials: Materials, base: Base, params: AlignmentParams) -> GapSpace:
    """Line 10: embed private records once, by both encoders where the partition has its own."""
    context, vault = materials.context, materials.vault
    encoder, other = context.encoder, context.cluster_encoder

    def make() -> dict[str, Vector]:
        return {
            "axes": arithmetic.within_axes(base.embeddings, base.labels, _AXES)[1],
            "projection": arithmetic.within_axes(
                _cluster_embeddings(base), base.labels, params.dimensions
            )[1],
        }

    stored = materials.keep("axes", make)
    project = Projection(stored["projection"])
    split = stored["projection"].shape[1]
    if other is not None and encoder is not None:

        def encode(images: NDArray[Any]) -> Embeddings:
            positions, values = project(other.encode(images)), encoder.encode(images)
            return np.concatenate([positions, values], axis=1, dtype=np.float32)

        positioned = vault.map(encode)
        embeddings = positioned.view(lambda values: values[:, split:])
    else:
        embeddings = vault.embedded() if encoder is None else vault.map(encoder.encode)
        positioned = embeddings.view(
            lambda values: np.concatenate([project(values), values], axis=1, dtype=np.float32)
        )
    if not params.conditional:
        embeddings, positioned = embeddings.unconditional(), positioned.unconditional()
    return GapSpace(
        embeddings,
        positioned,
        len(materials.classes) if params.conditional else 1,
        stored["axes"],
        stored["projection"],
        other is None,
        embedding_length(context),
    )


@dataclass(frozen=True)
class ClassMeans:
    """DP means of the classes."""

    groups: dp_estimators.Groups  # counts, means and the noise in them
    radius: float  # they were clipped at
    usual: float  # usual distance of base samples to the mean of their class
    spread: float = 1.0  # that of private records over it; 1 where it is unknown

    @property
    def scale(self) -> float:
        """The clipping radius in usual distances."""
        return self.radius / self.usual


def class_means(
    space: GapSpace, base: Base, params: AlignmentParams, stages: AlignmentStages
) -> ClassMeans:
    """DiffPrivMean (Algorithm 2) of every class, in one release with the counts."""
    stage = stages.gap
    centres = arithmetic.means_by_group(base.embeddings, base.labels, space.classes)
    usual = arithmetic.usual_distance(base.embeddings, base.labels, centres)
    if params.clip_norm is not None:
        cells = Cells(np.zeros_like(centres)[:, None])
        groups = dp_estimators.group_means(space.embeddings, cells, params.clip_norm, stage)
        return ClassMeans(groups, params.clip_norm, usual)
    cells, square = Cells(centres[:, None]), None
    if params.clip_radius is not None:
        radius = params.clip_radius * usual
    else:
        radius, square = _measured_radius(space, cells, usual, stages)
    groups = dp_estimators.group_means(space.embeddings, cells, radius, stage)
    spread = 1.0
    if square is not None:
        parts = groups.counts / groups.counts.sum()
        distance = arithmetic.private_distance(
            groups.means - centres, groups.variances, parts, radius, square
        )
        spread = distance / usual
    groups = _unclipped_groups(groups, centres, radius, spread * usual, arithmetic.FARTHEST)
    return ClassMeans(groups, radius, usual, spread)


def _measured_radius(
    space: GapSpace, cells: Cells, usual: float, stages: AlignmentStages
) -> tuple[float, float]:
    """A radius by what clipping and noise cost, and the mean square distance of records."""
    edges = np.geomspace(0.02, 50, _BINS) * usual
    query = NormHistogram(cells, edges)
    stage = planned(stages.radius)
    counts = space.embeddings.release(query, stage=stage.name)[:, 0]
    sd = space.embeddings.noise_sd(query, stage=stage.name)
    weights = histogram.clean_histogram(counts, sd)
    records = max(float(counts.sum()), 1.0) / space.classes
    noise = _unit_noise(space.embeddings, cells, stages.gap) / records
    radius = max(
        histogram.quantile(weights, edges, _LEAST_QUANTILE),
        histogram.clipping_radius(weights, edges, noise),
    )
    return radius, histogram.mean_square(weights, edges)


def _unit_noise(vault: Vault, cells: Cells, stage: Stage) -> float:
    """Length of the noise in a cluster's sum of differences, for a clipping radius of 1. Public."""
    query = CountAndSum(cells, 1.0)
    return float(np.sqrt(cells.dim)) * vault.noise_sd(query, stage=stage.name) / query.sum_part


def _unclipped_groups(
    groups: dp_estimators.Groups, centres: Vector, radius: float, usual: float, farthest: float
) -> dp_estimators.Groups:
    """Means as they were before differences to ``centres`` were clipped."""
    offsets, variances = arithmetic.unclipped(
        groups.means - centres, groups.variances, radius, usual, farthest
    )
    return replace(groups, means=centres + offsets, variances=variances)


def class_gaps(space: GapSpace, base: Base, private: ClassMeans, *, shrink: bool) -> Vector:
    """DP mean less synthetic mean of each class, (classes, d), shrunk by the noise (line 13)."""
    means = arithmetic.means_by_group(base.embeddings, base.labels, space.classes)
    gaps, variances = private.groups.means - means, private.groups.variances
    levels = common_gap(gaps[:, space.length :], variances)
    gaps[:, space.length :] = 0.0
    if shrink:
        gaps = arithmetic.shrink_gaps(gaps, variances, space.axes)
    gaps[:, space.length :] = levels
    return gaps


def facts_of(private: ClassMeans, gaps: Vector) -> dict[str, float | int]:
    """What of it is worth printing; all of it is noisy: count, length of a gap, and its noise."""
    groups = private.groups
    noise = np.sqrt(gaps.shape[1] * groups.variances)
    return {
        "noisy_rows": round(float(groups.counts.sum())),
        "gap": round(float(np.linalg.norm(gaps, axis=1).mean()), 4),
        "noise_in_a_gap": round(float(noise.mean()), 4),
    }


@dataclass(frozen=True)
class Movement:
    """What moves the samples of any base set of a run: the gap of each cluster."""

    space: GapSpace  # where gaps were measured
    centroids: Vector | None  # (classes, k, p) of the clusters; None where each class is one
    gaps: Vector  # (classes * k, d)
    shares: Vector  # (classes, k) part of each cluster in its class

    def across(self, base: Base) -> AlignedSamples:
        """Line 14: every sample across the gap of its cluster."""
        cluster = base.labels
        if self.centroids is not None:
            cluster = _nearest_clusters(self.space, base, self.centroids)
        embeddings = np.asarray(base.embeddings + self.gaps[cluster], dtype=np.float32)
        # A base set that was drawn anew may have no sample of a cluster: others stand for it.
        present = np.bincount(cluster, minlength=self.shares.size).reshape(self.shares.shape) > 0
        shares = np.where(present, np.maximum(self.shares, _LEAST_SHARE), 0.0)
        return AlignedSamples(embeddings, cluster, shares)


def movement(
    materials: Materials,
    space: GapSpace,
    base: Base,
    gaps: Vector,
    private: ClassMeans,
    params: AlignmentParams,
    stages: AlignmentStages,
) -> Movement:
    """Lines 11 to 13: clusters, and the gap of each; of one cluster, the gap of its class."""
    stage = stages.cluster_gaps
    if stage is None:
        return Movement(space, None, gaps, np.ones((space.classes, 1)))
    centroids = centroids_of_base(materials, space, base, params.clusters or 1)
    cluster = _nearest_clusters(space, base, centroids)
    positions = private_positions(
        materials, space, base, centroids, gaps, private.scale, stages.kmeans
    )
    every, shares = _cluster_gaps(
        space, base, cluster, centroids, positions, gaps, private, params, stage
    )
    return Movement(space, centroids, every, shares)


def centroids_of_base(materials: Materials, space: GapSpace, base: Base, clusters: int) -> Vector:
    """ClusterMatch, the synthetic side: centroids (classes, k, p).

    Spectral clustering finds the centroids; then samples belong to the nearest, as private records
    will, so that two equal sets have no gap in any cluster.
    """
    positions = space.positions(base)

    def make() -> dict[str, Vector]:
        centroids = []
        for label in range(space.classes):
            mine = positions[base.labels == label]
            rng = np.random.default_rng([materials.seed, 7, label])
            cluster = arithmetic.spectral_clusters(mine, clusters, rng)
            centroids.append(arithmetic.centroids(mine, cluster, clusters))
        return {"centroids": np.stack(centroids)}

    return np.asarray(materials.keep("clusters", make)["centroids"])


def _nearest_clusters(space: GapSpace, base: Base, centroids: Vector) -> Labels:
    """The cluster of each sample of a base set, of all classes: (n,)."""
    positions, clusters = space.positions(base), centroids.shape[1]
    cluster = np.empty(len(base), dtype=np.int64)
    for label in range(space.classes):
        mine = base.labels == label
        cluster[mine] = label * clusters + nearest(positions[mine], centroids[label])
    return cluster


def private_positions(
    materials: Materials,
    space: GapSpace,
    base: Base,
    centroids: Vector,
    gaps: Vector,
    scale: float,
    stages: KMeansStages | None,
) -> Vector:
    """Positions of the private clusters, (classes, k, p): the match of each synthetic centroid.

    With the partition ``public`` (no stages) these are the synthetic centroids, moved by their
    class's gap. With ``matched`` they come from DP k-means on the private records, paired with them
    by the Hungarian method.
    """
    moved = space.across_class_gap(centroids, gaps)
    if stages is None:
        return moved
    positions, width = space.positions(base), space.projection.shape[1]
    means = np.stack(
        [positions[base.labels == label].mean(axis=0) for label in range(space.classes)]
    )
    residuals = positions - means[base.labels]
    start = means + gaps @ space.projection if space.same_encoder else means
    centres = dp_estimators.dp_kmeans(
        space.positioned.view(lambda values: values[:, :width]),
        start,
        np.eye(width),
        1.5 * residuals.std(axis=0),  # more than the base set's, which may vary less
        centroids.shape[1],
        scale * max(float(np.sqrt((residuals**2).sum(axis=1).mean())), 1e-9),
        stages,
        np.random.default_rng([materials.seed, 8]),
    )
    return np.stack(
        [own[arithmetic.match(own, near)] for own, near in zip(centres, moved, strict=True)]
    )


def _cluster_gaps(
    space: GapSpace,
    base: Base,
    cluster: Labels,
    centroids: Vector,
    positions: Vector,
    gaps: Vector,
    private: ClassMeans,
    params: AlignmentParams,
    stage: Stage,
) -> tuple[Vector, Vector]:
    """The gap of each cluster, (classes * k, d) (line 13), and its part of its class, (classes, k).

    Shrunk towards the gap of its class, and that to where its cluster lies.
    """
    classes, clusters, _ = positions.shape
    own = np.repeat(np.arange(classes), clusters)
    means = arithmetic.means_by_group(base.embeddings, cluster, len(own))
    synthetic = np.bincount(cluster, minlength=len(own))
    empty = synthetic == 0
    of_classes = arithmetic.means_by_group(base.embeddings, base.labels, classes)
    means[empty] = of_classes[own[empty]]
    centres = means + gaps[own]
    if space.same_encoder:  # as far from there as its position is
        away = positions - space.across_class_gap(centroids, gaps)
        centres += (away @ space.projection.T).reshape(centres.shape)
    expected = centres - means
    if params.clip_norm is not None:
        centres = np.zeros_like(means)
    split = SplitCells.of(positions, centres.reshape(classes, clusters, -1))
    usual = arithmetic.usual_distance(base.embeddings, cluster, means)
    radius = params.clip_norm or _cluster_radius(space.positioned, split, private, usual, stage)
    groups = dp_estimators.group_means(space.positioned, split, radius, stage)
    if params.clip_norm is None:
        groups = _unclipped_groups(groups, centres, radius, private.spread * usual, _FARTHEST)
    square = (classes, clusters)
    shares = arithmetic.cluster_shares(
        groups.counts.reshape(square), groups.count_sd, synthetic.reshape(square)
    )
    raw = groups.means - means
    raw[:, space.length :] = expected[:, space.length :]  # clusters have one camera
    if not params.shrink:
        return raw, shares
    apart = arithmetic.shrink_along_axes(raw - expected, groups.variances, space.axes)
    return expected + apart, shares


def _cluster_radius(
    vault: Vault, split: SplitCells, private: ClassMeans, usual: float, stage: Stage
) -> float:
    """Where differences to a cluster's expected mean are clipped.

    At as many usual distances as for classes; where the noise in a cluster's mean is a small part
    of ``usual``, as far as for classes, since a cluster's own gap may be long.
    """
    records = float(private.groups.counts.sum()) / split.count
    widest = _NOISE_PART * usual * records / _unit_noise(vault, split, stage)
    return max(private.scale * usual, min(private.radius, widest))


def align_variances(
    space: GapSpace,
    aligned: AlignedSamples,
    labels: Labels,
    counts: Vector,
    clip_radius: float,
    stage: Stage,
) -> AlignedSamples:
    """Beyond the paper: DP variances along the leading axes, about the means just aligned.

    ``clip_radius`` is in usual distances of the moved samples to the mean of their class.
    """
    embeddings = aligned.embeddings
    means = arithmetic.means_by_group(embeddings, labels, space.classes)
    axes = space.axes[:, :_SPREAD_AXES]
    scales = np.maximum(((embeddings - means[labels]) @ axes).std(axis=0), 1e-9)
    projection = axes / scales
    radius = clip_radius * float(np.sqrt(axes.shape[1]))
    cells = Cells((means @ projection)[:, None])
    squares, sd = dp_estimators.squared_moments(
        space.embeddings.view(Projection(projection)), cells, radius, stage
    )
    residuals = (embeddings - means[labels]) @ projection
    clipped = clip_rows(residuals, radius, np.empty_like(residuals))
    synthetic = np.maximum(arithmetic.means_by_group(clipped**2, labels, space.classes), 1e-6)
    factors = arithmetic.variance_factors(
        squares / counts[:, None], sd / counts, synthetic, scales**2
    )
    return replace(aligned, embeddings=arithmetic.stretch(embeddings, labels, means, axes, factors))
