"""``understudy runs``: what a folder holds of runs that ended, were killed, are at work, broke."""

import fcntl
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.processes import Commands
from tests.run.samples import class_folders

from understudy.core.errors import RunError
from understudy.release.run_file import read_run_file
from understudy.release.runs import RunSummary, list_runs

QUICK = ["--set", "clusters=1", "--set", "components=8", "--count", "12", "--epsilon", "2"]
KILLED = ("understudy.privacy.account:Account._store", 1, "after")


@pytest.fixture(scope="module")
def place(understudy: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, a killed one deeper down, and their dataset, all in one folder."""
    place = tmp_path_factory.mktemp("project")
    scans = class_folders(place / "scans", {"cat": 20, "dog": 20}, (6, 6, 1))
    words = ["synthesize", scans, *QUICK, "--ledger", place / "ledger.db"]
    done = understudy.run(*words, "--out", place / "done")
    assert done.code == 0, done.err
    (place / "more").mkdir()
    assert understudy.run(*words, "--out", place / "more" / "killed", die=KILLED).code == -9
    return place


def summaries(place: Path) -> dict[str, RunSummary]:
    return {str(run.folder.relative_to(place)): run for run in list_runs(place)}


def test_finished_and_killed_runs_are_listed(place: Path) -> None:
    runs = summaries(place)
    today = datetime.now(UTC).date().isoformat()
    assert list(runs) == ["done", "more/killed"]
    for run in runs.values():
        assert (run.method, run.epsilon, run.delta) == ("clustering", 2, 1e-5)
        assert (run.samples, run.date, run.problem) == (12, today, None)
        assert run.dataset is not None
        assert run.dataset.endswith("scans")
    assert [run.state for run in runs.values()] == ["finished", "unfinished"]


def test_a_run_whose_folder_is_locked_is_at_work(place: Path) -> None:
    lock = place / "more" / "killed" / "owner" / "lock"
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert summaries(place)["more/killed"].state == "running"
    assert summaries(place)["more/killed"].state == "unfinished"


def test_a_run_whose_method_stopped_says_why_and_is_not_to_be_resumed(
    understudy: Commands, place: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(place / "more" / "killed", tmp_path / "run")
    stop = {"reason": "they do not look alike", "remedy": "Take others"}
    (run / "owner" / "stopped.json").write_text(json.dumps(stop))
    printed = understudy.run("runs", tmp_path).out
    assert "stopped" in printed
    assert "they do not look alike" in printed
    assert "--resume" not in printed
    start = run / "owner" / "start.json"  # what another method has not had yet is gone on with
    begun = json.loads(start.read_text())
    begun["settings"]["otherwise"] = "clustering"
    start.write_text(json.dumps(begun))
    assert [one.state for one in list_runs(tmp_path)] == ["unfinished"]


def test_the_command_prints_them_and_says_how_to_go_on(understudy: Commands, place: Path) -> None:
    ended = understudy.run("runs", place)
    assert (ended.code, ended.err) == (0, "")
    head, done, killed, advice = ended.out.splitlines()
    assert head.split() == ["folder", "state", "method", "dataset", "epsilon", "samples", "date"]
    assert done.split()[:3] == [str(place / "done"), "finished", "clustering"]
    assert killed.split()[:3] == [str(place / "more" / "killed"), "unfinished", "clustering"]
    assert "--resume" in advice


def test_a_damaged_run_is_listed_with_what_is_wrong(place: Path, tmp_path: Path) -> None:
    for name, content in (("half", "{"), ("empty", "{}")):
        (tmp_path / name / "owner").mkdir(parents=True)
        (tmp_path / name / "owner" / "start.json").write_text(content)
    runs = list_runs(tmp_path)
    assert [run.state for run in runs] == ["damaged", "damaged"]
    assert all("start.json: damaged" in str(run.problem) for run in runs)


def test_a_release_without_its_owners_folder_names_no_dataset(place: Path, tmp_path: Path) -> None:
    release = tmp_path / "shared" / "release"
    release.mkdir(parents=True)
    content = (place / "done" / "release" / "privacy.json").read_text()
    (release / "privacy.json").write_text(content)
    (run,) = list_runs(tmp_path)
    assert (run.state, run.dataset, run.epsilon) == ("finished", None, 2)


def test_runs_are_looked_for_three_levels_down_and_not_in_hidden_folders(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/b/d/e", ".hidden"):
        (tmp_path / name / "owner").mkdir(parents=True)
        (tmp_path / name / "owner" / "start.json").write_text("{")
    assert [str(run.folder.relative_to(tmp_path)) for run in list_runs(tmp_path)] == ["a/b/c"]


def test_a_run_json_that_is_not_whole_is_refused(place: Path, tmp_path: Path) -> None:
    content = json.loads((place / "done" / "owner" / "run.json").read_text())
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**content, "rows": "many"}))
    with pytest.raises(RunError, match=r"run\.json: is not whole \(rows: .*integer.*restore"):
        read_run_file(path)
    del content["receipt"]
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"receipt: field required"):
        read_run_file(path)
