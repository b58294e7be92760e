"""DP Gaussian mixtures over embeddings: Algorithm 1 of the clustering paper.

Zhou, Zhou, Mirrokni, Epasto, Cohen-Addad: Private Training & Data Generation by Clustering
Embeddings. Where this differs from the paper, and why: docs/methods/clustering.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Release, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import (
    AUTO,
    PROCEDURAL,
    PROCEDURAL_WHITENING,
    UNLABELLED,
    Context,
    Materials,
    Method,
    planned,
    stages_of,
)
from understudy.methods.clustering import capacity
from understudy.methods.clustering.clustering_plan import ClusteringParams as ClusteringParams
from understudy.methods.clustering.clustering_plan import (
    ClusteringStages,
    class_count,
    clustering_stages,
    settled,
    space_settings,
    wants_matrix,
)
from understudy.methods.clustering.covariance import (
    Roots,
    covariance_roots,
    within_class_frame,
)
from understudy.methods.clustering.embedding_space import (
    EmbeddingSpace,
    embed,
    public_variances,
)
from understudy.methods.clustering.example_images import examples_for
from understudy.methods.clustering.label_classifier import trained_on_records
from understudy.methods.clustering.labelled_examples import drawn_from_examples, labelled_examples
from understudy.methods.clustering.near_records import near_records
from understudy.methods.clustering.public_covariance import (
    joint_noise,
    least_images,
    public_mixture,
)
from understudy.methods.clustering.sampling import interleaved, produce
from understudy.methods.clustering.vote_filter import VoteFilter
from understudy.methods.dp_estimators import Clusters
from understudy.privacy.cells import Cells
from understudy.privacy.queries import CountAndSum
from understudy.steps import shrinkage
from understudy.steps.apportionment import apportion
from understudy.steps.mixture import Mixture
from understudy.steps.space import Frame

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault


def _stages(params: ClusteringParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights in the budget."""
    params = settled(params, context)
    plan = clustering_stages(params, context)
    VoteFilter(plan.votes, params.threshold, params.oversample).check(context, plan.planned)
    if params.labels == "classifier":
        _check_classifier(params, context)
    if context.examples is not None:
        _check_examples(params, context)
    elif params.examples_part is not None:
        raise ConfigError(
            "examples_part is for runs that may draw samples like public examples, and nothing "
            "draws such here: name it (--examples)"
        )
    return plan.planned


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


def _check_examples(params: ClusteringParams, context: Context) -> None:
    """Refuse examples where nothing is to be labelled, or something else chooses the samples.

    Raises:
        ConfigError: As said.
    """
    reason = ""
    if class_count(params, context) < 2:
        reason = "this run has one class, and a classifier of examples needs two"
    elif params.filter != "none":
        reason = f"filter={params.filter} chooses among samples of a mixture: take one of the two"
    elif context.decoder is None:
        reason = "this run releases embeddings: leave out --decoder none"
    if reason:
        raise ConfigError(f"--examples is for images of several classes: {reason}")


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
    """Samples of a mixture; where most private images look like public examples, like these too."""
    params = settled(params, materials.context)
    plan = clustering_stages(params, materials.context)
    generator = materials.context.examples
    if plan.examples is None or generator is None:
        return _of_mixture(materials, params, plan)
    examples = examples_for(materials, generator)
    records = near_records(materials, examples, plan.class_sizes, plan.examples.nearness)
    if records.enough:
        labelled = labelled_examples(materials, records, plan.examples)
        samples = records.samples(materials)
        part = params.examples_part or 1.0
        alike = apportion(round(part * samples.sum()), samples.astype(np.float64))
        others = samples - alike
        release = drawn_from_examples(
            materials, records, labelled, METHOD.name, alike, int(others.sum())
        )
        if plan.examples.in_place:
            return release
        sizes = (records.sizes, records.size_sd)
        return _of_both(materials, release, _of_mixture(materials, params, plan, sizes, others))
    pooled = replace(materials, vault=materials.vault.pooled(plan.pools))
    release = _of_mixture(pooled, params, plan, (records.sizes, records.size_sd))
    note = f"samples are of a mixture, not drawn from public examples: {records.lack}"
    return replace(release, facts={**release.facts, "notes": [note, *release.facts["notes"]]})


def _of_both(materials: Materials, examples: Release, mixture: Release) -> Release:
    """Samples like examples and samples of a mixture, in a random order."""
    kinds = (examples, mixture)
    count = sum(kind.count for kind in kinds)
    rng = materials.for_samples.rng_of("kinds of samples")
    return replace(
        examples,
        count=count,
        batches=interleaved(kinds, rng),
        facts={
            **examples.facts,
            **mixture.facts,
            "notes": [note for kind in kinds for note in kind.facts["notes"]],
        },
        how=f"{examples.count / count:.0%} of the samples {examples.how}; the others of "
        f"{METHOD.summary}",
    )


