"""Figures as tables, for people and for programs."""

from __future__ import annotations

import csv
import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.metric_values import metric_value

from understudy.core.results import FIELDS, Curve, Evaluation
from understudy.metrics.attacks import DENSITY_RATIO_AUC
from understudy.metrics.blind_attack import ADDED_AUC
from understudy.metrics.nearest_neighbours import RECALL
from understudy.metrics.utility import BALANCED_ACCURACY
from understudy.report.tables import (
    as_csv,
    as_parquet,
    by_class,
    confusions,
    explained,
    least_public,
    overall,
    plots,
    shown,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.748, "%", "74.8\u00a0%"),
        (0.0012, "%", "0.12\u00a0%"),
        (0.0, "%", "0.0\u00a0%"),
        (12.34567, "", "12.35"),
        (1234567.0, "", "1235000"),
        (math.nan, "%", "not defined"),
    ],
)
def test_a_value_as_text(value: float, unit: str, text: str) -> None:
    assert shown(metric_value("utility", "x", value, unit=unit)) == text  # type: ignore[arg-type]


def test_rows_tell_interval_baseline_and_direction() -> None:
    (row,) = overall(
        [
            metric_value("fidelity", "d", 2.0, low=1.5, high=2.5, baseline=0.3, better="lower"),
            metric_value("fidelity", "d", 9.0, label="cat"),
        ]
    )
    assert (row.value.text, row.value.spread, row.baseline) == ("2", "1.5 to 2.5", "0.3")
    assert row.better == "less is better"


@pytest.mark.parametrize(("better", "worst"), [("higher", "cat"), ("lower", "dog"), ("", None)])
def test_the_worst_class(better: str, worst: str | None) -> None:
    figures = [
        metric_value("utility", "f", value, label=label, better=better)  # type: ignore[arg-type]
        for label, value in (("cat", 1.0), ("dog", 3.0), ("eel", 2.0), ("fox", math.nan))
    ]
    table = by_class([*figures, metric_value("utility", "g", 1.0, label="cat", kind="public")])
    assert table is not None
    assert table.names == ("f", "g")
    assert [label for label, cells in table.rows if cells[0].best] == ([worst] if worst else [])
    assert [cells[1].text for _, cells in table.rows] == ["1", "", "", ""]
    assert table.kind == "owner-only"
    assert by_class([metric_value("utility", "f", 1.0)]) is None


def test_the_kind_of_several_is_the_most_private() -> None:
    assert least_public(["public", "dp"]) == "dp"
    assert least_public(["public", "owner-only", "dp"]) == "owner-only"
    assert least_public([]) == "public"


def test_rocs_share_two_plots_and_other_curves_one() -> None:
    def curve(name: str, x_name: str = "fpr", group: str = "attack") -> Curve:
        return Curve(group, name, x_name, "tpr", (0.0, 1.0), (0.0, 1.0))  # type: ignore[arg-type]

    curves = [curve("ROC of a"), curve("ROC of b"), curve("c", "rows"), curve("d", group="utility")]
    found = [plot for plot, _ in plots(curves, "attack")]
    assert [(plot.x.log, plot.chance, len(plot.lines)) for plot in found] == [
        (False, True, 2),
        (True, True, 2),
        (False, False, 1),
    ]
    assert [line.name for line in found[0].lines] == ["a", "b"]


def test_more_curves_than_a_plot_holds_go_into_the_next() -> None:
    curves = [Curve("utility", f"c{k}", "x", "y", (1.0, 2.0), (1.0, 2.0)) for k in range(8)]
    assert [len(plot.lines) for plot, _ in plots(curves, "utility")] == [6, 2]


def test_a_confusion_of_many_classes_tells_the_mistakes_only() -> None:
    names = [f"c{k}" for k in range(30)]
    counts = [[10 if i == j else 0 for j in range(30)] for i in range(30)]
    counts[3][7] = 10
    settings = {"confusion": [{"name": "n", "classes": names, "counts": counts}]}
    (found,) = confusions(Evaluation(settings=settings))
    assert found.mistakes == (("c3", "c7", "50.0%"),)
    assert found.rows == ()


def test_the_table_for_programs_comes_back_as_it_was(evaluation: Evaluation) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(evaluation.rows()))))
    assert list(rows[0]) == list(FIELDS)
    assert len(rows) == len(evaluation.values)
    assert float(rows[0]["value"]) == 12.3456
    assert rows[0]["name"] == "Frechet distance"
    assert rows[-1]["value"] == ""  # not a number
    assert rows[1]["low"] == ""  # not known
    assert as_csv([]) == ",".join(FIELDS) + "\n"


def test_a_table_in_parquet_holds_numbers_as_numbers(evaluation: Evaluation) -> None:
    rows = [{"release": "a", "epsilon": 1, "delta": None, **row} for row in evaluation.rows()]
    table = pq.read_table(io.BytesIO(as_parquet(rows)))
    assert table.column_names == ["release", "epsilon", "delta", *FIELDS]
    numbers = {name for name in table.column_names if table.schema.field(name).type == "double"}
    assert numbers == {"epsilon", "delta", "value", "low", "high", "baseline"}
    assert set(table.schema.types) == {pa.float64(), pa.string()}
    first, *_, last = table.to_pylist()
    assert (first["epsilon"], first["delta"], first["value"]) == (1.0, None, 12.3456)
    assert first["name"] == "Frechet distance"
    assert last["value"] is None  # not a number
    empty = pq.read_table(io.BytesIO(as_parquet([])))
    assert (empty.column_names, empty.num_rows) == (list(FIELDS), 0)


def test_pandas_reads_the_same_from_both_tables(evaluation: Evaluation) -> None:
    pandas = pytest.importorskip("pandas")
    rows = [*evaluation.rows(), {**evaluation.rows()[0], "value": math.inf, "label": "cat"}]
    one = pandas.read_parquet(io.BytesIO(as_parquet(rows)))
    other = pandas.read_csv(io.StringIO(as_csv(rows)), keep_default_na=False, na_values={
        name: [""] for name in ("value", "low", "high", "baseline")
    })  # fmt: skip
    pandas.testing.assert_frame_equal(one, other)
    assert len(one.query("label == ''")) == sum(not row["label"] for row in rows)


def test_a_metric_is_explained_once_and_by_its_own_words() -> None:
    values = [
        RECALL.value(0.5),
        BALANCED_ACCURACY.value(0.5),
        RECALL.value(0.5, label="cat"),
        metric_value("utility", "strange", 1.0),
        ADDED_AUC.value(0.1, subject="distance"),
        ADDED_AUC.value(0.1, subject="density ratio (DOMIAS)"),
        DENSITY_RATIO_AUC.value(0.5),
    ]
    assert explained(values) == [
        ("recall", RECALL.explanation),
        ("balanced accuracy, trained on the release", BALANCED_ACCURACY.explanation),
        ("strange", "What strange says."),
        ("AUC, added by the release", ADDED_AUC.explanation),
        ("density ratio (DOMIAS): AUC", DENSITY_RATIO_AUC.explanation),
    ]
