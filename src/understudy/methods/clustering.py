"""DP Gaussian mixtures over embeddings: Algorithm 1 of the clustering paper.

Zhou, Zhou, Mirrokni, Epasto, Cohen-Addad: Private Training & Data Generation by Clustering
Embeddings. Where this differs from the paper, and why: docs/methods/clustering.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Release, Vector
from understudy.methods.parts import estimators
from understudy.methods.parts.covariances import Covariance, covariance_roots
from understudy.methods.parts.entering import enter
from understudy.methods.parts.entry import Entry
from understudy.methods.parts.filtering import Filter, VoteFilter
from understudy.methods.parts.framing import within_class_frame
from understudy.methods.parts.interface import PROCEDURAL, Context, Materials, Method
from understudy.methods.parts.params import require_at_least
from understudy.methods.parts.producing import produce
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
    lloyd_steps: int = 2
    conditional: bool = True
    filter: Filter = "none"
    threshold: float | None = None
    oversample: int = 2

    def __post_init__(self) -> None:
        least = {"clusters": 1, "rank": 1, "components": 2, "lloyd_steps": 0, "oversample": 1}
        require_at_least(self, least)
        if self.power is not None and not 0 < self.power <= 1:
            raise ConfigError(f"power must lie in (0, 1], found {self.power}")
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
    "lloyd_steps": "DP Lloyd steps after the votes that choose the first centres",
    "conditional": "learn each class by itself; false: one mixture without classes",
    "filter": "of several candidates take those private records vote for: embeddings, images, both",
    "threshold": "votes needed, in standard deviations of their noise; default: the most voted",
    "oversample": "candidates drawn for each sample, with a filter",
}


def settled(params: ClusteringParams, context: Context) -> ClusteringParams:
    """The parameters with every ``None`` decided, from public facts only."""
    images, rich = context.decoder is not None, context.mu >= 1
    linear = images and Entry.grid_of(context, params.power, params.components) is None
    return replace(
        params,
        clusters=params.clusters or ((10 if rich else 8) if linear else 1),
        covariance=params.covariance or ("full" if linear and rich else "class"),
        normalise=(not images) if params.normalise is None else params.normalise,
    )


def _wants_matrix(params: ClusteringParams) -> bool:
    return params.covariance not in ("spherical", "diagonal") or (params.clusters or 1) > 1


def _separate(params: ClusteringParams) -> bool:
    return params.covariance != "tied" or (params.clusters or 1) > 1


def _votes(params: ClusteringParams) -> VoteFilter:
    return VoteFilter(params.filter, params.threshold, params.oversample)


def _lloyd_stages(params: ClusteringParams) -> list[str]:
    return [f"lloyd {i + 1}" for i in range(params.lloyd_steps)]


def weights(params: ClusteringParams, context: Context) -> Mapping[str, float]:
    """The weight of each stage in the budget (how they were chosen: docs/methods/clustering.md)."""
    params = settled(params, context)
    entry = Entry.of(context, params.power, params.components, matrix=_wants_matrix(params))
    stages = {"scale": 1.0} if entry.bound is None else {}
    stages |= {"centre": 2.0, "radii": 1.0} if params.normalise else {"spread": 2.0}
    if (params.clusters or 1) > 1:
        stages |= {"means": 8.0, "covariance": 16.0, "votes 1": 4.0, "votes 2": 4.0}
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
    clusters = params.clusters or 1
    # 2: D_Embedding <- Encode(D), in the space where the statistics are taken.
    entry = Entry.of(
        materials.context, params.power, params.components, matrix=_wants_matrix(params)
    )
    place = enter(
        materials, entry, conditional=params.conditional, normalise=bool(params.normalise)
    )
    means = estimators.group_means(place.vault, Cells(place.origin), place.radius, "means")
    centres = shrinkage.shrink_to_common(means.means, means.variances)
    frame = within_class_frame(
        place,
        centres,
        means.counts,
        matrix=_wants_matrix(params),
        plain=params.covariance in ("spherical", "diagonal"),
        clusters=clusters,
        most=100 if params.covariance == "full" else 60,
    )
    # 3: (c_j, n_j) <- DP-Cluster; 5: D_j <- the rows nearest to c_j; 6: mu_j <- DP-Mean(D_j).
    local = place.vault.view(frame.forward)
    points, counts = estimators.clusters_of_classes(
        local,
        frame,
        frame.forward(centres),
        means.counts,
        clusters,
        ["votes 1", "votes 2", *_lloyd_stages(params)],
        np.random.default_rng(materials.seed),
    )
    # 7: Sigma_j <- DP-Covariance(D_j). 8: p_j <- n_j / sum n_j.
    roots, root_of = _roots(local, params, points, counts, frame, lengths=entry.grid is not None)
    labels = np.repeat(np.arange(len(centres)), clusters)
    spots = frame.backward(points, centres[labels])
    mixture = Mixture(labels, counts / counts.sum(), spots, frame.roots(roots), root_of)
    # 9 to 17: sample, filter, decode, filter.
    total = float(counts.sum())
    return produce(materials, place, mixture, METHOD.name, total, _votes(params))


def _roots(
    local: Vault,
    params: ClusteringParams,
    points: Vector,
    counts: Vector,
    frame: Frame,
    *,
    lengths: bool,
) -> tuple[Vector, Labels]:
    """Roots of the clusters' covariances, and which of them each cluster has."""
    if not _separate(params):
        return np.diag(frame.spread)[None], np.zeros(len(points), dtype=np.int64)
    return covariance_roots(
        local,
        Cells(points.reshape(-1, params.clusters or 1, points.shape[1])),
        counts,
        frame.radius,
        params.covariance or "class",
        params.rank,
        "cluster covariances",
        whitened=frame.whitened,
        lengths=lengths,
    )


METHOD = Method(
    name="clustering",
    summary="a Gaussian mixture per class over DP clusters of embeddings, decoded to images",
    source="Zhou et al., Private Training & Data Generation by Clustering Embeddings",
    params=ClusteringParams,
    settle=settled,
    weights=weights,
    run=clustering,
    roles=lambda *_: dict.fromkeys(("encoder", "decoder"), "embedded:dct") | {"public": PROCEDURAL},
    options=OPTIONS,
)
