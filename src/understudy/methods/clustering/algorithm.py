"""DP Gaussian mixtures over embeddings: Algorithm 1 of the clustering paper.

Zhou, Zhou, Mirrokni, Epasto, Cohen-Addad: Private Training & Data Generation by Clustering
Embeddings. Where this differs from the paper, and why: docs/methods/clustering.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.ports import PromptedDecoder
from understudy.core.types import Release
from understudy.methods import dp_estimators
from understudy.methods.base import (
    PROCEDURAL,
    UNLABELLED,
    Context,
    Materials,
    Method,
    require_at_least,
)
from understudy.methods.clustering import capacity
from understudy.methods.clustering.covariance import (
    Covariance,
    Roots,
    covariance_roots,
    within_class_frame,
)
from understudy.methods.clustering.embedding_space import SpaceSettings, embed
from understudy.methods.clustering.sampling import produce
from understudy.methods.clustering.vote_filter import Filter, VoteFilter
from understudy.methods.dp_estimators import Clusters
from understudy.privacy.cells import Cells
from understudy.privacy.vault import Vault
from understudy.steps import shrinkage
from understudy.steps.mixture import Mixture
from understudy.steps.space import Frame


@dataclass(frozen=True)
class ClusteringParams:
    """Parameters of the clustering method; ``None``: chosen by the kind of release (`settled`).

    Raises:
        ConfigError: A value out of range.
    """

    clusters: int | None = None
    covariance: Covariance | None = None
    rank: int = 32
    components: int | None = None
    normalise: bool | None = None
    power: float | None = None
    whiten: bool | None = None
    lloyd_steps: int = 2
    clip_radius: float | None = None
    shrink: bool = True
    conditional: bool = True
    filter: Filter = "none"
    threshold: float | None = None
    oversample: int = 2

    def __post_init__(self) -> None:
        least = {"clusters": 1, "rank": 1, "components": 2, "lloyd_steps": 0, "oversample": 1}
        require_at_least(self, least)
        if self.power is not None and not 0 < self.power <= 1:
            raise ConfigError(f"power must lie in (0, 1], found {self.power}")
        if self.clip_radius is not None and not 0 < self.clip_radius < math.inf:
            raise ConfigError(f"clip_radius must be a positive number, found {self.clip_radius}")
        if self.threshold is not None and not np.isfinite(self.threshold):
            raise ConfigError(f"threshold must be a finite number, found {self.threshold}")
        if self.threshold is not None and self.filter == "none":
            raise ConfigError(
                "threshold is for filter=embeddings, images or both, and this run has no filter"
            )


OPTIONS = {
    "clusters": "clusters per class (k); images 8, or 10 where mu >= 1; embeddings and grids 1",
    "covariance": "spherical, diagonal, tied, low_rank, class (a matrix a class) or full",
    "rank": "directions kept of each matrix with covariance=low_rank",
    "components": "dimensions of the space; default 256, 400 for images, and all for grids",
    "normalise": "project on the unit sphere about a DP centre; default for embeddings",
    "power": "signed power of the embeddings first; 0.5 if public ones are never negative",
    "whiten": "whiten the space by public images; default unless an unCLIP decodes",
    "lloyd_steps": "DP Lloyd steps after the votes that choose the first centres",
    "clip_radius": "clip differences to a class's mean here; default: a DP quantile, or 1",
    "shrink": "shrink means and covariances by the noise that is known to be in them",
    "conditional": "learn each class by itself; false: one mixture without classes",
    "filter": "of several candidates take those private records vote for: embeddings, images, both",
    "threshold": "votes needed, in standard deviations of their noise; default: the most voted",
    "oversample": "candidates drawn for each sample, with a filter",
}


def settled(params: ClusteringParams, context: Context) -> ClusteringParams:
    """The parameters with every ``None`` decided, from public facts only."""
    images, rich = context.decoder is not None, context.mu >= 1
    linear = images and SpaceSettings.grid_of(context, params.power, params.components) is None
    unclip = linear and isinstance(context.decoder, PromptedDecoder)
    covariance: Covariance = "diagonal" if unclip else "full" if linear and rich else "class"
    return replace(
        params,
        clusters=params.clusters or ((10 if rich else 8) if linear else 1),
        covariance=params.covariance or covariance,
        whiten=not unclip if params.whiten is None else params.whiten,
        normalise=(not images) if params.normalise is None else params.normalise,
    )


def _wants_matrix(params: ClusteringParams) -> bool:
    return params.covariance not in ("spherical", "diagonal")


def _space_settings(params: ClusteringParams, context: Context) -> SpaceSettings:
    matrix, whiten = _wants_matrix(params), bool(params.whiten)
    return SpaceSettings.of(context, params.power, params.components, matrix=matrix, whiten=whiten)


def _separate(params: ClusteringParams) -> bool:
    return params.covariance != "tied" or (params.clusters or 1) > 1


def _votes(params: ClusteringParams) -> VoteFilter:
    return VoteFilter(params.filter, params.threshold, params.oversample)


def _lloyd_stages(params: ClusteringParams) -> list[str]:
    return [f"lloyd {i + 1}" for i in range(params.lloyd_steps)]


def weights(params: ClusteringParams, context: Context) -> Mapping[str, float]:
    """The weight of each stage in the budget (how they were chosen: docs/methods/clustering.md)."""
    params = settled(params, context)
    space_settings = _space_settings(params, context)
    stages = {"scale": 1.0} if space_settings.bound is None else {}
    if params.normalise:
        stages |= {"centre": 2.0, "radii": 1.0}
    else:
        stages |= {"scale": 1.0} | ({} if space_settings.bound is None else {"centre": 1.0})
        stages |= {} if params.clip_radius else {"spread": 2.0}
    stages["class sizes"] = 4.0
    if (params.clusters or 1) > 1:
        matrix = 16.0 if _wants_matrix(params) else 4.0
        stages |= {"means": 12.0, "covariance": matrix, "votes 1": 4.0, "votes 2": 4.0}
        stages |= dict.fromkeys(_lloyd_stages(params), 8.0) | {"cluster means": 10.0}
        stages["cluster covariances"] = 40.0
    else:
        stages["means"] = 20.0 if _separate(params) else 28.0
        if _wants_matrix(params):
            stages["covariance"] = 50.0 if _separate(params) else 70.0
        if _separate(params):
            stages["cluster covariances"] = 28.0
    stages |= dict.fromkeys(_votes(params).stages, 15.0)
    _votes(params).check(context, stages)
    return stages


def clustering(materials: Materials, params: ClusteringParams) -> Release:
    """Algorithm 1: encode, cluster, mean and covariance of each cluster, sample, filter, decode."""
    params = settled(params, materials.context)
    clusters, shrink = params.clusters or 1, params.shrink
    # 2: D_Embedding <- Encode(D), in the space where the statistics are taken.
    settings = _space_settings(params, materials.context)
    space = embed(
        materials, settings, conditional=params.conditional, normalise=bool(params.normalise)
    )
    sizes, size_sd = dp_estimators.class_sizes(
        space.vault, space.classes, settings.dim, "class sizes"
    )
    means = dp_estimators.group_means(
        space.vault, Cells(space.origin), space.radius, "means", sizes
    )
    centres, origin = means.means, space.centre if space.ordered else None
    common = shrinkage.common_mean(centres, means.variances, origin)
    if shrink:
        centres = shrinkage.shrink_to_common(centres, means.variances, origin)
    frame = within_class_frame(
        space,
        centres,
        float(sizes.sum()),
        params.clip_radius,
        matrix=_wants_matrix(params),
        plain=not _wants_matrix(params),
        clusters=clusters,
        most=100 if params.covariance == "full" else 60,
    )
    # 3: (c_j, n_j) <- DP-Cluster; 5: D_j <- the records nearest to c_j; 6: mu_j <- DP-Mean(D_j).
    local = space.vault.view(frame.forward)
    parts = dp_estimators.clusters_of_classes(
        local,
        frame,
        frame.forward(centres),
        sizes,
        clusters,
        ["votes 1", "votes 2", *_lloyd_stages(params)],
        np.random.default_rng(materials.seed),
        shrink=shrink,
    )
    # 7: Sigma_j <- DP-Covariance(D_j). 8: p_j <- n_j / sum n_j.
    roots = _roots(local, params, parts, frame, lengths=settings.grid is not None)
    alive, labels = parts.alive, np.repeat(np.arange(len(centres)), parts.sizes.shape[1])
    points = frame.backward(parts.centres.reshape(len(labels), -1), centres[labels])
    weights = parts.sizes.ravel() / parts.sizes.sum()
    mixture = Mixture(
        labels[alive], weights[alive], points[alive], frame.roots(roots.roots), roots.root_of[alive]
    )
    shares = capacity.Shares(
        materials.classes if space.classes > 1 else UNLABELLED,
        sizes,
        size_sd,
        own_mean=(centres != common).any(axis=1) | (sizes >= sizes.sum() / 2),
        clusters=(parts.sizes > 0).sum(axis=1),
        directions=roots.directions[roots.root_of].reshape(parts.sizes.shape).max(axis=1),
    )
    # 9 to 17: sample, filter, decode, filter.
    total = float(sizes.sum())
    release = produce(materials, space, mixture, METHOD.name, total, _votes(params))
    return replace(release, facts={**release.facts, **shares.facts()})


def carried(
    params: ClusteringParams, context: Context, noise: capacity.Noise
) -> tuple[capacity.Carried, ...]:
    """What classes of several sizes can carry under the noise of a plan."""
    params, matrix = settled(params, context), _wants_matrix(params)
    settings = _space_settings(params, context)
    selective = settings.images and settings.grid is None
    axes = min(settings.dim, capacity.IMAGE_AXES) if selective and matrix else settings.dim
    model = capacity.Model(
        dim=settings.dim,
        axes=axes,
        ordered=selective and settings.ordered,
        clusters=params.clusters or 1,
        separate="cluster covariances" if params.covariance != "tied" else None,
        diagonal=not matrix,
    )
    return capacity.capacity(model, noise)


def _roots(
    local: Vault, params: ClusteringParams, parts: Clusters, frame: Frame, *, lengths: bool
) -> Roots:
    """Roots of the clusters' covariances, and which of them each cluster has."""
    if not _separate(params):
        tied = np.zeros(parts.sizes.size, dtype=np.int64)
        return Roots(np.diag(frame.spread)[None], tied, np.zeros(1, dtype=np.int64))
    return covariance_roots(
        local,
        parts,
        frame.radius,
        params.covariance or "class",
        params.rank,
        "cluster covariances",
        whitened=frame.whitened,
        clear=frame.clear,
        lengths=lengths,
        shrink=params.shrink,
    )


METHOD = Method(
    name="clustering",
    summary="a Gaussian mixture per class over DP clusters of embeddings, decoded to images",
    source="Zhou et al., Private Training & Data Generation by Clustering Embeddings",
    params=ClusteringParams,
    settle=settled,
    weights=weights,
    carried=carried,
    run=clustering,
    roles=lambda *_: dict.fromkeys(("encoder", "decoder"), "embedded:dct") | {"public": PROCEDURAL},
    options=OPTIONS,
)
