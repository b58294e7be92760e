"""DP Gaussian mixtures over embeddings: Algorithm 1 of the clustering paper.

Zhou, Zhou, Mirrokni, Epasto, Cohen-Addad: Private Training & Data Generation by Clustering
Embeddings. Where this differs from the paper, and why: docs/methods/clustering.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.core.errors import ConfigError
from understudy.core.types import Release
from understudy.methods.base import (
    AUTO,
    PROCEDURAL,
    Context,
    Materials,
    Method,
    stages_of,
)
from understudy.methods.clustering.outlook import advise, explain, propose
from understudy.methods.clustering.params import NAME, ClusteringParams
from understudy.methods.clustering.samplers.sampler import sampler_of


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


METHOD = Method(
    name=NAME,
    summary="a Gaussian mixture per class over DP clusters of embeddings, decoded to images",
    source="Zhou et al., Private Training & Data Generation by Clustering Embeddings",
    params=ClusteringParams,
    settle=lambda params, context: sampler_of(params, context).params,
    stages=_stages,
    explain=explain,
    propose=propose,
    advise=advise,
    check_resample=_check_resample,
    run=clustering,
    roles=_roles,
)
