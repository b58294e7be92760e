"""Which samples are released: DP-FilterEmbedding and DP-FilterImage of Algorithm 1, by DP votes.

A class has as many samples after a filter as without one, and the release as many as were asked
for: a filter only chooses which of the candidates of a class they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Stage, Vector
from understudy.methods.base import Context
from understudy.privacy.queries import Votes
from understudy.steps.mixture import Mixture

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

Filter = Literal["none", "embeddings", "images", "both"]


@dataclass(frozen=True)
class FilterStages:
    """The releases of a filter.

    Attributes:
        embeddings: Votes for candidate embeddings.
        images: Votes for their decoded images.
    """

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


@dataclass(frozen=True)
class VoteFilter:
    """Which candidates become samples.

    Attributes:
        stages: What is voted on: candidate embeddings, their decoded images, or both.
        threshold: Votes a candidate needs, in standard deviations of their noise; None: the most
            voted candidates of each class are taken.
        oversample: Candidates for each sample.
    """

    stages: FilterStages
    threshold: float | None
    oversample: int

    def check(self, context: Context, stages: Sequence[Stage]) -> None:
        """Refuse a filter that cannot give what it is asked for, before anything is charged.

        Args:
            context: The run's public facts.
            stages: All stages of the run, those of the filter among them.

        Raises:
            ConfigError: Images are to be voted on and none are made, or so few candidates can be
                expected to reach the threshold that the samples would not be filtered at all.
        """
        if self.stages.images is not None and context.decoder is None:
            raise ConfigError(
                "a filter of images needs a decoder, and this release is of embeddings alone: take "
                "filter=embeddings"
            )
        stage = self.stages.embeddings or self.stages.images
        if self.threshold is None or stage is None:
            return
        weight = math.fsum(stage.weight for stage in stages)
        vote = context.mu * (stage.weight / weight) ** 0.5
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
    survive = voted * scipy.special.ndtr(vote * votes / voted - threshold) + (
        1 - voted
    ) * scipy.special.ndtr(-threshold)
    return float(survive.max())


@dataclass(frozen=True)
class Candidates:
    """Candidates of a filter, (m, d), in a random order.

    Attributes:
        points: (m, d) in the space of the mixture.
        components: (m,).
        labels: (m,).
        wanted: (classes,) samples of each class.
    """

    points: Vector
    components: Labels
    labels: Labels
    wanted: Labels

    @classmethod
    def of(
        cls, mixture: Mixture, count: int, oversample: int, classes: int, rng: np.random.Generator
    ) -> Candidates:
        """Draw ``oversample`` candidates for each of ``count`` samples.

        They are as many of each component as its weight says, so the classes keep their shares.
        """
        samples = mixture.allot(count)
        components = np.repeat(np.arange(len(samples)), samples * oversample)
        components = rng.permutation(components)
        wanted = np.bincount(mixture.labels, samples, classes).astype(np.int64)
        points = mixture.draw(components, rng)
        return cls(points, components, mixture.labels[components], wanted)

    def vote(self, vault: Vault, points: Vector, stage: Stage) -> tuple[Vector, float]:
        """The noisy votes of the private records for these points, one release.

        Args:
            vault: Records in the space of ``points``.
            points: (m, d) what is voted on: the candidates, or their images as they are embedded.
            stage: The stage.

        Returns:
            (m,) votes in standard deviations of their noise; and that deviation.
        """
        query, slots = self._query(points)
        noise_sd = vault.noise_sd(query, stage=stage.name)
        return vault.release(query, stage=stage.name)[slots, 0] / noise_sd, noise_sd

    def _query(self, points: Vector) -> tuple[Votes, Labels]:
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
