"""What `clustering` says before a run: what classes can carry, what to expect, when to take it."""

from __future__ import annotations

from understudy.methods.base import (
    Advice,
    Context,
    Expectation,
    Explanation,
    Inventory,
    NoiseOfStage,
    Proposal,
)
from understudy.methods.clustering import capacity
from understudy.methods.clustering.clustering_plan import (
    ClusteringParams,
    clustering_stages,
    is_tied,
    settled,
    space_settings,
    wants_matrix,
)
from understudy.methods.clustering.expectation import mixture_expectations, tied_expectations
from understudy.methods.clustering.tied_gaussian import carried


def explain(
    params: ClusteringParams, context: Context, noise: NoiseOfStage, units: float | None
) -> Explanation:
    """As `Method.explain`."""
    table = _carried(params, context, noise)
    expectations: tuple[Expectation, ...] = ()
    if units is not None and is_tied(params, context):
        expectations = tied_expectations(context, noise, units)
    elif units is not None:
        expectations = mixture_expectations(context, table, units)
    classifier = params.labels == "classifier"
    notes = (capacity.classifier_words(context.mu),) if classifier else ()
    return Explanation(table, expectations, notes)


def propose(inventory: Inventory) -> Proposal:
    """As `Method.propose`: where nothing better is at hand."""
    return Proposal(
        0,
        "no public set of the same classes and no generator is at hand, so all that is released is "
        "learnt from noisy sums of the private images",
        inventory.roles,
    )


def advise(context: Context, units: float) -> Advice | None:
    """As `Method.advise`: embeddings of large classes are labelled by a classifier."""
    large = units >= capacity.least_classified(context.mu)
    if context.decoder is not None or len(context.classes) < 2 or not large:
        return None
    return Advice(
        "labels",
        "classifier",
        "embeddings of classes this large teach networks more where a classifier, trained under "
        "the same budget, says where a class ends (docs/benchmarks.md); it takes minutes, not "
        "seconds",
    )


def _carried(
    params: ClusteringParams, context: Context, noise: NoiseOfStage
) -> tuple[capacity.Carried, ...]:
    """What classes of several sizes can carry under the noise of a plan."""
    if is_tied(params, context):
        return carried(len(context.classes), context.mu, noise)
    params = settled(params, context)
    matrix, plan = wants_matrix(params), clustering_stages(params, context)
    settings = space_settings(params, context)
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
