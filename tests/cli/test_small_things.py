"""Streams that are closed or lack letters, and what is refused in the dry run as in the run."""

import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
from tests.cli.processes import ONE_THREAD, SOURCE, WHOLE
from tests.run.samples import class_folders, pictures, save
from typer.testing import CliRunner

import understudy
from understudy.cli.main import app
from understudy.core.errors import (
    ConfigError,
    InputError,
    LedgerError,
    RunError,
    SourceError,
    escaped,
)
from understudy.data.names import like_persons
from understudy.planning.dry import dry_run
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.books import dataset_account, set_dataset_budget
from understudy.run.config import make_config

QUICK = (
    *("--set", "clusters=1", "--progress", "none"),
    *("--encoder", "embedded:dct", "--decoder", "none"),  # without torch
)


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Two classes, one of which has letters that few encodings have."""
    return class_folders(tmp_path_factory.mktemp("s") / "scans", {"chien": 12, "éléphant-猫": 12})


def shell(tmp_path, source, rest, **environment):
    """A run in a process of its own, with ``rest`` of a shell's line: what it said, its code."""
    options = ["--epsilon", "1", "--out", "out", "--ledger", "ledger.db", *QUICK]
    command = [sys.executable, "-c", WHOLE, "synthesize", str(source), *options]
    variables = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(SOURCE), **environment}
    variables.pop("PYTHONUNBUFFERED", None)
    line = f"{shlex.join(command)} {rest}"
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, check=False, cwd=tmp_path, env=variables
    )


def charges(tmp_path):
    if not (tmp_path / "ledger.db").exists():
        return 0
    with Ledger(str(tmp_path / "ledger.db")) as ledger:
        return len({row.data["run"] for row in ledger.rows() if row.kind == "charge"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "rest", [">&- 2>&- <&-", "2> errors | true; exit ${PIPESTATUS[0]}"], ids=repr
)
def test_a_closed_stream_stops_no_run(rest, scans, tmp_path):
    done = shell(tmp_path, scans, rest)
    errors = tmp_path / "errors"
    said = done.stderr.decode() + (errors.read_text() if errors.exists() else "")
    assert done.returncode == 0, said
    assert "Traceback" not in said
    assert "Broken pipe" not in said
    assert (tmp_path / "out" / "owner" / "run.json").exists()
    assert charges(tmp_path) == 1


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_a_terminal_lacks_are_escaped(encoding, scans, tmp_path):
    done = shell(tmp_path, scans, "", PYTHONUTF8="1", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    elephant = "\\u00e9" if encoding == "ascii" else "é"
    assert f"{elephant}l{elephant}phant-\\u732b" in done.stdout.decode(encoding)
    assert (tmp_path / "out" / "release" / "PRIVACY.md").exists()


@pytest.mark.slow
def test_names_that_a_locale_cannot_write_are_refused_before_the_charge(scans, tmp_path):
    """It failed behind the charge, while the release was written."""
    variables = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    done = shell(tmp_path, scans, "", **variables)
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"has no letters for the class" in done.stderr
    assert b"PYTHONUTF8=1" in done.stderr
    assert charges(tmp_path) == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_json_stays_json_where_letters_are_escaped(scans, tmp_path):
    command = [sys.executable, "-c", WHOLE, "check", str(scans), "--json", "--progress", "none"]
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, check=False, env=variables)
    assert set(json.loads(done.stdout.decode("latin-1"))["classes"]) == {"chien", "éléphant-猫"}


def test_a_second_request_to_stop_does_not_break_into_the_first():
    """`timeout` sends one to the process and one to its group."""
    code = """
import os, signal
from understudy.cli import main as program
signal.signal(signal.SIGTERM, program._terminate)
try:
    os.kill(os.getpid(), signal.SIGTERM)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGTERM)
    print("cleaned up")
"""
    variables = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, check=False, env=variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"cleaned up\n", b"")


@pytest.mark.parametrize("words", [["list"], ["show", "scans"], ["verify"], ["export"]])
def test_who_reads_a_ledger_that_is_not_there_makes_none(words, tmp_path):
    path = tmp_path / "lodger.db"
    ended = CliRunner().invoke(app, ["ledger", *words, "--ledger", str(path)])
    assert isinstance(ended.exception, LedgerError)
    assert f"there is no ledger at {path}" in str(ended.exception)
    assert not path.exists()


