"""DP Gaussian mixtures over embeddings: Algorithm 1 of the clustering paper.

Zhou, Zhou, Mirrokni, Epasto, Cohen-Addad: Private Training & Data Generation by Clustering
Embeddings. Where this differs from the paper, and why: docs/methods/clustering.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from understudy.core.errors import ConfigError
from understudy.core.types import Release, UnitCounts
from understudy.methods.base import (
    AUTO,
    PROCEDURAL,
    Advice,
    Context,
    Explanation,
    Inventory,
    Materials,
    Method,
    NoiseOfStage,
    Proposal,
    stages_of,
)
from understudy.methods.clustering import capacity
from understudy.methods.clustering.params import NAME, ClusteringParams
from understudy.methods.clustering.samplers.mixture import MixtureSampler
from understudy.methods.clustering.samplers.sampler import sampler_of
from understudy.methods.clustering.samplers.tied_gaussian import TiedGaussianSampler


def clustering(materials: Materials, params: ClusteringParams) -> Release:
    """Algorithm 1. Each class is a dataset of its own, and all of them share every release."""
    sampler = sampler_of(params, materials.context)
    # 2: D_Embedding <- {Encode(x) : x in D}.
    embeddings = sampler.embed(materials)
    # 3: (c_j, n_j) <- DP-Cluster(D_Embedding). 4: for j = 1 to k do 5: D_j <- x nearest to c_j.
    # 6: mu_j <- DP-Mean(D_j). 7: Sigma_j <- DP-Covariance(D_j). 8: p_j <- n_j / sum n_j.
    density = sampler.fit(materials, embeddings)
    # 9 to 13: Z_Embedding <- m samples z ~ N(mu_j, Sigma_j), where j has probability p_j.
    # 14 and 15: Z <- DP-FilterEmbedding(Z_Embedding, D). 16: Z_Image <- {Decode(z) : z in Z}.
    # 17: yield DP-FilterImage(Z_Image, D).
    release = sampler.draw(materials.for_samples, density)
    return replace(release, facts={**release.facts, "sampler": sampler.reason})


def _check_resample(params: ClusteringParams, _: Context) -> None:
    """Refuse more samples of a filtered release: votes are for those that were voted on."""
    if params.filter != "none":
        raise ConfigError(
            f"its samples were chosen by votes (filter={params.filter}), and other samples have no "
            "votes: a run with filter=none can be sampled anew"
        )


def _stages(params: ClusteringParams, context: Context) -> tuple[Any, ...]:
    sampler = sampler_of(params, context)
    sampler.check()
    return stages_of(sampler.stages)


def _roles(params: ClusteringParams, _: frozenset[str]) -> dict[str, str | None]:
    """The defaults; settings of a mixture that are asked for get the codec for mixtures."""
    codec = AUTO if params == ClusteringParams() else "embedded:dct"
    return {"encoder": codec, "decoder": codec, "public": PROCEDURAL}


def _explain(
    params: ClusteringParams, context: Context, noise: NoiseOfStage, units: UnitCounts | None
) -> Explanation:
    """As `Method.explain`."""
    sampler = sampler_of(params, context)
    expectations = () if units is None else sampler.expected(noise, units)
    notes: tuple[str, ...] = ()
    if context.public and isinstance(sampler, TiedGaussianSampler):
        notes = ("public images serve --quality alone here: one Gaussian a class needs none",)
    if params.labels == "classifier":
        least = capacity.about(capacity.least_classified(context.mu))
        notes = (
            f"labels=classifier takes about {least} images of every class at this budget. With "
            "fewer, its samples are mostly noise, and labels=mixture, the default, serves better",
        )
    return Explanation(partial(sampler.carried, noise), expectations, notes)


def _propose(inventory: Inventory) -> Proposal:
    """As `Method.propose`: where nothing better is at hand."""
    return Proposal(
        0,
        "no public set of the same classes and no generator is at hand, so all that is released is "
        "learnt from noisy sums of the private images",
        inventory.roles,
    )


def _advise(context: Context, units: UnitCounts) -> Advice | None:
    """As `Method.advise`: embeddings of large classes are labelled by a classifier."""
    large = units.of_class >= capacity.least_classified(context.mu)
    if context.decoder is not None or len(context.classes) < 2 or not large:
        return None
    return Advice(
        "labels",
        "classifier",
        "embeddings of classes this large teach networks more where a classifier, trained under "
        "the same budget, says where a class ends (docs/benchmarks.md); it takes minutes, not "
        "seconds",
    )


def _tuning(params: ClusteringParams, context: Context) -> dict[str, Sequence[Any]]:
    """As `Method.tuning`: how much of a class's shape the noise leaves room for."""
    if not isinstance(sampler_of(params, context), MixtureSampler):
        return {}  # a tied Gaussian of blocks has nothing to choose
    return {"clusters": (1, 4, 16), "covariance": ("spherical", "diagonal", "tied", "class")}


METHOD = Method(
    name=NAME,
    summary="Gaussians of each class over embeddings, decoded to images",
    source="Zhou et al., Private Training & Data Generation by Clustering Embeddings",
    params=ClusteringParams,
    settle=lambda params, context: sampler_of(params, context).params,
    stages=_stages,
    explain=_explain,
    propose=_propose,
    advise=_advise,
    check_resample=_check_resample,
    tuning=_tuning,
    run=clustering,
    roles=_roles,
)
