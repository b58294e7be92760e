"""The verdicts at the head of a report."""

from dataclasses import replace

import pytest
from tests.report.pages import Page

from understudy.core.results import Evaluation, Verdict
from understudy.core.types import Receipt
from understudy.report import (
    ModelScore,
    OwnerRecord,
    PublicQuality,
    RunRecord,
    dataset_card,
    public_report,
)
from understudy.report.verdict_table import NOT_MEASURED, cards, guarantee_card, quality_card
from understudy.run.accuracy import utility_of_scores


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


@pytest.mark.parametrize("held_out", [False, True])
def test_a_test_set_is_asked_for_only_where_none_was_held_out(
    record: RunRecord, held_out: bool
) -> None:
    said = [one.sentence for one in cards(record, owned(held_out=held_out)) if not one.measured]
    assert len(said) >= 3
    assert ["--test SOURCE" in one for one in said[-3:]] == [not held_out] * 3


def test_what_the_run_measured_is_the_verdict_where_no_model_was_trained_since(
    record: RunRecord,
) -> None:
    scores = (ModelScore("CNN", 0.5), ModelScore("ResNet-9", 0.7123, 0.9))
    verdict = utility_of_scores(scores)
    told = Verdict("utility", "unknown", "Not measured: add --full.", "Useful: ...")
    for evaluation in (None, Evaluation(verdicts=(told,))):
        owner = owned(scores=scores, utility=verdict, evaluation=evaluation)
        card = next(c for c in cards(record, owner) if c.title == "Utility")
        assert (card.word, card.section) == ("of little use", "accuracy")  # loses 19 points
        words = "ResNet-9 reaches a balanced accuracy of 71.2% on real"
        assert card.sentence.startswith(words)
        assert "Not measured" not in card.sentence
    full = Verdict("utility", "good", "As good.", "rule")
    owner = owned(scores=scores, utility=verdict, evaluation=Evaluation(verdicts=(full,)))
    assert next(c for c in cards(record, owner) if c.title == "Utility").sentence == "As good."


@pytest.mark.parametrize(
    ("low", "word"), [(0.9, "useful"), (0.84, "fair"), (0.66, "fair"), (0.6, "of little use")]
)
def test_fitness_for_use_is_graded_by_the_lower_end(
    record: RunRecord, low: float, word: str
) -> None:
    part = (0.95, low, 0.97)
    recalls = {"Trouser": part, "Ankle boot": (0.62, 0.5, 0.7)}
    card = quality_card(replace(record, quality=PublicQuality("regression", part, recalls)))
    assert (card.word, card.kind) == (word, "dp")
    assert "95.0 % of the private images, where every class counts the same" in card.sentence
    assert f"({100 * low:.1f} to 97.0 %; guessing: 50.0 %)" in card.sentence
    assert "Of the class Ankle boot it finds the fewest: 62.0 % (50.0 to 70.0 %)" in card.sentence


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
