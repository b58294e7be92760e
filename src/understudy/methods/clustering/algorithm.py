"""DP Gaussian mixtures over embeddings: Algorithm 1 of the clustering paper.

Zhou, Zhou, Mirrokni, Epasto, Cohen-Addad: Private Training & Data Generation by Clustering
Embeddings. Where this differs from the paper, and why: docs/methods/clustering.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.option import Option, check_options
from understudy.core.ports import PromptedDecoder
from understudy.core.types import Release, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import (
    AUTO,
    PROCEDURAL,
    PROCEDURAL_WHITENING,
    UNLABELLED,
    Context,
    Materials,
    Method,
    stages_of,
)
from understudy.methods.clustering import capacity
from understudy.methods.clustering.covariance import (
    Covariance,
    Roots,
    covariance_roots,
    within_class_frame,
)
from understudy.methods.clustering.embedding_space import SpaceSettings, SpaceStages, embed
from understudy.methods.clustering.label_classifier import (
    Labelling,
    gradient_stages,
    trained_on_records,
)
from understudy.methods.clustering.sampling import produce
from understudy.methods.clustering.vote_filter import Filter, FilterStages, VoteFilter
from understudy.methods.dp_estimators import Clusters, ClusterStages, KMeansStages
from understudy.privacy.cells import Cells
from understudy.steps import shrinkage
from understudy.steps.mixture import Mixture
from understudy.steps.space import Frame

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault


_ALL_CLUSTERS = 600
"""Clusters of all classes of images, by default, where each has a covariance of its own."""


@dataclass(frozen=True)
class ClusteringParams:
    """Parameters of the clustering method; ``None``: chosen by the kind of release.

    Raises:
        ConfigError: A value out of range.
    """

    clusters: Annotated[
        int | None,
        Option(
            "clusters per class (k), at most; images 8, or 60 where mu >= 1 (fewer of many "
            "classes); embeddings and grids 1",
            least=1,
        ),
    ] = None
    covariance: Annotated[
        Covariance | None,
        Option("spherical, diagonal, tied, low_rank, class (a matrix a class) or full"),
    ] = None
    rank: Annotated[
        int, Option("directions kept of each matrix with covariance=low_rank", least=1)
    ] = 32
    components: Annotated[
        int | None,
        Option("dimensions of the space; default 256, 400 for images, and all for grids", least=2),
    ] = None
    normalise: Annotated[
        bool | None, Option("project on the unit sphere about a DP centre; default for embeddings")
    ] = None
    power: Annotated[
        float | None,
        Option(
            "signed power of the embeddings first; 0.5 if public ones are never negative",
            above=0,
            most=1,
        ),
    ] = None
    whiten: Annotated[
        bool | None, Option("whiten the space by public images; default unless an unCLIP decodes")
    ] = None
    lloyd_steps: Annotated[
        int, Option("DP Lloyd steps after the votes that choose the first centres", least=0)
    ] = 2
    clip_radius: Annotated[
        float | None,
        Option("clip differences to a class's mean here; default: a DP quantile, or 1", above=0),
    ] = None
    shrink: Annotated[
        bool, Option("shrink means and covariances by the noise that is known to be in them")
    ] = True
    conditional: Annotated[
        bool, Option("learn each class by itself; false: one mixture without classes")
    ] = True
    filter: Annotated[
        Filter,
        Option(
            "of several candidates take those private records vote for: embeddings, images, both"
        ),
    ] = "none"
    threshold: Annotated[
        float | None,
        Option("votes needed, in standard deviations of their noise; default: the most voted"),
    ] = None
    oversample: Annotated[
        int, Option("candidates drawn for each sample, with a filter", least=1, most=1000)
    ] = 2
    labels: Annotated[
        Labelling,
        Option("classifier: draw samples of embeddings up to where a DP classifier ends a class"),
    ] = "mixture"
    labels_share: Annotated[
        float, Option("part of the budget that trains it, below 1", above=0, most=1)
    ] = 0.7

    def __post_init__(self) -> None:
        check_options(self)
        if self.labels_share == 1:
            raise ConfigError("labels_share=1 leaves no budget for the mixture: take less, as 0.7")
        if self.threshold is not None and self.filter == "none":
            raise ConfigError(
                "threshold is for filter=embeddings, images or both, and this run has no filter"
            )


def _usual_clusters(rich: bool, classes: int, *, unclip: bool) -> int:
    """The most clusters of a class of images; classes that are too small for them get fewer.

    What an unCLIP decodes has 10 at most: more were not measured there. Nor have many classes more,
    as the noise of every covariance takes its time.
    """
    if not rich:
        return 8
    return 10 if unclip else max(10, min(60, _ALL_CLUSTERS // max(1, classes)))


def _settled(params: ClusteringParams, context: Context) -> ClusteringParams:
    """The parameters with every ``None`` decided, from public facts only."""
    images, rich = context.decoder is not None, context.mu >= 1
    linear = images and SpaceSettings.grid_of(context, params.power, params.components) is None
    unclip = linear and isinstance(context.decoder, PromptedDecoder)
    wide = _wide(params, context)
    covariance: Covariance = "tied" if wide else "class"
    if linear:
        covariance = "diagonal" if unclip else "full" if rich else "class"
    classes = len(context.classes) if params.conditional else 1
    usual = _usual_clusters(rich, classes, unclip=unclip) if linear else 1
    return replace(
        params,
        clusters=params.clusters or usual,
        covariance=params.covariance or covariance,
        whiten=not unclip if params.whiten is None else params.whiten,
        normalise=not (images or wide) if params.normalise is None else params.normalise,
    )


def _wide(params: ClusteringParams, context: Context) -> bool:
    """Whether a classifier says where classes end, and public images what the space is like.

    It needs many directions and the lengths of records, and little of a class's own covariance.
    """
    return params.labels == "classifier" and context.public and params.whiten is not False


def _wants_matrix(params: ClusteringParams) -> bool:
    return params.covariance not in ("spherical", "diagonal")


def _space_settings(params: ClusteringParams, context: Context) -> SpaceSettings:
    matrix, whiten = _wants_matrix(params), bool(params.whiten)
    return SpaceSettings.of(
        context,
        params.power,
        params.components,
        matrix=matrix,
        whiten=whiten,
        wide=_wide(params, context),
    )


_SHARES = (20.0, 50.0, 28.0)
"""Weights of means, of the covariance within classes and of one for each class."""

_GRID_SHARES = (50.0, 25.0, 19.0)
"""The same of descriptions, whose covariance is known in part from public ones."""


@dataclass(frozen=True)
class ClusteringStages:
    """The releases of clustering, in their order.

    Attributes:
        space: Those of the space in which statistics are taken.
        class_sizes: How many records each class has; clusters only divide them.
        means: The mean of each class.
        covariance: One covariance within classes, or its diagonal.
        clusters: Centres, counts and means of the clusters, where there are several.
        cluster_covariances: The covariance of each cluster, or of each class.
        votes: Votes for the samples.
        gradients: The steps of the classifier that says where classes end.
    """

    space: SpaceStages
    class_sizes: Stage
    means: Stage
    covariance: Stage | None
    clusters: ClusterStages | None
    cluster_covariances: Stage | None
    votes: FilterStages
    gradients: tuple[Stage, ...] = ()


def _plan(params: ClusteringParams, context: Context) -> ClusteringStages:
    """The releases, of settled parameters."""
    plan = _mixture_plan(params, context)
    weight = math.fsum(stage.weight for stage in stages_of(plan))
    return replace(plan, gradients=gradient_stages(params.labels, params.labels_share, weight))


def _mixture_plan(params: ClusteringParams, context: Context) -> ClusteringStages:
    """Those of the mixture and of a filter (their weights: docs/methods/clustering.md)."""
    settings = _space_settings(params, context)
    grid = settings.grid is not None
    space = SpaceStages.of(
        settings,
        normalise=bool(params.normalise),
        clip_radius=params.clip_radius,
    )
    sizes, votes = Stage("class sizes", 4.0), FilterStages.of(params.filter, 15.0)
    matrix, separate = _wants_matrix(params), params.covariance != "tied"
    covariances = "cluster covariances"
    if (params.clusters or 1) > 1:
        return ClusteringStages(
            space,
            sizes,
            Stage("means", 12.0),
            Stage("covariance", 16.0 if matrix else 4.0),
            ClusterStages(
                KMeansStages.of(params.lloyd_steps, 4.0, 8.0), Stage("cluster means", 10.0)
            ),
            Stage(covariances, 40.0),
            votes,
        )
    shares = _GRID_SHARES if grid else _SHARES
    means, common, own = shares if separate else (*_together(shares), 0.0)
    return ClusteringStages(
        space,
        sizes,
        Stage("means", means),
        Stage("covariance", common) if matrix else None,
        None,
        Stage(covariances, own) if separate else None,
        votes,
    )


def _together(shares: tuple[float, float, float]) -> tuple[float, float]:
    """Weights of means and of the one covariance where no class has its own."""
    means, common, own = shares
    part = means / (means + common)
    return means + part * own, common + (1 - part) * own


def _stages(params: ClusteringParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights in the budget."""
    params = _settled(params, context)
    plan = _plan(params, context)
    VoteFilter(plan.votes, params.threshold, params.oversample).check(context, stages_of(plan))
    if params.labels == "classifier":
        _check_classifier(params, context)
    return stages_of(plan)


