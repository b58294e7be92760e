"""Several releases side by side: their guarantees, what was measured, and the trade."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.core.results import Group, MetricValue, ValueKind
from understudy.report import meaning
from understudy.report.plots import Plot, PlotLine, around
from understudy.report.record import Released
from understudy.report.rendering import value
from understudy.report.tables import Cell, best_value, cell, least_public

_OF_ONE_RELEASE = {"advice", "claim", "confusion", "left_out", "release"}
"""Settings, and parts of settings, that say something about one release, and may differ."""

_TRADES: tuple[tuple[Group, int], ...] = (("utility", 2), ("fidelity", 1), ("attack", 1))
"""Values that are drawn over epsilon, and how many of each group at most."""

_WIDE = 8  # epsilons that are further apart than this factor stand on a logarithmic axis

_NONE = "none: no private data"
_UNPROTECTED = "no guarantee"


def _facts(release: Released) -> dict[str, object]:
    """A release's guarantee and what it holds."""
    record, receipt = release.record, release.record.receipt
    without = _UNPROTECTED if record.unprotected else _NONE if record.public else ""
    bound = _UNPROTECTED if record.unprotected else meaning.percent(meaning.guess_bound(receipt))
    return {
        "method": record.method,
        "guarantee": record.guarantee,
        "epsilon": without or meaning.stated(receipt.epsilon),
        "delta": without or meaning.stated(receipt.delta),
        "a guess is right at most": bound,
        "unit": without or record.unit,
        "adjacency": without or receipt.adjacency,
        "rows": record.count,
        "classes": len(record.classes),
        "images": " x ".join(map(str, record.image_shape or ())) or "none",
        "made": record.date,
    }


_SAME_GUARANTEE = ("unit", "adjacency", "delta")
_SAME_TASK = ("rows", "images")


@dataclass(frozen=True, slots=True)
class Shared:
    """A metric value that at least two releases have."""

    # its metric, what it was measured with and its kind, from the first that has it
    value: MetricValue
    cells: tuple[Cell, ...]  # one a release; empty text where it was not measured
    kind: ValueKind  # whether they may be published


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several releases side by side."""

    releases: tuple[Released, ...]
    # their guarantees and what they hold: a name, and a text for each
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    shared: tuple[Shared, ...]  # values that at least two of them have
    notes: tuple[str, ...]  # why numbers do not compare; empty where nothing stands against it
    trades: tuple[Plot, ...]  # values over epsilon; empty where no two epsilons have one

    def __repr__(self) -> str:
        """A line, for a notebook; `rows` is the table."""
        names = ", ".join(release.name for release in self.releases)
        return f"<Comparison of {names}: {len(self.shared)} values that several of them have>"

    def rows(self) -> list[dict[str, Any]]:
        """Every value of every release as flat rows, as ``pandas.DataFrame`` takes them."""
        return [
            {"release": release.name, "method": release.record.method, **_budget(release), **row}
            for release in self.releases
            for row in (release.evaluation.rows() if release.evaluation else ())
        ]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "facts": {
                release.name: {name: texts[index] for name, texts in self.facts}
                for index, release in enumerate(self.releases)
            },
            "notes": list(self.notes),
            "figures": [
                {name: None if _not_finite(item) else item for name, item in row.items()}
                for row in self.rows()
            ],
        }


def _budget(release: Released) -> dict[str, Any]:
    """The kind of a release's guarantee, and its numbers; not a number where there is none."""
    record = release.record
    numbers = record.receipt.epsilon, record.receipt.delta
    epsilon, delta = (math.nan, math.nan) if record.unprotected else numbers
    return {"guarantee": record.guarantee, "epsilon": epsilon, "delta": delta}


def _not_finite(item: object) -> bool:
    return isinstance(item, float) and not math.isfinite(item)


def compare_releases(releases: Sequence[Released]) -> Comparison:
    """Put two or more releases, with names of their own, side by side."""
    each = [_facts(release) for release in releases]
    facts = tuple((name, tuple(value(one[name]) for one in each)) for name in each[0])
    rows = tuple(_shared(releases))
    return Comparison(
        tuple(releases), facts, rows, tuple(_notes(releases, dict(facts))), trades(releases)
    )


_Key = tuple[str, str, str]
"""What makes two values the same: metric and subject, and what they were measured with."""


def _values(release: Released) -> dict[_Key, MetricValue]:
    """The values of all rows, by what makes two of them the same."""
    values = release.evaluation.values if release.evaluation else ()
    return {
        (value.metric.key or value.group, value.name, value.measured): value
        for value in values
        if not value.label
    }


