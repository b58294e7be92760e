"""DP Gaussian mixtures over embeddings: Algorithm 1 of the clustering paper.

Zhou, Zhou, Mirrokni, Epasto, Cohen-Addad: Private Training & Data Generation by Clustering
Embeddings. Where this differs from the paper, and why: docs/methods/clustering.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.types import Release, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import (
    AUTO,
    PROCEDURAL,
    UNLABELLED,
    Context,
    Materials,
    Method,
    stages_of,
)
from understudy.methods.clustering.capacity import Shares
from understudy.methods.clustering.clustering_plan import ClusteringParams as ClusteringParams
from understudy.methods.clustering.clustering_plan import (
    ClusteringStages,
    class_count,
    clustering_stages,
    is_tied,
    settled,
    space_settings,
    wants_matrix,
)
from understudy.methods.clustering.covariance import (
    Roots,
    covariance_roots,
    within_class_frame,
)
from understudy.methods.clustering.embedding_space import EmbeddingSpace, embed
from understudy.methods.clustering.label_classifier import trained_on_records
from understudy.methods.clustering.outlook import advise, explain, propose
from understudy.methods.clustering.sampling import produce
from understudy.methods.clustering.tied_gaussian import (
    TIED_STAGES,
    tied_release,
)
from understudy.methods.clustering.vote_filter import VoteFilter
from understudy.methods.dp_estimators import Clusters
from understudy.privacy.cells import Cells
from understudy.steps import shrinkage
from understudy.steps.mixture import Mixture
from understudy.steps.space import Frame

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault


def _stages(params: ClusteringParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights in the budget."""
    if is_tied(params, context):
        return stages_of(TIED_STAGES)
    params = settled(params, context)
    plan = clustering_stages(params, context)
    VoteFilter(plan.votes, params.threshold, params.oversample).check(context, stages_of(plan))
    if params.labels == "classifier":
        _check_classifier(params, context)
    return stages_of(plan)


def _check_classifier(params: ClusteringParams, context: Context) -> None:
    """Refuse a classifier where there is nothing to tell apart, or that was not built for it.

    Raises:
        ConfigError: As said.
    """
    reason = ""
    if class_count(params, context) < 2:
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
    """Algorithm 1: encode, cluster, mean and covariance of each cluster, sample, filter, decode.

    Where the encoder's numbers lie in blocks, one Gaussian a class (`tied_gaussian`) instead.
    """
    if is_tied(params, materials.context):
        return tied_release(materials, METHOD.name, TIED_STAGES)
    params = settled(params, materials.context)
    plan = clustering_stages(params, materials.context)
    # 2: D_Embedding <- Encode(D), in the space where the statistics are taken.
    settings = space_settings(params, materials.context)
    space = embed(materials, settings, plan.space, conditional=params.conditional)
    sizes, size_sd = dp_estimators.class_sizes(
        space.vault, space.classes, settings.dim, plan.class_sizes
    )
    # 3 to 8.
    mixture, shares = _measured_mixture(materials, params, plan, space, sizes, size_sd)
    size = float(sizes.sum())
    classifier = trained_on_records(materials, space, mixture, size, plan.gradients)
    if classifier is not None:
        shares = replace(shares, agreement=classifier.agreement(materials.seed))
    # 9 to 17: sample, filter, decode, filter.
    vote_filter = VoteFilter(plan.votes, params.threshold, params.oversample)
    release = produce(materials, space, mixture, METHOD.name, size, vote_filter, classifier)
    facts = {**release.facts, **shares.facts()}
    notes = [*release.facts.get("notes", ()), *shares.notes()]
    return replace(release, facts={**facts, "notes": notes})


def _names(materials: Materials, space: EmbeddingSpace) -> tuple[str, ...]:
    return materials.classes if space.classes > 1 else UNLABELLED


def _measured_mixture(
    materials: Materials,
    params: ClusteringParams,
    plan: ClusteringStages,
    space: EmbeddingSpace,
    sizes: Vector,
    size_sd: float,
) -> tuple[Mixture, Shares]:
    """The mixture as it is released, and what each class got of it."""
    shrink, size = params.shrink, float(sizes.sum())
    origins = Cells(space.origin)
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
        plain=not wants_matrix(params),
        clusters=params.clusters or 1,
        most=100 if params.covariance == "full" else 60,
        residual=params.residual,
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
    on_grid = space.settings.grid is not None
    roots = _roots(local, params, clusters, frame, plan.cluster_covariances, lengths=on_grid)
    shares = Shares(
        _names(materials, space),
        sizes,
        size_sd,
        own_mean=(centres != common).any(axis=1) | (sizes >= sizes.sum() / 2),
        clusters=(clusters.sizes > 0).sum(axis=1),
        directions=roots.directions[roots.root_of].reshape(clusters.sizes.shape).max(axis=1),
    )
    return _mixture(clusters, centres, frame, roots), shares


def _mixture(clusters: Clusters, centres: Vector, frame: Frame, roots: Roots) -> Mixture:
    """The mixture of the clusters that are no repetitions, in the space of the statistics."""
    alive, labels = clusters.alive, np.repeat(np.arange(len(centres)), clusters.sizes.shape[1])
    points = frame.backward(clusters.centres.reshape(len(labels), -1), centres[labels])
    weights = clusters.sizes.ravel() / clusters.sizes.sum()
    return Mixture(
        labels[alive],
        weights[alive],
        points[alive],
        frame.roots(roots.roots),
        roots.root_of[alive],
        frame.rest if frame.rest.size else None,
    )


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
    """The defaults; settings of a mixture that are asked for get the codec for mixtures."""
    mixture = params != ClusteringParams()
    return {
        **dict.fromkeys(("encoder", "decoder"), "embedded:dct" if mixture else AUTO),
        "public": PROCEDURAL,
    }


METHOD = Method(
    name="clustering",
    summary="a Gaussian mixture per class over DP clusters of embeddings, decoded to images",
    source="Zhou et al., Private Training & Data Generation by Clustering Embeddings",
    params=ClusteringParams,
    settle=settled,
    stages=_stages,
    explain=explain,
    propose=propose,
    advise=advise,
    check_resample=_check_resample,
    run=clustering,
    roles=_roles,
)
