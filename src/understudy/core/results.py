"""Metrics and their values: what was measured of a release, for terminal, report and programs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypedDict, Unpack

from understudy.core.types import Images, Labels, Shape, Vector

EVALUATION_SCHEMA = "understudy-evaluation/1"
"""Name and version of the form of ``evaluation.json``."""

ValueKind = Literal["dp", "public", "owner-only"]
"""May it be published? ``dp``: released with noise; ``public``: no private record took part;
``owner-only``: measured on private records without noise."""

Group = Literal["fidelity", "utility", "leakage", "attack", "audit"]

Grade = Literal["good", "fair", "poor", "unknown"]


Better = Literal["higher", "lower", ""]
"""Which way is better for the owner; empty: neither."""

MetricUnit = Literal["%", ""]
"""``"%"``: a part of 1, to be shown in percent; empty: a plain number, or as the name says."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and where it lies with the stated confidence."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits of a verdict: what is good, what is fair. Anything else is poor."""

    good: float
    fair: float
    better: Literal["higher", "lower"]
    of: str

    def grade(self, number: float) -> Grade:
        """The grade of a number; a number on a limit keeps to it."""
        sign = 1 if self.better == "higher" else -1
        if sign * number >= sign * self.good:
            return "good"
        return "fair" if sign * number >= sign * self.fair else "poor"


@dataclass(frozen=True, slots=True)
class Metric:
    """Something that is measured, declared once beside the function that measures it.

    Attributes:
        key: Its name for programs, unique: ``"frechet_distance"``.
        group: What it is about.
        name: Its name in the field's words: ``"Frechet distance"``. ``{subject}`` stands where
            each value says what it is about: ``"{subject}: AUC"``.
        explanation: What it says, in a sentence or two, for readers who are new to it.
        better: Which way is better.
        unit: Of its values.
        baseline: What the number beside it is, in words; empty where there is none.
        thresholds: The limits of the verdict that goes by it; None: no verdict does.
        subject: What it is about, where every value is about the same.
        compares: What `function` compares, twice each, so that the second is the baseline:
            ``"features"``: private records with the release, and with held-out records;
            ``"nearest pairs"``: images with the private images nearest to them.
            Empty: it is computed together with others of its family.
        full: Whether `function` is called only where everything was asked for.
        function: Two arrays to a number, an `Interval` or None, which says that there is nothing
            to measure (``"features"``); or to a number a pair (``"nearest pairs"``).
        applies: Whether `function` takes images of a shape (height, width, channels).
    """

    key: str
    group: Group
    name: str
    explanation: str
    better: Better = ""
    unit: MetricUnit = ""
    baseline: str = ""
    thresholds: Thresholds | None = None
    subject: str = ""
    compares: Literal["features", "nearest pairs", ""] = field(default="", compare=False)
    full: bool = field(default=False, compare=False)
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    applies: Callable[[Shape], bool] = field(default=lambda shape: True, compare=False, repr=False)

    @property
    def title(self) -> str:
        """The name without a place for a subject: ``"AUC"``."""
        return self.called(self.subject) if self.subject else _SUBJECT.sub("", self.name)

    @property
    def limits(self) -> Thresholds:
        """The limits of the verdict that goes by it.

        Raises:
            ValueError: No verdict does.
        """
        if self.thresholds is None:
            raise ValueError(f"no verdict goes by {self.key}")
        return self.thresholds

    def called(self, subject: str) -> str:
        """The name of a value that is about a subject."""
        return self.name.replace("{subject}", subject)

    def value(
        self, number: float | Interval, *, subject: str = "", **more: Unpack[_MetricValueOptions]
    ) -> MetricValue:
        """A value of this metric."""
        if isinstance(number, Interval):
            more = {"low": number.low, "high": number.high, **more}
            number = number.value
        return MetricValue(self, number, subject=subject or self.subject, **more)

    def as_dict(self) -> dict[str, Any]:
        """What is declared, as JSON values."""
        limits = None if self.thresholds is None else asdict(self.thresholds)
        return {name: getattr(self, name) for name in _DECLARED} | {"thresholds": limits}


_SUBJECT = re.compile(r" \(\{subject\}\)|\{subject\}(:|,)? | ?\{subject\}")
_DECLARED = ("key", "group", "name", "explanation", "better", "unit", "baseline", "subject")


class _MetricValueOptions(TypedDict, total=False):
    kind: ValueKind
    low: float | None
    high: float | None
    baseline: float | None
    measured: str
    label: str


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One number that was measured.

    Attributes:
        metric: What was measured.
        value: The number.
        kind: Whether it may be published.
        low: Lower end of its 95 % interval; None: not known.
        high: Upper end.
        baseline: The same of real records that were held out: what nothing to do with the private
            rows comes to. None where there is none.
        measured: With what: ``"features embedded:studio"``, ``"ResNet-9"``.
        label: The class it is of; empty: of all rows.
        subject: What it is about, where the metric's name has a place for it.
    """

    metric: Metric
    value: float
    kind: ValueKind = "owner-only"
    low: float | None = None
    high: float | None = None
    baseline: float | None = None
    measured: str = ""
    label: str = ""
    subject: str = ""

    @property
    def group(self) -> Group:
        """What it is about."""
        return self.metric.group

    @property
    def name(self) -> str:
        """What it is in the field's words: ``"Frechet distance"``."""
        return self.metric.called(self.subject)

    @property
    def better(self) -> Better:
        """Which way is better for the owner."""
        return self.metric.better

    @property
    def unit(self) -> MetricUnit:
        """Of the number, its interval and its baseline."""
        return self.metric.unit

    def row(self) -> dict[str, Any]:
        """A flat row, with the columns `FIELDS`."""
        row = {name: getattr(self, name) for name in FIELDS}
        return {**row, "metric": self.metric.key}


