"""The command line: words in, an exit code, results on stdout and what went wrong on stderr."""

import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.processes import WHOLE, Commands
from tests.plugin_packages import install
from tests.run.samples import class_folders, embeddings, save
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.core.entry_points import SOURCES
from understudy.core.version import __version__
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.config import run_options

ONE = ["--epsilon", "1"]
QUICK = [*ONE, "--set", "clusters=1", "--set", "components=8", "--count", "20"]


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    return class_folders(tmp_path / "scans", {"cat": 30, "dog": 30}, (6, 6, 1))


@pytest.fixture
def books(tmp_path: Path) -> list[Any]:
    return ["--ledger", tmp_path / "ledger.db"]


@pytest.fixture
def words(scans: Path, books: list[Any], tmp_path: Path) -> list[Any]:
    """A run of the scans."""
    return ["synthesize", scans, "--out", tmp_path / "out", *QUICK, *books]


@pytest.mark.slow
def test_a_run_says_where_everything_lies(
    understudy: Commands, scans: Path, books: list[Any], tmp_path: Path
) -> None:
    ended = understudy.run("synthesize", scans, "--out", tmp_path / "out", *QUICK, *books)
    assert ended.code == 0, ended.err
    assert "epsilon 1, delta 1e-05, unit: one image, adjacency: add-remove" in ended.out
    for place in ("release", "synthetic.png", "owner/report.html"):
        assert str(tmp_path / "out" / place) in ended.out
        assert (tmp_path / "out" / place).exists()
    assert "understudy ledger set-budget" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize("hold_out", [[], ["--hold-out", "30%"]], ids=["none", "held out"])
def test_the_command_that_a_run_says_is_next_runs(
    understudy: Commands, scans: Path, books: list[Any], tmp_path: Path, hold_out: list[str]
) -> None:
    out = tmp_path / "o 1"  # a name with a blank, which a shell divides
    made = understudy.run("synthesize", scans, "--out", out, *QUICK, *books, *hold_out)
    words = shlex.split(made.out.splitlines()[-1].removeprefix("next:"))
    other = class_folders(tmp_path / "other", {"cat": 30, "dog": 30}, (6, 6, 1), seed=1)
    places = {"SOURCE": str(scans), "OTHER_REAL_RECORDS": str(other)}
    assert set(words) >= set(list(places)[: 1 if hold_out else 2])
    ended = understudy.run(*(places.get(word, word) for word in words[1:]))
    assert ended.code == 0, ended.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        pytest.param([], id="plain"),
        pytest.param(["--test", "OTHERS"], id="with accuracy"),
    ],
)
def test_a_run_prints_twelve_lines_at_most_and_its_report_has_the_rest(
    understudy: Commands, scans: Path, books: list[Any], tmp_path: Path, more: list[str]
) -> None:
    if more:
        pytest.importorskip("torch", reason="pip install 'understudy[torch]'")
    scans = class_folders(tmp_path / "larger", {"cat": 20, "dog": 2}, (16, 16, 1))
    words = ["synthesize", scans, "--epsilon", "20", "--delta", "1e-2", "--accept-epsilon", *books]
    others = class_folders(tmp_path / "others", {"cat": 20, "dog": 2}, (16, 16, 1), seed=1)
    words += [str(others) if word == "OTHERS" else word for word in more]
    words += ["--set", "clusters=1", "--count", "20", "--out"]
    ended = understudy.run(*words, tmp_path / "out")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert len(lines) <= 12
    assert "note: epsilon 20 is large" in lines[2]  # the worst one first
    assert sum(line.startswith("note: ") for line in lines) <= 3
    assert lines[-1].startswith("next: ")
    assert any(line.startswith("made: ") and ", drawn from a Gaussian" in line for line in lines)
    report = (tmp_path / "out" / "owner" / "report.html").read_text()
    if more:
        return
    whole = understudy.run(*words, tmp_path / "whole", "--verbose")
    assert whole.code == 0, whole.err
    assert "noise / sensitivity" in whole.out
    notes = [line for line in whole.out.splitlines() if line.startswith("note: this dataset has")]
    assert notes[0].removeprefix("note: ") in html.unescape(report)


