"""The verdicts at the head of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from understudy.core.results import Evaluation, Verdict
from understudy.core.types import Receipt
from understudy.report import ModelScore, RunRecord
from understudy.report.rendering import coded
from understudy.report.verdict_table import cards, guarantee_card, guarantee_sentence


@pytest.mark.parametrize(
    ("mu", "bound", "grade", "word"),
    [  # Phi(mu / 2), from a table of the normal distribution
        (0.5016, "60.0 %", "good", "strong"),
        (0.5100, "60.1 %", "fair", "moderate"),
        (1.6660, "79.8 %", "fair", "moderate"),
        (1.7000, "80.3 %", "poor", "weak"),
    ],
)
def test_the_guarantee_is_graded_by_what_an_attacker_can_reach(
    receipt: Receipt, mu: float, bound: str, grade: str, word: str
) -> None:
    stage = replace(receipt.stages[0], mu=mu)
    card = guarantee_card(replace(receipt, epsilon=20.0, slack=0.0, stages=(stage,)))
    assert (card.grade, card.word, card.kind) == (grade, word, "public")
    assert f"right at most {bound} of the time" in card.sentence


def test_the_sentence_fits_the_neighbours(receipt: Receipt) -> None:
    assert "whether a certain unit was used (unit: one image)" in guarantee_sentence(receipt)
    other = replace(receipt, adjacency="replace-one", unit="rows sharing 'patient'")
    assert "which of two candidates" in guarantee_sentence(other)
    assert "all rows sharing 'patient'" in guarantee_sentence(other)


def test_what_the_run_measured_is_told_where_no_model_was_trained_since(record: RunRecord) -> None:
    scores = (ModelScore("CNN", 0.5), ModelScore("ResNet-9", 0.7123, 0.9))
    told = Verdict("utility", "unknown", "Not measured: add --full.", "Useful: ...")
    for evaluation in (None, Evaluation(verdicts=(told,))):
        card = next(c for c in cards(record, evaluation, scores) if c.title == "Utility")
        assert card.word == "not measured yet"
        words = "The ResNet-9 trained on the release reaches a balanced accuracy of 71.2% on real"
        assert card.sentence.startswith(words)
        assert "90.0% when trained on the real data. Not measured" in card.sentence


def test_four_verdicts_always_and_two_where_they_were_given(record: RunRecord) -> None:
    assert [c.title for c in cards(record, None)] == [
        "Guarantee", "Fidelity", "Utility", "Leakage",
    ]  # fmt: skip
    given = Evaluation(
        verdicts=(
            Verdict("audit", "good", "Below.", "rule"),
            Verdict("attack", "unknown", "There are too few rows.", "rule"),
        )
    )
    assert [(c.title, c.word) for c in cards(record, given)][4:] == [
        ("Attacks", "not sure"),
        ("Audit", "guarantee holds"),
    ]


def test_commands_in_a_sentence_are_code_and_nothing_else_is_html():
    assert coded("<b> `understudy x`") == "&lt;b&gt; <code>understudy x</code>"
