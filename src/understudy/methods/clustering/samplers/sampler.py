"""What a sampler is, and which one a run has."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol

from understudy.core.errors import ConfigError
from understudy.core.matching import BlockEncoder, MatchingDecoder
from understudy.core.types import Release, UnitCounts
from understudy.methods.base import Context, Expectation, Materials, NoiseOfStage
from understudy.methods.clustering.capacity import Carried
from understudy.methods.clustering.params import ClusteringParams
from understudy.methods.clustering.samplers.label_classifier import ClassifierSampler
from understudy.methods.clustering.samplers.mixture import MixtureSampler
from understudy.methods.clustering.samplers.tied_gaussian import TiedGaussianSampler


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

    def carried(self, noise: NoiseOfStage, size: float) -> Carried:
        """What a class of so many units can carry under the noise of a plan."""

    def expected(self, noise: NoiseOfStage, units: UnitCounts) -> tuple[Expectation, ...]:
        """What to expect of a release of so many units."""


def sampler_of(params: ClusteringParams, context: Context) -> Sampler:
    """The sampler of a run, by public facts alone: its models and what is asked for.

    Raises:
        ConfigError: A setting of a mixture beside models that are not for one.
    """
    encoder, decoder = context.encoder, context.decoder
    if isinstance(encoder, BlockEncoder) and isinstance(decoder, MatchingDecoder):
        usual = ClusteringParams()
        parts = (part.name for part in fields(params))
        if names := [name for name in parts if getattr(params, name) != getattr(usual, name)]:
            raise ConfigError(
                f"{', '.join(names)}: a setting of a mixture, and {encoder.name} is for one "
                "Gaussian a class: leave it out, or name another codec, such as "
                "--encoder embedded:dct"
            )
        return TiedGaussianSampler(params, context, encoder, decoder)
    kind = ClassifierSampler if params.labels == "classifier" else MixtureSampler
    return kind(params.settled(context), context)
