"""Where the parts of a plot stand."""

from __future__ import annotations

import pytest

from understudy.report.plots import (
    Axis,
    Plot,
    PlotLine,
)


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


def test_the_table_of_a_roc_never_promises_more_than_the_curve() -> None:
    """Between two points the lower one is what a threshold reaches."""
    line = PlotLine("a", (0, 0.04, 0.3, 1), (0, 0.2, 0.9, 1))
    plot = Plot("ROC", Axis("fpr", 0, 1), Axis("tpr", 0, 1), (line,), chance=True)
    head, rows = plot.table()
    assert head == ["fpr", "a"]
    assert dict(map(tuple, rows)) == {
        "0.001": "0", "0.01": "0", "0.05": "0.2", "0.1": "0.2", "0.2": "0.2", "0.5": "0.9",
    }  # fmt: skip