def _shared(releases: Sequence[Released]) -> list[Shared]:
    each = [_values(release) for release in releases]
    keys = dict.fromkeys(key for values in each for key in values)
    shared = []
    for key in keys:
        have = [values.get(key) for values in each]
        values = [value for value in have if value is not None]
        if len(values) < 2:
            continue
        best = best_value(values)
        cells = tuple(Cell("") if item is None else cell(item, best=item is best) for item in have)
        shared.append(Shared(values[0], cells, least_public(item.kind for item in values)))
    return shared


def _notes(releases: Sequence[Released], facts: Mapping[str, Sequence[str]]) -> list[str]:
    names = [release.name for release in releases]
    notes = [
        f"{release.name} has no guarantee: no epsilon of another release compares with it."
        for release in releases
        if release.record.unprotected
    ]
    notes += [
        f"The {name} differs ({_each(names, facts[name])}): the epsilons do not compare."
        for name in _SAME_GUARANTEE
        if len(set(facts[name]) - {_NONE, _UNPROTECTED}) > 1
    ]
    notes += [
        f"The {name} of the releases differ ({_each(names, facts[name])}): that alone can change "
        "fidelity and utility."
        for name in _SAME_TASK
        if len(set(facts[name])) > 1
    ]
    if len({release.record.classes for release in releases}) > 1:
        notes.append("The classes differ: figures over all rows do not compare.")
    # the accuracies of a run with a test set have no settings: nobody evaluated the release
    with_values = [one for one in releases if one.evaluation and one.evaluation.settings]
    keys = dict.fromkeys(key for release in with_values for key in release.evaluation.settings)  # type: ignore[union-attr]
    for key in keys:
        if key in _OF_ONE_RELEASE:
            continue
        texts = [value(_common(release.evaluation.settings.get(key))) for release in with_values]  # type: ignore[union-attr]
        if len(set(texts)) > 1:
            each = _each([release.name for release in with_values], texts)
            notes.append(f"Measured with different {key} ({each}): those numbers do not compare.")
    without_values = [release.name for release in releases if release not in with_values]
    if without_values:
        notes.append(
            f"Not evaluated yet: {', '.join(without_values)}. Run `understudy evaluate` on each, "
            "with the same --real and --test as the others."
        )
    return notes


def _common(setting: Any) -> Any:
    """A setting without the part that is about the release alone."""
    if not isinstance(setting, Mapping):
        return setting
    return {name: part for name, part in setting.items() if name not in _OF_ONE_RELEASE}


def _each(names: Sequence[str], texts: Sequence[str]) -> str:
    return "; ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True))


def trades(releases: Sequence[Released]) -> tuple[Plot, ...]:
    """The privacy-utility curve: metric values over epsilon, a line a method.

    Of values that releases of at least two epsilons have.
    """
    each = [(release, _values(release)) for release in releases]
    plots = []
    for group, most in _TRADES:
        keys = dict.fromkeys(
            key for _, values in each for key, value in values.items() if value.group == group
        )
        curves = [plot for key in keys if (plot := _trade(key, each)) is not None]
        plots += curves[:most]
    return tuple(plots)


def _trade(key: _Key, each: Sequence[tuple[Released, Mapping[_Key, MetricValue]]]) -> Plot | None:
    points = sorted(
        (release.record.receipt.epsilon, values[key].value, release.record.method, release.name)
        for release, values in each
        if key in values and math.isfinite(values[key].value) and not release.record.unprotected
    )
    if len({epsilon for epsilon, *_ in points}) < 2:
        return None
    lines = tuple(
        PlotLine(
            method,
            [x for x, _, of, _ in points if of == method],
            [y for _, y, of, _ in points if of == method],
            [name for _, _, of, name in points if of == method],
        )
        for method in dict.fromkeys(of for _, _, of, _ in points)
    )
    _, name, measured = key
    epsilons = [x for x, *_ in points]
    axes = (
        around("epsilon", epsilons, log=max(epsilons) >= _WIDE * min(epsilons) > 0),
        around(name, [y for _, y, *_ in points]),
    )
    return Plot(
        f"{name} over epsilon" + (f", {measured}" if measured else ""), *axes, lines, marks=True
    )


def release_facts(release: Released) -> dict[str, Any]:
    """A release's guarantee and metric values of all rows as JSON values."""
    return {
        "name": release.name,
        "method": release.record.method,
        **{name: None if _not_finite(item) else item for name, item in _budget(release).items()},
        "figures": [value.row() for value in _values(release).values()],
    }