def _check_classifier(params: ClusteringParams, context: Context) -> None:
    """Refuse a classifier where there is nothing to tell apart, or that was not built for it.

    Raises:
        ConfigError: As said.
    """
    classes = len(context.classes) if params.conditional else 1
    reason = ""
    if classes < 2:
        reason = "this run has one class: there is nothing to tell apart"
    elif context.decoder is not None:
        reason = "this run releases images, and samples between two classes decode to neither"
    elif params.filter != "none":
        reason = f"filter={params.filter} chooses among other samples: take one of the two"
    if reason:
        raise ConfigError(f"labels=classifier is for embeddings of several classes: {reason}")


def _check_resample(params: ClusteringParams, context: Context) -> None:
    """Refuse more samples of a filtered release: votes are for the candidates that were voted on.

    Raises:
        ConfigError: As said.
    """
    if params.filter != "none":
        raise ConfigError(
            f"its samples were chosen by votes (filter={params.filter}), and other samples have no "
            "votes: a run with filter=none can be sampled anew"
        )


def clustering(materials: Materials, params: ClusteringParams) -> Release:
    """Algorithm 1: encode, cluster, mean and covariance of each cluster, sample, filter, decode."""
    params = _settled(params, materials.context)
    plan, shrink = _plan(params, materials.context), params.shrink
    # 2: D_Embedding <- Encode(D), in the space where the statistics are taken.
    settings = _space_settings(params, materials.context)
    space = embed(materials, settings, plan.space, conditional=params.conditional)
    sizes, size_sd = dp_estimators.class_sizes(
        space.vault, space.classes, settings.dim, plan.class_sizes
    )
    origins, size = Cells(space.origin), float(sizes.sum())
    means = dp_estimators.group_means(space.vault, origins, space.radius, plan.means, sizes)
    centres, origin = means.means, space.centre if space.ordered else None
    common = shrinkage.common_mean(centres, means.variances, origin)
    if shrink:
        centres = shrinkage.shrink_to_common(centres, means.variances, origin)
    frame = within_class_frame(
        space,
        centres,
        size,
        params.clip_radius,
        plan.space.spread,
        plan.covariance,
        plain=not _wants_matrix(params),
        clusters=params.clusters or 1,
        most=100 if params.covariance == "full" else 60,
    )
    # 3: (c_j, n_j) <- DP-Cluster; 5: D_j <- the records nearest to c_j; 6: mu_j <- DP-Mean(D_j).
    local = space.vault.view(frame.forward)
    clusters = dp_estimators.clusters_of_classes(
        local,
        frame,
        frame.forward(centres),
        sizes,
        params.clusters or 1,
        plan.clusters,
        np.random.default_rng(materials.seed),
        shrink=shrink,
    )
    # 7: Sigma_j <- DP-Covariance(D_j). 8: p_j <- n_j / sum n_j.
    roots = _roots(
        local, params, clusters, frame, plan.cluster_covariances, lengths=settings.grid is not None
    )
    mixture = _mixture(clusters, centres, frame, roots)
    classifier = trained_on_records(materials, space, mixture, size, plan.gradients)
    shares = capacity.Shares(
        materials.classes if space.classes > 1 else UNLABELLED,
        sizes,
        size_sd,
        own_mean=(centres != common).any(axis=1) | (sizes >= sizes.sum() / 2),
        clusters=(clusters.sizes > 0).sum(axis=1),
        directions=roots.directions[roots.root_of].reshape(clusters.sizes.shape).max(axis=1),
        agreement=None if classifier is None else classifier.agreement(materials.seed),
    )
    # 9 to 17: sample, filter, decode, filter.
    vote_filter = VoteFilter(plan.votes, params.threshold, params.oversample)
    release = produce(materials, space, mixture, METHOD.name, size, vote_filter, classifier)
    return replace(release, facts={**release.facts, **shares.facts()})


