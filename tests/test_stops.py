"""A run that the machine stops says what was charged, and goes on free of charge.

Acceptance, among the slow tests: five faults at five moments of each of four methods, 100 times in
all. After each one the run is resumed, is complete, and cost what a run costs that nothing stopped.
"""

import re
from pathlib import Path

import pytest

from tests.cli.processes import FAULTS, Commands
from tests.test_kills import Aligned, Selected, Site, check_complete, check_never_less_than_released
from understudy.privacy.ledger.ledger import Ledger

MOMENTS = {
    "before the charge": ("understudy.privacy.account:Account.reserve", 1, "before"),
    "after the charge": ("understudy.privacy.account:Account.reserve", 1, "after"),
    "between two answers": ("understudy.privacy.account:Account._store", 2, "after"),
    "before the release is written": ("understudy.run.session:write_release", 1, "before"),
    "before the documents": ("understudy.run.session:run_record", 1, "after"),
}
CODES = {"disk full": 1, "memory short": 1, "SIGTERM": 143, "SIGKILL": -9, "ledger locked": 0}


def check_stopped(understudy: Commands, site: Site, moment: str, fault: str) -> None:
    """Stop a run there, and resume it: message, charge and result are as stated."""
    ended = understudy.run(*site.words(), fault=(*MOMENTS[moment], fault))
    assert "Traceback" not in ended.err, ended.err
    check_never_less_than_released(site)
    codes = {CODES[fault]}
    if fault == "memory short":
        codes.add(0)  # a run that has all that it needs already goes on
    if moment == "before the charge" and fault == "disk full":
        codes.add(2)  # it is the ledger that cannot be written
    assert ended.code in codes, ended.err
    if ended.code > 0:
        check_message(ended.err, fault, charged=is_charged(site))
    if ended.code != 0:
        resumed = understudy.run(*site.words(None, "--resume"))
        assert resumed.code == 0, resumed.err
    check_complete(site)


def is_charged(site: Site) -> bool:
    with Ledger(site.url) as ledger:
        return any(row.kind == "charge" for row in ledger.rows())


def check_message(said: str, fault: str, *, charged: bool) -> None:
    words = " ".join(said.split())
    assert "--resume goes on with" in words or not charged, said
    assert ("epsilon 2 was charged before this, once and for good" in words) == charged, said
    assert ("Nothing was charged" in words) == (not charged), said
    reasons = {"memory short": "memory", "disk full": "File too large|disk|space"}
    assert re.search(reasons.get(fault, "stopped"), words), said


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["disk full", "memory short", "SIGTERM"])
def test_a_stopped_run(understudy: Commands, tmp_path: Path, fault: str) -> None:
    check_stopped(understudy, Site(tmp_path), "before the release is written", fault)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("place", [Site, Aligned, Selected])
def test_every_fault_at_every_moment(
    understudy: Commands, tmp_path: Path, place: type[Site], fault: str, moment: str
) -> None:
    check_stopped(understudy, place(tmp_path), moment, fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["disk full", "SIGTERM"])
def test_what_costs_nothing_says_that_and_how_it_goes_on(
    understudy: Commands, tmp_path: Path, fault: str
) -> None:
    """Pictures and base sets of a generator, and a selection of a release."""
    ledger = ["--ledger", f"sqlite:///{tmp_path}/ledger.db"]
    for words, moment, again in (
        (["sample", "a dog"], "sample:contact_sheet", "draws it anew"),
        (["sample", "--classes", "dog,person"], "sampled_release:write_release", "draws it anew"),
        (
            ["sample", "--classes", "a,b"],
            "sampled_release:write_release_documents",
            "draws it anew",
        ),
        (["select", tmp_path / "1", "--keep", "50%", *ledger], "session:write_release", "--resume"),
    ):
        at = ("understudy.run." + moment, 1, "before", fault)
        out = tmp_path / str(len(list(tmp_path.glob("[0-9]"))))
        ended = understudy.run(*words, "--out", out, fault=at)
        said = " ".join(ended.err.split())
        assert "Traceback" not in said
        assert re.search("othing was charged.*" + again, said), said
        resume = ["--resume"] if again == "--resume" else []
        assert understudy.run(*words, "--out", out, *resume).code == 0
