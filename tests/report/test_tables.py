"""Figures as tables, for people and for programs."""

import csv
import io

from tests.metric_values import metric_value

from understudy.core.results import FIELDS, Evaluation
from understudy.metrics.attacks import DENSITY_RATIO_AUC
from understudy.metrics.blind_attack import ADDED_AUC
from understudy.metrics.nearest_neighbours import RECALL
from understudy.metrics.utility import BALANCED_ACCURACY
from understudy.report.tables import as_csv, by_class, explained, overall


def test_rows_tell_interval_baseline_and_direction() -> None:
    (row,) = overall(
        [
            metric_value("fidelity", "d", 2.0, low=1.5, high=2.5, baseline=0.3, better="lower"),
            metric_value("fidelity", "d", 9.0, label="cat"),
        ]
    )
    assert (row.value.text, row.value.spread, row.baseline) == ("2", "1.5 to 2.5", "0.3")
    assert row.better == "less is better"


def test_no_class_is_the_worst_where_all_are_equal() -> None:
    for values, worst in (((0.5, 0.5), []), ((0.5, 0.4), ["1"])):
        table = by_class(
            metric_value("utility", "a", value, label=str(row), better="higher")
            for row, value in enumerate(values)
        )
        assert table is not None
        assert [label for label, (only,) in table.rows if only.best] == worst


def test_the_table_for_programs_comes_back_as_it_was(evaluation: Evaluation) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(evaluation.rows()))))
    assert list(rows[0]) == list(FIELDS)
    assert len(rows) == len(evaluation.values)
    assert float(rows[0]["value"]) == 12.3456
    assert rows[0]["name"] == "Frechet distance"
    assert rows[-1]["value"] == ""  # not a number
    assert rows[1]["low"] == ""  # not known
    assert as_csv([]) == ",".join(FIELDS) + "\n"


def test_a_class_is_no_formula_of_a_spreadsheet() -> None:
    names = ["=cmd|' /C calc'!A0", "@SUM(1)", "-1", "cat"]
    values = tuple(metric_value("utility", "a", 0.5, label=name) for name in names)
    rows = csv.DictReader(io.StringIO(as_csv(Evaluation(values, (), (), {}, {}).rows())))
    assert [row["label"] for row in rows] == [f"'{names[0]}", "'@SUM(1)", "-1", "cat"]


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