def _of_mixture(
    materials: Materials,
    params: ClusteringParams,
    plan: ClusteringStages,
    class_sizes: tuple[Vector, float] | None = None,
    samples: Labels | None = None,
) -> Release:
    """Algorithm 1: encode, cluster, mean and covariance of each cluster, sample, filter, decode.

    Args:
        materials: What it works with.
        params: Settled.
        plan: The releases.
        class_sizes: Those that were released before, and the standard deviation of their noise.
        samples: (classes,) of each class, as `produce` takes them.
    """
    # 2: D_Embedding <- Encode(D), in the space where the statistics are taken.
    settings = space_settings(params, materials.context)
    space = embed(materials, settings, plan.space, conditional=params.conditional)
    sizes, size_sd = class_sizes or dp_estimators.class_sizes(
        space.vault, space.classes, settings.dim, plan.class_sizes
    )
    size, classifier = float(sizes.sum()), None
    variances = space.public_variances
    least = _least_images(params, plan, variances, partial(_noise, space.vault))
    # 3 to 8.
    if variances is not None and size < least:
        means, lengths = _mean_stages(plan), planned(plan.cluster_covariances)
        public = public_mixture(space.vault, variances, sizes, size_sd, means, lengths)
        names = _names(materials, space)
        mixture, shares = public.mixture, capacity.public_shares(names, public, size, least)
    else:
        mixture, shares = _measured_mixture(materials, params, plan, space, sizes, size_sd)
        classifier = trained_on_records(materials, space, mixture, size, plan.gradients)
    if classifier is not None:
        shares = replace(shares, agreement=classifier.agreement(materials.seed))
    # 9 to 17: sample, filter, decode, filter.
    vote_filter = VoteFilter(plan.votes, params.threshold, params.oversample)
    total = float(shares.sizes.sum())
    release = produce(
        materials, space, mixture, METHOD.name, total, vote_filter, classifier, samples
    )
    return replace(release, facts={**release.facts, **shares.facts()})


def _names(materials: Materials, space: EmbeddingSpace) -> tuple[str, ...]:
    return materials.classes if space.classes > 1 else UNLABELLED


def _measured_mixture(
    materials: Materials,
    params: ClusteringParams,
    plan: ClusteringStages,
    space: EmbeddingSpace,
    sizes: Vector,
    size_sd: float,
) -> tuple[Mixture, capacity.Shares]:
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
    shares = capacity.Shares(
        _names(materials, space),
        sizes,
        size_sd,
        own_mean=(centres != common).any(axis=1) | (sizes >= sizes.sum() / 2),
        clusters=(clusters.sizes > 0).sum(axis=1),
        directions=roots.directions[roots.root_of].reshape(clusters.sizes.shape).max(axis=1),
    )
    return _mixture(clusters, centres, frame, roots), shares


def _least_images(
    params: ClusteringParams,
    plan: ClusteringStages,
    variances: Vector | None,
    noise: capacity.Noise,
) -> float:
    """Images of all classes together below which the covariance is the public one; 0: never.

    A covariance that is asked for otherwise than by the default is measured.
    """
    measured = params.covariance != "class" or params.clip_radius is not None or not params.shrink
    if variances is None or measured or plan.clusters is not None or plan.covariance is None:
        return 0.0
    return least_images(variances, noise(plan.covariance))


def _noise(vault: Vault, stage: Stage) -> float:
    """The noise of a stage over the bound on a unit's contribution."""
    return vault.noise_sd(CountAndSum(Cells(np.zeros((1, 1, 1))), 1.0), stage=stage.name)


def _mean_stages(plan: ClusteringStages) -> tuple[Stage, ...]:
    """What measures the means where no covariance is measured."""
    return stages_of((plan.means, plan.space.spread, plan.covariance))


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


def _carried(
    params: ClusteringParams, context: Context, noise: capacity.Noise, images: int | None = None
) -> tuple[capacity.Carried, ...]:
    """What classes of several sizes can carry under the noise of a plan.

    With the number of ``images`` of all classes; None: every class is of the size in question.
    """
    params = settled(params, context)
    matrix, plan = wants_matrix(params), clustering_stages(params, context)
    settings, noise = space_settings(params, context), _pooled(noise, plan)
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
    table = capacity.capacity(model, noise)
    variances = public_variances(context, settings.grid)
    if variances is None:
        return table
    least = _least_images(params, plan, variances, noise)
    means, classes = tuple(map(noise, _mean_stages(plan))), class_count(params, context)
    return capacity.of_public_covariance(table, variances, means, least, classes, images)


def _pooled(noise: capacity.Noise, plan: ClusteringStages) -> capacity.Noise:
    """The noise of a stage of the mixture where several planned stages pay for it.

    Where it has a stage of its own, others that may pay for it besides are not reckoned with.
    """
    pools = plan.pools

    def of(stage: Stage) -> float:
        names = pools.get(stage.name, (stage.name,))
        if stage.name in names:
            names = (stage.name,)
        return joint_noise([noise(replace(stage, name=name)) for name in names])

    return of


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
        "examples": AUTO if replace(params, examples_part=None) == ClusteringParams() else None,
    }


METHOD = Method(
    name="clustering",
    summary="a Gaussian mixture per class over DP clusters of embeddings, decoded to images",
    source="Zhou et al., Private Training & Data Generation by Clustering Embeddings",
    params=ClusteringParams,
    settle=settled,
    stages=_stages,
    carried=_carried,
    check_resample=_check_resample,
    run=clustering,
    roles=_roles,
)
