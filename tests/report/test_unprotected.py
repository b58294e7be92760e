"""A release without a guarantee, and one whose guarantee is that of another: what they say."""

import json
import re
from dataclasses import replace

import pytest
import yaml

from understudy.core.errors import ConfigError
from understudy.report import (
    ModelRecord,
    OwnerRecord,
    Released,
    RunRecord,
    StatedAttack,
    StatedCopies,
    as_csv,
    compare_releases,
    comparison_report,
    dataset_card,
    owner_json,
    owner_report,
    privacy_json,
    public_documents,
    public_json,
    public_report,
    read_record,
    statement_text,
)
from understudy.report.comparison import release_facts, trades
from understudy.report.meaning import (
    NO_GUARANTEE,
    NO_PRIVATE_DATA,
    budget,
    guarantee_of,
    guess_bound,
)
from understudy.report.verdict_table import cards

ATTACKS = tuple(
    StatedAttack(
        subject, "calibrated distance", "in embedded:dct", (tpr, 0.1, 0.6), (auc, 0.6, 1.0)
    )
    for subject, tpr, auc in (("all candidates", 0.483, 0.9), ("this release", 0.199, 0.8))
)


@pytest.fixture
def unprotected(record: RunRecord) -> RunRecord:
    return replace(record, receipt=NO_GUARANTEE, method="selection", attacks=ATTACKS)


@pytest.mark.parametrize(
    ("copies", "word"),
    [
        (StatedCopies(56, 0, 2, 0.03, "by hash"), "look closer"),
        (StatedCopies(56, 0, 0, 0.03, "by hash"), "not sure"),
    ],
)
def test_copies_that_the_release_states_are_not_called_not_measured(
    unprotected: RunRecord, owner: OwnerRecord, copies: StatedCopies, word: str
) -> None:
    table = cards(replace(unprotected, copies=copies), replace(owner, evaluation=None))
    (leakage,) = (card for card in table if card.title == "Leakage")
    assert leakage.word == word
    assert f"{copies.near} more near-copies" in leakage.sentence


@pytest.fixture
def inherited(record: RunRecord) -> RunRecord:
    stages = tuple(
        replace(stage, stage=f"candidates: {stage.stage}", origin="candidates")
        for stage in record.receipt.stages
    )
    return replace(record, receipt=replace(record.receipt, stages=stages), method="selection")


def test_the_kinds_of_guarantee_are_three(record: RunRecord) -> None:
    kinds = {guarantee_of(one): budget(one) for one in (NO_GUARANTEE, NO_PRIVATE_DATA)}
    kinds[guarantee_of(record.receipt)] = budget(record.receipt)
    assert kinds == {
        "none": "no guarantee",
        "no private data": "no private data",
        "differential privacy": "epsilon 1",
    }
    assert guess_bound(NO_GUARANTEE) == 1.0


def test_no_document_of_an_unprotected_release_states_an_epsilon(unprotected: RunRecord) -> None:
    pages = [*public_documents(unprotected).values(), public_report(unprotected)]
    for text in pages:
        assert not re.search(r"epsilon \d|\binf\b|Infinity|epsilon</span>", text)
        assert "no privacy guarantee" in text or "no guarantee" in text or '"none"' in text
    statement, card = statement_text(unprotected), dataset_card(unprotected)
    for words in (
        "no differential\nprivacy here",
        "steered by private images without noise",
        "a choice by\nprivate images tells about them by itself",
        "48.3 % (10.0 to 60.0)",
        "19.9 %",
    ):
        assert words in statement
    header = yaml.safe_load(card.split("---\n")[1])
    assert "no-privacy-guarantee" in header["tags"]
    assert "differential-privacy" not in header["tags"]
    first = card.split("\n\n")[2]
    assert "no privacy guarantee" in first
    assert "19.9 % of the private images" in card


def test_a_statement_says_where_nothing_was_measured(unprotected: RunRecord) -> None:
    text = statement_text(replace(unprotected, attacks=()))
    assert "What attacks gain was not measured" in text
    assert "%" not in text.split("## What was measured")[1].split("## Models")[0]
    assert "was not measured" in public_report(replace(unprotected, attacks=()))


