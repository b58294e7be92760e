"""The settings of clustering, and the releases that they plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Annotated

from understudy.core.errors import ConfigError
from understudy.core.matching import BlockEncoder, MatchingDecoder
from understudy.core.option import Option, check_options
from understudy.core.ports import PromptedDecoder
from understudy.core.types import Stage
from understudy.methods.base import Context, stages_of
from understudy.methods.clustering.covariance import Covariance
from understudy.methods.clustering.embedding_space import SpaceSettings, SpaceStages
from understudy.methods.clustering.label_classifier import Labelling, gradient_stages
from understudy.methods.clustering.vote_filter import Filter, FilterStages
from understudy.methods.dp_estimators import ClusterStages, KMeansStages

_RICH, _RICHEST = (1.0, 60), (2.0, 150)
"""Budgets (mu), and clusters of a class of images that each has a covariance of its own for."""

_USUAL_CLASSES = 10  # with more, the clusters of all of them stay as many


@dataclass(frozen=True)
class ClusteringParams:
    """Parameters of the clustering method; ``None``: chosen by the kind of release.

    Raises:
        ConfigError: A value out of range.
    """

    clusters: Annotated[
        int | None,
        Option(
            "clusters per class (k), at most; images 8, or 60 where mu is 1 to 150 where it is 2 "
            "(fewer of many classes); embeddings and grids 1",
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
    residual: Annotated[
        bool,
        Option("images by a linear codec have the variance and the contrast that their axes leave"),
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


def _usual_clusters(mu: float, classes: int, *, unclip: bool) -> int:
    """The most clusters of a class of images; classes that are too small for them get fewer.

    What an unCLIP decodes has 10 at most: more were not measured there. Nor have many classes more,
    as the noise of every covariance takes its time.
    """
    (rich, few), (richest, many) = _RICH, _RICHEST
    if mu < rich:
        return 8
    usual = int(few + (many - few) * min(1.0, (mu - rich) / (richest - rich)))
    return 10 if unclip else max(10, min(usual, usual * _USUAL_CLASSES // max(1, classes)))


def is_tied(params: ClusteringParams, context: Context) -> bool:
    """Whether the density is one Gaussian a class with a tied covariance (`tied_gaussian`).

    Raises:
        ConfigError: A setting of a mixture beside models that are not for one.
    """
    encoder, decoder = context.encoder, context.decoder
    if not isinstance(encoder, BlockEncoder) or not isinstance(decoder, MatchingDecoder):
        return False
    usual = ClusteringParams()
    asked = [part.name for part in fields(params)]
    asked = [name for name in asked if getattr(params, name) != getattr(usual, name)]
    if asked:
        raise ConfigError(
            f"{', '.join(asked)}: a setting of a mixture, and {encoder.name} is for one Gaussian a "
            "class: leave it out, or name another codec, such as --encoder embedded:dct"
        )
    return True


def settled(params: ClusteringParams, context: Context) -> ClusteringParams:
    """The parameters with every ``None`` decided, from public facts only."""
    if is_tied(params, context):
        return params
    images, rich = context.decoder is not None, context.mu >= _RICH[0]
    linear = images and SpaceSettings.grid_of(context, params.power, params.components) is None
    unclip = linear and isinstance(context.decoder, PromptedDecoder)
    wide = is_wide(params, context)
    covariance: Covariance = "tied" if wide else "class"
    if linear:
        covariance = "diagonal" if unclip else "full" if rich else "class"
    usual = 1
    if linear:
        usual = _usual_clusters(context.mu, class_count(params, context), unclip=unclip)
    return replace(
        params,
        clusters=params.clusters or usual,
        covariance=params.covariance or covariance,
        whiten=not unclip if params.whiten is None else params.whiten,
        normalise=not (images or wide) if params.normalise is None else params.normalise,
    )


def class_count(params: ClusteringParams, context: Context) -> int:
    """How many classes the mixture tells apart."""
    return len(context.classes) if params.conditional else 1


def is_wide(params: ClusteringParams, context: Context) -> bool:
    """Whether a classifier says where classes end, and public images what the space is like.

    It needs many directions and the lengths of records, and little of a class's own covariance.
    """
    return params.labels == "classifier" and context.public and params.whiten is not False


def wants_matrix(params: ClusteringParams) -> bool:
    """Whether a full covariance is measured."""
    return params.covariance not in ("spherical", "diagonal")


def space_settings(params: ClusteringParams, context: Context) -> SpaceSettings:
    """The space of settled parameters."""
    matrix, whiten = wants_matrix(params), bool(params.whiten)
    return SpaceSettings.of(
        context,
        params.power,
        params.components,
        matrix=matrix,
        whiten=whiten,
        wide=is_wide(params, context),
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


def clustering_stages(params: ClusteringParams, context: Context) -> ClusteringStages:
    """The releases, of settled parameters."""
    plan = _mixture_plan(params, context)
    weight = math.fsum(stage.weight for stage in stages_of(plan))
    numbers = space_settings(params, context).total * class_count(params, context)
    stages = gradient_stages(params.labels, params.labels_share, weight, numbers)
    return replace(plan, gradients=stages)


def _mixture_plan(params: ClusteringParams, context: Context) -> ClusteringStages:
    """Those of the mixture and of a filter (their weights: docs/methods/clustering.md)."""
    settings = space_settings(params, context)
    grid = settings.grid is not None
    space = SpaceStages.of(
        settings,
        normalise=bool(params.normalise),
        clip_radius=params.clip_radius,
    )
    sizes, votes = Stage("class sizes", 4.0), FilterStages.of(params.filter, 15.0)
    matrix, separate = wants_matrix(params), params.covariance != "tied"
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
