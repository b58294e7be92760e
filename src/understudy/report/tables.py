"""Figures as tables: those of all rows, those of each class, and one line each for programs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.core.results import FIELDS, Curve, Evaluation, Figure, Group, Kind
from understudy.report import meaning
from understudy.report.plots import LINES, Axis, Line, Plot, around

_MOST_CLASSES = 25  # of a confusion that is shown whole
_ROC_LOW = 1e-3
_NUMBERS = ("epsilon", "delta", "value", "low", "high", "baseline")  # columns for programs


@dataclass(frozen=True, slots=True)
class Cell:
    """A number as text, with the exact one behind it.

    Attributes:
        text: What to show.
        spread: Its 95 % interval; empty where not known.
        best: Whether it is the best of its row or column.
        depth: How dark its ground is, 0 to 100.
    """

    text: str
    spread: str = ""
    best: bool = False
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of all rows.

    Attributes:
        name: What it is.
        measured: With what.
        value: The number.
        baseline: The same of real rows that were held out; empty where there is none.
        better: Which way is better, in words.
        kind: Whether it may be told.
    """

    name: str
    measured: str
    value: Cell
    baseline: str
    better: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class ClassTable:
    """The figures of the classes: a line a class, a column a figure, or two with its baseline.

    Attributes:
        names: Heading of each column after the first.
        rows: Class name and its cells; the worst of each column is marked.
        kind: Whether they may be told: of the most private of them.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Confusion:
    """Which class was found, for each true one.

    Attributes:
        name: Of what.
        classes: The classes, of rows and of columns; empty where there are too many to show.
        rows: A line a true class: parts of it, in percent.
        mistakes: The most frequent ones: true class, found class, part of the true class.
    """

    name: str
    classes: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    mistakes: tuple[tuple[str, str, str], ...]


def shown(figure: Figure, value: float | None = None) -> str:
    """A figure's value, or another number of its kind, as text."""
    value = figure.value if value is None else value
    if not math.isfinite(value):
        return "not defined" if math.isnan(value) else "infinite"
    if figure.unit == "%":
        return f"{100 * value:.{1 if abs(value) >= 0.1 or not value else 2}f}\u00a0%"
    return meaning.number(float(f"{value:.4g}"))


def cell(figure: Figure, *, best: bool = False) -> Cell:
    """A figure with its interval."""
    spread = ""
    if figure.low is not None and figure.high is not None:
        spread = f"{shown(figure, figure.low)} to {shown(figure, figure.high)}"
    return Cell(shown(figure), spread, best)


def overall(figures: Iterable[Figure]) -> list[Row]:
    """The figures of all rows, one a line."""
    return [
        Row(
            one.name,
            one.measured,
            cell(one),
            "" if one.baseline is None else shown(one, one.baseline),
            {"higher": "more is better", "lower": "less is better", "": ""}[one.better],
            one.kind,
        )
        for one in figures
        if not one.label
    ]


def by_class(figures: Iterable[Figure], *, baseline: str = "") -> ClassTable | None:
    """The figures of the classes, or None where there are none.

    Args:
        figures: Of which those of classes are taken.
        baseline: Heading of a column of baselines behind each figure's. Where it is given, the
            classes stand in order of the first figure, the worst first; else in their own order.
    """
    labelled = [one for one in figures if one.label]
    if not labelled:
        return None
    if baseline:
        labelled = _worst_first(labelled)
    columns: dict[tuple[str, str], dict[str, Figure]] = {}
    for one in labelled:
        columns.setdefault((one.name, one.measured), {})[one.label] = one
    worst = {key: _worst(found.values()) for key, found in columns.items()}
    rows = []
    for label in dict.fromkeys(one.label for one in labelled):
        cells: list[Cell] = []
        for key, found in columns.items():
            known = found.get(label)
            cells.append(Cell("") if known is None else cell(known, best=known is worst[key]))
            if baseline:
                value = None if known is None else known.baseline
                cells.append(Cell("" if known is None or value is None else shown(known, value)))
        rows.append((label, tuple(cells)))
    several = len({with_ for _, with_ in columns}) > 1
    names = []
    for name, with_ in columns:
        names.append(f"{name}, {with_}" if with_ and several else name)
        names += [baseline] if baseline else []
    return ClassTable(tuple(names), tuple(rows), least_public(one.kind for one in labelled))


def _worst_first(figures: Sequence[Figure]) -> list[Figure]:
    """In order of the first figure's values of the classes, the worst first."""
    name, with_ = figures[0].name, figures[0].measured
    sign = -1 if figures[0].better == "lower" else 1
    order = {
        one.label: sign * one.value
        for one in figures
        if (one.name, one.measured) == (name, with_) and not math.isnan(one.value)
    }
    return sorted(figures, key=lambda one: order.get(one.label, math.inf))


