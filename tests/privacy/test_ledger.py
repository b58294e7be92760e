"""The ledger: what is recorded, refused, recognised and found out."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.privacy.conftest import BOTH_DATABASES, Rows, Site, rows

from understudy.core.errors import BudgetRefused, CommitInDoubt, LedgerError, PrivateValueError
from understudy.privacy.accounting import (
    Event,
    Gaussian,
    SampledGaussian,
    epsilon_of,
    mu_of,
    run_event,
)
from understudy.privacy.budget import Budget
from understudy.privacy.ledger import chain, database
from understudy.privacy.ledger.ledger import Charge, Dataset, Ledger, LedgerSpending, Preview

SQLALCHEMY_LEDGER = Path(__file__).with_name("ledger_of_sqlalchemy.sql")
DELTA = 1e-5
IMAGE: dict[str, Any] = {"unit": "image", "adjacency": "add-remove"}
ONE = Gaussian(mu_of(1.0, DELTA))


def charge(run: str, stage: str = "moments", event: Any = ONE, **rest: Any) -> Charge:
    return Charge(run, stage, event, **rest)


@pytest.fixture
def photos(ledger: Ledger) -> Dataset:
    """A dataset with a budget of epsilon 2."""
    dataset = ledger.register(rows(60))
    ledger.set_budget(dataset.id, Budget(2.0, DELTA))
    return ledger.find(dataset.id)


# What is charged


def test_charges_compose_exactly(ledger: Ledger, photos: Dataset) -> None:
    half = Gaussian(ONE.mu / 2)
    ledger.charge(photos.id, [charge("r1", f"s{i}", half) for i in range(4)], **IMAGE)
    assert ledger.spent(photos.id).epsilon == pytest.approx(1.0, rel=1e-9)
    # Noise multipliers of five equal stages at epsilon 1 and 2 (design table, analytic Gaussian).
    five = [Gaussian(1 / 8.34)] * 5
    other = ledger.register(rows(60, seed=1, name="other"))
    ledger.charge(other.id, [charge("r2", f"s{i}", e) for i, e in enumerate(five)], **IMAGE)
    assert ledger.spent(other.id).epsilon == pytest.approx(1.0, abs=2e-3)
    assert ledger.spent(other.id, delta=1e-6).epsilon == pytest.approx(epsilon_of(five, 1e-6))


@BOTH_DATABASES
def test_every_run_draws_on_one_budget(ledger: Ledger, photos: Dataset, site: Site) -> None:
    ledger.charge(photos.id, [charge("r1")], **IMAGE)
    with site.open() as another:
        another.charge(photos.id, [charge("r2", event=Gaussian(0.01))], **IMAGE)
    spent = ledger.spent(photos.id)
    assert spent.runs == ("r1", "r2")
    assert spent.events == 2
    assert spent.epsilon > 1.0


def test_the_rights_on_the_page_are_enough_for_a_second_account(
    postgres: Callable[[], str], repository: Path
) -> None:
    page = (repository / "docs" / "ledger.md").read_text(encoding="utf-8")
    site = Site(postgres())
    schema = site.url.rpartition("%3D")[2]
    with site.open() as first:
        photos = first.register(rows(10))
        first.set_budget(photos.id, Budget(2.0, DELTA))
    site.sql(f"CREATE ROLE bert LOGIN; GRANT USAGE ON SCHEMA {schema} TO bert")
    url = re.sub(r"//\w+@", "//bert@", site.url)
    with pytest.raises(LedgerError, match="permission denied"):
        Ledger(url)
    site.sql(page.partition("```sql\n")[2].partition("```")[0])
    with Ledger(url) as second:
        second.charge(second.register(rows(10)).id, [charge("r1")], **IMAGE)
        second.register(rows(10, seed=1))
        assert second.spent(photos.id).runs == ("r1",)


def test_the_budget_may_be_spent_to_the_last(ledger: Ledger, photos: Dataset) -> None:
    ledger.charge(photos.id, [charge("r1", event=Gaussian(mu_of(2.0, DELTA)))], **IMAGE)
    assert ledger.spent(photos.id).epsilon == pytest.approx(2.0, rel=1e-9)
    with pytest.raises(BudgetRefused):
        ledger.charge(photos.id, [charge("r2", event=Gaussian(1e-3))], **IMAGE)


def test_a_refusal_says_what_was_asked_spent_and_missing(ledger: Ledger, photos: Dataset) -> None:
    ledger.charge(photos.id, [charge("r1")], **IMAGE)
    three = Gaussian(mu_of(3.0, DELTA))
    with pytest.raises(BudgetRefused) as caught:
        ledger.charge(photos.id, [charge("r2", event=three)], **IMAGE)
    total = epsilon_of([ONE, three], DELTA)
    assert caught.value.requested == pytest.approx(total)
    assert caught.value.spent == pytest.approx(1.0)
    message = str(caught.value)
    assert f"Requested:  epsilon {total:.4f}" in message
    assert "Spent:      epsilon 1.0000" in message
    assert f"Difference: epsilon {total - 2:.4f}" in message
    assert "photos" in message
    assert caught.value.exit_code == 3


@BOTH_DATABASES
def test_all_is_charged_or_nothing(ledger: Ledger, photos: Dataset) -> None:
    two = [charge("r1", "small", Gaussian(0.01)), charge("r1", "large", Gaussian(9.0))]
    with pytest.raises(BudgetRefused):
        ledger.charge(photos.id, two, **IMAGE)
    assert ledger.spent(photos.id).events == 0
    assert ledger.attempts("r1", "small") == 0


def test_without_a_budget_all_is_recorded_and_nothing_refused(ledger: Ledger) -> None:
    dataset = ledger.register(rows(10))
    ledger.charge(dataset.id, [charge("r1", event=Gaussian(20.0))], **IMAGE)
    assert ledger.find(dataset.id).budget is None
    assert ledger.spent(dataset.id) == LedgerSpending(
        epsilon_of([Gaussian(20.0)], 1e-5), 1e-5, 1, ("r1",)
    )


def run_at(epsilon: float) -> Gaussian:
    return run_event(epsilon, DELTA)


def test_the_largest_next_run_is_accepted_and_one_a_little_larger_is_not(
    ledger: Ledger, photos: Dataset
) -> None:
    assert ledger.next_run(photos.id) == 2.0  # all of the budget
    ledger.charge(photos.id, [charge("r1", event=run_at(1.0))], **IMAGE)
    largest = ledger.next_run(photos.id)
    assert largest is not None
    assert largest > 1.5  # more than the difference of the epsilons, which is 1
    with pytest.raises(BudgetRefused, match=rf"Remaining:  epsilon {largest:g}, as one more run"):
        ledger.charge(photos.id, [charge("r2", event=run_at(largest * (1 + 1e-4)))], **IMAGE)
    ledger.charge(photos.id, [charge("r2", event=run_at(largest))], **IMAGE)
    assert ledger.next_run(photos.id) == 0.0
    for small in (0.1, 0.001):  # rounding left epsilon 0.002 of the budget as one run
        with pytest.raises(BudgetRefused, match=r"Remaining:  epsilon 0, as"):
            ledger.charge(photos.id, [charge("r3", event=run_at(small))], **IMAGE)


def test_a_small_run_is_accepted_where_as_much_is_left(ledger: Ledger, photos: Dataset) -> None:
    ledger.charge(photos.id, [charge("r1", event=run_at(1.9995))], **IMAGE)
    assert (ledger.next_run(photos.id) or 0.0) > 0.02
    ledger.charge(photos.id, [charge("r2", event=run_at(0.001))], **IMAGE)


def test_as_many_runs_of_a_share_fit_as_it_says(ledger: Ledger, photos: Dataset) -> None:
    runs = 10
    each = ledger.next_run(photos.id, share=1 / runs)
    assert each is not None
    for number in range(runs):
        assert ledger.next_run(photos.id, share=1 / runs) == each  # of the budget, not of the rest
        ledger.charge(photos.id, [charge(f"r{number}", event=run_at(each))], **IMAGE)
    assert ledger.spent(photos.id).epsilon == pytest.approx(2.0, rel=1e-4)
    with pytest.raises(BudgetRefused):
        ledger.charge(photos.id, [charge("one more", event=run_at(each / 10))], **IMAGE)


def test_the_next_run_at_another_delta_is_accepted_too(ledger: Ledger, photos: Dataset) -> None:
    ledger.charge(photos.id, [charge("r1", event=run_at(1.0))], **IMAGE)
    largest = ledger.next_run(photos.id, 1e-7)
    assert largest is not None
    assert largest > (ledger.next_run(photos.id) or 0)  # the same mu has more epsilon there
    ledger.charge(photos.id, [charge("r2", event=run_event(largest, 1e-7))], **IMAGE)


def test_the_next_run_is_known_beside_releases_that_no_formula_composes(tmp_path: Path) -> None:
    """It was 1 TB of memory: a run of epsilon 5,000,000 was accounted for numerically."""
    with Ledger(tmp_path / "ledger.db") as ledger:
        photos = ledger.register(rows(30))
        ledger.set_budget(photos.id, Budget(0.2, DELTA))
        events: list[Event] = [run_at(0.05), SampledGaussian(0.01, 0.5, 4)]
        for number, event in enumerate(events):
            ledger.charge(photos.id, [charge(f"r{number}", event=event)], **IMAGE)
        largest = ledger.next_run(photos.id)
    assert largest is not None
    assert 0.2 - 1e-4 < epsilon_of([*events, run_at(largest)], DELTA) <= 0.2
    assert epsilon_of([*events, run_at(largest * (1 + 1e-4))], DELTA) > 0.2


def test_what_overlaps_bounds_the_next_run_and_nothing_does_without_a_budget(
    ledger: Ledger, photos: Dataset
) -> None:
    values = rows(40, seed=5)
    part = ledger.register(Rows("part", values.values[:10]))
    assert ledger.next_run(part.id) is None
    whole = ledger.register(values)
    ledger.set_budget(whole.id, Budget(2.0, DELTA))
    assert ledger.next_run(part.id) is None  # words ask for a part of the dataset's own budget
    ledger.set_budget(part.id, Budget(0.5, DELTA))
    assert ledger.next_run(whole.id) == 0.5
    assert ledger.next_run(photos.id) == 2.0


def test_a_budget_below_what_is_spent_refuses_every_later_charge(
    ledger: Ledger, photos: Dataset
) -> None:
    ledger.charge(photos.id, [charge("r1")], **IMAGE)
    spent = ledger.set_budget(photos.id, Budget(0.5, 1e-6))
    assert spent.delta == 1e-6
    assert spent.epsilon > 1.0
    with pytest.raises(BudgetRefused):
        ledger.charge(photos.id, [charge("r2", event=Gaussian(1e-6))], **IMAGE)
    ledger.charge(photos.id, [charge("r1")], **IMAGE)  # paid for already: a resumed run
    assert ledger.find(photos.id).budget == Budget(0.5, 1e-6)
    ledger.set_budget(photos.id, Budget(3.0, DELTA))
    ledger.charge(photos.id, [charge("r2", event=Gaussian(0.1))], **IMAGE)
    assert ledger.spent(photos.id).events == 2


def test_a_unit_or_adjacency_other_than_the_first_is_refused(
    ledger: Ledger, photos: Dataset
) -> None:
    ledger.charge(photos.id, [charge("r1", event=Gaussian(0.1))], **IMAGE)
    for other in ({"unit": "rows sharing 'patient'"}, {"adjacency": "replace-one"}):
        with pytest.raises(LedgerError, match="do not compose"):
            ledger.charge(photos.id, [charge("r2", event=Gaussian(0.1))], **{**IMAGE, **other})
    assert ledger.find(photos.id).unit == "image"
    assert ledger.find(photos.id).adjacency == "add-remove"
    assert ledger.spent(photos.id).events == 1


def test_a_charge_that_cannot_be_accounted_for_never_reaches_a_row(
    ledger: Ledger, photos: Dataset
) -> None:
    for event in (Gaussian(0.0), Gaussian(math.nan), Gaussian(0.1, math.inf)):
        with pytest.raises(LedgerError):
            ledger.charge(photos.id, [charge("r1", event=event)], **IMAGE)
    with pytest.raises(LedgerError, match="plain JSON"):
        ledger.charge(photos.id, [charge("r1", details={"a": np.zeros(2)})], **IMAGE)
    with pytest.raises(LedgerError, match="attempt"):
        charge("r1", attempt=0)
    assert ledger.spent(photos.id).events == 0


def test_an_unknown_dataset_is_refused(ledger: Ledger) -> None:
    for call in (
        lambda: ledger.charge("none", [charge("r")], **IMAGE),
        lambda: ledger.spent("none"),
        lambda: ledger.set_budget("none", Budget(1.0)),
        lambda: ledger.preview("none", [ONE], **IMAGE),
        lambda: ledger.record_release("none", "r", "s", 1, "00"),
    ):
        with pytest.raises(LedgerError, match="no dataset of id 'none'"):
            call()


def test_a_preview_says_what_a_charge_would_do(ledger: Ledger, photos: Dataset) -> None:
    ledger.charge(photos.id, [charge("r1")], **IMAGE)
    before = len(list(ledger.rows()))
    total = epsilon_of([ONE, ONE], DELTA)
    assert ledger.preview(photos.id, [ONE], **IMAGE, delta=1e-7) == Preview(
        2.0, ledger.spent(photos.id).epsilon, total, DELTA, None
    )
    over = ledger.preview(photos.id, [ONE] * 9, **IMAGE)
    assert "Difference" in str(over.refused)
    mixed = ledger.preview(photos.id, [ONE], unit="image", adjacency="replace-one")
    assert "do not compose" in str(mixed.refused)
    fresh = ledger.preview(None, [ONE], **IMAGE, delta=1e-7)
    assert fresh == Preview(None, 0.0, epsilon_of([ONE], 1e-7), 1e-7, None)
    assert len(list(ledger.rows())) == before


def test_a_check_refuses_what_a_charge_would_and_records_nothing(
    ledger: Ledger, photos: Dataset
) -> None:
    ledger.check(photos.id, [charge("r1")], **IMAGE)
    assert ledger.spent(photos.id).events == 0
    ledger.charge(photos.id, [charge("r1")], **IMAGE)
    ledger.check(photos.id, [charge("r1")], **IMAGE)  # paid for already
    with pytest.raises(BudgetRefused):
        ledger.check(photos.id, [charge("r2", event=Gaussian(9.0))], **IMAGE)
    with pytest.raises(LedgerError, match="do not compose"):
        ledger.check(photos.id, [charge("r2")], **{**IMAGE, "unit": "patient"})
    with pytest.raises(LedgerError, match="something else"):
        ledger.check(photos.id, [charge("r1", event=Gaussian(0.1))], **IMAGE)
    assert ledger.spent(photos.id).events == 1


# What a resumed run pays


@BOTH_DATABASES
def test_spent_is_spent_when_a_run_resumes(ledger: Ledger, photos: Dataset, site: Site) -> None:
    """Defect 1 of the field: a resumed run forgot, and a claimed epsilon of 1 was 1.32."""
    ledger.set_budget(photos.id, Budget(1.0, DELTA))
    ledger.charge(photos.id, [charge("r1")], **IMAGE)
    with site.open() as resumed:
        resumed.charge(photos.id, [charge("r1")], **IMAGE)  # the same attempt: nothing new
        assert resumed.spent(photos.id).epsilon == pytest.approx(1.0, rel=1e-9)
        assert resumed.attempts("r1", "moments") == 1
        with pytest.raises(BudgetRefused):  # its noise was drawn and lost: paid again, or refused
            resumed.charge(photos.id, [charge("r1", attempt=2)], **IMAGE)
        resumed.set_budget(photos.id, Budget(2.0, DELTA))
        resumed.charge(photos.id, [charge("r1", attempt=2)], **IMAGE)
        assert resumed.attempts("r1", "moments") == 2
        assert resumed.spent(photos.id).epsilon == pytest.approx(epsilon_of([ONE, ONE], DELTA))


def test_a_repeated_charge_must_be_the_same(ledger: Ledger, photos: Dataset) -> None:
    ledger.set_budget(photos.id, Budget(9.0, DELTA))
    paid = charge("r1", event=Gaussian(1, slack=0.1), details={"sigma": 0.1 + 0.2, "query": "ä"})
    ledger.charge(photos.id, [paid], **IMAGE)
    ledger.charge(photos.id, [paid, charge("r1", "votes", Gaussian(0.01))], **IMAGE)
    assert ledger.spent(photos.id).events == 2
    for other in (
        charge("r1", event=Gaussian(0.5), details=paid.details),
        charge("r1", event=paid.event, details={"sigma": 0.3, "query": "ä"}),
    ):
        with pytest.raises(LedgerError, match="charged before for something else"):
            ledger.charge(photos.id, [other], **IMAGE)
    elsewhere = ledger.register(rows(60, seed=1))
    with pytest.raises(LedgerError, match="charged before for something else"):
        ledger.charge(elsewhere.id, [paid], **IMAGE)
    assert ledger.spent(photos.id).events == 2


def test_one_charge_cannot_stand_for_two_releases(ledger: Ledger, photos: Dataset) -> None:
    with pytest.raises(LedgerError, match="twice"):
        ledger.charge(photos.id, [charge("r1"), charge("r1")], **IMAGE)
    with pytest.raises(LedgerError, match="nothing was charged"):
        ledger.record_release(photos.id, "r1", "moments", 1, "aa")
    ledger.charge(photos.id, [charge("r1")], **IMAGE)
    assert ledger.released("r1", "moments", 1) is None
    ledger.record_release(photos.id, "r1", "moments", 1, "aa")
    ledger.record_release(photos.id, "r1", "moments", 1, "aa")
    assert ledger.released("r1", "moments", 1) == "aa"
    with pytest.raises(LedgerError, match="another value"):
        ledger.record_release(photos.id, "r1", "moments", 1, "bb")
    assert [row.kind for row in ledger.rows()].count("release") == 1


# Which dataset it is


def test_a_copy_is_recognised_under_any_name_and_in_any_order(ledger: Ledger, site: Site) -> None:
    source = rows(2000)
    known = ledger.register(source)
    copy = Rows("elsewhere/renamed", source.values[::-1].copy())
    with site.open() as another:
        assert another.look_up(copy)[0] == known
        assert another.register(copy) == known
    assert ledger.datasets() == [known]


@pytest.mark.parametrize("count", [40, 5000])
def test_a_few_rows_more_or_fewer_open_no_fresh_budget(ledger: Ledger, count: int) -> None:
    source, extra = rows(count), rows(count // 10, seed=1)
    known = ledger.register(source)
    fewer = Rows("fewer", source.values[count // 10 :])
    more = Rows("more", np.concatenate([source.values, extra.values]))
    twice = Rows("twice", np.concatenate([source.values, source.values]))
    for changed in (fewer, more, twice):
        found = ledger.look_up(changed)[0]
        assert found is not None
        assert found.id == known.id


@pytest.mark.parametrize("count", [40, 5000])
def test_another_dataset_is_another(ledger: Ledger, count: int) -> None:
    source, other = rows(count), rows(count, seed=1)
    ledger.register(source)
    a_third = Rows("third", np.concatenate([source.values[: count // 2], other.values]))
    assert ledger.look_up(other)[0] is None
    assert ledger.look_up(a_third)[0] is None
    assert ledger.register(other).id != ledger.register(source).id


def test_a_dataset_that_grows_bit_by_bit_stays_the_same(ledger: Ledger) -> None:
    everything = rows(100).values
    first = ledger.register(Rows("month 0", everything[:50]))
    for month in range(1, 6):
        window = everything[10 * month : 10 * month + 50]  # two thirds are the month before's
        assert ledger.register(Rows(f"month {month}", window)).id == first.id
    assert ledger.look_up(Rows("now", everything[50:]))[0] == first
    assert ledger.find("month 3") == first


def test_the_nearest_dataset_is_meant(ledger: Ledger) -> None:
    source = rows(200)
    half = Rows("half", np.concatenate([source.values[:150], rows(150, seed=1).values]))
    first = ledger.register(half)
    second = ledger.register(source)
    assert first.id != second.id
    nearly = ledger.look_up(Rows("nearly", source.values[:190]))[0]
    assert nearly is not None
    assert nearly.id == second.id


def test_a_dataset_without_rows_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="no rows"):
        ledger.register(rows(0))


# What may be seen of it


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@BOTH_DATABASES
def test_rows_tell_everything_but_the_key_and_the_private(
    ledger: Ledger, site: Site, photos: Dataset
) -> None:
    """Defect 7 of the field: a number of images, which is private, taken for public."""
    source = rows(137, seed=5, name="scans")
    scans = ledger.register(source)
    ledger.register(Rows("scans 2", source.values[:-3]))
    ledger.charge(scans.id, [charge("r1", details={"query": "counts", "sigma": 3.5})], **IMAGE)
    ledger.record_release(scans.id, "r1", "moments", 1, "ab" * 32)
    of_scans = list(ledger.rows(scans.id))
    assert [row.kind for row in of_scans] == ["dataset", "variant", "charge", "release"]
    assert of_scans[2].data["details"] == {"query": "counts", "sigma": 3.5}
    assert of_scans[2].data["event"] == {"kind": "gaussian", "mu": ONE.mu, "slack": 0.0}
    assert [row.seq for row in ledger.rows()] == [1, 2, 3, 4, 5, 6]
    assert datetime.fromisoformat(of_scans[0].time).utcoffset() is not None
    exported = json.dumps([asdict(row) for row in ledger.rows()])
    assert ledger.key.hex() not in exported
    assert not [d for d in source.digests(ledger.key) if d.hex() in exported]
    assert not {137, 134, "137", "134"} & set(leaves([row.data for row in ledger.rows()]))
    # The key is in the ledger all the same, or none of this would have been checked.
    assert site.sql("SELECT value FROM ledger_meta WHERE name = 'key'")[0][0] == ledger.key.hex()


def test_a_ledger_shows_and_pickles_no_key(ledger: Ledger) -> None:
    assert ledger.key.hex() not in repr(ledger)
    assert len(ledger.key) == 32
    with pytest.raises(PrivateValueError):
        pickle.dumps(ledger)


@BOTH_DATABASES
def test_threads_may_share_a_ledger(ledger: Ledger, photos: Dataset) -> None:
    event = Gaussian(0.01)

    def spend(run: str) -> None:
        for attempt in range(1, 6):
            ledger.charge(photos.id, [charge(run, event=event, attempt=attempt)], **IMAGE)

    threads = [threading.Thread(target=spend, args=(f"r{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent(photos.id).epsilon == pytest.approx(epsilon_of([event] * 20, DELTA))
    assert ledger.verify() == []


# What verify finds


@pytest.fixture
def filled(ledger: Ledger, photos: Dataset) -> Dataset:
    """Rows 1 and 2: dataset and budget. Rows 3 to 8: charges of stages s3 to s8."""
    stages = [charge("r1", f"s{number}", Gaussian(0.1)) for number in range(3, 9)]
    ledger.charge(photos.id, stages, **IMAGE)
    assert ledger.spent(photos.id).events == 6
    assert ledger.verify() == []
    return photos


def moved(*steps: tuple[int, int]) -> str:
    """Statements that give rows other numbers."""
    return "; ".join(f"UPDATE ledger_rows SET seq = {to} WHERE seq = {seq}" for seq, to in steps)


CHEAPER = "UPDATE ledger_rows SET entry = replace(entry, '\"mu\":0.1', '\"mu\":0.01')"
DAMAGE: dict[str, tuple[str, list[str]]] = {
    "a row that was changed": (
        f"{CHEAPER} WHERE seq = 5",
        [r"row 5 \(charge, run r1, stage s5.*changed"],
    ),
    "a row that is no JSON any more": (
        "UPDATE ledger_rows SET entry = '{\"kind' WHERE seq = 5",
        [r"row 5 \(unreadable\)"],
    ),
    "a row that is missing": ("DELETE FROM ledger_rows WHERE seq = 5", ["row 5 is missing$"]),
    "rows that are missing": (
        "DELETE FROM ledger_rows WHERE seq IN (4, 5)",
        ["rows 4 to 5 are missing$"],
    ),
    "a gap that was closed": (
        f"DELETE FROM ledger_rows WHERE seq = 5; {moved((6, 5), (7, 6), (8, 7))}",
        [
            r"row 5 \(charge, run r1, stage s6.*was changed, moved",
            "row 6 ",
            "row 7 ",
            "row 8 is missing, at the end",
        ],
    ),
    "rows that were swapped": (
        moved((4, 99), (6, 4), (99, 6)),
        [
            r"row 4 \(charge, run r1, stage s6.*was changed, moved",
            r"row 6 \(charge, run r1, stage s4",
        ],
    ),
    "the last row cut off": (
        "DELETE FROM ledger_rows WHERE seq > 7",
        ["row 8 is missing, at the end"],
    ),
    "all rows cut off": ("DELETE FROM ledger_rows", ["rows 1 to 8 are missing, at the end"]),
    "a head set back with the rows": (
        "DELETE FROM ledger_rows WHERE seq > 5; UPDATE ledger_head SET count = 5, "
        "hash = (SELECT hash FROM ledger_rows WHERE seq = 5)",
        ["the head was changed"],
    ),
    "a head that is missing": ("DELETE FROM ledger_head", ["the head is missing"]),
}
"""Statements of an intruder, and what is found."""


@BOTH_DATABASES
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_nothing_is_charged_any_more(
    ledger: Ledger, site: Site, filled: Dataset, damage: str
) -> None:
    statements, patterns = DAMAGE[damage]
    for statement in statements.split("; "):
        site.sql(statement)
    for pattern, problem in zip(patterns, ledger.verify(), strict=True):
        assert re.match(pattern, problem)
    with site.open() as opened:
        for call in (
            lambda: opened.charge(filled.id, [charge("r9", event=Gaussian(0.01))], **IMAGE),
            lambda: opened.spent(filled.id),
            opened.datasets,
        ):
            with pytest.raises(LedgerError, match="does not add up"):
                call()
        assert list(opened.rows()) is not None
    if "row that was changed" in damage:
        # A process that had read it before still counts what was really spent.
        assert ledger.spent(filled.id).epsilon == epsilon_of([Gaussian(0.1)] * 6, DELTA)


@BOTH_DATABASES
def test_a_row_forged_with_another_key_is_found(
    ledger: Ledger, site: Site, filled: Dataset
) -> None:
    last = hash_of(site, 8)
    more = {"kind": "budget", "dataset": filled.id, "epsilon": 99.0, "delta": DELTA, "time": "now"}
    forge(site, bytes(32), chain.Head(8, last, ""), more)
    found = ledger.verify()
    assert len(found) == 2
    assert f"row 9 (budget, dataset {filled.id})" in found[0]
    assert "forged without the key" in found[0]
    assert "head" in found[1]


def test_a_ledger_under_another_key_is_found(ledger: Ledger, site: Site, filled: Dataset) -> None:
    site.sql("UPDATE ledger_meta SET value = :key WHERE name = 'key'", key="00" * 32)
    with site.open() as opened:
        assert opened.verify() == [
            "none of the 8 rows, nor the head, was written with this ledger's key"
        ]


def test_rows_put_back_to_an_older_copy_are_found(
    ledger: Ledger, site: Site, filled: Dataset
) -> None:
    """A fork: the ledger as it was at row 7, gone on from there, has lost row 8."""
    before = hash_of(site, 7)
    site.sql("DELETE FROM ledger_rows WHERE seq = 8")
    other = {"kind": "budget", "dataset": filled.id, "epsilon": 99.0, "delta": DELTA, "time": "now"}
    forge(site, ledger.key, chain.Head(7, before, ""), other)
    forge(site, ledger.key, chain.Head(8, before, ""), other)
    [found] = ledger.verify()
    assert f"row 9 (budget, dataset {filled.id}) does not follow row 8" in found
    with pytest.raises(LedgerError, match="does not add up"):  # it had read another row 8
        ledger.spent(filled.id)
    site.sql("UPDATE ledger_rows SET previous = :other WHERE seq = 9", other=hash_of(site, 8))
    [found] = ledger.verify()
    assert f"row 9 (budget, dataset {filled.id}) was changed" in found


def hash_of(site: Site, seq: int) -> str:
    return str(site.sql("SELECT hash FROM ledger_rows WHERE seq = :seq", seq=seq)[0][0])


def forge(site: Site, key: bytes, after: chain.Head, entry: dict[str, Any]) -> None:
    """Append a row with a key of one's own, and a head to match."""
    link = chain.link_after(key, after, chain.canonical(entry))
    head = chain.head_at(key, link.seq, link.hash)
    site.sql("INSERT INTO ledger_rows VALUES (:seq, :previous, :entry, :hash)", **asdict(link))
    site.sql("UPDATE ledger_head SET count = :count, hash = :hash, seal = :seal", **asdict(head))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"event": {"kind": "zcdp", "rho": 0.1}}, "unknown kind 'zcdp'"),
        ({"event": {"kind": "gaussian"}}, "malformed"),
        ({"kind": "gift"}, "unknown kind 'gift'"),
    ],
)
def test_a_row_of_unknown_kind_is_refused_not_skipped(
    ledger: Ledger, site: Site, filled: Dataset, change: dict[str, Any], words: str
) -> None:
    """A newer version, with the right key, wrote what this one cannot account for."""
    entry = json.loads(site.sql("SELECT entry FROM ledger_rows WHERE seq = 8")[0][0])
    last = hash_of(site, 8)
    forge(site, ledger.key, chain.Head(8, last, ""), {**entry, "stage": "new", **change})
    for _ in range(2):  # and not only the first time
        with pytest.raises(LedgerError, match=words):
            ledger.charge(filled.id, [charge("r9", event=Gaussian(0.01))], **IMAGE)
        with pytest.raises(LedgerError, match=words):
            ledger.spent(filled.id)
    [found] = ledger.verify()
    assert "row 9" in found
    assert words in found


