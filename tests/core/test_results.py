"""Figures are written as JSON and read back as they were."""

import json
import math

import pytest
from tests.metric_values import metric_value

from understudy.core.errors import InputError
from understudy.core.results import FIELDS, Curve, Evaluation, Verdict

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
    assert Evaluation.from_dict(json.loads(text)) == WHOLE


def test_what_is_not_a_number_stays_none():
    content = Evaluation((metric_value("fidelity", "recall", math.nan),)).as_dict()
    assert content["figures"][0]["value"] is None
    assert math.isnan(Evaluation.from_dict(content).values[0].value)


@pytest.mark.parametrize(
    "content", [{}, {"schema": "other/1"}, {"schema": WHOLE.as_dict()["schema"], "figures": [{}]}]
)
def test_another_form_is_refused(content):
    with pytest.raises(InputError, match="evaluate the release again"):
        Evaluation.from_dict(content)


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
