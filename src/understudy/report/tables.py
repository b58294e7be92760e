"""Metric values as tables: of all rows, of each class, and one line each for programs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.core.results import FIELDS, Curve, Evaluation, Group, MetricValue, ValueKind
from understudy.report import meaning
from understudy.report.plots import LINES, Axis, Plot, PlotLine, around

_MOST_CLASSES = 25  # of a confusion that is shown whole
_FORMULA = ("=", "+", "-", "@")  # how a formula of a spreadsheet begins
_ROC_LOW = 1e-3


@dataclass(frozen=True, slots=True)
class Cell:
    """A number as text, with the exact one behind it."""

    text: str  # what to show
    spread: str = ""  # its 95 % interval; empty where not known
    best: bool = False  # whether it is the best of its row or column
    depth: int = 0  # how dark its ground is, 0 to 100


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric value of all rows."""

    name: str  # what it is
    measured: str  # with what
    value: Cell  # the number
    baseline: str  # the same of real records that were held out; empty where there is none
    baseline_of: str  # what the baseline is of, in words; may be empty
    better: str  # which way is better, in words
    kind: ValueKind  # whether it may be published


@dataclass(frozen=True, slots=True)
class ClassTable:
    """The values of the classes: a line a class, a column a metric, or two with its baseline."""

    names: tuple[str, ...]  # heading of each column after the first
    # class name and its cells; the worst of each column is marked
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    kind: ValueKind  # whether they may be published: of the most private of them


@dataclass(frozen=True, slots=True)
class Confusion:
    """Which class was predicted, for each true one."""

    name: str  # of what
    # the classes, of rows and of columns; empty where there are too many to show
    classes: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]  # a line a true class: parts of it, in percent
    # the most frequent ones: true class, predicted class, part of the true class
    mistakes: tuple[tuple[str, str, str], ...]


def shown(value: MetricValue, number: float | None = None) -> str:
    """A metric value, or another number of the same unit, as text."""
    number = value.value if number is None else number
    if not math.isfinite(number):
        return "not defined" if math.isnan(number) else "infinite"
    if value.unit == "%":
        return f"{100 * number:.{1 if abs(number) >= 0.1 or not number else 2}f}\u00a0%"
    return meaning.number(float(f"{number:.4g}"))


def cell(value: MetricValue, *, best: bool = False) -> Cell:
    """A metric value with its interval."""
    spread = ""
    if value.low is not None and value.high is not None:
        spread = f"{shown(value, value.low)} to {shown(value, value.high)}"
    return Cell(shown(value), spread, best)


def overall(values: Iterable[MetricValue]) -> list[MetricRow]:
    """The values of all rows, one a line."""
    return [
        MetricRow(
            value.name,
            value.measured,
            cell(value),
            "" if value.baseline is None else shown(value, value.baseline),
            value.metric.baseline if value.baseline is not None else "",
            {"higher": "more is better", "lower": "less is better", "": ""}[value.better],
            value.kind,
        )
        for value in values
        if not value.label
    ]


def explained(values: Iterable[MetricValue]) -> list[tuple[str, str]]:
    """The metrics of the values, each once, and what they say; none that has no explanation."""
    metrics = {value.metric.key: value.metric for value in values if value.metric.explanation}
    return [(metric.title, metric.explanation) for metric in metrics.values()]


def by_class(values: Iterable[MetricValue], *, baseline: str = "") -> ClassTable | None:
    """The values of the classes, or None where there are none.

    With ``baseline``, the heading of a column of baselines behind each metric's, the classes stand
    in order of the first metric, the worst first; else in their own order.
    """
    labelled = [value for value in values if value.label]
    if not labelled:
        return None
    if baseline:
        labelled = _worst_first(labelled)
    columns: dict[_Column, dict[str, MetricValue]] = {}
    for value in labelled:
        columns.setdefault(_column(value), {})[value.label] = value
    worst = {
        column: best_value(of_column.values(), worst=True) for column, of_column in columns.items()
    }
    rows = []
    for label in dict.fromkeys(value.label for value in labelled):
        cells: list[Cell] = []
        for column, of_column in columns.items():
            entry = of_column.get(label)
            cells.append(Cell("") if entry is None else cell(entry, best=entry is worst[column]))
            if baseline:
                real = None if entry is None else entry.baseline
                cells.append(Cell("" if entry is None or real is None else shown(entry, real)))
        rows.append((label, tuple(cells)))
    several = len({measured for *_, measured in columns}) > 1
    names = []
    for (*_, measured), of_column in columns.items():
        name = next(iter(of_column.values())).name
        names.append(f"{name}, {measured}" if measured and several else name)
        names += [baseline] if baseline else []
    return ClassTable(tuple(names), tuple(rows), least_public(value.kind for value in labelled))


_Column = tuple[str, str, str]
"""The metric's key (or name, where it has none), the subject, and with what it was measured."""


def _column(value: MetricValue) -> _Column:
    return value.metric.key or value.name, value.subject, value.measured