FIELDS = (
    "group", "name", "value", "kind", "low", "high", "baseline", "measured", "label", "better",
    "unit", "metric", "subject",
)  # fmt: skip
"""The columns of `Evaluation.rows`."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One number over another: a ROC, accuracy over sample size."""

    group: Group
    name: str
    x_name: str
    y_name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: ValueKind = "owner-only"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A plain word on one group of metrics.

    Attributes:
        group: What it is about.
        grade: The word.
        sentence: One plain sentence with the numbers that decided.
        rule: The thresholds, in a sentence.
        kind: Whether it may be published.
    """

    group: Group
    grade: Grade
    sentence: str
    rule: str
    kind: ValueKind = "owner-only"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Synthetic images beside the private ones they come nearest to, nearest first. Owner-only.

    Attributes:
        synthetic: (k, height, width, channels) uint8.
        real: The same shape.
        distances: (k,) as `how` says.
        rows: (k, 2) sample, private record.
        how: What the distance is of: ``"pixels"``.
    """

    synthetic: Images
    real: Images
    distances: Vector
    rows: Labels
    how: str


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """All that was measured of one release.

    Attributes:
        values: The numbers, those of classes after those of all rows.
        curves: For plots.
        verdicts: A group's verdict once.
        settings: What was asked: features, seeds, rows, what was left out and why. JSON values.
        seconds: Seconds per part.
    """

    values: tuple[MetricValue, ...] = ()
    curves: tuple[Curve, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        """A line, for a notebook; `rows` is the table."""
        grades = ", ".join(f"{one.group} {one.grade}" for one in self.verdicts) or "no verdict"
        return f"<Evaluation: {len(self.values)} values; {grades}>"

    def of(self, group: Group) -> tuple[MetricValue, ...]:
        """The values of one group."""
        return tuple(value for value in self.values if value.group == group)

    def find(
        self, name: str, *, label: str = "", measured: str | None = None
    ) -> MetricValue | None:
        """The first value of that name or of the metric of that key, and of that class; or None."""
        for value in self.values:
            has_name = name in (value.name, value.metric.key)
            if has_name and value.label == label and measured in (None, value.measured):
                return value
        return None

    def and_also(self, other: Evaluation) -> Evaluation:
        """Both; the other's verdict stands where both have one of a group."""
        new = {verdict.group for verdict in other.verdicts}
        return Evaluation(
            self.values + other.values,
            self.curves + other.curves,
            tuple(verdict for verdict in self.verdicts if verdict.group not in new)
            + other.verdicts,
            {**self.settings, **other.settings},
            {**self.seconds, **other.seconds},
        )

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics that the values are of, by key."""
        return {value.metric.key: value.metric for value in self.values if value.metric.key}

    def rows(self) -> list[dict[str, Any]]:
        """The values as flat rows, as ``pandas.DataFrame`` takes them."""
        return [value.row() for value in self.values]

    def as_dict(self) -> dict[str, Any]:
        """JSON values: infinite numbers as text, ``"inf"``; what is not a number as None."""
        content = {
            "schema": EVALUATION_SCHEMA,
            "figures": self.rows(),
            "curves": [asdict(curve) for curve in self.curves],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "settings": self.settings,
            "seconds": self.seconds,
            "metrics": {key: metric.as_dict() for key, metric in self.metrics.items()},
        }
        plain: dict[str, Any] = _plain(content)
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