@pytest.mark.slow
def test_every_option_may_come_from_a_file_and_the_command_line_wins(
    understudy: Commands, scans: Path, books: list[Any], tmp_path: Path
) -> None:
    options = {
        "source": str(scans),
        "out": str(tmp_path / "out"),
        "epsilon": 3,
        "count": 7,
        "format": "parquet",
        "settings": {"clusters": 1, "components": 9},
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(options))
    more = ["--count", "5", "--set", "components=8"]
    ended = understudy.run("synthesize", "--config", path, *more, *books)
    assert ended.code == 0, ended.err
    facts = json.loads((tmp_path / "out" / "release" / "privacy.json").read_text())
    assert facts["guarantee"]["epsilon"] == 3
    assert (facts["data"]["count"], facts["data"]["format"]) == (5, "parquet")
    assert facts["data"]["params"]["components"] == 8
    assert facts["data"]["params"]["clusters"] == 1


def test_a_dry_run_prints_the_plan_and_spends_nothing(
    understudy: Commands, words: list[Any], books: list[Any], tmp_path: Path
) -> None:
    ended = understudy.run(*words, "--dry-run", "--epsilon", "2")
    assert (ended.code, ended.err) == (0, "")
    for part in ("means", "covariance", "share", "noise / sensitivity", "after this run 2.0000"):
        assert part in ended.out
    assert "dry run: nothing was spent" in ended.out
    assert not (tmp_path / "out").exists()
    assert understudy.run("ledger", "export", *books).out == ""


def test_a_dry_run_says_what_would_be_refused(
    understudy: Commands, words: list[Any], scans: Path, books: list[Any], tmp_path: Path
) -> None:
    assert understudy.run("ledger", "set-budget", scans, "--epsilon", "0.5", *books).code == 0
    ended = understudy.run(*words, "--dry-run")
    assert ended.code == 0
    assert "would be refused" in ended.out
    refused = understudy.run(*words)
    assert refused.code == 3
    assert refused.out == ""
    assert refused.err.splitlines()[1].startswith("understudy: the budget of")
    assert "Difference: epsilon 0.5000 over the budget" in refused.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_union_draws_on_the_budgets_of_its_parts_and_says_so(
    understudy: Commands, words: list[Any], scans: Path, books: list[Any], tmp_path: Path
) -> None:
    parts = [tmp_path / "first", tmp_path / "second"]
    for number, image in enumerate(sorted(scans.rglob("*.*"))):
        place = parts[number % 2] / image.parent.name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(image, place)
    for part, epsilon in zip(parts, ("3", "0.5"), strict=True):
        told = understudy.run("ledger", "set-budget", part, "--epsilon", epsilon, *books)
        assert told.code == 0
    dry = understudy.run(*words, "--dry-run")
    assert f"charged too, for they share records: {parts[0]}, {parts[1]}" in dry.out
    assert f"would be refused: the budget of {parts[1]} (id " in dry.out
    refused = understudy.run(*words)
    assert refused.code == 3
    assert f"\nunderstudy: the budget of {parts[1]} (id " in refused.err
    assert understudy.run("ledger", "set-budget", parts[1], "--epsilon", "1", *books).code == 0
    done = understudy.run(*words)
    assert done.code == 0, done.err
    assert f"note: this run was charged to {parts[0]}, {parts[1]} too" in done.out
    shown = understudy.run("ledger", "show", parts[1], *books)
    assert "shared charge" in shown.out
    assert re.search(r"1 +1\.0000 +none: used up +1e-05 +1 +image", shown.out)
    assert f"shares records with, so that a run on it is charged to them too: {scans}" in shown.out


def test_resume_on_the_command_line(understudy: Commands, words: list[Any], tmp_path: Path) -> None:
    assert understudy.run(*words).code == 0
    again = understudy.run(*words)
    assert again.code == 2
    assert "it holds a finished run; choose another --out" in again.err
    complete = understudy.run(*words, "--resume")
    assert complete.code == 2
    assert "nothing to resume" in complete.err
    (tmp_path / "out" / "owner" / "run.json").unlink()
    other = understudy.run(*words, "--resume", "--seed", "9")
    assert other.code == 2
    assert "seed: 0 then, 9 now" in other.err
    words[1] = f"{words[1]}/"  # as a shell completes it
    assert understudy.run(*words, "--resume").code == 0


