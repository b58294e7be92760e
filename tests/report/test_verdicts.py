"""The verdicts at the head of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.pages import Page

from understudy.core.results import Evaluation, Verdict
from understudy.core.types import Receipt
from understudy.report import OwnerRecord, RunRecord, dataset_card, public_report
from understudy.report.verdict_table import NOT_MEASURED, cards, guarantee_card, quality_card


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


def owned(**facts: object) -> OwnerRecord:
    return OwnerRecord(dataset="d", rows=1, **facts)  # type: ignore[arg-type]


def test_a_strong_guarantee_never_stands_alone(record: RunRecord) -> None:
    card = quality_card(record)
    assert (card.grade, card.word, card.kind) == ("unknown", "not measured publicly", "public")
    assert card.sentence == NOT_MEASURED
    assert NOT_MEASURED in Page(public_report(record)).words
    assert NOT_MEASURED in dataset_card(record)


def test_four_verdicts_always_and_two_where_they_were_given(record: RunRecord) -> None:
    assert [c.title for c in cards(record, owned())] == [
        "Guarantee", "Fidelity", "Utility", "Leakage",
    ]  # fmt: skip
    given = Evaluation(
        verdicts=(
            Verdict("audit", "good", "Below.", "rule"),
            Verdict("attack", "unknown", "There are too few rows.", "rule"),
        )
    )
    assert [(c.title, c.word) for c in cards(record, owned(evaluation=given))][4:] == [
        ("Attacks", "not sure"),
        ("Audit", "guarantee holds"),
    ]