def _mixture(clusters: Clusters, centres: Vector, frame: Frame, roots: Roots) -> Mixture:
    """The mixture of the clusters that are no repetitions, in the space of the statistics."""
    alive, labels = clusters.alive, np.repeat(np.arange(len(centres)), clusters.sizes.shape[1])
    points = frame.backward(clusters.centres.reshape(len(labels), -1), centres[labels])
    weights = clusters.sizes.ravel() / clusters.sizes.sum()
    return Mixture(
        labels[alive], weights[alive], points[alive], frame.roots(roots.roots), roots.root_of[alive]
    )


def _carried(
    params: ClusteringParams, context: Context, noise: capacity.Noise
) -> tuple[capacity.Carried, ...]:
    """What classes of several sizes can carry under the noise of a plan."""
    params = _settled(params, context)
    matrix, plan = _wants_matrix(params), _plan(params, context)
    settings = _space_settings(params, context)
    selective = settings.images and settings.grid is None
    capped = selective and matrix
    model = capacity.MixtureModel(
        dim=settings.dim,
        axes=min(settings.dim, capacity.IMAGE_AXES) if capped else settings.dim,
        ordered=selective and settings.ordered,
        clusters=params.clusters or 1,
        diagonal=not matrix,
        class_sizes=plan.class_sizes,
        means=plan.means,
        cluster_means=None if plan.clusters is None else plan.clusters.means,
        covariances=plan.cluster_covariances if params.covariance != "tied" else None,
    )
    return capacity.capacity(model, noise)