def test_the_command_line_is_a_module_too() -> None:
    words = [sys.executable, "-m", "understudy", "--help"]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "synthesize" in ended.stdout


def test_bad_files_stop_a_run_or_are_counted(
    understudy: Commands, words: list[Any], scans: Path, books: list[Any], tmp_path: Path
) -> None:
    (scans / "cat" / "broken.png").write_bytes(b"not a picture")
    stopped = understudy.run(*words)
    assert stopped.code == 2
    assert "broken.png" in stopped.err
    done = understudy.run(*words, "--skip-bad")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "out" / "owner" / "run.json").read_text())["skipped"] == 1
    listed = understudy.run("ledger", "show", scans, "--skip-bad", *books)
    assert listed.code == 0, listed.err


@pytest.mark.slow
def test_evaluate_prints_verdicts_and_figures_for_the_owner(
    with_torch: Commands, books: list[Any], tmp_path: Path
) -> None:
    understudy = with_torch
    real, test = embeddings(tmp_path / "real.npz"), embeddings(tmp_path / "test.npz", 20, seed=1)
    out = tmp_path / "out"
    assert understudy.run("synthesize", real, *ONE, "--out", out, "--count", "60", *books).code == 0
    words = ["evaluate", out, "--real", real, "--test", test, "--epochs", "3"]
    files = ["--json", tmp_path / "found.json", "--table", tmp_path / "found.csv"]
    ended = understudy.run(*words, "--network", "two-layer", *files)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("owner only:")
    for group in ("fidelity", "utility", "leakage", "attack"):
        assert re.search(rf"^{group}: +(good|fair|poor|unknown) ", ended.out, re.MULTILINE)
        assert f"{group} (owner only)" in ended.out
    assert re.search(r"balanced accuracy, trained on the release +\d+\.\d+% +\d+\.\d+%", ended.out)
    written = json.loads((tmp_path / "found.json").read_text())
    kept = json.loads((out / "owner" / "evaluation.json").read_text())
    assert written == kept
    table = (tmp_path / "found.csv").read_text().splitlines()
    assert len(table) == 1 + len(written["figures"])
    unknown = understudy.run(*words, "--network", "vgg")
    assert unknown.code == 2
    assert "vgg" in unknown.err
    nowhere = understudy.run(*words, "--json", tmp_path / "absent" / "found.json")
    assert nowhere.code == 2
    assert "there is no folder" in nowhere.err


# The ledger


@pytest.mark.slow
def test_the_ledger_from_the_command_line(
    understudy: Commands, words: list[Any], scans: Path, books: list[Any]
) -> None:
    budget = ["--epsilon", "3", "--delta", "1e-6"]
    told = understudy.run("ledger", "set-budget", scans, *budget, *books)
    assert told.code == 0
    assert "total epsilon 3 at delta 1e-06, spent 0.0000" in told.out
    assert understudy.run(*words, "--delta", "1e-6").code == 0
    for name in (scans, scans.name, str(scans)):
        shown = understudy.run("ledger", "show", name, *books)
        if name == scans.name:  # no such place, and no such name: the full one was registered
            assert shown.code == 2
            continue
        assert shown.code == 0, shown.err
        for word in ("dataset", "budget", "charge", "release", "means", "covariance", "1.0000"):
            assert word in shown.out
    listed = understudy.run("ledger", "list", *books)
    assert re.search(r"3 +1\.0000 +2\.7\d+ +1e-06 +1 +image", listed.out)
    identity = listed.out.splitlines()[1].split()[0]
    assert understudy.run("ledger", "show", identity, *books).code == 0
    assert understudy.run("ledger", "set-budget", identity, "--epsilon", "0.5", *books).code == 0
    lower = understudy.run("ledger", "show", identity, *books)
    assert re.search(r"0\.5 +", lower.out)