def test_the_usual_ledger_lists_nothing_before_its_first_run(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    ended = CliRunner().invoke(app, ["ledger", "list"])
    assert ended.exit_code == 0, ended.output
    assert not list(tmp_path.iterdir())


# Names


HOSTILE = {
    "dog\nx": "dog\\nx",
    "dog\x1b[2Jcat": "dog\\x1b[2Jcat",
    "gpj.\u202etac": "gpj.\\u202etac",
    "a\udcffb": "a\\udcffb",
    "می\u200cروم": "می\u200cروم",
    "T-shirt/top": "T-shirt/top",
}


@pytest.mark.parametrize("name", HOSTILE, ids=escaped)
def test_control_characters_are_escaped(name):
    assert escaped(name) == HOSTILE[name]
    assert escaped(HOSTILE[name]) == HOSTILE[name]


def hostile_folders(folder):
    names = [name for name in HOSTILE if "/" not in name]
    for number, (name, image) in enumerate(pictures(dict.fromkeys(names, 8), (8, 8, 1), 0)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        save(image, folder / name / f"{number}.png")
    return folder


def hostile_arrays(folder):
    names = [name for name in HOSTILE if "\udcff" not in name]
    rows = list(pictures(dict.fromkeys(names, 8), (8, 8, 1), 0))
    folder.mkdir()
    labels = np.array([name for name, _ in rows])
    np.savez(folder / "d.npz", images=np.stack([image for _, image in rows]), labels=labels)
    return folder / "d.npz"


@pytest.mark.parametrize("make", [hostile_folders, hostile_arrays], ids=["folders", "arrays"])
def test_names_of_classes_are_escaped_wherever_they_are_shown(make, tmp_path, capsys):
    source = make(tmp_path / "scans")
    options = {"epsilon": 1.0, "ledger": str(tmp_path / "ledger.db"), "decoder": "none"}
    made = understudy.synthesize(source, out=tmp_path / "out", progress="plain", **options)
    shown = capsys.readouterr().err + "\n".join(made.warnings)
    for path in (*made.release.rglob("*"), *made.owner.rglob("*")):
        if path.suffix in (".md", ".json", ".html", ".jsonl"):
            shown += path.read_text(encoding="utf-8")
    assert "dog\\nx" in shown
    for raw in ("dog\nx", "\x1b", "\u202e", "\udcff"):
        assert raw not in shown
    classes = json.loads((made.release / "privacy.json").read_text())["data"]["classes"]
    assert set(classes) <= set(HOSTILE.values())
    missing = tmp_path / "no\nsuch\x1b[2J"
    with pytest.raises(SourceError) as error:
        understudy.synthesize(missing, out=tmp_path / "other", progress="none", **options)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_class_names_that_look_like_persons_are_flagged(tmp_path):
    persons = ["ann-smith", "Smith, John", "Dr Weber", "ann@example.org", "JohnDoe", "SMITH^JOHN"]
    persons += ["patient_007", "Subject 3", "case-12"]
    things = [
        *("golden retriever", "jack russell", "king charles spaniel", "new york", "T-shirt/top"),
        *(
            "no finding",
            "Pleural_Thickening",
            "St Bernard",
            "german shepherd",
            "rose garden",
            "cat",
        ),
        *("Ankle boot", "sea lion", "blue jean", "victoria falls", "Iris setosa", "monk fish"),
        *("patient", "case", "person sitting", "stage 2", "bookcase 3"),
    ]
    assert like_persons([*persons, *things]) == tuple(persons)
    assert like_persons(["maria", "john", "peter"]) == ("maria", "john", "peter")
    scans = class_folders(tmp_path / "scans", {"cat": 12, "dog": 12, "ann-smith": 12})
    checked = understudy.check(scans, progress="none")
    (problem,) = (one for one in checked.problems if one.kind == "class names")
    assert "class names are published, and ann-smith looks like the name of a person" in (
        problem.message
    )
    plan = planned(scans, tmp_path)
    assert problem.message in plan.notes
    other = class_folders(tmp_path / "other", {"cat": 12, "dog": 12})
    checked = understudy.check(other, progress="none")
    assert not [one for one in checked.problems if one.kind == "class names"]


# What the dry run refuses as the run does


def planned(source, tmp_path, out="out", **options):
    given = {"source": str(source), "epsilon": 1.0, "ledger": str(tmp_path / "ledger.db")}
    return dry_run(make_config({**given, "out": tmp_path / out, **options}))


def refused(source, tmp_path, kind, match, **options):
    """In the dry run and in the run, with the same words; nothing is charged."""
    with pytest.raises(kind, match=match) as dry:
        planned(source, tmp_path, **options)
    given = {"epsilon": 1.0, "ledger": str(tmp_path / "ledger.db"), "progress": "none"}
    out = tmp_path / options.pop("out", "out")
    with pytest.raises(kind, match=match) as run:
        understudy.synthesize(source, out=out, **given, **options)
    assert str(dry.value) == str(run.value)
    assert isinstance(run.value, InputError)
    return charges(tmp_path) == 0


@pytest.mark.parametrize("kind", ["folders", "arrays"])
def test_a_class_of_one_image_is_refused_unless_it_was_declared(kind, tmp_path):
    sizes = {"cat": 12, "dog": 12, "ann-smith": 1}
    source = class_folders(tmp_path / "scans", sizes, (8, 8, 1))
    if kind == "arrays":
        rows = list(pictures(sizes, (8, 8, 1), 0))
        labels = np.array([name for name, _ in rows])
        source = tmp_path / "d.npz"
        np.savez(source, images=np.stack([image for _, image in rows]), labels=labels)
    assert refused(source, tmp_path, SourceError, "the class ann-smith has one image.*--classes")
    checked = understudy.check(source, progress="none")
    (problem,) = (one for one in checked.problems if one.kind == "one-image class")
    assert problem.blocking
    assert not checked.ready
    assert checked.command is None
    assert planned(source, tmp_path, classes=list(sizes)).premises[0].origin == "declared"


def test_a_class_without_a_candidate_is_said_before_the_charge(tmp_path):
    source = class_folders(tmp_path / "scans", {"cat": 30, "dog": 30, "eel": 30}, (8, 8, 1))
    candidates = class_folders(tmp_path / "candidates", {"cat": 30, "dog": 30}, (8, 8, 1), seed=7)
    options = {"method": "selection", "candidates": str(candidates), "candidates_public": True}
    assert (
        "no candidate is of class eel: the selection has none"
        in planned(source, tmp_path, **options).notes
    )


def test_a_total_of_a_large_delta_or_epsilon_is_taken_with_a_word(scans, tmp_path):
    books = ["--ledger", str(tmp_path / "ledger.db")]
    for words, said in (
        (["--epsilon", "1", "--delta", "0.5"], "delta 0.5 allows"),
        (["--epsilon", "5000"], "epsilon 5000 protects next to nothing"),
        (["--epsilon", "3"], ""),
    ):
        told = CliRunner().invoke(app, ["ledger", "set-budget", str(scans), *words, *books])
        assert told.exit_code == 0
        assert ("note: " in told.output) == bool(said)
        assert said in told.output


def test_a_release_that_no_disk_holds_is_refused(scans, tmp_path):
    assert refused(
        scans, tmp_path, ConfigError, "1,000,000,000 samples take up", count=1_000_000_000
    )


@pytest.mark.parametrize("out", ["file", "file/below", "full"])
def test_a_place_that_is_taken_is_refused(out, scans, tmp_path):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    words = "cannot write here: Not a directory" if out != "full" else "exists and is not empty"
    assert refused(scans, tmp_path, RunError, words, out=out)
    assert (tmp_path / "file").read_text() == "a file"
    # What has no folder yet is planned all the same, wherever it is planned from.
    assert understudy.dry_run(scans, epsilon=1.0, ledger=str(tmp_path / "l.db")).method


def test_a_large_delta_has_to_be_meant(scans, tmp_path):
    with pytest.raises(ConfigError, match=r"delta 0.002 .* --accept-epsilon says"):
        make_config({"source": "s", "out": "o", "epsilon": 1.0, "delta": 0.002})
    make_config({"source": "s", "out": "o", "epsilon": 1.0, "delta": 0.001})
    meant = {"source": "s", "out": "o", "epsilon": 1.0, "delta": 0.002, "accept_epsilon": True}
    make_config(meant)
    assert refused(scans, tmp_path, ConfigError, "delta 0.5", delta=0.5)
    assert planned(scans, tmp_path, delta=0.5, accept_epsilon=True).delta == 0.5


def test_a_plugins_dataset_gets_a_budget_before_its_first_run(tmp_path):
    """It was looked for among the names that the ledger knows, as if it were no dataset."""
    ledger = str(tmp_path / "ledger.db")
    source = "playhouse:pet-status?homes=2&per_home=3"
    account = set_dataset_budget(source, 2.0, 1e-5, ledger)
    assert account.dataset.budget.epsilon == 2.0
    assert dataset_account(source, ledger).dataset.id == account.dataset.id
    with pytest.raises(SourceError, match="no such file or folder, and"):
        set_dataset_budget("nowhere", 2.0, 1e-5, ledger)


def test_a_path_on_the_command_line_may_begin_with_the_home_folder(tmp_path, monkeypatch):
    """Pictures were drawn into a folder of the name ``~``, which a shell leaves after ``=``."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    words = ["sample", "a dog", "--count=1", "--out=~/drawn", "--progress=none"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "home/drawn").iterdir()) == [
        "1.png",
        "sheet.png",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_home_folder_of_nobody_is_a_name_like_another(tmp_path, scans):
    """It ended in the traceback of "Could not determine home directory"."""
    options = {"source": scans, "out": "~nosuch/here", "epsilon": 1}
    assert str(make_config(options).output.out) == "~nosuch/here"
    with pytest.raises(SourceError, match="~nosuch/here: there is no such file"):
        dry_run(make_config(options | {"source": "~nosuch/here"}))


@pytest.mark.parametrize("command", ["web", "device web", "serve"])
def test_a_port_that_there_is_not_is_refused(command, tmp_path, monkeypatch):
    """It ended in a traceback of the socket's."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*command.split(), "--port", "99999"])
    assert done.exit_code == 2
    assert "less than or equal to 65535" in done.output
