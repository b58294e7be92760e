"""What a run is about to do and spend: ``--dry-run``, and what is shown before every charge.

Spends nothing. Private images are read to recognise the dataset, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, TypedDict, Unpack

from understudy.core.ports import StepwiseModel
from understudy.core.roles import RoleNames
from understudy.core.types import Fit, Receipt, Stage
from understudy.data.inspection import source_notes
from understudy.data.names import like_persons, person_words
from understudy.methods.base import Expectation
from understudy.methods.clustering.capacity import Carried, classifier_words
from understudy.privacy.ledger.ledger import Dataset, Ledger
from understudy.privacy.unit import Adjacency
from understudy.release.documents import ONE_CLASS, is_unlabelled, premises_of_run
from understudy.release.outputs import require_free
from understudy.report import Premise
from understudy.run.accuracy import training_note
from understudy.run.config import NOTED_EPSILON, RunConfig, make_config, source_name
from understudy.run.early_stop import require_otherwise
from understudy.run.model_fit import drawn_fit, words_fit
from understudy.run.prepare import (
    Prepared,
    claim,
    prepare,
    require_no_private_input,
    require_room_of,
)


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
class RunPlan:
    """A run before its charge; for the owner's eyes, as the ledger's numbers are.

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

    Args:
        prepared: The run.

    Returns:
        () where the method cannot tell.
    """
    method = prepared.method
    if method.carried is None:
        return ()
    return tuple(method.carried(prepared.params, prepared.context, _stage_noise(prepared)))


def expectations(prepared: Prepared, units: float) -> tuple[Expectation, ...]:
    """What to expect of a run's release, in words: public arithmetic.

    Args:
        prepared: The run.
        units: Of a class, in the mean.

    Returns:
        () where the method cannot say.
    """
    method = prepared.method
    if method.expected is None:
        return ()
    noise = _stage_noise(prepared)
    return tuple(method.expected(prepared.params, prepared.context, noise, units))


def _stage_noise(prepared: Prepared) -> Callable[[Stage], float]:
    """The noise of a stage over the bound on what a unit contributes."""
    # A sum moves by twice its bound where a record is replaced.
    factor = 1.0 if prepared.config.privacy_unit.adjacency == "add-remove" else 2.0
    return lambda stage: factor / prepared.plan.stage_mu(stage.name)


def dry_run(config: RunConfig, *, out: bool = True) -> RunPlan:
    """Check everything that can be checked and say what would be charged.

    Args:
        config: What was asked.
        out: Whether its folder is one that a run is to be written to.

    Raises:
        InputError: What would be refused in the real run too.
    """
    if out:
        require_free(config.out, resume=config.resume)
    prepared = prepare(config)
    require_otherwise(prepared)
    require_room_of(prepared)
    fits = (words_fit(prepared), drawn_fit(prepared))
    with Ledger(prepared.config.ledger) as ledger:
        require_no_private_input(prepared, ledger)
        dataset, others = ledger.look_up(prepared.source)
        return plan_of(prepared, ledger, dataset, others, [fit for fit in fits if fit is not None])


class ReadingOptions(TypedDict, total=False):
    """How a private dataset is read, and delta, as `understudy.synthesize` takes them."""

    delta: float
    unit: str | None
    unit_from: Literal["folder", "file"] | None
    unit_from_name: str | None
    unit_rows: int
    size: int | None
    fit: Literal["stretch", "crop", "pad"]
    label: str | None
    classes: Sequence[str] | str | None
    channels: int | None
    skip_bad: bool


class RecommendationOptions(RoleNames, ReadingOptions, total=False):
    """What a recommendation goes by: options of a run that do not depend on its method."""

    accept_epsilon: bool
    adjacency: Adjacency
    ledger: str | None


class PlanOptions(RecommendationOptions, total=False):
    """The options of a run that its plan depends on, as `understudy.synthesize` takes them."""

    method: str
    settings: Mapping[str, Any] | None
    count: int | None
    hold_out: float | str | None
    quality_share: float | str | None
    otherwise: str | None
    candidates_public: bool


def planned_run(
    source: str | PathLike[str], *, epsilon: float | str, **options: Unpack[PlanOptions]
) -> RunPlan:
    """What `understudy.synthesize` would do with these options, and what it would spend.

    Nothing is spent and nothing is written, so a loop over settings costs nothing.

    Args:
        source: The private dataset.
        epsilon: As for `understudy.synthesize`.
        options: Others of its options, by their names.

    Raises:
        InputError: What would be refused in the run too, but for its budget (`RunPlan.refused`).
    """
    given = {**options, "settings": dict(options.get("settings") or {})}
    name = source_name("source", source)
    config = make_config({**given, "source": name, "out": "out", "epsilon": epsilon})
    return dry_run(config, out=False)


def plan_of(
    prepared: Prepared,
    ledger: Ledger,
    dataset: Dataset | None,
    others: Sequence[Dataset],
    fits: Sequence[Fit] = (),
) -> RunPlan:
    """The plan of a run that is ready to start.

    Args:
        prepared: The run.
        ledger: That it will be charged in.
        dataset: The private dataset as the ledger knows it; None where it is new.
        others: What the run will be charged to besides.
        fits: How well the models fit the classes.

    Raises:
        ConfigError: Candidates that no claim can be made of.
    """
    config, plan = prepared.config, prepared.plan
    whole, unit = claim(prepared), config.privacy_unit
    preview = ledger.preview(
        None if dataset is None else dataset.id,
        [plan.event(stage) for stage in plan.shares],
        unit=unit.name,
        adjacency=unit.adjacency,
        delta=config.delta,
        concerned=[other.id for other in others],
    )
    return RunPlan(
        method=prepared.method.name,
        settings=dict(vars(prepared.params)),
        unit=unit.name,
        adjacency=unit.adjacency,
        epsilon=config.budget.epsilon,
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
        premises=premises_of_run(prepared),
        held_out=config.hold_out,
        notes=(*_notes(prepared, whole), *_spending_notes(prepared, preview.budget)),
        fits=tuple(fits),
        carried=class_capacities(prepared),
        sampling={
            role: f"{model.name}: {model.sampling}"
            for role, model in prepared.context.models.items()
            if isinstance(model, StepwiseModel)
        },
    )


def _notes(prepared: Prepared, whole: Receipt) -> Iterator[str]:
    """What the owner should know of the dataset and the guarantee before spending."""
    if is_unlabelled(prepared.source, prepared.config):
        yield ONE_CLASS
    if persons := like_persons(prepared.source.classes):
        yield person_words(persons)
    if prepared.codec is not None:
        yield prepared.codec.reason
    if prepared.method.stops:
        instead = prepared.config.otherwise
        yield (
            "the method stops where its first answers say that it does not suit the private "
            "images; what it has not asked for by then is not charged"
            + ("" if instead is None else f", and goes to {instead}")
        )
    if vars(prepared.params).get("labels") == "classifier":
        yield classifier_words(prepared.plan.mu)
    if inherited := sum(bool(stage.origin) for stage in whole.stages):
        yield (
            f"with the {inherited} stages that the candidates' release was paid for with, the "
            f"release states epsilon {whole.epsilon:.4g} at delta {whole.delta:g}; the dataset is "
            "charged for this run alone"
        )
    yield from source_notes(prepared.source)


def _spending_notes(prepared: Prepared, budget: float | None) -> Iterator[str]:
    """What the owner should know of epsilon, delta, the budget and the time before spending."""
    config = prepared.config
    if budget is None:
        yield (
            "this dataset has no total budget, so nothing will ever be refused. Set one: "
            "understudy ledger set-budget SOURCE --epsilon E"
        )
    if config.budget.epsilon > NOTED_EPSILON:
        yield (
            f"epsilon {config.budget.epsilon:g} is large: who suspects that somebody is in the "
            "data may become nearly certain. 1 to 3 is usual, "
            f"{NOTED_EPSILON:g} is much"
        )
    if config.delta > 1 / (10 * max(len(prepared.source), 1)):
        fitting = 10.0 ** -math.ceil(math.log10(10 * len(prepared.source)))
        yield (
            f"delta {config.delta:g} is above 1/(10 n) for this dataset (owner only): a run may "
            f"then expose a few records outright. Consider --delta {fitting:g}"
        )
    if prepared.test is not None:
        decoder = prepared.context.decoder
        shape = None if decoder is None else decoder.shape
        yield training_note(len(prepared.source), shape, config)