def test_what_a_ledger_exports(understudy: Commands, words: list[Any], books: list[Any]) -> None:
    assert understudy.run(*words).code == 0
    ended = understudy.run("ledger", "export", *books)
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["kind"] for row in rows][:2] == ["dataset", "charge"]
    assert {row["kind"] for row in rows} == {"dataset", "charge", "release"}
    assert "sketch" not in ended.out


def test_a_changed_ledger_is_found_and_nothing_runs_on_it(
    understudy: Commands, words: list[Any], scans: Path, books: list[Any], tmp_path: Path
) -> None:
    assert understudy.run(*words).code == 0
    sound = understudy.run("ledger", "verify", *books)
    assert (sound.code, sound.out) == (0, "every row is as it was written\n")
    path = tmp_path / "ledger.db"
    content = path.read_bytes()
    assert content.count(b'"covariance"') > 0
    path.write_bytes(content.replace(b'"covariance"', b'"covariancE"'))
    found = understudy.run("ledger", "verify", *books)
    assert found.code == 2
    assert "row" in found.out
    refused = understudy.run("synthesize", scans, "--out", tmp_path / "o2", *QUICK, *books)
    assert refused.code == 2
    assert "ledger" in refused.err


def test_a_dataset_of_mixed_sizes_can_be_given_a_budget(
    understudy: Commands, words: list[Any], scans: Path, books: list[Any], tmp_path: Path
) -> None:
    save(np.zeros((9, 7, 1), np.uint8), scans / "cat" / "wide.png")
    told = understudy.run("ledger", "set-budget", scans, "--epsilon", "2", *books)
    assert told.code == 0, told.err
    assert "replaces" not in told.out
    told = understudy.run("ledger", "set-budget", scans, "--epsilon", "1", *books)
    assert "it replaces epsilon 2 at delta 1e-05" in told.out
    words = [*words, "--size", "6"]
    assert understudy.run(*words).code == 0
    assert understudy.run(*words[:3], tmp_path / "o2", *words[4:]).code == 3
    assert "1.0000" in understudy.run("ledger", "show", scans, *books).out


# Lists and help


