"""Figures are written as JSON and read back as they were."""

import json
import math

from tests.metric_values import metric_value

from understudy.core.results import FIELDS, Curve, Evaluation, Verdict
from understudy.report import read_evaluation

WHOLE = Evaluation(
    (
        metric_value("leakage", "PSNR", math.inf, baseline=21.5, better="lower"),
        metric_value("fidelity", "precision", 0.5, "public", 0.4, 0.6, label="cat", unit="%"),
    ),
    (Curve("attack", "ROC", "false", "true", (0.0, 1.0), (0.0, 1.0)),),
    (Verdict("leakage", "poor", "Copies.", "None is good."),),
    {"rows": 3},
    {"read": 0.5},
)


def test_what_is_written_is_read_back_infinite_numbers_too():
    text = json.dumps(WHOLE.as_dict(), allow_nan=False)
    assert read_evaluation(json.loads(text)) == WHOLE


def test_figures_are_found_by_name_and_class_and_laid_out_flat():
    assert WHOLE.find("precision") is None
    assert WHOLE.find("precision", label="cat") is WHOLE.values[1]
    assert WHOLE.of("leakage") == WHOLE.values[:1]
    assert [tuple(row) for row in WHOLE.rows()] == [FIELDS, FIELDS]


def test_of_two_evaluations_the_later_verdict_stands():
    later = Evaluation(verdicts=(Verdict("leakage", "good", "None.", ""),), settings={"rows": 4})
    both = WHOLE.and_also(later)
    assert both.verdicts == later.verdicts
    assert both.settings == {"rows": 4}
    assert both.values == WHOLE.values