# Where it lives


@BOTH_DATABASES
def test_a_newer_schema_is_refused(ledger: Ledger, site: Site) -> None:
    site.sql("UPDATE ledger_meta SET value = '2' WHERE name = 'schema'")
    with pytest.raises(LedgerError, match="newer version of Understudy"):
        site.open()


@BOTH_DATABASES
def test_tables_that_are_no_ledger_are_refused(ledger: Ledger, site: Site) -> None:
    site.sql("DELETE FROM ledger_meta")
    with pytest.raises(LedgerError, match="is not a ledger"):
        site.open()


def test_a_ledger_that_sqlalchemy_wrote_is_gone_on_with_unchanged(tmp_path: Path) -> None:
    """Versions before November 22 wrote by SQLAlchemy; nothing of their file is converted."""
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SQLALCHEMY_LEDGER.read_text(encoding="utf-8"))
        before = connection.execute("SELECT * FROM ledger_rows").fetchall()
    with Ledger(path) as ledger:
        assert ledger.verify() == []
        photos = ledger.look_up(rows(12))[0]
        assert photos is not None
        assert (photos.name, photos.budget) == ("photos", Budget(2.0, DELTA))
        assert [other.name for other in ledger.concerned(photos.id)] == ["part"]
        spent = ledger.spent(photos.id)
        assert (spent.epsilon, spent.runs) == (pytest.approx(0.841924, abs=1e-5), ("r1", "r2"))
        assert [one.run for one in spent.disclosures] == ["r3"]
        assert ledger.released("r1", "means", 1) == "00ff"
        with pytest.raises(BudgetRefused, match=r"Spent:      epsilon 0\.8419"):
            ledger.charge(photos.id, [charge("r4", event=Gaussian(mu_of(2.0, DELTA)))], **IMAGE)
        ledger.charge(photos.id, [charge("r4", event=Gaussian(0.1))], **IMAGE)
        assert ledger.verify() == []
    with closing(sqlite3.connect(path)) as connection:
        after = connection.execute("SELECT * FROM ledger_rows").fetchall()
    assert after[: len(before)] == before
    assert len(after) == len(before) + 2  # the charge, and that of the part