def test_methods_backends_and_doctor(with_torch: Commands, tmp_path: Path) -> None:
    understudy = with_torch
    methods = understudy.run("methods")
    assert (methods.code, methods.err) == (0, "")
    for word in ("clustering", "clusters", "oversample", "Zhou"):
        assert word in methods.out
    backends = understudy.run("backends")
    assert backends.code == 0
    assert "embedded:dct" in backends.out
    assert "onnx:" in backends.out
    own = {"XDG_DATA_HOME": str(tmp_path)}
    doctor = understudy.run("doctor", env=own)
    assert doctor.code == 0, doctor.out
    assert re.search(r"ok +noise +spread", doctor.out)
    assert re.search(r"ok +ledger .*none yet", doctor.out)
    assert not list(tmp_path.iterdir())  # a doctor only looks
    Ledger(tmp_path / "understudy" / "ledger.db").close()
    assert "0 datasets, intact" in understudy.run("doctor", env=own).out
    checks = [line.partition("  ready")[0] for line in doctor.out.splitlines() if "ready" in line]
    assert len(set(checks)) == len(checks)  # of one name, each says what it is
    (tmp_path / "understudy" / "ledger.db").write_bytes(b"no database")
    ill = understudy.run("doctor", env=own)
    assert ill.code == 1
    assert re.search(r"!! +ledger", ill.out)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["synthesize"],
        ["evaluate"],
        ["methods"],
        ["backends"],
        ["doctor"],
        ["demo"],
        ["ledger"],
        ["ledger", "list"],
        ["ledger", "show"],
        ["ledger", "set-budget"],
        ["ledger", "verify"],
        ["ledger", "export"],
    ],
    ids=" ".join,
)
def test_every_command_explains_itself(words: list[str]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    assert f"Usage: understudy {' '.join(words)}".rstrip() in shown.output
    lines = [line.strip() for line in shown.output.splitlines()]
    assert not [line for line in lines if re.fullmatch(r"--[a-z-]+( [A-Z]+)?", line)]


def test_the_first_screen_of_help_has_the_usual_options_in_panels() -> None:
    first = CliRunner().invoke(app, ["synthesize", "--help"], env={"COLUMNS": "80"}).output
    assert len(first.splitlines()) <= 30
    assert max(map(len, first.splitlines())) <= 78  # what a terminal of 80 columns does not wrap
    usual = ("size", "unit", "epsilon", "delta", "method", "encoder", "out", "count", "test")
    for name in (*usual, "dry-run", "help-all"):
        assert re.search(rf"^  --{name} ", first, re.MULTILINE), name
    whole = CliRunner().invoke(app, ["synthesize", "--help-all"], env={"COLUMNS": "80"}).output
    for panel in ("Data", "Privacy", "Models", "Output"):
        assert f"\n{panel}:\n" in first
        assert f"\nAdvanced: {panel}:\n" in whole
    audit = CliRunner().invoke(app, ["audit", "--help"]).output
    assert "--set NAME=VALUE" in audit  # a command of one screen hides nothing
    for name in run_options():
        flag = "set" if name == "settings" else name.replace("_", "-")
        listed = re.findall(rf"^  --{flag} ", whole, re.MULTILINE)
        assert len(listed) == (name != "source"), name


def test_a_whole_process_of_its_own() -> None:
    """As a person starts it: no fork, no fixture."""
    words = [sys.executable, "-c", WHOLE, "synthesize"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "source is missing" in ended.stderr


SCANS = """
class Scans:
    kind, shape, classes, has_units, skipped = "images", (16, 16, 1), ("a", "b"), False, 0

    def __init__(self, name, size, *, split, unit):
        self.name = f"scans:{name}"

    def __len__(self):
        return 20

    def batches(self, size):
        raise ZeroDivisionError("no such scan")

    def digests(self, key):
        return iter([bytes([number]) * 16 for number in range(20)])
"""


@pytest.mark.parametrize("error", ["ZeroDivisionError", "OSError", "SystemExit"])
def test_a_source_of_others_that_fails_is_named_by_any_command(tmp_path: Path, error: str) -> None:
    """It ended `check` in a traceback, which looked like a fault of this program, or in silence."""
    code = SCANS.replace("ZeroDivisionError", error)
    install(tmp_path, "somebodys-scans", {"scans": code}, {SOURCES: {"scans": "scans:Scans"}})
    words = [sys.executable, "-c", WHOLE, "check", "scans:archive"]
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path}
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env, check=False)
    assert ended.returncode == 1
    said = r"understudy: the plug-in somebodys-scans \(.*scans.py, line \d+\) failed: "
    said += f"{error}: no such scan"
    assert re.search(said, ended.stderr)
    assert "Traceback" not in ended.stderr


def test_a_sample_is_of_a_sentence_or_of_classes(understudy: Commands, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for words in ([], ["a dog", "--classes", "cat,dog"]):
        ended = understudy.run("sample", *words, "--out", out)
        assert (ended.code, ended.out) == (2, "")
        assert "a PROMPT, or --classes NAME,NAME" in ended.err
    ended = understudy.run("sample", "a dog", "--template", "a {class}", "--out", out)
    assert (ended.code, ended.out) == (2, "")
    assert "--template is an option of --classes" in ended.err
    assert not out.exists()


def test_a_plan_lists_what_is_declared_and_what_is_inferred(
    understudy: Commands, words: list[Any]
) -> None:
    declared = ["--classes", "dog,cat,-1", "--channels", "3", "--hold-out", "5%"]
    ended = understudy.run(*words, "--dry-run", *declared)
    assert ended.code == 0, ended.err
    assert "declared: class names dog, cat, -1; colour channels 3" in ended.out
    assert "inferred from the private records: image size 6 x 6" in ended.out
    assert "note: not covered unless it is declared: --size 6" in ended.out.splitlines()
    assert "held out: 5% of the images" in ended.out


def test_the_program_says_its_version(understudy: Commands) -> None:
    done = understudy.run("--version")
    assert (done.code, done.out.strip()) == (0, f"understudy {__version__}")
