"""Figures: what was measured of a release, in one form for terminal, report and programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self

from understudy.core.errors import InputError
from understudy.core.types import Images, Labels, Vector

SCHEMA = "understudy-evaluation/1"
"""Name and version of the form of ``evaluation.json``."""

Kind = Literal["dp", "public", "owner-only"]
"""May it be told? ``dp``: released with noise; ``public``: no private row took part;
``owner-only``: measured on private rows without noise."""

Group = Literal["fidelity", "utility", "leakage", "attack", "audit"]

Grade = Literal["good", "fair", "poor", "unknown"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that was measured.

    Attributes:
        group: What it is about.
        name: What it is in the field's words: ``"Frechet distance"``.
        value: The number.
        kind: Whether it may be told.
        low: Lower end of its 95 % interval; None: not known.
        high: Upper end.
        baseline: The same for real rows that were held out: what nothing to do with the private
            rows comes to. None where there is none.
        measured: With what: ``"features embedded:studio"``, ``"ResNet-9"``.
        label: The class it is of; empty: of all rows.
        better: Which way is better for the owner.
        unit: ``"%"`` where the value is a part of 1 to be shown in percent; else empty.
    """

    group: Group
    name: str
    value: float
    kind: Kind = "owner-only"
    low: float | None = None
    high: float | None = None
    baseline: float | None = None
    measured: str = ""
    label: str = ""
    better: Literal["higher", "lower", ""] = ""
    unit: Literal["%", ""] = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """One number over another: a ROC, accuracy over sample size.

    Attributes:
        group: What it is about.
        name: ``"ROC of distance to the nearest synthetic image"``.
        x_name: What x is.
        y_name: What y is.
        x: From left to right.
        y: As many.
        kind: Whether it may be told.
    """

    group: Group
    name: str
    x_name: str
    y_name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: Kind = "owner-only"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A plain word on one group of figures.

    Attributes:
        group: What it is about.
        grade: The word.
        sentence: One plain sentence with the numbers that decided.
        rule: The thresholds, in a sentence.
        kind: Whether it may be told.
    """

    group: Group
    grade: Grade
    sentence: str
    rule: str
    kind: Kind = "owner-only"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Synthetic images beside the private ones they come nearest to, nearest first. Owner-only.

    Attributes:
        synthetic: (k, height, width, channels) uint8.
        real: The same shape.
        distances: (k,) as `how` says.
        rows: (k, 2) synthetic row, private row.
        how: What the distance is of: ``"pixels"``.
    """

    synthetic: Images
    real: Images
    distances: Vector
    rows: Labels
    how: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All that was measured of one release.

    Attributes:
        figures: The numbers, those of classes after those of all rows.
        curves: For plots.
        verdicts: A group's verdict once.
        settings: What was asked: features, seeds, rows, what was left out and why. JSON values.
        seconds: Seconds per part.
    """

    figures: tuple[Figure, ...] = ()
    curves: tuple[Curve, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def of(self, group: Group) -> tuple[Figure, ...]:
        """The figures of one group."""
        return tuple(one for one in self.figures if one.group == group)

    def find(self, name: str, *, label: str = "", measured: str | None = None) -> Figure | None:
        """The first figure of that name and class, or None."""
        for one in self.figures:
            if (one.name, one.label) == (name, label) and measured in (None, one.measured):
                return one
        return None

    def and_also(self, other: Evaluation) -> Evaluation:
        """Both; the other's verdict stands where both have one of a group."""
        new = {one.group for one in other.verdicts}
        return Evaluation(
            self.figures + other.figures,
            self.curves + other.curves,
            tuple(one for one in self.verdicts if one.group not in new) + other.verdicts,
            {**self.settings, **other.settings},
            {**self.seconds, **other.seconds},
        )

    def rows(self) -> list[dict[str, Any]]:
        """The figures as flat rows, as ``pandas.DataFrame`` takes them."""
        return [asdict(one) for one in self.figures]

    def as_dict(self) -> dict[str, Any]:
        """JSON values: infinite numbers as text, ``"inf"``; what is not a number as None."""
        content = {"schema": SCHEMA, **asdict(self)}
        plain: dict[str, Any] = _plain(content)
        return plain

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """What `as_dict` wrote.

        Raises:
            InputError: Another form.
        """
        if content.get("schema") != SCHEMA:
            raise InputError(
                f"an evaluation has the schema {SCHEMA!r}, found {content.get('schema')!r}: "
                "evaluate the release again"
            )
        try:
            return cls(
                tuple(Figure(**_numbers(one)) for one in content["figures"]),
                tuple(
                    Curve(**{**one, "x": tuple(one["x"]), "y": tuple(one["y"])})
                    for one in content["curves"]
                ),
                tuple(Verdict(**one) for one in content["verdicts"]),
                dict(content["settings"]),
                dict(content["seconds"]),
            )
        except (KeyError, TypeError) as error:
            raise InputError(
                f"this is no evaluation ({error}): evaluate the release again"
            ) from error


def _numbers(one: Mapping[str, Any]) -> dict[str, Any]:
    """A figure as it was: numbers that were infinite are text, and no value is not a number."""
    ends = {name: float(one[name]) for name in ("low", "high", "baseline") if one[name] is not None}
    return {**one, **ends, "value": math.nan if one["value"] is None else float(one["value"])}


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


FIELDS = tuple(one.name for one in fields(Figure))
"""The columns of `Evaluation.rows`."""
