"""What a run was charged and never released is returned, once, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.privacy.conftest import rows

from understudy.core.errors import BudgetRefused, LedgerError, MethodStopped, RunError
from understudy.privacy.account import Account
from understudy.privacy.accounting import Gaussian, epsilon_of, run_event
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Charge, Dataset, Ledger
from understudy.privacy.ledger.rules import rest_of_run
from understudy.privacy.queries import Cells, Counts
from understudy.privacy.unit import Unit
from understudy.run.early_stop import stop_explained

DELTA = 1e-5
IMAGE: dict[str, Any] = {"unit": "image", "adjacency": "add-remove"}
WHOLE = run_event(1.0, DELTA)


def charges(run: str, shares: dict[str, float]) -> list[Charge]:
    return [
        Charge(run, stage, Gaussian(WHOLE.mu * share**0.5, WHOLE.slack * share))
        for stage, share in shares.items()
    ]


@pytest.fixture
def photos(ledger: Ledger) -> Dataset:
    """A dataset with a budget for one run."""
    dataset = ledger.register(rows(60))
    ledger.set_budget(dataset.id, Budget(1.0, DELTA))
    ledger.charge(dataset.id, charges("a", {"test": 0.1, "fit": 0.9}), **IMAGE)
    ledger.record_release(dataset.id, "a", "test", 1, "digest")
    return ledger.find(dataset.id)


def test_what_was_not_released_is_returned_and_can_be_spent_again(
    ledger: Ledger, photos: Dataset
) -> None:
    with pytest.raises(BudgetRefused):
        ledger.charge(photos.id, charges("b", {"all": 0.9}), **IMAGE)
    ledger.charge(photos.id, [], returning="a", **IMAGE)
    assert ledger.spent(photos.id).epsilon == pytest.approx(
        epsilon_of([Gaussian(WHOLE.mu * 0.1**0.5, WHOLE.slack * 0.1)], DELTA)
    )
    ledger.charge(photos.id, charges("b", {"all": 0.9}), **IMAGE)
    assert ledger.spent(photos.id).epsilon == pytest.approx(1.0)
    assert ledger.verify() == []


def test_what_was_released_stays_charged_and_again_returns_nothing(
    ledger: Ledger, photos: Dataset
) -> None:
    for _ in range(2):
        ledger.charge(photos.id, [], returning="a", **IMAGE)
    kinds = [(row.kind, row.data.get("stage")) for row in ledger.rows()]
    assert kinds.count(("return", "fit")) == 1
    assert ("return", "test") not in kinds
    assert ledger.released("a", "test", 1) == "digest"


def test_nothing_is_released_for_a_charge_that_was_returned(
    ledger: Ledger, photos: Dataset
) -> None:
    ledger.charge(photos.id, [], returning="a", **IMAGE)
    with pytest.raises(LedgerError, match="nothing was charged"):
        ledger.record_release(photos.id, "a", "fit", 1, "other")
    assert ledger.attempts("a", "fit") == 0
    before = ledger.spent(photos.id).epsilon  # charged once more, it counts once more
    ledger.charge(photos.id, charges("a", {"fit": 0.9}), **IMAGE)
    assert ledger.spent(photos.id).epsilon > before


def test_the_rest_goes_to_another_run_in_one_transaction_or_stays_where_it_is(
    ledger: Ledger, photos: Dataset
) -> None:
    with pytest.raises(BudgetRefused):
        ledger.charge(photos.id, charges("b", {"all": 0.95}), returning="a", **IMAGE)
    assert "return" not in [row.kind for row in ledger.rows()]
    assert ledger.spent(photos.id).epsilon == pytest.approx(1.0)
    ledger.charge(photos.id, charges("b", {"all": 0.9}), returning="a", **IMAGE)
    assert ledger.spent(photos.id).runs == ("a", "b")
    assert ledger.spent(photos.id).epsilon == pytest.approx(1.0)


def test_datasets_that_share_records_get_it_back_too(ledger: Ledger) -> None:
    part, whole = ledger.register(rows(60)), rows(140)
    whole.values[:60] = rows(60).values
    union = ledger.register(whole)
    assert [other.id for other in ledger.concerned(union.id)] == [part.id]
    ledger.charge(union.id, charges("a", {"test": 0.1, "fit": 0.9}), **IMAGE)
    ledger.record_release(union.id, "a", "test", 1, "digest")
    ledger.charge(union.id, [], returning="a", **IMAGE)
    assert ledger.spent(part.id, DELTA).epsilon == ledger.spent(union.id, DELTA).epsilon < 0.4
    kinds = [(row.kind, row.dataset) for row in ledger.rows() if "return" in row.kind]
    assert sorted(kinds) == sorted([("return", union.id), ("shared return", part.id)])


def test_a_ledger_opened_anew_knows_what_was_returned(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        dataset = ledger.register(rows(60))
        ledger.charge(dataset.id, charges("a", {"test": 0.1, "fit": 0.9}), **IMAGE)
        ledger.charge(dataset.id, [], returning="a", **IMAGE)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.spent(dataset.id).epsilon == 0.0
        assert ledger.spent(dataset.id).events == 0


@pytest.mark.parametrize(("epsilon", "share"), [(0.1, 0.5), (1.0, 0.01), (8.0, 0.99), (30.0, 0.5)])
def test_the_rest_of_a_run_with_what_it_released_costs_what_it_would_have(
    epsilon: float, share: float
) -> None:
    run = run_event(epsilon, DELTA)
    released = [Gaussian(run.mu * share**0.5, run.slack * share)]
    rest = rest_of_run(epsilon, DELTA, released)
    together = epsilon_of([*released, run_event(rest, DELTA)], DELTA)
    assert epsilon * (1 - 1e-4) < together <= epsilon * (1 + 1e-9)
    assert rest_of_run(epsilon, DELTA, [run]) == 0.0


CELLS = Cells(np.zeros((1, 1, 2)))


class Site:
    """An account with a plan of two stages, of which the first is released."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.ledger, self.folder = ledger, folder
        self.dataset = ledger.register(rows(60)).id
        ledger.set_budget(self.dataset, Budget(1.0, DELTA))

    def account(self, run: str = "a", epsilon: float = 1.0, place: str = "stages") -> Account:
        plan = Plan.of(Budget(epsilon, DELTA), {"test": 1.0, "fit": 9.0})
        return Account(self.ledger, self.dataset, Unit(), plan, self.folder / place, run)