def _worst_first(values: Sequence[MetricValue]) -> list[MetricValue]:
    """In order of the first metric's values of the classes, the worst first."""
    first = values[0]
    sign = -1 if first.better == "lower" else 1
    order = {
        value.label: sign * value.value
        for value in values
        if _column(value) == _column(first) and not math.isnan(value.value)
    }
    return sorted(values, key=lambda value: order.get(value.label, math.inf))


def best_value(values: Iterable[MetricValue], *, worst: bool = False) -> MetricValue | None:
    """The best, or the worst; None where nothing says which way is better, or all are equal."""
    finite = [value for value in values if value.better and math.isfinite(value.value)]
    if len({value.value for value in finite}) < 2:
        return None
    pick = max if (finite[0].better == "higher") is not worst else min
    return pick(finite, key=lambda value: value.value)


def least_public(kinds: Iterable[ValueKind]) -> ValueKind:
    """The kind of several numbers together."""
    unique = set(kinds)
    order: tuple[ValueKind, ...] = ("owner-only", "dp", "public")
    return next((kind for kind in order if kind in unique), "public")


def plots(curves: Sequence[Curve], group: Group) -> list[tuple[Plot, ValueKind]]:
    """The curves of a group: those over the same axes in one plot, a ROC on two kinds of axes."""
    families: dict[tuple[str, str, bool], list[Curve]] = {}
    for one in curves:
        if one.group == group and _points(one):
            families.setdefault((one.x_name, one.y_name, one.name.startswith("ROC")), []).append(
                one
            )
    result: list[tuple[Plot, ValueKind]] = []
    for (x_name, y_name, roc), members in families.items():
        for start in range(0, len(members), LINES):
            group_curves = members[start : start + LINES]
            kind = least_public(one.kind for one in group_curves)
            lines = tuple(_line(one) for one in group_curves)
            of_part = _roc(x_name, y_name, lines) if roc else [_plain(x_name, y_name, lines)]
            result += [(plot, kind) for plot in of_part]
    return result


def _points(curve: Curve) -> list[tuple[float, float]]:
    pairs = zip(curve.x, curve.y, strict=True)
    return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


def _line(curve: Curve) -> PlotLine:
    x, y = zip(*_points(curve), strict=True)
    return PlotLine(curve.name.removeprefix("ROC of "), x, y)


def _roc(x_name: str, y_name: str, lines: tuple[PlotLine, ...]) -> list[Plot]:
    even = Axis(x_name, 0, 1), Axis(y_name, 0, 1)
    low = Axis(x_name, _ROC_LOW, 1, log=True), Axis(y_name, _ROC_LOW, 1, log=True)
    return [
        Plot("ROC", *even, lines, chance=True),
        Plot("ROC where false alarms are rare", *low, lines, chance=True),
    ]


def _plain(x_name: str, y_name: str, lines: tuple[PlotLine, ...]) -> Plot:
    x = around(x_name, [value for line in lines for value in line.x])
    y = around(y_name, [value for line in lines for value in line.y], log=False)
    few = max(len(line.x) for line in lines) <= 25
    return Plot(f"{y_name} over {x_name}", x, y, lines, marks=few)


def confusions(evaluation: Evaluation) -> list[Confusion]:
    """The confusions, from the setting ``confusion``: name, classes and counts of each.

    Counts are a line a true class and a column a predicted one.
    """
    return [_confusion(one) for one in evaluation.settings.get("confusion", ())]


def _confusion(one: Mapping[str, Any]) -> Confusion:
    classes, counts = tuple(map(str, one["classes"])), one["counts"]
    parts = [[value / (sum(line) or 1) for value in line] for line in counts]
    wrong = sorted(
        (
            (part, true, predicted)
            for true, line in enumerate(parts)
            for predicted, part in enumerate(line)
            if true != predicted and part > 0
        ),
        reverse=True,
    )[:5]
    mistakes = tuple(
        (classes[true], classes[predicted], f"{part:.1%}") for part, true, predicted in wrong
    )
    if len(classes) > _MOST_CLASSES:
        return Confusion(str(one["name"]), (), (), mistakes)
    rows = tuple(
        tuple(Cell(f"{100 * part:.0f}", depth=round(70 * part)) for part in line) for line in parts
    )
    return Confusion(str(one["name"]), classes, rows, mistakes)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of metric values (`Evaluation.rows`) as CSV, as ``pandas.read_csv`` takes it.

    A value that is not known is empty. Further columns come first. A text that a spreadsheet would
    take for a formula, such as the name of a class, has an apostrophe before it.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, _columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if _is_nan(value) else _uncomputed(value) for name, value in row.items()}
        for row in rows
    )
    return file.getvalue()


def _uncomputed(value: Any) -> Any:
    """A value that no spreadsheet computes; a number in words, such as a class -1, stays."""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of a table for programs."""
    return [*(name for name in (rows[0] if rows else {}) if name not in FIELDS), *FIELDS]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
