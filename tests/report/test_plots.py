"""Where the parts of a plot stand."""

from __future__ import annotations

import re

import pytest

from understudy.report.plots import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Plot,
    PlotLine,
    around,
    short,
)


def corners(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", path)]


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis("x", 0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (Axis("x", -3, 17), [0, 5, 10, 15]),
        (Axis("x", 1e-3, 1, log=True), [1e-3, 1e-2, 0.1, 1]),
        (Axis("x", 80, 900, log=True), [100, 200, 500]),
        (Axis("x", 0.3, 3, log=True), [0.5, 1, 2]),
    ],
)
def test_ticks_are_round_and_on_the_axis(axis: Axis, ticks: list[float]) -> None:
    assert axis.ticks() == pytest.approx(ticks)


@pytest.mark.parametrize("log", [False, True])
def test_a_line_runs_from_corner_to_corner(log: bool) -> None:
    axes = Axis("x", 1, 100, log=log), Axis("y", 1, 100, log=log)
    plot = Plot("p", *axes, (PlotLine("a", (1, 100), (1, 100)),))
    assert corners(plot.drawing().paths[0]) == [
        (LEFT, HEIGHT - BOTTOM),
        (WIDTH - RIGHT, TOP),
    ]


def test_a_logarithmic_axis_is_logarithmic() -> None:
    assert Axis("x", 1, 100, log=True).place(10) == pytest.approx(0.5)
    assert Axis("x", 1, 100).place(10) == pytest.approx(9 / 99)
    assert Axis("x", 1e-3, 1, log=True).place(0) == 0  # what is outside stands at the end


def test_guessing_is_the_diagonal_on_both_kinds_of_axes() -> None:
    for axis in (Axis("x", 0, 1), Axis("x", 1e-3, 1, log=True)):
        points = corners(Plot("p", axis, axis, (), chance=True).drawing().chance)
        for x, y in points:
            across = (x - LEFT) / (WIDTH - LEFT - RIGHT)
            up = (HEIGHT - BOTTOM - y) / (HEIGHT - TOP - BOTTOM)
            assert across == pytest.approx(up, abs=1e-3)
        assert points[0] == (LEFT, HEIGHT - BOTTOM)


def test_thousands_of_points_are_thinned_out_but_keep_the_ends() -> None:
    many = tuple(k / 9999 for k in range(10_000))
    plot = Plot("p", Axis("x", 0, 1), Axis("y", 0, 1), (PlotLine("a", many, many),))
    points = corners(plot.drawing().paths[0])
    assert 100 < len(points) < 700
    assert points[-1] == (WIDTH - RIGHT, TOP)


def test_a_plot_in_words_and_numbers() -> None:
    lines = (
        PlotLine("ours", (1, 2, 3), (10, 20, 30), ("a", "b", "c")),
        PlotLine("theirs", (1,), (5,)),
    )
    plot = Plot("p", Axis("rows", 1, 3, log=True), Axis("accuracy", 0, 30), lines, marks=True)
    assert plot.describe() == (
        "accuracy over rows (logarithmic). ours: 1: 10, 2: 20, 3: 30. theirs: 1: 5."
    )
    head, rows = plot.table()
    assert head == ["line", "rows", "accuracy", "release"]
    assert rows == [
        ["ours", "1", "10", "a"],
        ["ours", "2", "20", "b"],
        ["ours", "3", "30", "c"],
        ["theirs", "1", "5", ""],
    ]
    assert [mark.note for mark in plot.drawing().marks] == ["a", "b", "c", ""]


def test_the_table_of_a_roc_never_promises_more_than_the_curve() -> None:
    """Between two points the lower one is what a threshold reaches."""
    line = PlotLine("a", (0, 0.04, 0.3, 1), (0, 0.2, 0.9, 1))
    plot = Plot("ROC", Axis("fpr", 0, 1), Axis("tpr", 0, 1), (line,), chance=True)
    head, rows = plot.table()
    assert head == ["fpr", "a"]
    assert dict(map(tuple, rows)) == {
        "0.001": "0", "0.01": "0", "0.05": "0.2", "0.1": "0.2", "0.2": "0.2", "0.5": "0.9",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "log"),
    [((0.5, 0.7), False), ((1, 100), True), ((-1, 100), False), ((3,), False), ((0, 0), False)],
)
def test_an_axis_around_values_holds_them(values: tuple[float, ...], log: bool) -> None:
    axis = around("x", values)
    assert axis.log is log
    assert axis.low < axis.high
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert axis.low <= min(values)
    assert axis.high >= max(values)
    assert 2 <= len(axis.ticks()) <= 8


def test_short_numbers() -> None:
    assert [short(v) for v in (0.12345, 1234.0, float("nan"))] == ["0.123", "1230", "none"]
