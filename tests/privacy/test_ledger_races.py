"""Two processes race for the last of a budget; others are killed halfway. On both databases."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

import pytest
from tests.privacy.conftest import BOTH_DATABASES, Rows, Site, rows

from understudy.core.errors import BudgetRefused, UnderstudyError
from understudy.privacy.accounting import Gaussian, epsilon_of, mu_of
from understudy.privacy.budget import Budget
from understudy.privacy.ledger import database
from understudy.privacy.ledger.ledger import Charge, Dataset, Ledger

pytestmark = BOTH_DATABASES

ROUNDS = 12
UNIONS = 4
PLACES = 5
KILLS = 3
PATIENCE_S = 120
DELTA = 1e-5
ONE = Gaussian(mu_of(1.0, DELTA))
SMALL = Gaussian(0.01)
IMAGE = {"unit": "image", "adjacency": "add-remove"}
SPAWN = multiprocessing.get_context("spawn")


def charge(ledger: Ledger, dataset: str, run: str, event: Gaussian = ONE) -> None:
    ledger.charge(dataset, [Charge(run, "moments", event)], **IMAGE)


# Races


def race_for_the_last(
    name: str, urls: list[str], datasets: list[str], barrier: Barrier, said: Connection
) -> None:
    """In each round, charge all of a dataset's budget at the same moment as the other."""
    outcomes = []
    with Ledger(urls[0]) as ledger:
        for dataset in datasets:
            barrier.wait(PATIENCE_S)
            try:
                charge(ledger, dataset, f"{name}, for {dataset}")
                outcomes.append("won")
            except UnderstudyError as error:
                outcomes.append(type(error).__name__)
    said.send(outcomes)


def race_to_register(
    name: str, urls: list[str], _: list[str], barrier: Barrier, said: Connection
) -> None:
    """In each round, make a ledger, register a dataset and charge it, at the same moment."""
    source, outcomes = rows(300, name=name), []
    for url in urls:
        barrier.wait(PATIENCE_S)
        with Ledger(url) as ledger:
            dataset = ledger.register(source)
            charge(ledger, dataset.id, "one and the same run")
            outcomes.append((ledger.key, dataset.id))
    said.send(outcomes)


def race(target: Callable[..., None], urls: list[str], datasets: list[str]) -> list[Any]:
    """Run ``target`` in two spawned processes; what each of them said."""
    barrier, said, processes = SPAWN.Barrier(2), [], []
    try:
        for name in ("left", "right"):
            receive, send = SPAWN.Pipe(duplex=False)
            process = SPAWN.Process(target=target, args=(name, urls, datasets, barrier, send))
            process.start()
            send.close()
            said.append(receive)
            processes.append(process)
        answers = []
        for receive in said:
            assert receive.poll(PATIENCE_S), "a process did not answer"
            answers.append(receive.recv())
        return answers
    finally:
        for process in processes:
            process.join(PATIENCE_S)
            process.kill()
            process.join()
            process.close()
        for receive in said:
            receive.close()


def test_of_two_processes_racing_for_the_last_of_a_budget_one_wins(site: Site) -> None:
    with site.open() as ledger:
        datasets = [ledger.register(rows(4, seed=seed)) for seed in range(ROUNDS)]
        for dataset in datasets:
            ledger.set_budget(dataset.id, Budget(1.0, DELTA))
        left, right = race(race_for_the_last, [site.url], [dataset.id for dataset in datasets])
        # The loser was refused for the budget: it had waited and seen what the winner wrote.
        assert {frozenset(pair) for pair in zip(left, right, strict=True)} == {
            frozenset({"won", BudgetRefused.__name__})
        }
        assert len(left) == ROUNDS
        for dataset in datasets:
            assert ledger.spent(dataset.id).events == 1
            assert ledger.spent(dataset.id).epsilon == pytest.approx(1.0, rel=1e-9)
        assert ledger.verify() == []


def race_for_a_part(
    name: str, urls: list[str], datasets: list[str], barrier: Barrier, said: Connection
) -> None:
    """In each round, one runs on a dataset and the other on a union that holds it."""
    unions, parts = datasets[:UNIONS], datasets[UNIONS:]
    race_for_the_last(name, urls, unions if name == "left" else parts, barrier, said)


def test_of_a_run_on_a_union_and_one_on_its_part_one_gets_the_last(site: Site) -> None:
    """Either both parts are charged for the union, or the other run's part alone is."""
    with site.open() as ledger:
        unions, parts, others = [], [], []
        for seed in range(UNIONS):
            values = rows(8, seed=seed).values
            parts.append(ledger.register(Rows(f"part {seed}", values[:4])))
            others.append(ledger.register(Rows(f"other {seed}", values[4:])))
            unions.append(ledger.register(Rows(f"union {seed}", values)))
            ledger.set_budget(parts[-1].id, Budget(1.0, DELTA))
        ids = [dataset.id for dataset in (*unions, *parts)]
        left, right = race(race_for_a_part, [site.url], ids)
        assert len(left) == len(right) == UNIONS
        for by_union, by_part, part, other in zip(left, right, parts, others, strict=True):
            assert {by_union, by_part} == {"won", BudgetRefused.__name__}
            assert ledger.spent(part.id).events == 1
            assert ledger.spent(other.id).events == (by_union == "won")
        assert ledger.verify() == []