def test_the_json_says_the_kind_and_no_number(unprotected: RunRecord) -> None:
    content = json.loads(public_documents(unprotected)["privacy.json"])
    stated = content["guarantee"]
    assert stated["kind"] == "none"
    assert (stated["epsilon"], stated["delta"], stated["mu"]) == (None, None, None)
    assert set(stated["attacker_right_at_most"].values()) == {1.0}
    assert content["attacks"][1]["tpr"] == [0.199, 0.1, 0.6]
    again = read_record(content)
    assert again.unprotected
    assert again.attacks == unprotected.attacks
    assert public_documents(again) == public_documents(unprotected)
    assert public_json(unprotected)["verdicts"][0]["word"] == "none"


def test_a_release_with_a_guarantee_cannot_state_what_was_measured(record: RunRecord) -> None:
    with pytest.raises(ConfigError, match="has a guarantee cannot state it"):
        replace(record, attacks=ATTACKS)


def test_the_owners_page_names_it_and_counts_disclosures(
    unprotected: RunRecord, record: RunRecord, owner: OwnerRecord
) -> None:
    assert owner.spending is not None
    spending = replace(owner.spending, disclosures=2)
    counted = replace(owner, spending=spending)
    page = owner_report(unprotected, counted)
    assert "no guarantee" in page
    assert "epsilon of this release" not in page
    assert "19.9 %" in page
    assert "and 2\ndisclosures that no epsilon covers" in page
    assert "this run" not in page.split("The dataset's budget</h2>")[1].split("</svg>")[0]
    assert "that no epsilon covers" not in owner_report(record, owner)
    content = owner_json(unprotected, counted)
    assert content["spending"]["disclosures"] == 2
    assert json.dumps(content, allow_nan=False)


def test_an_unprotected_release_compares_with_no_epsilon(
    unprotected: RunRecord, record: RunRecord
) -> None:
    releases = [Released("a", record), Released("b", unprotected)]
    comparison = compare_releases(releases)
    facts = dict(comparison.facts)
    assert facts["guarantee"] == ("differential privacy", "none")
    for name in ("epsilon", "delta", "a guess is right at most", "unit", "adjacency"):
        assert facts[name][1] == "no guarantee"
    assert any("b has no guarantee" in note for note in comparison.notes)
    assert trades(releases) == ()
    assert release_facts(releases[1])["epsilon"] is None
    assert "no guarantee" in comparison_report(comparison)
    assert "inf" not in as_csv(comparison.rows())


def test_a_host_that_was_sent_private_images_is_exempt_wherever_a_guarantee_is_stated(
    record: RunRecord, inherited: RunRecord, unprotected: RunRecord
) -> None:
    selection = replace(inherited, facts={"selected": 5, "candidates": 10})
    for one in (record, selection, unprotected):
        sent = replace(one, models=(ModelRecord("encoder", "openai:x", "none", host="a.example"),))
        assert "a.example" in statement_text(sent)
        assert "No guarantee holds towards a.example" in public_report(sent)
        attackers = [line for line in privacy_json(sent)["covered"] if "attacker" in line]
        assert all("a.example" in line for line in attackers)


def test_steps_on_samples_are_not_stated_as_a_gaussian_release(record: RunRecord) -> None:
    first, *rest = record.receipt.stages
    steps = replace(first, rate=0.125, steps=1200)
    sampled = replace(record, receipt=replace(record.receipt, stages=(steps, *rest)))
    statement = statement_text(sampled)
    assert "| Composition | numerical" in statement
    for text in (statement, public_report(sampled)):
        assert "1,200 steps, each on a sample of the units (rate 0.125)" in text


def test_inherited_stages_are_named(inherited: RunRecord) -> None:
    text = statement_text(inherited)
    assert "This run asked nothing of private images" in text
    assert "| candidates: moments |" in text
    assert "<small>inherited</small>" in public_report(inherited)
    (first, *rest) = inherited.receipt.stages
    own = replace(first, stage="gradient 1", origin="")
    mixed = replace(inherited, receipt=replace(inherited.receipt, stages=(own, *rest)))
    assert "name begins with `candidates:` were paid for by the releases" in statement_text(mixed)
    assert read_record(privacy_json(mixed)).receipt == mixed.receipt
