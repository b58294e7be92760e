"""What `clustering` says before a run: what classes can carry, what to expect, when to take it."""

from __future__ import annotations

from understudy.methods.base import (
    Advice,
    Context,
    Explanation,
    Inventory,
    NoiseOfStage,
    Proposal,
)
from understudy.methods.clustering import capacity
from understudy.methods.clustering.params import ClusteringParams
from understudy.methods.clustering.samplers.sampler import sampler_of


def explain(
    params: ClusteringParams, context: Context, noise: NoiseOfStage, units: float | None
) -> Explanation:
    """As `Method.explain`."""
    sampler = sampler_of(params, context)
    expectations = () if units is None else sampler.expected(noise, units)
    notes = (capacity.classifier_words(context.mu),) if params.labels == "classifier" else ()
    return Explanation(sampler.carried(noise), expectations, notes)


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
