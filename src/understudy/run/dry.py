"""``--dry-run``: what a run would do and spend. Reads no private pixel, spends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.core.ports import StepwiseModel
from understudy.privacy.ledger import Ledger
from understudy.run.config import RunConfig
from understudy.run.prepare import prepare


@dataclass(frozen=True)
class Stage:
    """One release of a plan.

    Attributes:
        name: Its name.
        share: Part of the run's squared mu.
        noise: Standard deviation of the noise over the sensitivity (the noise multiplier).
    """

    name: str
    share: float
    noise: float


@dataclass(frozen=True)
class DryRun:
    """A run's plan.

    Attributes:
        method: The method.
        settings: Its parameters.
        unit: The unit of protection.
        adjacency: What makes two datasets neighbours.
        epsilon: Of the run.
        delta: Of the run.
        mu: Gaussian-DP parameter of the run.
        stages: Its releases.
        dataset: The dataset's name in the ledger, or None where it is new.
        budget: The dataset's total epsilon, or None where none is set.
        spent: Epsilon spent so far.
        after: Epsilon spent after this run, exactly composed, at ``at_delta``.
        at_delta: The delta of the last three.
        refused: Why the ledger would refuse the run; None where it would not.
        sampling: Steps and guidance of each diffusion model, by its role.
    """

    method: str
    settings: dict[str, object]
    unit: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float
    stages: tuple[Stage, ...]
    dataset: str | None
    budget: float | None
    spent: float
    after: float
    at_delta: float
    refused: str | None
    sampling: Mapping[str, str]


def dry_run(config: RunConfig) -> DryRun:
    """Check everything that can be checked and say what would be charged.

    Raises:
        InputError: What would be refused in the real run too.
    """
    prepared = prepare(config)
    plan, unit = prepared.plan, config.privacy_unit
    events = [plan.event(stage) for stage in plan.shares]
    with Ledger(config.ledger) as ledger:
        dataset = ledger.recognise(prepared.source)
        preview = ledger.preview(
            None if dataset is None else dataset.id,
            events,
            unit=unit.name,
            adjacency=unit.adjacency,
            delta=config.delta,
        )
    return DryRun(
        method=prepared.method.name,
        settings=dict(vars(prepared.params)),
        unit=unit.name,
        adjacency=unit.adjacency,
        epsilon=config.epsilon,
        delta=config.delta,
        mu=plan.mu,
        stages=tuple(
            Stage(name, share, 1 / plan.stage_mu(name)) for name, share in plan.shares.items()
        ),
        dataset=None if dataset is None else dataset.name,
        budget=preview.budget,
        spent=preview.spent,
        after=preview.after,
        at_delta=preview.delta,
        refused=preview.refused,
        sampling={
            role: f"{model.name}: {model.sampling}"
            for role, model in prepared.context.models.items()
            if isinstance(model, StepwiseModel)
        },
    )
