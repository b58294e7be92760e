"""Disclosures: what left without noise, in the ledger beside what was spent."""

from __future__ import annotations

import pytest
from tests.privacy.conftest import Rows, Site, rows

from understudy.core.errors import LedgerError
from understudy.privacy.accounting import Gaussian
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Charge, Disclosure, Ledger

WHAT = "which 5 of 10 candidates are released"


def test_a_disclosure_is_recorded_once_a_run_and_stays(ledger: Ledger, site: Site) -> None:
    photos = ledger.register(rows(60))
    for _ in range(2):  # a resumed run repeats it
        ledger.disclose(photos.id, Disclosure("r1", WHAT))
    ledger.disclose(photos.id, Disclosure("r2", WHAT))
    spent = ledger.spent(photos.id)
    assert spent.disclosures == (Disclosure("r1", WHAT), Disclosure("r2", WHAT))
    assert (spent.epsilon, spent.events, spent.runs) == (0.0, 0, ())
    with site.open() as another:
        assert another.spent(photos.id) == spent
        kinds = [row.kind for row in another.rows(photos.id)]
        assert kinds == ["dataset", "disclosure", "disclosure"]
        assert another.verify() == []
    (first, *_) = [row for row in ledger.rows() if row.kind == "disclosure"]
    assert first.data == {"run": "r1", "what": WHAT}


def test_a_disclosure_is_itemised_and_its_end_noted_beside_it_once(
    ledger: Ledger, site: Site
) -> None:
    photos = ledger.register(rows(60))
    details = {"parts": [{"noun": "dog", "digests": ["00ff"]}], "server": "key"}
    sent = Disclosure("d1", WHAT, details)
    for _ in range(2):
        ledger.disclose(photos.id, sent)
    with pytest.raises(LedgerError, match="disclosed by run d2"):
        ledger.record_end("deletion", photos.id, "d2", receipt="receipt")
    with pytest.raises(LedgerError, match="disclosed by run d2"):
        ledger.record_end("withdrawal", photos.id, "d2")
    for _ in range(2):
        ledger.record_end("deletion", photos.id, "d1", receipt="receipt")
        ledger.record_end("withdrawal", photos.id, "d1")
    with site.open() as another:
        assert another.spent(photos.id).disclosures == (sent,)
        listed = {row.kind: row.data for row in another.rows(photos.id)}
        assert len(list(another.rows())) == len(listed) == 4
        assert listed["disclosure"]["details"] == details
        assert listed["deletion"] == {"run": "d1", "receipt": "receipt"}
        assert listed["withdrawal"] == {"run": "d1"}
        assert another.verify() == []


def test_no_budget_refuses_a_disclosure_and_none_is_spent_by_it(ledger: Ledger) -> None:
    photos = ledger.register(rows(60))
    ledger.set_budget(photos.id, Budget(1.0))
    ledger.disclose(photos.id, Disclosure("r1", WHAT))
    charge = Charge("r2", "means", Gaussian(0.1))
    ledger.charge(photos.id, [charge], unit="image", adjacency="add-remove")
    spent = ledger.spent(photos.id)
    assert spent.epsilon < 1.0
    assert len(spent.disclosures) == 1


def test_datasets_that_share_records_are_disclosed_together(ledger: Ledger) -> None:
    whole = rows(60)
    part = Rows("part", whole.values[:20])
    ids = [ledger.register(one).id for one in (whole, part)]
    ledger.disclose(ids[1], Disclosure("r1", WHAT))
    assert [len(ledger.spent(one).disclosures) for one in ids] == [1, 1]
    assert [row.kind for row in ledger.rows(ids[0])] == ["dataset", "shared disclosure"]


@pytest.mark.parametrize(("run", "what"), [("", WHAT), ("r1", "")])
def test_a_disclosure_says_who_and_what(run: str, what: str) -> None:
    with pytest.raises(LedgerError, match="needs a run and words"):
        Disclosure(run, what)