def _roots(
    local: Vault,
    params: ClusteringParams,
    clusters: Clusters,
    frame: Frame,
    stage: Stage | None,
    *,
    lengths: bool,
) -> Roots:
    """Roots of the clusters' covariances, and which of them each cluster has."""
    if stage is None:
        tied = np.zeros(clusters.sizes.size, dtype=np.int64)
        return Roots(np.diag(frame.spread)[None], tied, np.zeros(1, dtype=np.int64))
    return covariance_roots(
        local,
        clusters,
        frame.radius,
        params.covariance or "class",
        params.rank,
        stage,
        whitened=frame.whitened,
        clear=frame.clear,
        lengths=lengths,
        shrink=params.shrink,
    )


def _roles(params: ClusteringParams, _: frozenset[str]) -> dict[str, str | None]:
    """The defaults; a linear space that is asked for gets the codec whose numbers are in order."""
    linear = params.power is not None or params.components is not None
    return {
        **dict.fromkeys(("encoder", "decoder"), "embedded:dct" if linear else AUTO),
        "public": PROCEDURAL_WHITENING if linear else PROCEDURAL,
    }


METHOD = Method(
    name="clustering",
    summary="a Gaussian mixture per class over DP clusters of embeddings, decoded to images",
    source="Zhou et al., Private Training & Data Generation by Clustering Embeddings",
    params=ClusteringParams,
    settle=_settled,
    stages=_stages,
    carried=_carried,
    check_resample=_check_resample,
    run=clustering,
    roles=_roles,
)