@pytest.mark.parametrize("given", [4, 6])
def test_a_source_that_gives_no_digest_for_each_record_is_refused(
    given: int, tmp_path: Path
) -> None:
    """A reader that left some out was known by the others alone."""

    class Short(Rows):
        def digests(self, key: bytes) -> Iterator[bytes]:
            return iter([bytes([row] * 16) for row in range(given)])

    source = Short("short", np.ones((5, 4), np.float32))
    with Ledger(tmp_path / "ledger.db") as ledger:
        with pytest.raises(LedgerError, match=f"short gives {given} digests for 5 records"):
            ledger.register(source)
        assert ledger.datasets() == []


def test_the_owner_alone_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.db"
    before = os.umask(0)
    try:
        with Ledger(path) as ledger:
            ledger.register(rows(5))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_default_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    Ledger().close()
    assert (tmp_path / "home/.local/share/understudy/ledger.db").exists()
    monkeypatch.setenv("XDG_DATA_HOME", "relative")  # the XDG specification: ignore it
    assert Ledger().address == str(tmp_path / "home/.local/share/understudy/ledger.db")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Ledger().address == str(tmp_path / "data/understudy/ledger.db")
    monkeypatch.chdir(tmp_path)
    assert Ledger("here.db").address == str(tmp_path / "here.db")
    assert Ledger("~/there.db").address == str(tmp_path / "home/there.db")


