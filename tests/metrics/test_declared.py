"""Every metric is declared once, whole, and named on its page of the documents."""

import re
from pathlib import Path

import pytest

from understudy.core.results import Interval, Metric, Thresholds
from understudy.metrics import declared

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = " ".join((DOCS / "metrics.md").read_text(encoding="utf-8").split())
METRICS = declared()


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_metric_is_declared_whole_and_named_in_the_documents(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z0-9_.]+", metric.key)
    assert metric.title == metric.title.strip(" ,:")
    assert "{" not in metric.title
    assert metric.explanation.endswith(".")
    assert metric.better in ("higher", "lower", "")
    assert metric.unit in ("%", "")
    better = f"{metric.better or 'neither'} is better"
    baseline = f"; baseline: {metric.baseline}" if metric.baseline else ""
    line = f"- `{metric.key}`: {metric.title} ({'in %, ' * bool(metric.unit)}{better}{baseline})"
    assert line in PAGE


def test_a_value_says_what_its_metric_says() -> None:
    metric = Metric("m", "attack", "{subject}: AUC", "It says.", better="lower", unit="%")
    value = metric.value(Interval(0.5, 0.4, 0.6), subject="distance", baseline=0.1)
    assert (value.name, value.group, value.better, value.unit) == (
        "distance: AUC",
        "attack",
        "lower",
        "%",
    )
    assert (value.value, value.low, value.high, value.baseline) == (0.5, 0.4, 0.6, 0.1)
    assert metric.title == "AUC"


@pytest.mark.parametrize(
    ("better", "number", "grade"),
    [
        ("higher", 0.8, "good"),
        ("higher", 0.79, "fair"),
        ("higher", 0.4, "poor"),
        ("higher", float("nan"), "poor"),
        ("lower", 0.8, "good"),
        ("lower", 0.9, "poor"),
    ],
)
def test_a_number_on_a_limit_keeps_to_it(better: str, number: float, grade: str) -> None:
    fair = 0.5 if better == "higher" else 0.85
    limits = Thresholds(good=0.8, fair=fair, better=better, of="it")  # type: ignore[arg-type]
    assert limits.grade(number) == grade