def _worst(figures: Iterable[Figure]) -> Figure | None:
    known = [one for one in figures if one.better and math.isfinite(one.value)]
    if len(known) < 2:
        return None
    pick = min if known[0].better == "higher" else max
    return pick(known, key=lambda one: one.value)


def least_public(kinds: Iterable[Kind]) -> Kind:
    """The kind of several numbers together."""
    found = set(kinds)
    order: tuple[Kind, ...] = ("owner-only", "dp", "public")
    return next((kind for kind in order if kind in found), "public")


def plots(curves: Sequence[Curve], group: Group) -> list[tuple[Plot, Kind]]:
    """The curves of a group: those over the same axes in one plot, a ROC on two kinds of axes."""
    families: dict[tuple[str, str, bool], list[Curve]] = {}
    for one in curves:
        if one.group == group and _points(one):
            families.setdefault((one.x_name, one.y_name, one.name.startswith("ROC")), []).append(
                one
            )
    found: list[tuple[Plot, Kind]] = []
    for (x_name, y_name, roc), members in families.items():
        for start in range(0, len(members), LINES):
            some = members[start : start + LINES]
            kind = least_public(one.kind for one in some)
            lines = tuple(_line(one) for one in some)
            made = _roc(x_name, y_name, lines) if roc else [_plain(x_name, y_name, lines)]
            found += [(plot, kind) for plot in made]
    return found


def _points(curve: Curve) -> list[tuple[float, float]]:
    pairs = zip(curve.x, curve.y, strict=True)
    return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


def _line(curve: Curve) -> Line:
    x, y = zip(*_points(curve), strict=True)
    return Line(curve.name.removeprefix("ROC of "), x, y)


def _roc(x_name: str, y_name: str, lines: tuple[Line, ...]) -> list[Plot]:
    even = Axis(x_name, 0, 1), Axis(y_name, 0, 1)
    low = Axis(x_name, _ROC_LOW, 1, log=True), Axis(y_name, _ROC_LOW, 1, log=True)
    return [
        Plot("ROC", *even, lines, chance=True),
        Plot("ROC where false alarms are rare", *low, lines, chance=True),
    ]


def _plain(x_name: str, y_name: str, lines: tuple[Line, ...]) -> Plot:
    x = around(x_name, [value for line in lines for value in line.x])
    y = around(y_name, [value for line in lines for value in line.y], log=False)
    few = max(len(line.x) for line in lines) <= 25
    return Plot(f"{y_name} over {x_name}", x, y, lines, marks=few)


def confusions(evaluation: Evaluation) -> list[Confusion]:
    """The confusions, from the setting ``confusion``: name, classes and counts of each.

    Counts are a line a true class and a column a found one.
    """
    return [_confusion(one) for one in evaluation.settings.get("confusion", ())]


def _confusion(one: Mapping[str, Any]) -> Confusion:
    classes, counts = tuple(map(str, one["classes"])), one["counts"]
    parts = [[value / (sum(line) or 1) for value in line] for line in counts]
    wrong = sorted(
        (
            (part, true, found)
            for true, line in enumerate(parts)
            for found, part in enumerate(line)
            if true != found and part > 0
        ),
        reverse=True,
    )[:5]
    mistakes = tuple((classes[true], classes[found], f"{part:.1%}") for part, true, found in wrong)
    if len(classes) > _MOST_CLASSES:
        return Confusion(str(one["name"]), (), (), mistakes)
    rows = tuple(
        tuple(Cell(f"{100 * part:.0f}", depth=round(70 * part)) for part in line) for line in parts
    )
    return Confusion(str(one["name"]), classes, rows, mistakes)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of figures (`Evaluation.rows`) as CSV, as ``pandas.read_csv`` takes it.

    A value that is not known is empty. Columns beside those of a figure come first.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, _columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if _is_nan(value) else value for name, value in row.items()} for row in rows
    )
    return file.getvalue()


def as_parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows of figures as a Parquet file, as ``pandas.read_parquet`` takes it.

    The columns of `as_csv`: numbers are float64 and all else is text, whatever the rows hold. A
    value that is not known is null.
    """
    import pyarrow as pa  # not needed for pages and CSV
    import pyarrow.parquet as pq

    columns = _columns(rows)
    schema = pa.schema(
        [(name, pa.float64() if name in _NUMBERS else pa.string()) for name in columns]
    )
    values = {name: [None if _is_nan(row[name]) else row[name] for row in rows] for name in columns}
    file = io.BytesIO()
    pq.write_table(pa.table(values, schema=schema), file)
    return file.getvalue()


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of a table for programs."""
    return [*(name for name in (rows[0] if rows else {}) if name not in FIELDS), *FIELDS]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