@BOTH_DATABASES
def test_a_ledger_that_is_only_read_is_not_made(site: Site) -> None:
    with Ledger(site.url, make=False) as ledger:
        assert not ledger.exists
        assert (ledger.datasets(), list(ledger.rows()), ledger.verify()) == ([], [], [])
        assert ledger.look_up(rows(20)) == (None, ())
        asked = ledger.preview(None, [Gaussian(1.0, 0.0)], unit="image", adjacency="add-remove")
        assert asked.spent == 0 < asked.after
        with pytest.raises(LedgerError, match="opened to be read"):
            ledger.register(rows(20))
    with pytest.raises(Exception, match=r"no such table|does not exist"):
        site.sql("SELECT count(*) FROM ledger_rows")
    with site.open() as made:
        made.register(rows(20))
    with Ledger(site.url, make=False) as ledger:
        assert len(ledger.datasets()) == 1


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    prose, other = tmp_path / "prose.txt", tmp_path / "other.db"
    prose.write_text("Dear diary, " * 100)
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    kept = {path: path.read_bytes() for path in (prose, other)}
    for path in (prose, other, tmp_path):
        with pytest.raises(LedgerError, match=str(path)):
            Ledger(path)
    assert {path: path.read_bytes() for path in (prose, other)} == kept


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://u:pw@host/db", "~no-such-user/ledger.db"]
)
def test_a_url_that_cannot_hold_a_ledger_is_refused(url: str) -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://owner:hunter2@127.0.0.1:1/ledger",
        "postgres://owner:hunter2@127.0.0.1:1/ledger",
        "postgresql://127.0.0.1:1/ledger?user=owner&password=hunter2",
    ],
)
def test_an_unreachable_server_is_named_without_the_password(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(LedgerError) as caught:
        Ledger(url)
    assert "postgresql://127.0.0.1:1/ledger" in str(caught.value)
    assert "cannot be used" in str(caught.value)
    shown: BaseException | None = caught.value
    while shown is not None:  # nor in what it was raised from
        assert "hunter2" not in f"{shown} {shown!r}"
        shown = shown.__cause__ or shown.__context__


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://owner:hunter2:@host:hunter2/ledger",
        "postgresql://owner:p@hunter2@127.0.0.1:1/ledger",
        "postgresql://owner:12/hunter2@127.0.0.1:1/ledger",
    ],
)
def test_a_url_that_cannot_be_read_hides_what_it_holds(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(LedgerError, match="cannot be read") as caught:
        Ledger(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_server_with_a_substitute_is_named_with_it() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(LedgerError, match=r"postgresql://127.0.0.1,localhost:1,1/x cannot be used"):
        Ledger("postgresql://owner:hunter2@127.0.0.1:1,localhost:1/x")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:owner:hunter2@127.0.0.1/ledger",
        "postgresql:/owner:hunter2@127.0.0.1/ledger",
        "sqlite:ledger.db",
        "host=127.0.0.1 dbname=ledger password=hunter2",
    ],
)
def test_a_misspelled_address_makes_no_file_of_that_name(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match="lacks ://") as caught:
        Ledger(address)
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@BOTH_DATABASES
def test_a_ledger_that_is_lost_as_it_commits_does_not_say_whether_it_did(
    site: Site, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ledger.register(rows(5))

    def lose(connection: Any) -> None:
        connection.execute("COMMIT")
        connection.close()
        connection.execute("SELECT 1")

    with monkeypatch.context() as lost:
        lost.setattr("understudy.privacy.ledger.database.commit", lose)
        with pytest.raises(CommitInDoubt, match="cannot be used"):
            ledger.charge(dataset.id, [charge("r1")], **IMAGE)
    assert ledger.spent(dataset.id).events == 1
    ledger.charge(dataset.id, [charge("r1")], **IMAGE)  # asked again: it was charged once
    assert ledger.spent(dataset.id).events == 1


def test_a_database_that_goes_away_is_a_ledger_error(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    dataset = ledger.register(rows(5))
    (tmp_path / "ledger.db").write_bytes(b"not a database any more" * 100)
    with pytest.raises(LedgerError, match="cannot be used"):
        ledger.charge(dataset.id, [charge("r1")], **IMAGE)


def test_who_locks_a_whole_file_is_named_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening it waited for a minute, in silence."""
    path, notices = tmp_path / "ledger.db", list[str]()
    with Ledger(path) as ledger, ledger._database.write() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")

        def let_go(notice: str) -> None:
            notices.append(notice)
            other.execute("COMMIT")

        monkeypatch.setattr(database, "NOTICE_S", 0.01)
        assert Ledger(path, let_go, make=False).datasets() == []
    (notice,) = notices
    assert notice.startswith(f"waiting for the ledger at {path}: ")
