"""The form of ``evaluation.json`` and of ``privacy.json``: one model each, read and published.

Imported only where a file is read: pydantic takes longer than the rest of a command's start. Fields
with a default are missing in files of earlier versions.
"""

from __future__ import annotations

import math
from datetime import MAXYEAR, date
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    with_config,
)

from understudy.core.results import (
    Better,
    Curve,
    Evaluation,
    Group,
    Metric,
    MetricUnit,
    MetricValue,
    Thresholds,
    ValueKind,
    Verdict,
)
from understudy.core.types import Receipt, StageReceipt
from understudy.report.meaning import NO_GUARANTEE, Guarantee
from understudy.report.record import (
    Format,
    ModelRecord,
    Premise,
    PublicQuality,
    RunRecord,
    StatedAttack,
    StatedCopies,
    StatedTotal,
)

Number = float | Literal["inf", "-inf"]
"""A number; JSON has none that is infinite, so that stands as text."""


def _day(text: str) -> str:
    """A day, to which a year can be added."""
    day = date.fromisoformat(text)
    if day.year == MAXYEAR:
        raise ValueError("is the last year that there is")
    return day.isoformat()


class _Model(BaseModel):
    # Built when first read: a release is read without building what reads an evaluation.
    model_config = ConfigDict(defer_build=True)


