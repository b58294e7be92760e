"""What a run is about to do and to spend: shown before every charge.

Spends nothing, and reads no private record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from understudy.core.errors import listed
from understudy.core.phrases import people_of
from understudy.core.ports import Source, StepwiseModel
from understudy.core.remote_models import PlannedCalls
from understudy.core.types import Fit, Receipt, UnitCounts
from understudy.data.inspection import people_notes, source_notes, window_notes
from understudy.data.names import like_persons, person_words
from understudy.data.units import unit_shares
from understudy.methods.base import ClassCapacity, Expectation, Explanation
from understudy.privacy.accounting import epsilon_of_mu
from understudy.privacy.ledger.ledger import Dataset, Ledger
from understudy.report import Premise
from understudy.report.meaning import unit_in_words
from understudy.run.accuracy import training_note
from understudy.run.config import NOTED_EPSILON
from understudy.run.held_out import left_of
from understudy.run.model_fit import words_fit
from understudy.run.prepare import Prepared, calls_of, claim
from understudy.run.run_record import (
    ONE_CLASS,
    declaring_options,
    is_unlabelled,
    premises_of_run,
)

SIZES = (100, 300, 1_000, 3_000, 10_000)
"""Class sizes of the table in a plan."""

_FIRST, _LARGEST_NORM = 1000, 1e6  # records looked at; where `clustering` ends looking for a scale
_CLASS_SIZE_NOISE = 19.6  # at epsilon 1, of the default method: docs/benchmarks.md


@dataclass(frozen=True)
class StagePlan:
    """One release of a plan.

    Attributes:
        share: Part of the run's squared mu.
        noise: Standard deviation of the noise over the sensitivity (the noise multiplier).
    """

    name: str
    share: float
    noise: float


@dataclass(frozen=True)
class ExpectedTime:
    """About how long a run takes, by its records: an estimate. A plan does not know how many.

    Attributes:
        start: Seconds of one processor, whatever the records; None: not measured.
        each: Seconds more for each record; None: not measured.
        words: The same, and what it rests on.
    """

    start: float | None = None
    each: float | None = None
    words: str = "not measured with this method and these models"


@dataclass(frozen=True)
class RunPlan:
    """A run before its charge; for the owner's eyes, as the ledger's numbers are.

    Attributes:
        settings: Its parameters.
        unit_words: The unit of protection as people say it.
        adjacency: What makes two datasets adjacent.
        mu: Gaussian-DP parameter of the run; None where none says what it costs, of steps on
            samples of the units.
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
        held_out: The share that would be held out as it was asked for; None: nothing.
        notes: What the owner should know before spending.
        expectations: What to expect of the release, by rules of public arithmetic.
        fits: How well the models fit the classes, by what is public.
        sampling: Steps and guidance of each diffusion model, by its role.
        calls: What models that servers run are to be asked.
        time: About how long it takes, where runs with its method and models were measured.
    """

    method: str
    settings: dict[str, object]
    unit: str
    unit_words: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float | None
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
    expectations: tuple[Expectation, ...] = ()
    fits: tuple[Fit, ...] = ()
    carried: tuple[ClassCapacity, ...] = ()
    calls: tuple[PlannedCalls, ...] = ()
    time: ExpectedTime = ExpectedTime()

    def __repr__(self) -> str:
        """A line, for a notebook; the attributes have the rest."""
        after = f"{self.after:.4g}" + ("" if self.refused is None else "; refused")
        return f"<RunPlan {self.method}: epsilon {self.epsilon:g}, after it {after}>"

    def as_dict(self) -> dict[str, Any]:
        """JSON values; of what classes can carry, the words."""
        carried = [{"size": one.size, **one.columns} for one in self.carried]
        return {"kind": "owner-only"} | asdict(self) | {"carried": carried}


def explanation(prepared: Prepared, units: UnitCounts | None = None) -> Explanation:
    """What the method of a run says of it before anything is spent."""
    method = prepared.method
    if method.explain is None:
        return Explanation()
    # A sum moves by twice its bound where a record is replaced.
    factor = 1.0 if prepared.config.privacy.privacy_unit.adjacency == "add-remove" else 2.0
    return method.explain(
        prepared.params,
        prepared.context,
        lambda stage: factor / prepared.plan.stage_mu(stage.name),
        units,
    )


def plan_of(
    prepared: Prepared,
    ledger: Ledger,
    dataset: Dataset | None,
    others: Sequence[Dataset],
    units: UnitCounts | None = None,
) -> RunPlan:
    """The plan of a run that is ready to start.

    ``units``: How many there are; None: as many as opening the dataset found.
    """
    config, plan = prepared.config, prepared.plan
    explained = explanation(prepared, units or _unit_counts(prepared))
    whole, unit = claim(prepared), config.privacy.privacy_unit
    calls, fit = calls_of(prepared), words_fit(prepared)
    fits = () if fit is None else (fit,)
    preview = ledger.preview(
        None if dataset is None else dataset.id,
        list(plan.events.values()),
        unit=unit.name,
        adjacency=unit.adjacency,
        delta=config.privacy.delta,
        concerned=[other.id for other in others],
    )
    return RunPlan(
        method=prepared.method.name,
        settings=dict(vars(prepared.params)),
        unit=unit.name,
        unit_words=unit_in_words(unit.name, prepared.source.kind),
        adjacency=unit.adjacency,
        epsilon=config.privacy.budget.epsilon,
        delta=config.privacy.delta,
        mu=None if plan.sampling else plan.mu,
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
        held_out=config.privacy.hold_out,
        notes=(*_remote_notes(calls), *_notes(prepared, whole, preview.budget, explained, fits)),
        expectations=tuple(explained.expectations),
        calls=calls,
        fits=fits,
        carried=() if explained.capacity is None else tuple(map(explained.capacity, SIZES)),
        sampling={
            role: f"{model.name}: {model.sampling}"
            for role, model in prepared.context.models.items()
            if isinstance(model, StepwiseModel)
        },
    )


def _class_units(prepared: Prepared) -> Mapping[str, Mapping[str, int]]:
    """The units of each class, and their records of it; {} where each record is its own."""
    units: Mapping[str, Mapping[str, int]] = getattr(prepared.source, "class_units", {})
    return units


def _units_in_all(prepared: Prepared) -> int:
    return len(set().union(*_class_units(prepared).values())) or max(1, len(prepared.source))


def _unit_counts(prepared: Prepared) -> UnitCounts:
    """How many units a run reads, on average, where some are held out."""
    records = max(1, len(prepared.source))
    part = left_of(records, prepared.config.privacy.hold_out) / records
    in_classes = sum(unit_shares(_class_units(prepared)).values()) or records
    classes = max(1, len(prepared.context.classes))
    return UnitCounts(part * _units_in_all(prepared), part * in_classes / classes)


NO_IMAGES = (
    "the release is of embeddings alone, without images, as no --decoder is named: an encoder that "
    "is a decoder, too, is named as both; --decoder none says that none is meant"
)


def _remote_notes(calls: Sequence[PlannedCalls]) -> Iterator[str]:
    """Who is sent private images, worst first of all."""
    for host in dict.fromkeys(one.host for one in calls if one.private):
        yield (
            f"the private images, or what is said of them, are sent to {host}: no guarantee holds "
            "towards that host, and what it keeps is out of your hands; the ledger records it"
        )


def _notes(
    prepared: Prepared,
    whole: Receipt,
    budget: float | None,
    explained: Explanation,
    fits: Sequence[Fit],
) -> Iterator[str]:
    """What the owner should know before spending, worst first."""
    persons = like_persons(prepared.source.classes)
    of_privacy = [
        *([person_words(persons)] if persons else ()),
        *people_notes(prepared.source),
        *_spending_notes(prepared),
    ]
    yield from explained.notes if prepared.method.stops else ()  # it may stop for nothing
    yield from of_privacy[:1]
    yield from window_notes(prepared.source)
    yield from (fit.warning for fit in fits if fit.warning is not None)
    of_images = prepared.source.kind == "images" and prepared.candidates is None
    if of_images and not (prepared.released_shape or prepared.config.models.roles.get("decoder")):
        yield NO_IMAGES
    yield from poor_notes(explained.expectations)
    if prepared.candidates is None:
        counts: Mapping[str | None, int] = getattr(prepared.source, "class_sizes", {})
        sizes = {name: size for name, size in counts.items() if name}
        sizes |= {name: len(units) for name, units in _class_units(prepared).items()}
        privacy = prepared.config.privacy
        column = privacy.unit_column
        counted = prepared.source.kind if column is None else people_of(column)
        yield from small_class_notes(sizes, privacy.budget.epsilon, 1.0, counted)
        yield from _norm_notes(prepared.source)
    offered = None if prepared.candidates is None else prepared.candidates.classes
    if offered and (missing := [name for name in prepared.source.classes if name not in offered]):
        yield f"no candidate is of class {', '.join(missing)}: the selection has none"
    if budget is None:
        yield (
            "this dataset has no total budget, so nothing will ever be refused. Set one: "
            "understudy ledger set-budget SOURCE --epsilon E"
        )
    if options := declaring_options(premises_of_run(prepared)):
        yield f"not covered unless it is declared: {' '.join(options)}"
    yield from of_privacy[1:]
    if is_unlabelled(prepared.source, prepared.config.data):
        yield ONE_CLASS
    yield from source_notes(prepared.source)
    yield from _run_notes(prepared, whole)
    yield from () if prepared.method.stops else explained.notes


def _norm_notes(source: Source) -> Iterator[str]:
    """Embeddings of a scale that methods do not look for, by the first of them."""
    if source.kind == "embeddings":
        values = next(source.batches(_FIRST)).values.astype(np.float64)
        if (norm := float(np.median(np.linalg.norm(values, axis=1)))) > _LARGEST_NORM:
            yield (
                f"these embeddings have norms of about {norm:.1g} (owner only), and are cut to "
                f"{_LARGEST_NORM:,.0f} or less: divide all of them by one number"
            )


def poor_notes(expectations: Sequence[Expectation]) -> Iterator[str]:
    """What is known before a charge of samples that will serve little."""
    for rule in expectations:
        if rule.instead:
            yield f"{rule.words} (owner only). understudy plan says whether anything serves better"


def small_class_notes(
    sizes: Mapping[str, int], epsilon: float, least: float, units: str | None = None
) -> Iterator[str]:
    """Classes of which little can be known at an epsilon, in one note.

    Args:
        sizes: Of each class, in ``units``; None: in images.
        epsilon: Of the run.
        least: Size below which a class is small, in standard deviations of a noisy size.
        units: What is counted.
    """
    size_limit = least * _CLASS_SIZE_NOISE / epsilon
    small = sorted(name for name, size in sizes.items() if size < size_limit)
    if small:
        names = listed(small)
        yield (
            f"little can be known of {names} at epsilon {epsilon:g} (owner only): less than "
            f"{size_limit:,.0f} {units or 'images'}. Join small classes, or spend more"
        )


def faint_class_notes(facts: Mapping[str, Any]) -> Iterator[str]:
    """Classes whose released sizes may be noise alone, which is public, in one note.

    A method that says which means are not told apart (``own_mean_per_class``) has named them.
    """
    sizes, sd = facts.get("class_sizes", {}), facts.get("class_size_noise", 0.0)
    faint = sorted(name for name, size in sizes.items() if size < 2 * sd)
    if faint and "own_mean_per_class" not in facts:
        yield (
            f"{listed(faint)}: released with a size below {2 * sd:,.0f}, two deviations of its "
            "noise, so its samples may be noise alone. Join small classes, or spend more"
        )


def _spending_notes(prepared: Prepared) -> Iterator[str]:
    """What the owner should know of epsilon and delta before spending; worst first."""
    epsilon, delta = prepared.config.privacy.budget.epsilon, prepared.config.privacy.delta
    if (runs := prepared.plan.runs) is not None:
        each = epsilon_of_mu(prepared.plan.mu, delta)
        yield (
            f"settings are chosen by a DP score, of a secret number of runs ({runs:g} expected, "
            f"epsilon {each:.3g} each): all of it within epsilon {epsilon:g}. To choose nothing "
            f"(without --tune) would leave the one run epsilon {epsilon:g}"
        )
    if epsilon > NOTED_EPSILON:
        yield (
            f"epsilon {epsilon:g} is large: who suspects that somebody is in the "
            "data may become nearly certain. 1 to 3 is usual, "
            f"{NOTED_EPSILON:g} is much"
        )
    units = _units_in_all(prepared)
    if delta > 1 / (10 * units):
        fitting = 10.0 ** -math.ceil(math.log10(10 * units))
        yield (
            f"delta {delta:g} is above 1/(10 n) for this dataset (owner only): a run may "
            f"then expose a few records outright. Consider --delta {fitting:g}"
        )


def _run_notes(prepared: Prepared, whole: Receipt) -> Iterator[str]:
    """What the owner should know of the guarantee, the time and the choices of the run."""
    if inherited := sum(bool(stage.origin) for stage in whole.stages):
        yield (
            f"with the {inherited} stages that the candidates' release was paid for with, the "
            f"release states epsilon {whole.epsilon:.4g} at delta {whole.delta:g}; the dataset is "
            "charged for this run alone"
        )
    if prepared.method.stops:
        instead = prepared.config.models.otherwise
        yield (
            "the method stops where its answers say that it does not suit the private images; "
            "what it has not asked for by then is not charged, and by its last answer all is"
            + ("" if instead is None else f", and goes to {instead}")
        )
    if prepared.test is not None:
        yield training_note(len(prepared.source), prepared.released_shape, prepared.config)
    if prepared.codec is not None:
        yield prepared.codec.reason + prepared.codec.hint
