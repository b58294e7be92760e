"""A privacy budget and its division among the stages of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from understudy.core.errors import ConfigError

MIN_DELTA = 1e-11
"""Least delta that the proof covers: docs/promise.md, "Discrete instead of continuous"."""

MAX_EPSILON = 1e7
"""Greatest epsilon that can be turned into a mu without loss; it protects nothing long before."""


REST = "rest"
"""As the epsilon of a run: the largest that the dataset's budget still covers as one run."""


@dataclass(frozen=True, slots=True)
class Budget:
    """(epsilon, delta) for everything released about a dataset.

    Args:
        epsilon: Positive, at most `MAX_EPSILON`.
        delta: In [`MIN_DELTA`, 1). Never derived from a private count; 1e-5 by
            default.

    Raises:
        ConfigError: A value out of range.
    """

    epsilon: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ConfigError(f"epsilon must be a positive number, found {self.epsilon!r}")
        if self.epsilon > MAX_EPSILON:
            raise ConfigError(f"epsilon must be {MAX_EPSILON:,.0f} or less, found {self.epsilon!r}")
        if not (math.isfinite(self.delta) and 0 < self.delta < 1):
            raise ConfigError(
                f"delta must lie between 0 and 1 (1e-5 is usual), found {self.delta!r}"
            )
        if self.delta < MIN_DELTA:
            raise ConfigError(
                f"delta must be {MIN_DELTA:g} or more, found {self.delta!r}: the noise is a "
                "discrete Gaussian, and what that takes from delta in place of a continuous one "
                f"is covered down to {MIN_DELTA:g} only (docs/promise.md). Use 1e-10 or 1e-5"
            )

    @classmethod
    def recorded(cls, epsilon: float, delta: float) -> Budget:
        """A budget as an old ledger row has it, whose delta may lie below `MIN_DELTA`.

        It can be shown, and nothing more can be charged to it (`_rules.check_budget`).
        """
        if delta >= MIN_DELTA:
            return cls(epsilon, delta)
        budget = object.__new__(cls)
        object.__setattr__(budget, "epsilon", epsilon)
        object.__setattr__(budget, "delta", delta)
        return budget


def part_of_budget(epsilon: str) -> float | None:
    """What an epsilon in words asks for: a share of the dataset's budget; None: the rest of it.

    A share is one of the budget's squared mu, by which runs compose: ten runs of ``"10%"`` use up
    the budget, no sooner and no later.

    Returns:
        The share, above 0 and at most 1; None for ``"rest"``.
    """
    words = epsilon.strip().lower()
    if words == REST:
        return None
    try:
        share = float(words.removesuffix("%")) / 100 if words.endswith("%") else math.nan
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise ConfigError(
            "epsilon is a number such as 1, or a part of the dataset's budget: 'rest', or a share "
            f"such as 10%; found {epsilon!r}"
        )
    return share


def normalised_shares(weights: Mapping[str, float]) -> dict[str, float]:
    """Stage weights scaled to shares of the run's squared mu that sum to 1.

    Args:
        weights: Stage name to a positive weight; a stage of weight 0 is left out.

    Raises:
        ConfigError: A negative weight, or none that is positive.
    """
    bad = {stage: weight for stage, weight in weights.items() if not 0 <= weight < math.inf}
    if bad:
        raise ConfigError(f"a stage's weight must be 0 or more, found {bad}")
    total = sum(weights.values())
    if total <= 0:
        raise ConfigError("a plan needs at least one stage with a positive weight")
    return {stage: weight / total for stage, weight in weights.items() if weight > 0}
