"""Which samples are released: DP-FilterEmbedding and DP-FilterImage of Algorithm 1, by DP votes.

A class keeps its number of samples: a filter only chooses which of its candidates they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Images, Labels, Stage, SyntheticBatch, Vector
from understudy.methods.base import Arrays
from understudy.methods.clustering.params import Filter
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


def filtered(
    producer: Producer, count: int, size: float, oversample: int, stages: FilterStages
) -> tuple[Batches, dict[str, Any]]:
    """Lines 11 to 17: ``count`` of the candidates, by votes of about ``size`` private records."""
    space, candidates = producer.space, Candidates.of(producer, count, oversample)
    votes = []
    if stages.embeddings is not None:
        votes.append(candidates.vote(space.vault, candidates.points, stages.embeddings))
    if stages.images is not None:
        votes.append(candidates.vote(space.vault, candidates.encoded(), stages.images))
    scores, noise_sd = np.min([score for score, _ in votes], axis=0), round(votes[-1][1], 3)
    samples, each = candidates.most_voted(scores), round(max(size, 0.0) / len(scores), 3)
    facts: dict[str, Any] = {
        "candidates": len(scores),
        "votes_per_candidate": each,
        "votes_noise_sd": noise_sd,
    }
    if each < noise_sd / 2:
        facts["notes"] = [
            f"the filter had {each:.2g} votes for each candidate and noise of {noise_sd:.2g}: "
            "it chose nearly at random. It needs fewer samples (--count), a larger epsilon or "
            "more private records; filter=none leaves its budget to the mixture"
        ]
    batches = candidates.batches if stages.images is None else candidates.judged_images
    return partial(batches, samples), facts


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

        Returns (m,) votes in standard deviations of their noise, and that deviation. Classes are
        filled up with their first candidate, which wins over its copies.
        """
        counts = np.bincount(self.labels, minlength=len(self.sizes))
        order, sizes = np.argsort(self.labels, kind="stable"), np.maximum(counts, 1)
        own = np.arange(sizes.max()) < counts[:, None]
        of_classes = np.zeros((*own.shape, points.shape[1]))
        of_classes[own] = points[order]
        query = Votes(np.where(own[:, :, None], of_classes, of_classes[:, :1]), sizes)
        noise_sd = vault.noise_sd(query, stage=stage.name)
        answer = vault.release(query, stage=stage.name)[:, 0] / noise_sd
        votes = np.empty(len(points))
        votes[order] = answer[np.repeat(counts > 0, sizes)]
        return votes, noise_sd

    def most_voted(self, scores: Vector) -> Labels:
        """Which candidates become samples: the most voted of each class, ascending."""
        order = np.argsort(-scores, kind="stable")
        mine = (order[self.labels[order] == label] for label in range(len(self.sizes)))
        indices = [best[:size] for best, size in zip(mine, self.sizes, strict=True)]
        return np.sort(np.concatenate(indices))

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
            batch = producer.finished("candidates", first, points, components)
            return {"images": np.asarray(batch.images)}

        arrays = producer.materials.keep(f"candidates {first:08d}", make)
        return np.asarray(arrays["images"], dtype=np.uint8)
