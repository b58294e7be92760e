"""Keeping the better pictures, by a score without a reference such as NIQE or PIQE.

The score of a synthetic picture uses no private data: filtering a release costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Images, Vector
from understudy.steps.niqe import NiqeModel, fit_niqe, niqe
from understudy.steps.piqe import PiqeMasks, piqe, piqe_masks

__all__ = [
    "NiqeModel",
    "PiqeMasks",
    "QualityFilter",
    "Score",
    "fit_niqe",
    "keep_best",
    "niqe",
    "piqe",
    "piqe_masks",
]

Score = Callable[[Images], Vector]
"""(n, height, width, channels) uint8 to (n,) float64; lower is better, as NIQE and PIQE are."""

Rows = NDArray[np.int64]


def keep_best(images: Images, score: Score, share: float) -> Rows:
    """The rows of the better images.

    Args:
        images: (n, height, width, channels) uint8.
        score: Lower is better; NaN is worse than anything. ``piqe``, or
            ``functools.partial(niqe, model=model)``.
        share: How much to keep, over 0 and at most 1; rounded up to whole images.

    Returns:
        (ceil(share * n),) rows of ``images``, ascending: labels and embeddings follow by indexing.
        Of equal scores the earlier rows are kept.

    Raises:
        InputError: Another share, or a score that does not give a number an image.
    """
    _check_share(share)
    scores = _scores(images, score)
    # Rounded first: 0.07 * 100 is 7.000000000000001.
    count = int(np.ceil(np.round(share * len(scores), 9)))
    return np.sort(np.argsort(scores, kind="stable")[:count]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class QualityFilter:
    """Keeps the better share of each batch, or what scores below a threshold.

    A share adapts to the batch and its size is known beforehand; a threshold judges each image by
    itself, so that it does not matter how images are batched, and may keep none or all.

    Attributes:
        score: Lower is better.
        share: How much to keep, over 0 and at most 1; or None.
        threshold: Keep what scores below it; or None.

    Raises:
        InputError: Both, or neither, of share and threshold; or one that makes no sense.
    """

    score: Score
    share: float | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if (self.share is None) == (self.threshold is None):
            raise InputError("a quality filter takes either a share or a threshold: give one")
        if self.share is not None:
            _check_share(self.share)
        if self.threshold is not None and not np.isfinite(self.threshold):
            raise InputError(f"a threshold is a finite number, found {self.threshold}")

    def __call__(self, images: Images) -> Rows:
        """The rows to keep, ascending.

        Raises:
            InputError: The score does not give a number an image.
        """
        if self.threshold is None:
            return keep_best(images, self.score, self.share or 1.0)
        return np.flatnonzero(_scores(images, self.score) < self.threshold).astype(np.int64)


def _check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise InputError(f"the share to keep is over 0 and at most 1, found {share}")


def _scores(images: Images, score: Score) -> Vector:
    scores = np.asarray(score(images), dtype=np.float64)
    if scores.shape != (len(images),):
        raise InputError(
            f"a score gives one number an image, {len(images)} here; found shape {scores.shape}"
        )
    return scores
