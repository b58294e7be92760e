"""Datasets that share records answer for one another.

A holds the records 0 to 999, B 1,000 to 1,999 and so on: small enough for every estimate to be
exact.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.conftest import Rows, Site, rows
from tests.privacy.test_ledger import forge, hash_of

from understudy.core.errors import BudgetRefused, LedgerError
from understudy.privacy.accounting import Gaussian, epsilon_of, mu_of
from understudy.privacy.budget import Budget
from understudy.privacy.ledger import chain
from understudy.privacy.ledger.ledger import Charge, Dataset, Ledger

DELTA = 1e-5
IMAGE: dict[str, Any] = {"unit": "image", "adjacency": "add-remove"}
ONE = Gaussian(mu_of(1.0, DELTA))
EVERYTHING = rows(4000).values


def of(name: str, *parts: tuple[int, int]) -> Rows:
    """A source of the records in these ranges."""
    return Rows(name, np.concatenate([EVERYTHING[start:stop] for start, stop in parts]))


A, B, C = of("A", (0, 300)), of("B", (300, 600)), of("C", (600, 900))
UNION = of("A and B", (0, 600))


def charge(run: str, *stages: str, mu: float = ONE.mu) -> list[Charge]:
    return [Charge(run, stage, Gaussian(mu)) for stage in stages or ("moments",)]


@pytest.fixture
def known(ledger: Ledger) -> dict[str, Dataset]:
    """A and B, each with a total of epsilon 2."""
    found = {source.name: ledger.register(source) for source in (A, B)}
    for dataset in found.values():
        ledger.set_budget(dataset.id, Budget(2.0, DELTA))
    return found


def spent(ledger: Ledger, dataset: Dataset) -> float:
    return ledger.spent(dataset.id, DELTA).epsilon


def test_a_union_is_refused_where_one_of_its_parts_is_spent(
    ledger: Ledger, known: dict[str, Dataset]
) -> None:
    """It was charged to A alone once, and gave away B's records beyond B's budget."""
    ledger.charge(known["B"].id, charge("r1", mu=mu_of(2.0, DELTA)), **IMAGE)
    union = ledger.register(UNION)
    assert union.id not in {dataset.id for dataset in known.values()}
    before = len(list(ledger.rows()))
    with pytest.raises(BudgetRefused) as caught:
        ledger.charge(union.id, charge("r2", "a", "b"), **IMAGE)
    assert caught.value.dataset == "B"
    message = str(caught.value)
    assert f"the budget of B (id {known['B'].id})" in message
    assert "A and B" in message
    assert len(list(ledger.rows())) == before
    assert spent(ledger, known["A"]) == 0.0
    with pytest.raises(BudgetRefused, match="budget of B"):
        ledger.check(union.id, charge("r2"), **IMAGE)


def test_a_union_is_charged_to_each_part_and_to_itself_once(
    ledger: Ledger, known: dict[str, Dataset], site: Site
) -> None:
    union = ledger.register(UNION)
    ledger.charge(union.id, charge("r1", "a", "b", mu=ONE.mu / 2), **IMAGE)
    everyone = [*known.values(), union]
    half = [Gaussian(ONE.mu / 2)] * 2
    assert [spent(ledger, dataset) for dataset in everyone] == [epsilon_of(half, DELTA)] * 3
    with site.open() as resumed:  # the same run again
        resumed.charge(union.id, charge("r1", "a", "b", mu=ONE.mu / 2), **IMAGE)
        resumed.record_release(union.id, "r1", "a", 1, "aa")
        resumed.charge(union.id, [Charge("r1", "a", half[0], attempt=2)], **IMAGE)
    assert [ledger.spent(dataset.id).events for dataset in everyone] == [3, 3, 3]
    assert [ledger.spent(dataset.id).runs for dataset in everyone] == [("r1",)] * 3
    of_b = list(ledger.rows(known["B"].id))
    assert [row.kind for row in of_b] == ["dataset", "budget", *["shared charge"] * 3]
    assert {row.data["run_on"] for row in of_b[2:]} == {union.id}
    assert ledger.attempts("r1", "a") == 2
    assert ledger.verify() == []


def test_a_run_on_a_part_draws_on_the_union_and_not_on_the_other_part(
    ledger: Ledger, known: dict[str, Dataset]
) -> None:
    union = ledger.register(UNION)
    ledger.set_budget(union.id, Budget(1.0, DELTA))
    ledger.charge(known["A"].id, charge("r1"), **IMAGE)
    assert spent(ledger, union) == pytest.approx(1.0)
    assert spent(ledger, known["B"]) == 0.0
    with pytest.raises(BudgetRefused, match="budget of A and B"):
        ledger.charge(known["B"].id, charge("r2", mu=0.01), **IMAGE)
    names = [dataset.name for dataset in ledger.concerned(union.id)]
    assert names == ["A", "B"]
    assert [dataset.name for dataset in ledger.concerned(known["A"].id)] == ["A and B"]


@pytest.mark.parametrize(
    ("source", "concerned"),
    [
        (of("small part of A", (0, 30)), ["A"]),
        (of("most of both", (0, 200), (350, 600), (900, 1000)), ["A", "B"]),
        (of("A and half of B", (0, 450)), ["A", "B"]),
        (of("A and little of B", (0, 400)), ["A"]),
        (of("little of both", (0, 100), (300, 400), (900, 1200)), []),
        (of("both in much else", (0, 600), (900, 3900)), ["A", "B"]),
        (of("another", (900, 1200)), []),
    ],
)
def test_who_is_concerned(
    ledger: Ledger, known: dict[str, Dataset], source: Rows, concerned: list[str]
) -> None:
    own, others = ledger.look_up(source)
    dataset = ledger.register(source)
    charged = {other.name for other in ledger.concerned(dataset.id)} | {dataset.name}
    assert charged - {source.name} == set(concerned)
    assert {other.name for other in (others if own is None else (own, *others))} == set(concerned)
    ledger.charge(dataset.id, charge("r1"), **IMAGE)
    for name, page in known.items():
        assert ledger.spent(page.id).events == (name in concerned)


def test_variants_of_a_union_stay_the_union_and_a_wider_one_does_not(
    ledger: Ledger, known: dict[str, Dataset]
) -> None:
    union = ledger.register(UNION)
    assert ledger.register(of("a few more", (0, 600), (900, 920))).id == union.id
    ledger.register(C)
    wider = ledger.register(of("all three", (0, 900)))
    assert wider.id != union.id
    assert [dataset.name for dataset in ledger.concerned(wider.id)] == ["A", "B", "A and B", "C"]
    # The parts are what they were, and not tied to one another by their union.
    assert ledger.look_up(A)[0] == ledger.find("A")
    assert "B" not in [dataset.name for dataset in ledger.concerned(known["A"].id)]


def test_what_the_parts_protect_must_be_what_the_union_protects(
    ledger: Ledger, known: dict[str, Dataset]
) -> None:
    ledger.charge(known["B"].id, charge("r1", mu=0.1), unit="patient", adjacency="add-remove")
    union = ledger.register(UNION)
    with pytest.raises(LedgerError, match=r"charged to B \(id .* has the unit: patient, "):
        ledger.charge(union.id, charge("r2", mu=0.1), **IMAGE)
    assert spent(ledger, known["A"]) == 0.0
    ledger.charge(union.id, charge("r2", mu=0.1), unit="patient", adjacency="add-remove")
    assert ledger.find("A").unit == "patient"


def test_a_dry_run_of_a_union_that_was_never_met(ledger: Ledger, known: dict[str, Dataset]) -> None:
    ledger.charge(known["B"].id, charge("r1", mu=mu_of(2.0, DELTA)), **IMAGE)
    own, others = ledger.look_up(UNION)
    assert own is None
    ids = [other.id for other in others]
    preview = ledger.preview(None, [ONE], **IMAGE, concerned=ids)
    assert preview.concerned == ("A", "B")
    assert "the budget of B" in str(preview.refused)
    assert (preview.spent, preview.budget) == (0.0, None)
    union = ledger.register(UNION)
    again = ledger.preview(union.id, [ONE], **IMAGE)
    assert (again.concerned, again.after) == (preview.concerned, preview.after)
    assert again.refused is not None


def test_a_charge_of_one_run_is_for_one_dataset_and_what_overlaps(
    ledger: Ledger, known: dict[str, Dataset]
) -> None:
    union = ledger.register(UNION)
    ledger.charge(union.id, charge("r1"), **IMAGE)
    for part in known.values():
        with pytest.raises(LedgerError, match="charged before for something else"):
            ledger.charge(part.id, charge("r1"), **IMAGE)
        with pytest.raises(LedgerError, match="nothing was charged to"):
            ledger.record_release(part.id, "r1", "moments", 1, "aa")


def test_a_resumed_run_is_not_refused_for_what_was_registered_since(
    ledger: Ledger, known: dict[str, Dataset]
) -> None:
    ledger.charge(known["A"].id, charge("r1"), **IMAGE)
    union = ledger.register(UNION)
    ledger.set_budget(union.id, Budget(0.1, DELTA))
    ledger.charge(known["A"].id, charge("r1"), **IMAGE)
    assert spent(ledger, union) == 0.0
    with pytest.raises(BudgetRefused, match="A and B"):  # its noise was lost: a new release
        ledger.charge(known["A"].id, [Charge("r1", "moments", ONE, attempt=2)], **IMAGE)


def test_a_shared_charge_that_was_changed_is_found(
    ledger: Ledger, site: Site, known: dict[str, Dataset]
) -> None:
    union = ledger.register(UNION)
    ledger.charge(union.id, charge("r1", mu=0.125), **IMAGE)
    last = len(list(ledger.rows()))
    entry = site.sql("SELECT entry FROM ledger_rows WHERE seq = :seq", seq=last)[0][0]
    assert "shared charge" in entry
    site.sql(
        "UPDATE ledger_rows SET entry = :entry WHERE seq = :seq",
        entry=entry.replace('"mu":0.125', '"mu":0.0125'),
        seq=last,
    )
    [found] = ledger.verify()
    assert f"row {last} (shared charge, run r1" in found
    with site.open() as opened, pytest.raises(LedgerError, match="does not add up"):
        opened.spent(known["B"].id)


def test_a_ledger_of_the_first_version_is_read_and_recognises_overlaps(
    ledger: Ledger, site: Site, known: dict[str, Dataset]
) -> None:
    """Its sketches hold 256 digests and do not say so; its budgets may have any delta."""
    big = Rows("big", rows(3000, seed=9).values)
    page = {"kind": "dataset", "dataset": "0" * 16, "name": "big", "time": "2026-01-01"}
    budget = {"kind": "budget", "dataset": "0" * 16, "epsilon": 1.0, "delta": 1e-12, "time": "now"}
    digests = sorted(big.digests(ledger.key))
    total = sum(int.from_bytes(d, "big") for d in digests) % 2**128
    sketch = {"total": f"{total:032x}", "lowest": b"".join(digests[:256]).hex()}
    for entry in ({**page, "sketch": sketch}, budget):
        last = len(list(ledger.rows()))
        forge(site, ledger.key, chain.Head(last, hash_of(site, last), ""), entry)
    recognised = ledger.look_up(big)[0]
    assert recognised is not None
    assert recognised.name == "big"
    assert recognised.budget is not None
    assert recognised.budget.delta == 1e-12
    both = ledger.register(Rows("big and A", np.concatenate([big.values, A.values])))
    assert [dataset.name for dataset in ledger.concerned(both.id)] == ["A", "big"]
    with pytest.raises(LedgerError, match=r"budget of big .*set at delta 1e-12 by an older"):
        ledger.charge(both.id, charge("r1"), **IMAGE)
    ledger.set_budget("0" * 16, Budget(2.0, 1e-11))
    ledger.charge(both.id, charge("r1"), **IMAGE)
    assert ledger.verify() == []


def test_rows_say_nothing_of_how_many_records_are_shared(
    ledger: Ledger, known: dict[str, Dataset]
) -> None:
    union = ledger.register(UNION)
    ledger.charge(union.id, charge("r1"), **IMAGE)
    exported = json.dumps([asdict(row) for row in ledger.rows()])
    assert "lowest" not in exported
    assert not [d for d in A.digests(ledger.key) if d.hex() in exported]


PARTS = 6
subsets = st.sets(st.integers(0, PARTS - 1), min_size=1)


@given(
    st.lists(subsets, min_size=1, max_size=4),
    st.lists(st.tuples(subsets, st.floats(0.05, 1.5)), min_size=1, max_size=5),
    st.lists(st.floats(0.3, 2.0), min_size=4, max_size=4),
)
@settings(max_examples=15, deadline=None)
def test_no_known_dataset_ever_spends_more_than_its_budget(
    tmp_path_factory: pytest.TempPathFactory,
    datasets: list[set[int]],
    runs: list[tuple[set[int], float]],
    budgets: list[float],
) -> None:
    """Whatever is run: each run is charged to all it concerns, or to none.

    Datasets are of some of six parts of ten records each. Held against sets of records: a known
    dataset of which a run's source shares half of the smaller one has that run in its own account,
    and everything in its account together stays within its budget.
    """
    place = tmp_path_factory.mktemp("ledger")
    with Ledger(Path(place) / "ledger.db") as ledger:
        known: dict[str, set[int]] = {}
        totals: dict[str, float] = {}
        for number, (parts, total) in enumerate(zip(datasets, budgets, strict=False)):
            page = ledger.register(of(f"dataset {number}", *((10 * i, 10 * i + 10) for i in parts)))
            known.setdefault(page.id, parts)
            totals[page.id] = total
            ledger.set_budget(page.id, Budget(total, DELTA))
        for number, (parts, epsilon) in enumerate(runs):
            page = ledger.register(of(f"run {number}", *((10 * i, 10 * i + 10) for i in parts)))
            before = {one: ledger.spent(one, DELTA) for one in known}
            run = f"r{number}"
            try:
                ledger.charge(page.id, charge(run, "a", "b", mu=mu_of(epsilon, DELTA)), **IMAGE)
            except BudgetRefused:
                assert {one: ledger.spent(one, DELTA) for one in known} == before
                continue
            for one, records in known.items():
                if len(records & parts) >= 0.5 * min(len(records), len(parts)):
                    assert run in ledger.spent(one, DELTA).runs
                    assert ledger.spent(one, DELTA).events == before[one].events + 2
        for one, total in totals.items():
            assert ledger.spent(one, DELTA).epsilon <= total * (1 + 1e-9)
        assert ledger.verify() == []
