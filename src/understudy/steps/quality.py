"""Keeping the better images, by a measure without a reference such as NIQE or PIQE.

The score of a synthetic image uses no private data: choosing by it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Images, Vector

Score = Callable[[Images], Vector]
"""(n, height, width, channels) uint8 to (n,) float64; lower is better, as NIQE and PIQE are."""

Index = NDArray[np.int64]

Draw = Callable[[Index, int, int], Images]
"""Draws images of these samples, (n,): the sample numbers, the round, the image of the round.

Another round is another embedding of the same class, another image the same embedding with another
seed."""

ROUNDS = 5
"""Embeddings that are tried for a sample at most, before the best of their images is taken."""

_SHEET = 64  # worst images that are remembered for the owner


@dataclass
class QualityFilter:
    """Draws several images for each sample and keeps the best, again while it is not good enough.

    Every sample gets an image, so a filtered release has its count and its class sizes: where no
    image of `ROUNDS` rounds is good enough, the best of them stays and is counted in ``unmet``.

    Raises:
        InputError: Settings that choose nothing, or make no sense.
    """

    measure: str  # the name of the score, such as ``"piqe"``
    score: Score  # lower is better; NaN is worse than anything
    threshold: float | None = None  # an image is good enough if it scores below it; None: any is
    images_per_embedding: int = 1  # how many are drawn of an embedding, of which the best goes on
    draws: int = 0  # images drawn so far
    unmet: int = 0  # samples whose image reaches no threshold
    worst: list[tuple[float, Images]] = field(default_factory=list)  # left out, 64 at most
    _samples: int = 0

    def __post_init__(self) -> None:
        if self.threshold is None and self.images_per_embedding == 1:
            raise InputError(
                f"{self.measure} chooses among one image of each embedding, which is no choice: "
                "give a threshold, or several images per embedding"
            )
        if self.threshold is not None and not np.isfinite(self.threshold):
            raise InputError(f"a quality threshold is a finite number, found {self.threshold}")
        if self.images_per_embedding < 1:
            raise InputError(
                f"images per embedding are 1 or more, found {self.images_per_embedding}"
            )

    def __call__(self, count: int, draw: Draw) -> Images:
        """The best image of each of ``count`` samples: (count, height, width, channels) uint8."""
        best = draw(np.arange(count), 0, 0)
        scores = self._scores(best)
        pending = np.arange(count)
        for number in range(ROUNDS):
            for image in range(self.images_per_embedding):
                if number or image:
                    self._improve(best, scores, pending, draw(pending, number, image))
            if self.threshold is None:
                break
            pending = np.flatnonzero(~(scores < self.threshold))
            if len(pending) == 0:
                break
        self._samples += count
        if self.threshold is not None:
            self.unmet += int((~(scores < self.threshold)).sum())
        return best

    @property
    def facts(self) -> Mapping[str, Any]:
        """What was done, for the record of a release: computed from synthetic images alone."""
        return {
            "quality": self.measure,
            "quality_threshold": self.threshold,
            "images_per_embedding": self.images_per_embedding,
            "images_drawn": self.draws,
            "images_left_out": self.draws - self._samples,
            "below_quality": self.unmet,
        }

    def _improve(self, best: Images, scores: Vector, samples: Index, images: Images) -> None:
        """Put the better of each pair into ``best``, in place, and remember the other."""
        others = self._scores(images)
        better = others < scores[samples]
        rows = samples[better]
        lost, losing = images.copy(), others.copy()
        lost[better], losing[better] = best[rows], scores[rows]
        best[rows], scores[rows] = images[better], others[better]
        worst = np.argsort(-losing, kind="stable")[:_SHEET]
        self.worst += [(float(losing[index]), lost[index]) for index in worst]
        self.worst = sorted(self.worst, key=lambda pair: -pair[0])[:_SHEET]

    def _scores(self, images: Images) -> Vector:
        scores = np.asarray(self.score(images), dtype=np.float64)
        if scores.shape != (len(images),):
            raise InputError(
                f"a score gives one number an image, {len(images)} here; found shape {scores.shape}"
            )
        self.draws += len(images)
        return np.where(np.isnan(scores), np.inf, scores)
