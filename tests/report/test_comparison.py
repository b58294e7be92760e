"""Releases side by side."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.metric_values import metric_value

from understudy.core.results import Evaluation
from understudy.report import Released, RunRecord, compare_releases, comparison_report

Make = Callable[..., Released]


def figures(accuracy: float, features: str = "dct") -> Evaluation:
    return Evaluation(
        (
            metric_value("utility", "accuracy", accuracy, better="higher", unit="%"),
            metric_value("fidelity", "Frechet distance", 5.0, measured=features, better="lower"),
            metric_value("utility", "accuracy", 0.5, label="cat"),
        ),
        settings={"features": features, "rows": {"private": 100, "release": round(100 * accuracy)}},
    )


@pytest.fixture
def make(record: RunRecord) -> Make:
    def made(
        name: str,
        epsilon: float,
        evaluation: Evaluation | None,
        receipt: dict[str, Any] | None = None,
        **more: Any,
    ) -> Released:
        changed = replace(record.receipt, epsilon=epsilon, **(receipt or {}))
        return Released(name, replace(record, receipt=changed, **more), evaluation)

    return made


def test_what_is_shared_is_beside_each_other_and_the_better_is_marked(make: Make) -> None:
    found = compare_releases(
        [make("a", 1, figures(0.6)), make("b", 4, figures(0.8)), make("c", 2, None)]
    )
    shared = {one.value.name: one.cells for one in found.shared}
    assert [cell.text for cell in shared["accuracy"]] == ["60.0\u00a0%", "80.0\u00a0%", ""]
    assert [cell.best for cell in shared["accuracy"]] == [False, True, False]
    assert not any(cell.best for cell in shared["Frechet distance"])  # equal
    assert dict(found.facts)["epsilon"] == ("1", "4", "2")


def test_other_private_rows_are_a_note(make: Make) -> None:
    other = replace(figures(0.8), settings={"features": "dct", "rows": {"private": 50}})
    (note,) = compare_releases([make("a", 1, figures(0.6)), make("b", 4, other)]).notes
    assert note.startswith("Measured with different rows (a: private: 100; b: private: 50)")


def test_what_a_release_claims_and_is_advised_is_nothing_it_was_measured_with(make: Make) -> None:
    settings = figures(0.6).settings
    one = replace(figures(0.6), settings={**settings, "claim": "epsilon 1", "advice": "Hold out"})
    other = replace(figures(0.8), settings={**settings, "claim": "epsilon 4"})
    assert compare_releases([make("a", 1, one), make("b", 4, other)]).notes == ()


def test_a_run_that_measured_accuracy_alone_has_no_settings_that_differ(make: Make) -> None:
    alone = Evaluation(figures(0.8).values)
    (note,) = compare_releases([make("a", 1, figures(0.6)), make("b", 4, alone)]).notes
    assert note.startswith("Not evaluated yet: b. ")
    page = comparison_report(compare_releases([make("a", 1, figures(0.6)), make("b", 4, alone)]))
    assert "Run <code>understudy evaluate</code> on each" in page


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"receipt": {"unit": "rows sharing 'patient'"}}, "the epsilons do not compare"),
        ({"receipt": {"adjacency": "replace-one"}}, "the epsilons do not compare"),
        ({"receipt": {"delta": 1e-6}}, "the epsilons do not compare"),
        ({"count": 7}, "rows of the releases differ (a: 60,000; b: 7)"),
        ({"classes": ("x",)}, "The classes differ"),
    ],
)
def test_what_stands_against_comparing_is_said(
    make: Make, change: dict[str, Any], note: str
) -> None:
    found = compare_releases([make("a", 1, figures(0.6)), make("b", 4, figures(0.8), **change)])
    assert len(found.notes) == 1
    assert note in found.notes[0]


def test_the_trade_is_drawn_by_method_in_the_order_of_epsilon(make: Make) -> None:
    found = compare_releases(
        [
            make("late", 4, figures(0.8)),
            make("early", 1, figures(0.6)),
            make("other", 2, figures(0.7), method="alignment"),
        ]
    )
    plot = found.trades[0]
    assert [(line.name, list(line.x), list(line.y)) for line in plot.lines] == [
        ("clustering", [1, 4], [0.6, 0.8]),
        ("alignment", [2], [0.7]),
    ]
    assert list(plot.lines[0].notes) == ["early", "late"]