def exact(*_: float) -> Any:
    return np.full((1, 1), 60, dtype=np.int64)


@pytest.fixture
def accounts(tmp_path: Path, ledger: Ledger) -> Site:
    return Site(tmp_path, ledger)


def test_a_settled_account_states_what_was_released_and_releases_no_more(accounts: Site) -> None:
    account = accounts.account()
    account.release(Counts(CELLS), "test", exact)
    receipt = account.settle()
    assert [stage.stage for stage in receipt.stages] == ["test"]
    assert receipt.epsilon == pytest.approx(accounts.ledger.spent(accounts.dataset).epsilon)
    with pytest.raises(RunError, match="settled"):
        account.release(Counts(CELLS), "fit", exact)


def test_a_stop_says_whether_anything_is_left(accounts: Site) -> None:
    stop = MethodStopped("they do not look alike", "Take others")
    account = accounts.account()
    account.release(Counts(CELLS), "test", exact)
    early = str(stop_explained(stop, account))
    assert re.search(r"Epsilon 0\.\d+ .* was spent .* the rest is the dataset's again", early)
    assert "--otherwise METHOD" in early
    last = accounts.account("b", 0.5, "others")
    for stage in ("test", "fit"):
        last.release(Counts(CELLS), stage, exact)
    late = str(stop_explained(stop, last))
    assert "Epsilon 0.5 (delta 1e-05) was spent on finding out, which is all that the run" in late
    assert "--otherwise" not in late


def test_a_resumed_account_states_the_same(accounts: Site) -> None:
    first = accounts.account()
    first.release(Counts(CELLS), "test", exact)
    receipt = first.settle()
    assert accounts.account().settle() == receipt
    assert accounts.ledger.spent(accounts.dataset).events == 1


def test_a_run_is_not_settled_without_an_answer_that_it_has_released(accounts: Site) -> None:
    """It stated epsilon 0, and another method had all of the budget once more."""
    accounts.account().release(Counts(CELLS), "test", exact)
    stored = accounts.folder / "stages" / "test.npz"
    content = stored.read_bytes()
    stored.write_bytes(content[:100])
    with pytest.raises(RunError, match="not a stored release"):
        accounts.account().settle()
    stored.unlink()
    account = accounts.account()
    with pytest.raises(RunError, match="is missing, and was released"):
        _ = account.rest
    stored.write_bytes(content)
    assert 0.9 < account.rest < 1.0


def test_a_successor_takes_the_rest_before_anyone_else_can(accounts: Site) -> None:
    account = accounts.account()
    account.release(Counts(CELLS), "test", exact)
    following = accounts.account("b", account.rest, "others")
    account.settle(following)
    assert accounts.ledger.spent(accounts.dataset).epsilon == pytest.approx(1.0, rel=1e-4)
    assert accounts.ledger.next_run(accounts.dataset) == 0.0
    following.release(Counts(CELLS), "fit", exact)
    assert accounts.ledger.spent(accounts.dataset).epsilon <= 1.0


def test_noise_that_was_stored_before_a_kill_stays_charged(accounts: Site) -> None:
    """Whole on disk, and unknown to the ledger: it was drawn, so it is not returned."""
    account = accounts.account()
    account.release(Counts(CELLS), "test", exact)
    account.release(Counts(CELLS), "fit", exact)
    stored = accounts.folder / "stages" / "fit.npz"
    fresh = accounts.account("c", 0.01, "fresh")  # another run, killed after it had stored
    assert fresh.run == "c"
    part = accounts.folder / "fresh" / "fit.part"
    part.write_bytes(stored.read_bytes())
    accounts.ledger.set_budget(accounts.dataset, Budget(2.0, DELTA))
    fresh.reserve()
    again = accounts.account("c", 0.01, "fresh")
    again.settle()
    charged = [row.data["stage"] for row in accounts.ledger.rows() if row.data.get("run") == "c"]
    assert charged.count("fit") == 2  # its charge and its release
    returned = [row.data["stage"] for row in accounts.ledger.rows() if row.kind == "return"]
    assert returned == ["test"]