def test_processes_that_meet_an_empty_place_make_one_ledger(new_site: Callable[[], Site]) -> None:
    sites = [new_site() for _ in range(PLACES)]
    left, right = race(race_to_register, [site.url for site in sites], [])
    assert left == right
    for site, (_, identity) in zip(sites, left, strict=True):
        with site.open() as ledger:
            assert [dataset.id for dataset in ledger.datasets()] == [identity]
            assert ledger.spent(identity).events == 1
            assert ledger.verify() == []


# Waiting


def hold(url: str, _: str, __: str, said: Connection) -> None:
    """Hold the ledger until the other end of the pipe is closed."""
    with Ledger(url) as ledger, ledger._writing():
        said.send("held")
        said.poll(PATIENCE_S)


def test_a_locked_ledger_says_that_it_waits_and_for_whom(
    site: Site, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ledger.register(rows(4))
    assert database.NOTICE_S <= 2
    notices: list[str] = []
    with running(hold, site.url, dataset.id, "run") as (process, holder):
        assert holder.poll(PATIENCE_S), "a process did not answer"
        named = f"process {process.pid} "

        def let_go(notice: str) -> None:
            notices.append(notice)
            holder.close()

        with Ledger(site.url, on_wait=let_go) as waiting:
            assert waiting.spent(dataset.id).events == 0  # reading does not wait
            monkeypatch.setattr(database, "NOTICE_S", 0.01)
            charge(waiting, dataset.id, "the one that waits")
    assert notices[0].startswith(f"waiting for the ledger at {ledger.address}: ")
    assert named in notices[0]
    assert ledger.spent(dataset.id).events == 1


def test_who_is_waited_for_goes_to_standard_error(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger._database._announce()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("note: waiting for the ledger at ")
    assert "which" in captured.err  # nobody holds it: no process is named


# Kills


def die_at_commit(url: str, dataset: str, run: str, _: Connection) -> None:
    """Everything is written but the commit."""
    with Ledger(url) as ledger:
        database.commit = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        charge(ledger, dataset, run)


def die_after_commit(url: str, dataset: str, run: str, _: Connection) -> None:
    with Ledger(url) as ledger:
        charge(ledger, dataset, run)
        os.kill(os.getpid(), signal.SIGKILL)


def charge_until_killed(url: str, dataset: str, run: str, said: Connection) -> None:
    """Charge one attempt after the other, and say which of them the ledger has confirmed."""
    with Ledger(url) as ledger:
        while True:
            attempt = ledger.attempts(run, "moments") + 1
            ledger.charge(dataset, [Charge(run, "moments", SMALL, attempt=attempt)], **IMAGE)
            said.send(attempt)


@contextmanager
def running(
    target: Callable[..., None], url: str, dataset: str, run: str
) -> Iterator[tuple[Any, Connection]]:
    receive, send = SPAWN.Pipe()
    process = SPAWN.Process(target=target, args=(url, dataset, run, send))
    process.start()
    send.close()
    try:
        yield process, receive
    finally:
        process.kill()
        process.join()
        process.close()
        receive.close()


@pytest.fixture
def photos(ledger: Ledger) -> Dataset:
    dataset = ledger.register(rows(4))
    ledger.set_budget(dataset.id, Budget(1.0, DELTA))
    return dataset


@pytest.mark.parametrize(("death", "charged"), [(die_at_commit, 0), (die_after_commit, 1)])
def test_a_kill_leaves_the_charge_whole_or_not_at_all(
    site: Site, ledger: Ledger, photos: Dataset, death: Callable[..., None], charged: int
) -> None:
    with running(death, site.url, photos.id, "killed") as (process, _):
        process.join(PATIENCE_S)
        assert process.exitcode == -signal.SIGKILL
    assert ledger.spent(photos.id).events == charged
    assert ledger.verify() == []
    charge(ledger, photos.id, "killed")  # resumed: the lock is free, and the same charge is one
    assert ledger.spent(photos.id).events == 1
    with pytest.raises(BudgetRefused):
        charge(ledger, photos.id, "next", SMALL)


def test_what_was_confirmed_survives_kills_at_any_moment(
    site: Site, ledger: Ledger, photos: Dataset
) -> None:
    """Several processes charge at once and are killed one by one; the rest go on."""
    moments = random.Random(7)
    runs = [f"run {number}" for number in range(KILLS)]
    with ExitStack() as stack:
        started = [
            stack.enter_context(running(charge_until_killed, site.url, photos.id, run))
            for run in runs
        ]
        for run, (process, said) in zip(runs, started, strict=True):
            wanted, confirmed = moments.randint(3, 6), 0
            while confirmed < wanted:
                assert said.poll(PATIENCE_S), "a process did not answer"
                confirmed = said.recv()
            said.poll(moments.random() * 0.02)  # and some way into the next one
            process.kill()
            process.join()
            confirmed = last_word(said, confirmed)
            assert confirmed <= ledger.attempts(run, "moments") <= confirmed + 1
    spent = ledger.spent(photos.id)
    assert spent.events == sum(ledger.attempts(run, "moments") for run in runs)
    assert spent.epsilon == epsilon_of([SMALL] * spent.events, DELTA)
    assert ledger.verify() == []


def last_word(said: Connection, before: int) -> int:
    """The last number in a pipe whose other end is gone."""
    try:
        while True:
            before = said.recv()
    except EOFError:
        return before
