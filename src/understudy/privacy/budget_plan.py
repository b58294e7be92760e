"""A run's budget divided among its stages, and the guarantees of several runs put together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from understudy.core.errors import ConfigError
from understudy.core.types import Receipt, StageReceipt
from understudy.privacy.accounting import (
    RUN_SLACK,
    Event,
    Gaussian,
    Selected,
    epsilon_of,
    run_event,
    selected_mu,
)
from understudy.privacy.budget import Budget, normalised_shares
from understudy.privacy.unit import Unit

_SHARES_ROUNDING = 1e-12  # shares are weights over their sum, which is 1 but for rounding
_EPSILON_TOLERANCE = 1e-3  # between the epsilon that a receipt states and that of its stages


def run_mu_of(budget: Budget, runs: float | None = None) -> float:
    """The mu that a run with this budget may spend, slack already taken off.

    Args:
        budget: Of all that is charged.
        runs: How many runs are expected, the best of which is taken (`accounting.Selected`); None:
            there is one.

    Raises:
        ConfigError: An epsilon too small to release anything.
    """
    if runs is not None:
        return selected_mu(budget.epsilon, budget.delta, runs)
    return run_event(budget.epsilon, budget.delta).mu


TUNING = "tuning"
"""The one charge of a run that is the best of several."""


@dataclass(frozen=True)
class Plan:
    """A run's budget divided among its stages.

    Every stage is a Gaussian release with mu_k = mu sqrt(share_k), so that the run composes to mu
    exactly (sum mu_k^2 = mu^2). The classes and clusters of a stage are one release.

    Args:
        budget: (epsilon, delta) of the run.
        shares: Stage to its part of mu^2: each positive, at most 1 together. They are copied, and
            cannot be changed afterwards.
        runs: How many runs with this plan are expected, the best of which is taken, all within the
            budget (`accounting.Selected`); None: there is one.

    Raises:
        ConfigError: A share that is not a positive number, or shares that spend more than mu^2.
    """

    budget: Budget
    shares: Mapping[str, float]
    runs: float | None = None

    def __post_init__(self) -> None:
        bad = {name: share for name, share in self.shares.items() if not 0 < share < math.inf}
        if bad:
            raise ConfigError(
                f"a stage's share of the budget must be above 0 and finite, found {bad}"
            )
        total = math.fsum(self.shares.values())
        if not 0 < total <= 1 + _SHARES_ROUNDING:
            raise ConfigError(
                f"the shares of a plan must sum to 1 at most, or it would spend more than its "
                f"budget, found {total:.12g} over {sorted(self.shares)}: use Plan.of, which scales "
                "weights to shares"
            )
        object.__setattr__(self, "shares", MappingProxyType(dict(self.shares)))

    @classmethod
    def of(cls, budget: Budget, weights: Mapping[str, float], runs: float | None = None) -> Plan:
        """A plan with shares in proportion to ``weights``."""
        return cls(budget, normalised_shares(weights), runs)

    @cached_property
    def mu(self) -> float:
        """The run's mu, slack already taken off."""
        return run_mu_of(self.budget, self.runs)

    @property
    def slack(self) -> float:
        """Part of epsilon kept for the noise being discrete; a selection needs none."""
        return RUN_SLACK if self.runs is None else 0.0

    def stage_mu(self, stage: str) -> float:
        """mu of one stage."""
        if stage not in self.shares:
            raise ConfigError(f"no stage {stage!r} in the plan; it has {sorted(self.shares)}")
        return self.mu * math.sqrt(self.shares[stage])

    def receipt(self, unit: Unit) -> Receipt:
        """The guarantee of the plan before anything is released: queries and sizes are unknown."""
        stages = (
            StageReceipt(name, "", share, 1.0, 1 / self.stage_mu(name), self.stage_mu(name), 0)
            for name, share in self.shares.items()
        )
        epsilon, delta = self.budget.epsilon, self.budget.delta
        parts = unit.name, unit.adjacency, epsilon, delta, self.slack, tuple(stages)
        return Receipt(*parts, runs=self.runs)

    @property
    def events(self) -> dict[str, Event]:
        """What the ledger is charged, by the name of each charge."""
        if self.runs is not None:
            return {TUNING: Selected(self.mu, self.runs)}
        return {stage: self.event(stage) for stage in self.shares}

    def event(self, stage: str) -> Gaussian:
        """What a stage costs."""
        return Gaussian(self.stage_mu(stage), self.slack * self.shares[stage])


def inherited(receipt: Receipt, origin: str) -> Receipt:
    """The guarantee of a release as stated by what is made of it: stages that were paid there.

    ``origin`` is what the release is to that run, such as ``"candidates"``.
    """
    stages = (
        replace(stage, stage=f"{origin}: {stage.stage}", origin=origin) for stage in receipt.stages
    )
    return replace(receipt, stages=tuple(stages))


def composed(receipts: Sequence[Receipt], delta: float) -> Receipt:
    """The guarantee of several releases together, as if all were about the same records.

    Mu composes as the root of the sum of its squares (Dong, Roth and Su 2022), and epsilon is read
    off at ``delta``. A single receipt stays what it is.

    Raises:
        ConfigError: Units or adjacencies that differ, which do not compose; or a receipt whose
            stages do not account for its epsilon.
    """
    first = receipts[0]
    if len(receipts) == 1 and first.delta == delta:
        return first
    if any(receipt.runs is not None for receipt in receipts):
        raise ConfigError(
            "a release whose settings were chosen by its score (--tune) has no mu by which it "
            "composes with others. Nothing was spent. Take a release without --tune"
        )
    for other in receipts:
        if (other.unit, other.adjacency) != (first.unit, first.adjacency):
            raise ConfigError(
                f"one guarantee protects one {first.unit} under {first.adjacency} and another one "
                f"{other.unit} under {other.adjacency}: the two do not compose. Nothing was spent. "
                "Take releases of the same unit and adjacency as the run"
            )
        _require_accounted(other)
    everything = [stage for receipt in receipts for stage in receipt.stages]
    squares = math.fsum(stage.mu**2 for stage in everything)
    stages = tuple(replace(stage, share=stage.mu**2 / squares) for stage in everything)
    slack = math.fsum(receipt.slack for receipt in receipts)
    epsilon = epsilon_of([Gaussian(math.sqrt(squares), slack)], delta)
    return Receipt(first.unit, first.adjacency, epsilon, delta, slack, stages)


def _require_accounted(receipt: Receipt) -> None:
    """Refuse a receipt of another epsilon than its stages come to."""
    events = [Gaussian(stage.mu) for stage in receipt.stages]
    reached = epsilon_of(events, receipt.delta) + receipt.slack
    tolerance = _EPSILON_TOLERANCE
    if not math.isclose(reached, receipt.epsilon, rel_tol=tolerance, abs_tol=tolerance):
        raise ConfigError(
            f"a release states epsilon {receipt.epsilon:g} at delta {receipt.delta:g}, and its "
            f"stages come to {reached:g}: its privacy.json was changed, or is not whole"
        )
