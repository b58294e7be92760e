"""Where the parts of a plot stand."""

from understudy.report.plots import Axis, Plot, PlotLine


def test_the_table_of_a_roc_never_promises_more_than_the_curve() -> None:
    """Between two points the lower one is what a threshold reaches."""
    line = PlotLine("a", (0, 0.04, 0.3, 1), (0, 0.2, 0.9, 1))
    plot = Plot("ROC", Axis("fpr", 0, 1), Axis("tpr", 0, 1), (line,), chance=True)
    head, rows = plot.table()
    assert head == ["fpr", "a"]
    assert dict(map(tuple, rows)) == {
        "0.001": "0", "0.01": "0", "0.05": "0.2", "0.1": "0.2", "0.2": "0.2", "0.5": "0.9",
    }  # fmt: skip
