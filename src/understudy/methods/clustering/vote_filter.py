"""Which samples are released: DP-FilterEmbedding and DP-FilterImage of Algorithm 1, by DP votes.

A class has as many samples after a filter as without one, and the release as many as were asked
for: a filter only chooses which of the candidates of a class they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.stats import norm

from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Images, Labels, SyntheticBatch, Vector
from understudy.methods.base import Arrays, Context
from understudy.methods.clustering.sampling import Batches, Producer
from understudy.privacy.queries import Votes

Filter = Literal["none", "embeddings", "images", "both"]


@dataclass(frozen=True)
class VoteFilter:
    """Which candidates become samples.

    Attributes:
        kind: What is voted on: candidate embeddings, their decoded images, or both.
        threshold: Votes a candidate needs, in standard deviations of their noise; None: the most
            voted candidates of each class are taken.
        oversample: Candidates for each sample.
    """

    kind: Filter
    threshold: float | None
    oversample: int

    @property
    def stages(self) -> tuple[str, ...]:
        """Its stages in the plan."""
        return tuple(f"filter {on}" for on in ("embeddings", "images") if self.kind in (on, "both"))

    def check(self, context: Context, plan: Mapping[str, float]) -> None:
        """Refuse a filter that cannot give what it is asked for, before anything is charged.

        Args:
            context: The run's public facts.
            plan: Weights of all stages, those of the filter among them.

        Raises:
            ConfigError: Images are to be voted on and none are made, or so few candidates can be
                expected to reach the threshold that the samples would not be filtered at all.
        """
        if "filter images" in self.stages and context.decoder is None:
            raise ConfigError(
                f"filter={self.kind} needs a decoder: this release is of embeddings alone"
            )
        if self.threshold is None or not self.stages:
            return
        vote = context.mu * (plan[self.stages[0]] / sum(plan.values())) ** 0.5
        share = most_survivors(self.threshold, vote, 1 / self.oversample)
        if share * self.oversample < 1:
            raise ConfigError(
                f"threshold={self.threshold:g} with oversample={self.oversample} leaves at most "
                f"{share:.2%} of the candidates where there are about as many private records as "
                f"samples (one vote is {vote:.2g} standard deviations of the noise), and "
                f"{1 / self.oversample:.2%} are needed: lower the threshold, raise oversample, or "
                "leave the threshold out, which takes the most voted candidates of each class"
            )


def most_survivors(threshold: float, vote: float, votes: float) -> float:
    """The largest share of candidates that can be expected to reach a threshold.

    However the votes are spread: over the share of candidates that makes most of them survive.

    Args:
        threshold: In standard deviations of the noise.
        vote: One vote, in standard deviations of the noise.
        votes: Votes for each candidate, on average.
    """
    voted = np.geomspace(1e-6, 1.0, 2000)
    survive = voted * norm.sf(threshold - vote * votes / voted) + (1 - voted) * norm.sf(threshold)
    return float(survive.max())


def filtered(
    producer: Producer, count: int, total: float, chosen: VoteFilter
) -> tuple[Batches, dict[str, Any]]:
    """Lines 11 to 17 of Algorithm 1: ``count`` of the candidates, by votes of private records.

    Candidates are as many of each component as its weight says, so the classes keep their shares.

    Args:
        producer: The mixture and the decoder.
        count: Samples wanted.
        total: Noisy number of private records.
        chosen: The filter.

    Returns:
        The samples, and public facts about the filter.
    """
    candidates = _Candidates.of(producer, count, chosen.oversample)
    votes, vault = [], producer.place.vault
    for stage in chosen.stages:
        on_images = stage == "filter images"
        query, slots = candidates.query(candidates.encoded() if on_images else candidates.points)
        noise_sd = vault.noise_sd(query, stage=stage)
        votes.append(vault.release(query, stage=stage)[slots, 0] / noise_sd)
    scores = np.min(votes, axis=0)
    taken, below = candidates.most_voted(scores, chosen.threshold)
    facts: dict[str, Any] = {"candidates": len(scores), "kept": count - below}
    facts["below_threshold"] = below
    facts["votes_per_candidate"] = round(max(total, 0.0) / len(scores), 3)
    facts["votes_noise_sd"] = round(noise_sd, 3)
    if "filter images" in chosen.stages:
        return candidates.judged_images(taken), facts
    return candidates.samples(taken, scores), facts


@dataclass(frozen=True)
class _Candidates:
    """Candidates of a filter, (m, d), in a random order.

    Attributes:
        producer: Where they come from.
        points: (m, d) in the space of the mixture.
        components: (m,).
        labels: (m,).
        wanted: (classes,) samples of each class.
    """

    producer: Producer
    points: Vector
    components: Labels
    labels: Labels
    wanted: Labels

    @classmethod
    def of(cls, producer: Producer, count: int, oversample: int) -> _Candidates:
        """Draw ``oversample`` candidates for each of ``count`` samples."""
        mixture, rng = producer.mixture, producer.materials.rng_of("candidates")
        samples = mixture.allot(count)
        components = np.repeat(np.arange(len(samples)), samples * oversample)
        components = rng.permutation(components)
        wanted = np.bincount(mixture.labels, samples, producer.place.classes).astype(np.int64)
        points = mixture.draw(components, rng)
        return cls(producer, points, components, mixture.labels[components], wanted)

    def query(self, points: Vector) -> tuple[Votes, Labels]:
        """The query of votes for these points, and the slot of each in its answer: (m,).

        Classes are filled up with their first candidate, which wins over its copies; a class
        without a candidate has the origin, whose votes are not looked at.
        """
        counts = np.bincount(self.labels, minlength=len(self.wanted))
        sizes = np.maximum(counts, 1)
        order = np.argsort(self.labels, kind="stable")
        spread = np.zeros((len(sizes), sizes.max(), points.shape[1]))
        slots, start = np.empty(len(points), dtype=np.int64), np.cumsum(sizes) - sizes
        for label, mine in enumerate(np.split(order, np.cumsum(counts)[:-1])):
            if len(mine):
                spread[label] = points[mine[0]]
                spread[label, : len(mine)] = points[mine]
                slots[mine] = start[label] + np.arange(len(mine))
        return Votes(spread, sizes), slots

    def most_voted(self, scores: Vector, threshold: float | None) -> tuple[Labels, int]:
        """Which candidates become samples, ascending, and how many of them are below the threshold.

        With a threshold any that reach it will do, since the order of candidates is random; where
        too few do, the most voted of the others follow.

        Args:
            scores: (m,) votes in standard deviations of their noise.
            threshold: In the same; None: the most voted.
        """
        order = np.argsort(-scores, kind="stable")
        if threshold is not None:
            enough = np.flatnonzero(scores >= threshold)
            order = np.concatenate([enough, order[scores[order] < threshold]])
        taken = np.zeros(len(scores), dtype=np.bool_)
        for label, size in enumerate(self.wanted.tolist()):
            taken[order[self.labels[order] == label][:size]] = True
        below = 0 if threshold is None else int((scores[taken] < threshold).sum())
        return np.flatnonzero(taken), below

    def samples(self, taken: Labels, scores: Vector) -> Batches:
        """These candidates; those not taken stand in, most voted first, for images too poor."""
        producer, size = self.producer, self.producer.block
        spare = np.setdiff1d(np.arange(len(scores)), taken)
        spare = spare[np.argsort(-scores[spare], kind="stable")]
        spares = [spare[self.labels[spare] == label] for label in range(len(self.wanted))]
        position = np.empty(len(taken), dtype=np.int64)  # of each sample in its class
        for label in range(len(self.wanted)):
            mine = self.labels[taken] == label
            position[mine] = np.arange(mine.sum())

        def another(first: int, rows: Labels, number: int) -> tuple[Vector, Labels]:
            others = taken[first + rows]
            for place, sample in enumerate((first + rows).tolist()):
                label = int(self.labels[taken[sample]])
                if len(spares[label]):
                    index = position[sample] + (number - 1) * self.wanted[label]
                    others[place] = spares[label][index % len(spares[label])]
            return self.points[others], self.components[others]

        def batches() -> Iterator[SyntheticBatch]:
            for first in range(0, len(taken), size):
                part = taken[first : first + size]
                points, components = self.points[part], self.components[part]
                instead = partial(another, first)
                yield producer.finish("filtered", first, points, components, instead)

        return batches

    def encoded(self) -> Vector:
        """What private records vote on after decoding: the candidates' images, encoded: (m, d)."""
        encoder, place = self.producer.materials.encoder, self.producer.place
        if encoder is None:
            raise ConfigError("a filter of images needs an encoder")
        rows: list[Embeddings] = [
            np.asarray(place.forward(encoder.encode(self._images(first))))
            for first in range(0, len(self.points), self.producer.block)
        ]
        return np.concatenate(rows).astype(np.float64)

    def judged_images(self, taken: Labels) -> Batches:
        """The very images that were voted on, of these candidates."""

        def batches() -> Iterator[SyntheticBatch]:
            for first in range(0, len(self.points), self.producer.block):
                rows = taken[(taken >= first) & (taken < first + self.producer.block)]
                if len(rows):
                    yield SyntheticBatch(
                        self.labels[rows], images=self._images(first)[rows - first]
                    )

        return batches

    def _images(self, first: int) -> Images:
        """Images of the block of candidates that starts at ``first``: drawn once, then kept."""
        producer, part = self.producer, slice(first, first + self.producer.block)

        def make() -> Arrays:
            points, components = self.points[part], self.components[part]
            instead = partial(producer.anew, f"candidates {first}", components)
            images = producer.finish("candidates", first, points, components, instead).images
            if images is None:
                raise ConfigError("a filter of images needs a decoder")
            return {"images": images}

        arrays = producer.materials.keep(f"candidates {first:08d}", make)
        return np.asarray(arrays["images"], dtype=np.uint8)
