"""DP Gaussian mixtures over embeddings: Algorithm 1 of the clustering paper.

Zhou, Zhou, Mirrokni, Epasto, Cohen-Addad: Private Training & Data Generation by Clustering
Embeddings. Where this differs from the paper, and why: docs/methods/clustering.md.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Protocol

from understudy.core.errors import ConfigError
from understudy.core.matching import BlockEncoder, MatchingDecoder
from understudy.core.types import Release
from understudy.methods.base import (
    AUTO,
    PROCEDURAL,
    Context,
    Expectation,
    Materials,
    Method,
    stages_of,
)
from understudy.methods.clustering.capacity import Carried, Noise, mixture_expectations
from understudy.methods.clustering.params import NAME, ClusteringParams
from understudy.methods.clustering.samplers.label_classifier import ClassifierSampler
from understudy.methods.clustering.samplers.mixture import MixtureSampler
from understudy.methods.clustering.samplers.tied_gaussian import (
    TiedGaussianSampler,
    tied_expectations,
)


class Sampler(Protocol):
    """A density of embeddings: what it asks of the records, how it is fitted, samples of it."""

    @property
    def params(self) -> ClusteringParams:
        """With nothing left open."""

    @property
    def stages(self) -> Any:
        """The releases, with their weights in the budget (`stages_of`)."""

    @property
    def reason(self) -> str:
        """What is drawn from, and why: a clause for the owner."""

    def check(self) -> None:
        """Raise ConfigError where something does not fit, before anything is charged."""

    def embed(self, materials: Materials) -> Any:
        """The private records as embeddings, still in the vault."""

    def fit(self, materials: Materials, embeddings: Any) -> Any:
        """The density of these, released and so public."""

    def draw(self, materials: Materials, density: Any) -> Release:
        """Samples of it."""

    def carried(self, noise: Noise) -> tuple[Carried, ...]:
        """What classes of several sizes can carry under the noise of a plan."""


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


def sampler_of(params: ClusteringParams, context: Context) -> Sampler:
    """The sampler of a run, by public facts alone: its models and what is asked for.

    Raises:
        ConfigError: A setting of a mixture beside models that are not for one.
    """
    encoder, decoder = context.encoder, context.decoder
    if isinstance(encoder, BlockEncoder) and isinstance(decoder, MatchingDecoder):
        usual = ClusteringParams()
        names = [part.name for part in fields(params)]
        names = [name for name in names if getattr(params, name) != getattr(usual, name)]
        if names:
            raise ConfigError(
                f"{', '.join(names)}: a setting of a mixture, and {encoder.name} is for one "
                "Gaussian a class: leave it out, or name another codec, such as "
                "--encoder embedded:dct"
            )
        return TiedGaussianSampler(params, context, encoder, decoder)
    kind = ClassifierSampler if params.labels == "classifier" else MixtureSampler
    return kind(params.settled(context), context)


def _expected(
    params: ClusteringParams, context: Context, noise: Noise, units: float
) -> tuple[Expectation, ...]:
    """What to expect of a release of classes of so many units."""
    sampler = sampler_of(params, context)
    if isinstance(sampler, TiedGaussianSampler):
        return tied_expectations(context, noise, units)
    return mixture_expectations(context, sampler.carried(noise), units)


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
    carried=lambda params, context, noise: sampler_of(params, context).carried(noise),
    expected=_expected,
    check_resample=_check_resample,
    run=clustering,
    roles=_roles,
)
