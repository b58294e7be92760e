"""A run's budget divided among its stages, and the guarantees of several runs put together."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from understudy.core.errors import ConfigError
from understudy.core.types import Receipt, Sampling, StageReceipt
from understudy.privacy.accounting import (
    RUN_SLACK,
    Event,
    Gaussian,
    SampledGaussian,
    Selected,
    epsilon_of,
    mu_of,
    run_event,
    sampled_gaussian,
    selected_mu,
)
from understudy.privacy.budget import Budget, normalised_shares
from understudy.privacy.unit import Unit

_NAME = re.compile(r"[^/\0]{1,60}")  # of a stage, and with an ending of a file
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
    exactly (sum mu_k^2 = mu^2). The classes and clusters of a stage are one release. One stage at
    most may be the steps of DP-SGD (`Sampling`): its noise is what the others leave of epsilon by
    numerical composition, for no mu says what samples cost.

    Args:
        budget: (epsilon, delta) of the run.
        shares: Stage to its part of mu^2: each positive, at most 1 together. They are copied, and
            cannot be changed afterwards.
        sampling: Of the stage that has one.
        runs: How many runs with this plan are expected, the best of which is taken, all within the
            budget (`accounting.Selected`); None: there is one.

    Raises:
        ConfigError: Two stages of samples, or steps that do not fit; a share that is not a positive
            number, or shares that spend more than mu^2; a name that no file can have.
    """

    budget: Budget
    shares: Mapping[str, float]
    sampling: Mapping[str, Sampling] = field(default_factory=dict)
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
        if unfit := [name for name in self.shares if not _NAME.fullmatch(name)]:
            raise ConfigError(
                "answers are stored by the names of their stages, so a name has 1 to 60 "
                f"characters and no slash, found {unfit}"
            )
        if len(self.sampling) > 1 or not set(self.sampling) <= set(self.shares):
            raise ConfigError(
                "one stage of a plan may be steps on samples of the units, found "
                f"{sorted(self.sampling)} in a plan of {sorted(self.shares)}"
            )
        if self.sampling and self.runs is not None:
            raise ConfigError(
                f"stage {next(iter(self.sampling))!r} is steps on samples of the units, and what "
                "the best of several such runs is worth is not proven here: leave out --tune, or "
                "take a method that asks all units. Nothing was spent"
            )
        for part in ("shares", "sampling"):
            object.__setattr__(self, part, MappingProxyType(dict(getattr(self, part))))

    @classmethod
    def of(
        cls,
        budget: Budget,
        weights: Mapping[str, float],
        sampling: Mapping[str, Sampling] | None = None,
        runs: float | None = None,
    ) -> Plan:
        """A plan with shares in proportion to ``weights``."""
        return cls(budget, normalised_shares(weights), sampling or {}, runs)

    @cached_property
    def mu(self) -> float:
        """The run's mu, slack already taken off."""
        return run_mu_of(self.budget, self.runs)

    @property
    def slack(self) -> float:
        """Part of epsilon kept for the noise being discrete; a selection needs none."""
        return RUN_SLACK if self.runs is None else 0.0

    def stage_mu(self, stage: str) -> float:
        """mu of one stage, or of each of its steps."""
        return self.event(stage).mu

    @cached_property
    def _sampled(self) -> SampledGaussian:
        """The steps on samples, with what the other stages leave."""
        ((stage, sampling),) = self.sampling.items()
        share = self.shares[stage]
        others = Gaussian(self.mu * math.sqrt(max(1 - share, 0.0)), self.slack * (1 - share))
        return sampled_gaussian(
            self.budget.epsilon,
            self.budget.delta,
            others,
            sampling.rate,
            sampling.steps,
            self.slack * share,
        )

    def require_covers(self, unit: Unit) -> None:
        """Refuse samples of units that are replaced: what those are worth is another proof.

        Raises:
            ConfigError: As said.
        """
        if self.sampling and unit.adjacency != "add-remove":
            raise ConfigError(
                f"stage {next(iter(self.sampling))!r} samples the units, and what that is worth is "
                "proven for a unit that is added or removed: take --adjacency add-remove (the "
                "default), or a method that asks all units. Nothing was spent"
            )

    def receipt(self, unit: Unit) -> Receipt:
        """The guarantee of the plan before anything is released: queries and sizes are unknown."""
        stages = (self.stage_receipt(name, "", 1.0, 0) for name in self.shares)
        epsilon, delta = self.budget.epsilon, self.budget.delta
        parts = unit.name, unit.adjacency, epsilon, delta, self.slack, tuple(stages)
        return Receipt(*parts, runs=self.runs)

    @property
    def events(self) -> dict[str, Event]:
        """What the ledger is charged, by the name of each charge."""
        if self.runs is not None:
            return {TUNING: Selected(self.mu, self.runs)}
        return {stage: self.event(stage) for stage in self.shares}

    def stage_receipt(self, stage: str, query: str, sensitivity: float, size: int) -> StageReceipt:
        """What a stage costs where one unit moves a sum by ``sensitivity``."""
        mu, sampling = self.stage_mu(stage), self.sampling.get(stage, Sampling(1.0, 1))
        return StageReceipt(
            stage,
            query,
            self.shares[stage],
            sensitivity,
            sensitivity / mu,
            mu,
            size * sampling.steps,
            rate=sampling.rate,
            steps=sampling.steps,
        )

    def event(self, stage: str) -> Gaussian | SampledGaussian:
        """What a stage adds to the ledger."""
        if stage not in self.shares:
            raise ConfigError(f"no stage {stage!r} in the plan; it has {sorted(self.shares)}")
        if stage in self.sampling:
            return self._sampled
        share = self.shares[stage]
        return Gaussian(self.mu * math.sqrt(share), self.slack * share)


def events_of(stages: Sequence[StageReceipt]) -> list[Event]:
    """What stages cost, without the slack for the noise being discrete."""
    return [
        SampledGaussian(one.rate, one.mu, one.steps) if one.sampled else Gaussian(one.mu)
        for one in stages
    ]


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
                f"one guarantee has the unit: {first.unit}, {first.adjacency}; and another one: "
                f"{other.unit}, {other.adjacency}. The two do not compose. Nothing was spent. "
                "Take releases of the same unit and adjacency as the run"
            )
        _require_accounted(other)
    everything = [stage for receipt in receipts for stage in receipt.stages]
    events = events_of(everything)
    # What a stage of samples costs, as the mu of one release that has its epsilon.
    squares = [
        event.mu**2
        if isinstance(event, Gaussian)
        else mu_of(epsilon_of([event], delta), delta) ** 2
        for event in events
    ]
    shares = [square / math.fsum(squares) for square in squares]
    stages = tuple(replace(one, share=share) for one, share in zip(everything, shares, strict=True))
    slack = math.fsum(receipt.slack for receipt in receipts)
    epsilon = epsilon_of([*events, Gaussian(0.0, slack)], delta)
    return Receipt(first.unit, first.adjacency, epsilon, delta, slack, stages)


def _require_accounted(receipt: Receipt) -> None:
    """Refuse a receipt of another epsilon than its stages come to."""
    reached = epsilon_of(events_of(receipt.stages), receipt.delta) + receipt.slack
    tolerance = _EPSILON_TOLERANCE
    if not math.isclose(reached, receipt.epsilon, rel_tol=tolerance, abs_tol=tolerance):
        raise ConfigError(
            f"a release states epsilon {receipt.epsilon:g} at delta {receipt.delta:g}, and its "
            f"stages come to {reached:g}: its privacy.json was changed, or is not whole"
        )