class _StrictModel(_Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


for _record in (
    *(ModelRecord, Premise, PublicQuality, StatedAttack, StatedCopies, StatedTotal),
    *(StageReceipt, Thresholds, Verdict),
):
    with_config(ConfigDict(extra="forbid"))(_record)


class MetricEntry(_StrictModel):
    """What is declared of a metric."""

    key: str = Field(description="Its name for programs.")
    group: Group
    name: str = Field(description="{subject} stands where each value says what it is about.")
    explanation: str
    better: Better
    unit: MetricUnit
    baseline: str = Field(description="What the baselines of its values are of.")
    subject: str
    thresholds: Thresholds | None

    def metric(self) -> Metric:
        """The metric, without its function."""
        return Metric(**dict(self))


class MetricValueEntry(_StrictModel):
    """One number that was measured."""

    group: Group
    name: str
    value: Number | None = Field(description="null: not a number.")
    kind: ValueKind = Field(description="Whether it may be published.")
    low: Number | None = Field(description="Lower end of the 95 % interval; null: not known.")
    high: Number | None = Field(description="Upper end of the 95 % interval; null: not known.")
    baseline: Number | None = Field(description="null: there is none.")
    measured: str = Field(description="With what it was measured.")
    label: str = Field(description="The class it is of; empty: of all rows.")
    better: Better
    unit: MetricUnit
    metric: str = Field("", description="The key of its metric.")
    subject: str = ""

    def metric_value(self, metrics: dict[str, Metric]) -> MetricValue:
        """The value; of a metric that is not declared, what stands here is all that is known."""
        declaration = metrics.get(self.metric)
        metric = declaration or Metric(
            "", self.group, self.name, "", better=self.better, unit=self.unit
        )
        return MetricValue(
            metric,
            math.nan if self.value is None else float(self.value),
            self.kind,
            None if self.low is None else float(self.low),
            None if self.high is None else float(self.high),
            None if self.baseline is None else float(self.baseline),
            self.measured,
            self.label,
            self.subject if declaration else "",
        )


class CurveEntry(_StrictModel):
    """One number over another."""

    group: Group
    name: str
    x_name: str
    y_name: str
    x: tuple[Number | None, ...]
    y: tuple[Number | None, ...]
    kind: ValueKind

    def curve(self) -> Curve:
        """The curve."""
        x, y = (
            tuple(math.nan if number is None else float(number) for number in numbers)
            for numbers in (self.x, self.y)
        )
        return Curve(self.group, self.name, self.x_name, self.y_name, x, y, self.kind)


class EvaluationFile(_Model):
    """``evaluation.json``: all that was measured of one release. For the owner only."""

    form: Literal["understudy-evaluation/1"] = Field(alias="schema")
    figures: tuple[MetricValueEntry, ...] = Field(description="The metric values.")
    curves: tuple[CurveEntry, ...]
    verdicts: tuple[Verdict, ...]
    settings: dict[str, Any] = Field(description="What was asked for, and what was left out.")
    seconds: dict[str, float] = Field(description="Seconds a part.")
    metrics: dict[str, MetricEntry] = Field({}, description="The metrics of the values, by key.")

    def evaluation(self) -> Evaluation:
        """The evaluation that was written."""
        metrics = {key: entry.metric() for key, entry in self.metrics.items()}
        return Evaluation(
            tuple(entry.metric_value(metrics) for entry in self.figures),
            tuple(entry.curve() for entry in self.curves),
            self.verdicts,
            self.settings,
            self.seconds,
        )


class SoftwareEntry(_StrictModel):
    """The program that made the release."""

    name: str
    version: str


class GuaranteeEntry(_Model):
    """The guarantee, complete enough to be checked by a program."""

    kind: Guarantee | None = Field(
        None, description="Only differential privacy has an epsilon; null: an earlier version's."
    )
    definition: str
    epsilon: float | None = Field(description="null: there is no guarantee.")
    delta: float | None
    slack: float = Field(description="Part of epsilon that covers the noise being discrete.")
    mu: float | None = Field(
        description="Root of the sum of the squares of the stages' mu; null: a stage sampled, or "
        "the best of several runs."
    )
    runs: float | None = Field(
        None, description="Expected number of runs, of which the best is released; null: one."
    )
    unit: str = Field(description="What is protected.")
    adjacency: str
    neighbours: str = Field(description="What two adjacent datasets may differ in, in words.")
    trust_model: str
    attacker_right_at_most: dict[str, float] = Field(
        description="How often a guess about a group of so many units is right, at most."
    )
    conditional_on: tuple[str, ...] = Field(
        (), description="Premises that were inferred from private records: not covered."
    )


class DataEntry(_Model):
    """What the release holds and how it was made."""

    method: str
    params: dict[str, Any]
    classes: tuple[str, ...]
    count: NonNegativeInt
    format: Format
    image_shape: tuple[PositiveInt, PositiveInt, PositiveInt] | None
    dim: int | None
    facts: dict[str, Any]
    how: str = ""
    title: str = "A synthetic dataset"
    licence: str = "unknown"
    contact: str = Field("", description="Whom to ask about the release; empty: not said.")


class PrivacyFile(_Model):
    """``privacy.json``: the guarantee of a release. Public."""

    form: Literal["understudy-privacy/1"] = Field(alias="schema")
    date: Annotated[str, AfterValidator(_day)]
    software: SoftwareEntry
    guarantee: GuaranteeEntry
    mechanism: dict[str, str]
    stages: tuple[StageReceipt, ...]
    data: DataEntry
    models: tuple[ModelRecord, ...]
    public_data: tuple[str, ...]
    premises: tuple[Premise, ...] = ()
    attacks: tuple[StatedAttack, ...] = ()
    copies: StatedCopies | None = Field(None, description="null: not counted.")
    quality: PublicQuality | None = Field(None, description="null: not measured publicly.")
    total: StatedTotal | None = Field(
        None, description="Of all releases of the dataset so far; null: the owner does not say."
    )
    covered: tuple[str, ...]
    not_covered: tuple[str, ...]
    assumptions: tuple[str, ...]

    def record(self) -> RunRecord:
        """The public facts of the run; every document made of them is the same."""
        data = self.data
        return RunRecord(
            receipt=self._receipt(),
            version=self.software.version,
            date=self.date,
            models=self.models,
            public_sources=self.public_data,
            premises=self.premises,
            attacks=self.attacks,
            copies=self.copies,
            quality=self.quality,
            total=self.total,
            **data.model_dump(),
        )

    def _receipt(self) -> Receipt:
        guarantee = self.guarantee
        if guarantee.epsilon is None or guarantee.delta is None:
            return NO_GUARANTEE
        return Receipt(
            guarantee.unit,
            guarantee.adjacency,
            guarantee.epsilon,
            guarantee.delta,
            guarantee.slack,
            self.stages,
            guarantee.runs,
        )


def first_fault(error: ValidationError) -> str:
    """Where a file does not have its form, and what was expected there."""
    fault = error.errors(include_url=False)[0]
    place = ".".join(map(str, fault["loc"]))
    return f"{place}: {fault['msg'].lower()}"
