"""Which samples are released: DP-FilterEmbedding and DP-FilterImage of Algorithm 1, by DP votes.

A class keeps its number of samples: a filter only chooses which of its candidates they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from understudy.core.errors import ConfigError, count_words
from understudy.core.types import Embeddings, Images, Labels, Stage, SyntheticBatch, Vector
from understudy.methods.base import Arrays, Context
from understudy.methods.clustering.params import ClusteringParams, Filter
from understudy.methods.clustering.sampling import Batches, Producer
from understudy.privacy.queries import Votes

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault


@dataclass(frozen=True)
class FilterStages:
    """The releases of a filter: votes for candidate embeddings, and for their decoded images."""

    embeddings: Stage | None
    images: Stage | None

    @classmethod
    def of(cls, kind: Filter, weight: float) -> FilterStages:
        """What a filter of some kind asks, each of the same weight."""
        return cls(
            Stage("filter embeddings", weight) if kind in ("embeddings", "both") else None,
            Stage("filter images", weight) if kind in ("images", "both") else None,
        )

    def __bool__(self) -> bool:
        return self.embeddings is not None or self.images is not None


def check_filter(
    votes: FilterStages, params: ClusteringParams, context: Context, stages: Sequence[Stage]
) -> None:
    """Refuse a filter that cannot give what it is asked for; ``stages`` are all of the run.

    Raises:
        ConfigError: Images are to be voted on and none are made, or so few candidates can be
            expected to reach the threshold that the samples would not be filtered at all.
    """
    if votes.images is not None and context.decoder is None:
        raise ConfigError(
            "a filter of images needs a decoder, and this release is of embeddings alone: take "
            "filter=embeddings"
        )
    stage, threshold = votes.embeddings or votes.images, params.threshold
    if threshold is None or stage is None:
        return
    oversample = params.oversample
    weight = math.fsum(stage.weight for stage in stages)
    vote = context.mu * (stage.weight / weight) ** 0.5
    share = most_survivors(threshold, vote, 1 / oversample)
    if share * oversample < 1:
        raise ConfigError(
            f"threshold={threshold:g} with oversample={oversample} leaves at most "
            f"{share:.2%} of the candidates where there are about as many private records as "
            f"samples (one vote is {vote:.2g} standard deviations of the noise), and "
            f"{1 / oversample:.2%} are needed: lower the threshold, raise oversample, or "
            "leave the threshold out, which takes the most voted candidates of each class"
        )


def most_survivors(threshold: float, vote: float, votes: float) -> float:
    """The largest share of candidates that can be expected to reach a threshold.

    However ``votes`` for each candidate, on average, are spread: over the share of candidates that
    makes most of them survive. Threshold and ``vote``, one vote, are in standard deviations of the
    noise.
    """
    voted = np.geomspace(1e-6, 1.0, 2000)
    survive = voted * scipy.special.ndtr(vote * votes / voted - threshold) + (
        1 - voted
    ) * scipy.special.ndtr(-threshold)
    return float(survive.max())


def filtered(
    producer: Producer, count: int, size: float, params: ClusteringParams, stages: FilterStages
) -> tuple[Batches, dict[str, Any]]:
    """Lines 11 to 17: ``count`` of the candidates, by votes of about ``size`` private records."""
    space, candidates = producer.space, Candidates.of(producer, count, params.oversample)
    votes = []
    if stages.embeddings is not None:
        votes.append(candidates.vote(space.vault, candidates.points, stages.embeddings))
    if stages.images is not None:
        votes.append(candidates.vote(space.vault, candidates.encoded(), stages.images))
    scores, noise_sd = np.min([score for score, _ in votes], axis=0), votes[-1][1]
    samples, below = candidates.most_voted(scores, params.threshold)
    facts: dict[str, Any] = {
        "candidates": len(scores),
        "kept": count - below,
        "below_threshold": below,
        "votes_per_candidate": round(max(size, 0.0) / len(scores), 3),
        "votes_noise_sd": round(noise_sd, 3),
    }
    facts["notes"] = list(_notes(facts))
    if stages.images is not None:
        return partial(candidates.judged_images, samples), facts
    return partial(candidates.batches, samples), facts


def _notes(facts: Mapping[str, Any]) -> Iterator[str]:
    """What the owner should know of a filter that could not do what it is for."""
    votes, noise_sd = facts["votes_per_candidate"], facts["votes_noise_sd"]
    if votes < noise_sd / 2:
        yield (
            f"the filter had {votes:.2g} votes for each candidate and noise of {noise_sd:.2g}: "
            "it chose nearly at random. It needs fewer samples (--count), a larger epsilon or "
            "more private records; filter=none leaves its budget to the mixture"
        )
    if below := facts["below_threshold"]:
        samples = count_words(below, "sample is", "samples are")
        yield (
            f"{samples} below the threshold of the filter: too few candidates reach it, and "
            "the most voted of the others make up the count of their class"
        )


def _positions(labels: Labels) -> Labels:
    """The number of each row among those of its label: (n,)."""
    order, counts = np.argsort(labels, kind="stable"), np.bincount(labels)
    positions = np.empty(len(labels), dtype=np.int64)
    positions[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return positions


@dataclass(frozen=True)
class Candidates:
    """Candidates of a filter, in a random order."""

    producer: Producer
    points: Vector  # (m, d) in the space of the mixture
    components: Labels  # (m,)
    labels: Labels  # (m,)
    sizes: Labels  # (classes,) samples of each class

    @classmethod
    def of(cls, producer: Producer, count: int, oversample: int) -> Candidates:
        """``oversample`` for each sample, and as many of each component as its weight says."""
        mixture, rng = producer.mixture, producer.materials.rng_of("candidates")
        samples = mixture.allot(count)
        components = producer.components(samples * oversample, rng)
        sizes = np.bincount(mixture.labels, samples, producer.space.classes).astype(np.int64)
        points = mixture.draw(components, rng)
        return cls(producer, points, components, mixture.labels[components], sizes)

    def vote(self, vault: Vault, points: Vector, stage: Stage) -> tuple[Vector, float]:
        """The noisy votes of the private records for points (m, d) of candidates, one release.

        Returns (m,) votes in standard deviations of their noise, and that deviation.
        """
        query, slots = self._query(points)
        noise_sd = vault.noise_sd(query, stage=stage.name)
        return vault.release(query, stage=stage.name)[slots, 0] / noise_sd, noise_sd

    def _query(self, points: Vector) -> tuple[Votes, Labels]:
        """The query of votes for these points, and the slot of each in its answer: (m,).

        Classes are filled up with their first candidate, which wins over its copies.
        """
        counts = np.bincount(self.labels, minlength=len(self.sizes))
        sizes, position = np.maximum(counts, 1), _positions(self.labels)
        spread = np.zeros((len(sizes), sizes.max(), points.shape[1]))
        spread[self.labels[position == 0]] = points[position == 0][:, None]
        spread[self.labels, position] = points
        slots = (np.cumsum(sizes) - sizes)[self.labels] + position
        return Votes(spread, sizes), slots

    def most_voted(self, scores: Vector, threshold: float | None) -> tuple[Labels, int]:
        """Which candidates become samples, ascending, and how many of them are below the threshold.

        With a threshold any that reach it will do, since the order of candidates is random; where
        too few do, the most voted of the others follow.
        """
        order = np.argsort(-scores, kind="stable")
        if threshold is not None:
            enough = np.flatnonzero(scores >= threshold)
            order = np.concatenate([enough, order[scores[order] < threshold]])
        taken = np.zeros(len(scores), dtype=np.bool_)
        for label, size in enumerate(self.sizes.tolist()):
            taken[order[self.labels[order] == label][:size]] = True
        below = 0 if threshold is None else int((scores[taken] < threshold).sum())
        return np.flatnonzero(taken), below

    def batches(self, samples: Labels) -> Iterator[SyntheticBatch]:
        """These candidates; images that are too poor are drawn anew of their components."""
        producer, size = self.producer, self.producer.block
        for first in range(0, len(samples), size):
            part = samples[first : first + size]
            yield producer.finished("filtered", first, self.points[part], self.components[part])

    def encoded(self) -> Vector:
        """What private records vote on after decoding: the candidates' images, encoded: (m, d)."""
        encoder, space = self.producer.materials.encoder, self.producer.space
        if encoder is None:
            raise ConfigError("a filter of images needs an encoder")
        points: list[Embeddings] = [
            np.asarray(space.forward(encoder.encode(self._images(first))))
            for first in range(0, len(self.points), self.producer.block)
        ]
        return np.concatenate(points).astype(np.float64)

    def judged_images(self, samples: Labels) -> Iterator[SyntheticBatch]:
        """The very images that were voted on, of these candidates."""
        for first in range(0, len(self.points), self.producer.block):
            indices = samples[(samples >= first) & (samples < first + self.producer.block)]
            if len(indices):
                images = self._images(first)[indices - first]
                yield SyntheticBatch(self.labels[indices], images=images)

    def _images(self, first: int) -> Images:
        """Images of the block of candidates that starts at ``first``: drawn once, then kept."""
        producer = self.producer
        part = slice(first, first + producer.block)

        def make() -> Arrays:
            points, components = self.points[part], self.components[part]
            images = producer.finished("candidates", first, points, components).images
            if images is None:
                raise ConfigError("a filter of images needs a decoder")
            return {"images": images}

        arrays = producer.materials.keep(f"candidates {first:08d}", make)
        return np.asarray(arrays["images"], dtype=np.uint8)
