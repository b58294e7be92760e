"""Does an implementation keep its promise? Lower bounds on epsilon from runs that test it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Vector
from understudy.evaluate.bounds import epsilon_from_one_run, epsilon_from_pairs

_THRESHOLDS = 49
_PARTS = (0.02, 0.05, 0.1, 0.2, 0.4, 1.0)
"""Parts of the canaries that are guessed; each is tried, and the confidence is shared."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What runs proved.

    Attributes:
        epsilon: A lower bound on the true epsilon, 0 where nothing is proven.
        claimed: The epsilon that is claimed; None where it was not said.
        delta: The delta of both.
        confidence: Of the bound.
        how: ``"pairs"`` of runs or ``"one run"``.
        runs: How many runs, or canaries.
    """

    epsilon: float
    claimed: float | None
    delta: float
    confidence: float
    how: str
    runs: int

    @property
    def broken(self) -> bool:
        """Whether the claim is refuted at the confidence."""
        return self.claimed is not None and self.epsilon > self.claimed


def audit_pairs(
    inside: NDArray[Any],
    outside: NDArray[Any],
    *,
    delta: float,
    claimed: float | None = None,
    confidence: float = 0.95,
) -> Audit:
    """From runs on a dataset with a row, and as many on the same dataset without it.

    The first half of the runs chooses a threshold, the second half says how well it does, so that
    the choice costs no confidence.

    Args:
        inside: (n,) a score of each run with the row, higher where the row shows.
        outside: (m,) the same of runs without it.
        delta: The delta that is claimed.
        claimed: The epsilon that is claimed.
        confidence: That a claim is refuted only if it is wrong.

    Raises:
        InputError: Fewer than 20 runs a side, or scores that are not finite.
    """
    sides = [np.asarray(side, dtype=np.float64).ravel() for side in (inside, outside)]
    if min(map(len, sides)) < 20 or not all(np.isfinite(side).all() for side in sides):
        raise InputError(
            f"an audit takes 20 runs or more a side with finite scores, found {len(sides[0])} and "
            f"{len(sides[1])}"
        )
    (learn_in, test_in), (learn_out, test_out) = (
        (side[: len(side) // 2], side[len(side) // 2 :]) for side in sides
    )
    levels = np.linspace(0, 1, _THRESHOLDS + 2)[1:-1]
    thresholds = np.quantile(np.concatenate([learn_in, learn_out]), levels)
    best = max(thresholds, key=lambda t: _bound(learn_in, learn_out, t, delta, confidence))
    found = _bound(test_in, test_out, float(best), delta, confidence)
    return Audit(found, claimed, delta, confidence, "pairs", sum(map(len, sides)))


def _bound(inside: Vector, outside: Vector, t: float, delta: float, confidence: float) -> float:
    return epsilon_from_pairs(
        int((inside > t).sum()),
        len(inside),
        int((outside > t).sum()),
        len(outside),
        delta=delta,
        confidence=confidence,
    )


def audit_one_run(
    scores: NDArray[Any],
    inside: NDArray[np.bool_],
    *,
    delta: float,
    claimed: float | None = None,
    confidence: float = 0.95,
) -> Audit:
    """From one run with many canaries, each put in with probability a half, independently.

    The highest scores are guessed "in" and as many of the lowest "out" (Steinke, Nasr, Jagielski
    2023, Algorithm 1). Several numbers of guesses are tried, at a confidence that covers them all.

    Args:
        scores: (m,) a score of each canary, higher where it shows.
        inside: (m,) which were in.
        delta: The delta that is claimed.
        claimed: The epsilon that is claimed.
        confidence: As for `audit_pairs`.

    Raises:
        InputError: Fewer than 20 canaries, other lengths, or scores that are not finite.
    """
    scores, inside = np.asarray(scores, dtype=np.float64), np.asarray(inside, dtype=np.bool_)
    if len(scores) < 20 or scores.shape != inside.shape or not np.isfinite(scores).all():
        raise InputError(
            f"an audit takes 20 canaries or more with a finite score each, found {scores.shape} "
            f"scores of {inside.shape}"
        )
    order = np.argsort(scores, kind="stable")
    each = 1 - (1 - confidence) / len(_PARTS)
    bounds = []
    for part in _PARTS:
        half = max(1, int(part * len(scores) / 2))
        right = int(inside[order[-half:]].sum() + (~inside[order[:half]]).sum())
        bounds.append(
            epsilon_from_one_run(right, 2 * half, len(scores), delta=delta, confidence=each)
        )
    return Audit(max(bounds), claimed, delta, confidence, "one run", len(scores))
