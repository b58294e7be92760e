"""A selection without noise that is killed, anywhere, and resumed: the same choice, disclosed once.

Acceptance: 30 kills (SIGKILL) at random moments, each resumed. Under differential privacy it is a
run like others, which tests/test_kills.py kills.
"""

import csv
import random
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.cli.processes import Commands
from tests.run.samples import embeddings

from understudy.privacy.ledger.ledger import Ledger

KILLS = 30
KILLS_A_RUN = 6


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Private embeddings, candidates and a reference."""
    embeddings(tmp_path / "private.npz")
    embeddings(tmp_path / "candidates.npz", seed=1)
    embeddings(tmp_path / "others.npz", seed=2)
    return tmp_path


def words(site: Path, out: Path, ledger: Path) -> list[object]:
    data = [site / "candidates.npz", "--private", site / "private.npz", "--keep", "20%"]
    own = ["--no-guarantee", "--reference", site / "others.npz"]
    return ["select", *data, "--out", out, "--ledger", ledger, *own]


def choice(out: Path) -> list[dict[str, str]]:
    """What was selected, and why: the owner's table."""
    with (out / "owner" / "selection.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_once(ledger: Path) -> None:
    with Ledger(str(ledger)) as book:
        assert book.verify() == []
        rows = list(book.rows())
    for kind in ("charge", "disclosure", "release"):
        of_kind = [row for row in rows if row.kind == kind]
        named = [(row.dataset, row.data["run"], row.data.get("stage")) for row in of_kind]
        assert max(Counter(named).values(), default=1) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "death",
    [
        ("understudy.privacy.ledger.ledger:Ledger.disclose", 1, "after"),
        ("understudy.release.outputs:RunFolder.keep", 3, "after"),
    ],
)
def test_a_selection_killed_there_is_resumed(
    understudy: Commands, site: Path, death: tuple[str, int, str]
) -> None:
    ledger, out = site / "ledger.db", site / "out"
    assert understudy.run(*words(site, out, ledger), die=death).code == -9
    done = understudy.run(*words(site, out, ledger), "--resume")
    assert done.code == 0, done.err
    check_once(ledger)
    with Ledger(str(ledger)) as book:
        assert [len(book.spent(one.id).disclosures) for one in book.datasets()] == [1, 1, 1]
    assert sum(bool(line["sample"]) for line in choice(out)) == 36
    assert "guarantee: no guarantee: private embeddings steered this" in done.out
    assert "no guarantee" in understudy.run("runs", site).out
    assert "no epsilon covers" in understudy.run("ledger", "list", "--ledger", ledger).out
    shown = understudy.run("ledger", "show", site / "private.npz", "--ledger", ledger).out
    assert "which 36 of 180 candidates" in shown


def resumed(understudy: Commands, command: list[object], chance: random.Random, most: float) -> int:
    """Run to the end through several kills; how many there were."""
    killed, more = 0, list[str]()
    for _ in range(KILLS_A_RUN):
        ended = understudy.run(*command, *more, kill_after=chance.uniform(most / 20, most))
        if ended.code == 0 or "is complete" in ended.err:  # that kill came after its last step
            return killed
        assert ended.code == -signal.SIGPROF, ended.err
        killed, more = killed + 1, ["--resume"]
    last = understudy.run(*command, *more)
    assert last.code == 0 or "is complete" in last.err, last.err
    return killed


@pytest.mark.slow
def test_thirty_kills_at_random_moments(understudy: Commands, site: Path) -> None:
    chance = random.Random(13)
    whole = understudy.run(*words(site, site / "whole", site / "whole.db"))
    assert whole.code == 0, whole.err
    killed = runs = 0
    while killed < KILLS:
        runs += 1
        assert runs <= 4 * KILLS, "runs end before they are killed"
        ledger, out = site / f"{runs}.db", site / str(runs)
        killed += resumed(understudy, words(site, out, ledger), chance, whole.seconds)
        check_once(ledger)
        with Ledger(str(ledger)) as book:
            spent = [book.spent(one.id) for one in book.datasets()]
        assert [len(one.disclosures) for one in spent] == [1, 1, 1]
        assert choice(out) == choice(site / "whole")
        assert (out / "release" / "privacy.json").is_file()
