"""``--dry-run``: what a run would do and spend. Reads no private pixel, spends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.core.ports import StepwiseModel
from understudy.core.types import Fit, Receipt
from understudy.data.inspection import source_notes
from understudy.methods.clustering.capacity import Carried
from understudy.privacy.ledger.ledger import Ledger
from understudy.report import Premise
from understudy.run.config import RunConfig
from understudy.run.documents import ONE_CLASS, is_unlabelled, premises_of
from understudy.run.model_fit import drawn_fit, words_fit
from understudy.run.prepare import Prepared, claim, prepare


@dataclass(frozen=True)
class StagePlan:
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
        adjacency: What makes two datasets adjacent.
        epsilon: Of the run.
        delta: Of the run.
        mu: Gaussian-DP parameter of the run.
        stages: Its releases.
        carried: What classes of several sizes can carry under that noise; () where the method
            cannot tell.
        dataset: The dataset's name in the ledger, or None where it is new.
        budget: The dataset's total epsilon, or None where none is set.
        spent: Epsilon spent so far.
        after: Epsilon spent after this run, exactly composed, at ``at_delta``.
        at_delta: The delta of the last three.
        refused: Why the ledger would refuse the run; None where it would not.
        concerned: Names of other datasets that the run would be charged to, for they overlap.
        premises: What of the private dataset is taken for public: declared, or inferred.
        held_out: The share, or number, that would be held out as it was asked for; None: nothing.
        notes: What the owner should know before spending.
        fits: How well the models fit the classes, by what is public.
        sampling: Steps and guidance of each diffusion model, by its role.
    """

    method: str
    settings: dict[str, object]
    unit: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float
    stages: tuple[StagePlan, ...]
    dataset: str | None
    budget: float | None
    spent: float
    after: float
    at_delta: float
    refused: str | None
    sampling: Mapping[str, str]
    concerned: tuple[str, ...] = ()
    premises: tuple[Premise, ...] = ()
    held_out: float | str | None = None
    notes: tuple[str, ...] = ()
    fits: tuple[Fit, ...] = ()
    carried: tuple[Carried, ...] = ()


def class_capacities(prepared: Prepared) -> tuple[Carried, ...]:
    """What classes of several sizes can carry under the noise of a run's plan: public arithmetic.

    () where the method cannot tell.
    """
    method, plan = prepared.method, prepared.plan
    if method.carried is None:
        return ()
    # A sum moves by twice its bound where a record is replaced.
    factor = 1.0 if prepared.config.privacy_unit.adjacency == "add-remove" else 2.0
    table = method.carried(
        prepared.params, prepared.context, lambda stage: factor / plan.stage_mu(stage.name)
    )
    return tuple(table)


def _notes(prepared: Prepared, whole: Receipt) -> tuple[str, ...]:
    """What the owner should know before spending."""
    config = prepared.config
    notes = [ONE_CLASS] if is_unlabelled(prepared.source, config) else []
    if inherited := sum(bool(stage.origin) for stage in whole.stages):
        notes.append(
            f"with the {inherited} stages that the candidates' release was paid for with, the "
            f"release states epsilon {whole.epsilon:.4g} at delta {whole.delta:g}; the dataset is "
            "charged for this run alone"
        )
    return (*notes, *source_notes(prepared.source))


def dry_run(config: RunConfig) -> DryRun:
    """Check everything that can be checked and say what would be charged.

    Raises:
        InputError: What would be refused in the real run too.
    """
    prepared = prepare(config)
    whole = claim(prepared)
    plan, unit = prepared.plan, config.privacy_unit
    events = [plan.event(stage) for stage in plan.shares]
    with Ledger(config.ledger) as ledger:
        dataset, others = ledger.look_up(prepared.source)
        preview = ledger.preview(
            None if dataset is None else dataset.id,
            events,
            unit=unit.name,
            adjacency=unit.adjacency,
            delta=config.delta,
            concerned=[other.id for other in others],
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
            StagePlan(name, share, 1 / plan.stage_mu(name)) for name, share in plan.shares.items()
        ),
        dataset=None if dataset is None else dataset.name,
        budget=preview.budget,
        spent=preview.spent,
        after=preview.after,
        at_delta=preview.delta,
        refused=preview.refused,
        concerned=preview.concerned,
        premises=premises_of(prepared.source, config),
        held_out=config.hold_out,
        notes=_notes(prepared, whole),
        fits=tuple(fit for fit in (words_fit(prepared), drawn_fit(prepared)) if fit is not None),
        carried=class_capacities(prepared),
        sampling={
            role: f"{model.name}: {model.sampling}"
            for role, model in prepared.context.models.items()
            if isinstance(model, StepwiseModel)
        },
    )
