"""Which samples are released: DP-FilterEmbedding and DP-FilterImage of Algorithm 1, by DP votes.

A class has as many samples after a filter as without one, and the release as many as were asked
for: a filter only chooses which of the candidates of a class they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import norm

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Vector
from understudy.methods.base import Context
from understudy.privacy.queries import Votes
from understudy.privacy.vault import Vault
from understudy.steps.mixture import Mixture

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

    def vote(self, vault: Vault, points: Vector, stage: str) -> tuple[Vector, float]:
        """The noisy votes of the private records for these points, one release.

        Args:
            vault: Records in the space of ``points``.
            points: (m, d) what is voted on: the candidates, or their images as they are embedded.
            stage: The stage.

        Returns:
            (m,) votes in standard deviations of their noise; and that deviation.
        """
        query, slots = self._query(points)
        noise_sd = vault.noise_sd(query, stage=stage)
        return vault.release(query, stage=stage)[slots, 0] / noise_sd, noise_sd

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
