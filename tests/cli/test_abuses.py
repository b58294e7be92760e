"""What a new user may do wrong: each command is refused with a message, and nothing is charged.

No traceback, no charge, no folder left behind. Files that are wrong in themselves stand in
tests/data/test_malformed.py, ledgers in tests/privacy/test_ledger.py.
"""

import contextlib
import io
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.abused_world import abused_world
from tests.run.samples import tree

from understudy.cli import main as command_line
from understudy.core.option import declared_options, kinds_of, option_of
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.config import run_options
from understudy.run.methods import methods

RUN = "synthesize {scans} --out {out} --ledger {ledger} --epsilon 1 "
"""A run that is in order, to which an abuse is added."""

OF = "--out {out} --ledger {ledger} --epsilon 1"
"""The rest of such a run after its source."""

SELECT = "select {scans} --out {out} --ledger {ledger} --keep 50% "

ABUSES: list[tuple[str, int, str]] = [
    # What is not there, or is no dataset.
    (f"synthesize {{nowhere}} {OF}", 2, "there is no such file or folder"),
    (f"synthesize {OF}", 2, "source is missing: name the private dataset, such as photos/"),
    ("synthesize {scans} --ledger {ledger} --epsilon 1", 2, "out is missing"),
    ("plan {scans}", 2, "epsilon is missing: say how much"),
    (f"synthesize {{file}} {OF}", 2, "is of no known kind"),
    (f"synthesize {{empty}} {OF}", 2, "0 other files, which is no known layout"),
    (f"synthesize {{truncated}} {OF}", 2, r"scan-0.png: is not a JPEG.*--skip-bad"),
    (f"synthesize {{scans}}?window=banana {OF}", 2, "window is CENTRE,WIDTH .* found 'banana'"),
    (f"synthesize playhouse:nowhere {OF}", 2, "there is no playhouse:nowhere"),
    (f"synthesize {{words}} {OF}", 2, "is no zip archive, or is damaged"),
    (f"synthesize {{pickled}} {OF}", 2, "Python objects .pickle., which are never loaded"),
    # Where the result is to go.
    ("check {scans}?folders=all --sheet {scans}/x.png", 2, "lies inside the private dataset"),
    ("synthesize {scans} --out {file}/out --epsilon 1", 2, "cannot write here: Not a directory"),
    ("synthesize {scans} --out {full} --epsilon 1", 2, "exists and is not empty; choose another"),
    ("synthesize {scans} --out {full} --epsilon 1 --resume", 2, "it holds no run to resume"),
    # Budgets.
    (RUN + "--epsilon 0", 2, "epsilon must be a positive number, found 0"),
    (RUN + "--epsilon 1e-9", 2, "too small to release anything: use 1e-6 or more"),
    (RUN + "--epsilon one", 2, "Invalid value for '--epsilon'|epsilon .*'one'"),
    (RUN + "--method finetuning --set learning_rate=1e300", 2, "above 0 and at most 100"),
    (SELECT + "--no-guarantee --private {scans} --set learning_rate=1e300", 2, "at most 100"),
    (RUN + "--delta 0", 2, "delta must lie between 0 and 1"),
    (RUN + "--delta 1e-20", 2, "delta must be 1e-11 or more"),
    (RUN + "--quality-share 60%", 2, "--quality-share is a share up to 50%"),
    (RUN + "--quality-share 2% --label none", 2, "pays for the recall of each class"),
    # Settings that do not fit together, this machine, or the data.
    (RUN + "--set filter=images --set oversample=1000000000", 2, "oversample must be 1 to 1000"),
    (RUN + "--size 1000000", 2, "from 1 to 8192 pixels, not 1000000"),
    (RUN + "--channels 2", 2, r"channels is 1 \(grey\) or 3"),
    (RUN + "--fit crop", 2, "--fit crop is how images are brought to a size: add --size"),
    (RUN + "--method clustring", 2, "unknown method 'clustring'. Did you mean 'clustering'"),
    (RUN + "--epsilom 3", 2, "No such option: --epsilom"),
    (RUN + "--set clustres=3", 2, "unknown setting 'clustres'. Did you mean 'clusters'"),
    (RUN + "--set clusters", 2, "--set takes NAME=VALUE"),
    (RUN + "--set covariance=banana", 2, "covariance is one of spherical"),
    (RUN + "--encoder clipp", 2, "is not the name of a model: it has no colon"),
    (RUN + "--encoder hub:nothing", 2, "there is no backend 'hub'"),
    (RUN + "--encoder onnx:{nowhere}", 2, "there is no such file; write onnx:FILE"),
    (RUN + "--encoder 'embedded:dct?coefficients=-4'", 2, "coefficients must be 1 or more"),
    (RUN + "--decoder embedded:scattering", 2, "there is no decoder embedded:scattering"),
    (RUN + "--quality sharpness", 2, "quality is piqe, niqe or niqe:FILE"),
    (RUN + "--quality niqe:{nowhere}", 2, "there is no such file"),
    (f"synthesize {{numbers}} --encoder embedded:dct {OF}", 2, "holds embeddings already"),
    (f"synthesize {{numbers}} --size 32 {OF}", 2, "have no size to change"),
    (RUN + "--format jpg", 2, "format is one of png, parquet"),
    (RUN + "--adjacency both", 2, "adjacency is one of add-remove, replace-one"),
    (RUN + "--progress loud", 2, "Invalid value for '--progress'"),
    # Units, labels and parts.
    (RUN + "--unit-from-name '('", 2, "is no regular expression"),
    (RUN + "--unit-rows 0", 2, "a unit keeps at least 1 row"),
    (RUN + "--hold-out 60%", 2, "a share up to 50%"),
    (RUN + "--classes cat,eel", 2, "that --classes does not declare: dog"),
    (RUN + "--classes cat,dog --label none", 2, "leaves no classes to declare"),
    # Other datasets of a run.
    (RUN + "--test {nowhere}", 2, "there is no such file or folder"),
    (RUN + "--method selection", 2, "there is nothing to select from: give --candidates"),
    (RUN + "--method selection --candidates {colour}", 2, "has no privacy.json"),
    # Files of options, and ledgers.
    (RUN + "--config {nowhere}", 2, "cannot read the configuration: No such file"),
    (RUN + "--config {unknown}", 2, "'epsilom'. Did you mean 'epsilon'"),
    (RUN + "--config {yaml}", 2, "not a YAML file"),
    ("synthesize {scans} --out {out} --config {texts}", 2, "epsilon .*found 'much'"),
    (RUN + "--ledger {empty}", 2, "cannot be used"),
    (RUN + "--ledger mysql://x/y", 2, "a ledger in mysql is not supported"),
    ("ledger show {scans} --ledger {ledger}", 2, "there is no ledger at"),
    ("ledger show {nowhere} --ledger {books}", 2, "no such file or folder, and the ledger"),
    ("ledger show {scans} --ledger {books}", 2, "nothing was spent on it and no budget is set"),
    ("ledger set-budget {scans} --epsilon -1 --ledger {ledger}", 2, "epsilon must be a positive"),
    ("ledger verify --ledger {ledger_of_words}", 2, "file is not a database"),
    # Everything about a run.
    ("evaluate {full} --real {scans} --test {scans}", 2, "holds no release"),
    ("evaluate {nowhere} --real {scans}", 2, "there is no such file or folder"),
    ("report {nowhere} --public {out}", 2, "there is no such file or folder"),
    ("verify {nowhere}", 2, "there is no such file or folder"),
    ("compare {full}", 2, "needs two or more different releases, found 1"),
    ("select {scans} --out {out} --ledger {ledger}", 2, "keep is missing"),
    ("select {nowhere} --out {out} --keep 4", 2, "there is no such file or folder"),
    (SELECT + "--keep 150%", 2, "keep is a share above 0 and up to 100%"),
    (SELECT + "--private {colour}", 2, "say that this is meant .--no-guarantee"),
    (SELECT + "--private {scans} --epsilon nan", 2, "epsilon must be a finite number"),
    (SELECT + "--private {scans} --no-guarantee --out {scans}/out", 2, "inside the private"),
    ("check {nowhere}", 1, "there is no such file or folder"),
    ("runs {nowhere}", 2, "there is no such folder"),
    ("recipe {nowhere}", 2, "cannot read the recipe"),
    ("recipe {recipe}", 2, "a recipe is a list"),
    ("sample 'a cat' --out {full}", 2, "is taken: choose another --out"),
    ("fly", 2, "No such command 'fly'"),
]

# A machine needs seconds to import what these refuse.
SLOW_ABUSES: list[tuple[str, int, str]] = [
    (f"synthesize {{dicom}} {OF}", 2, r"1.dcm: holds no image"),
    (RUN + "--encoder onnx:{onnx}", 2, "not a readable ONNX model"),
    (RUN + "--test {other}", 2, "at least 16 pixels a side"),
    (
        RUN + "--method selection --candidates {other} --candidates-public",
        2,
        "it has eel, fox besides",
    ),
    (RUN + "--method evolution --generator embedded:dct", 2, "there is no generator embedded:dct"),
    ("ledger list --ledger postgresql://nobody@localhost:1/x", 2, "cannot be used"),
    ("audit {scans} --method nothing --epsilon 1", 2, "unknown method 'nothing'"),
    ("audit {scans} --method clustering --epsilon 1 --runs 0", 2, "runs must be 40 or more"),
    ("studio train --data {empty} --out {out}", 2, "--data and --captions go together"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return abused_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def entry() -> Iterator[Callable[[list[str]], tuple[int, str]]]:
    """The command line's entry in this process: words to its exit code and all that it says."""
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        # Typer makes the commands anew at every start, which takes half of a start.
        patch.setattr(command_line, "app", typer.main.get_command(command_line.app))

        def run(words: list[str]) -> tuple[int, str]:
            said = io.StringIO()
            patch.setattr(sys, "argv", ["understudy", *words])
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                try:
                    command_line.main()
                except SystemExit as end:
                    return int(end.code or 0), " ".join(said.getvalue().split())
            return 0, " ".join(said.getvalue().split())

        yield run
    signal.signal(signal.SIGTERM, handler)


class Site:
    """A place for the result and the ledger of one abuse.

    Args:
        entry: The command line.
        world: What may be named.
        folder: Where the result and the ledger go.
    """

    def __init__(self, entry: Any, world: dict[str, str], folder: Path) -> None:
        self.entry, self.folder = entry, folder
        self.world = {**world, "out": str(folder / "out"), "ledger": str(folder / "ledger.db")}

    def abuse(self, command: str) -> tuple[int, str]:
        """Its exit code and message, once nothing is charged, made or left behind."""
        words = [word.format_map(self.world) for word in split(command)]
        code, said = self.entry(words)
        assert "Traceback" not in said
        assert "charged before" not in said
        assert not [name for name in tree(self.folder) if not name.startswith("ledger.db")]
        assert not (self.folder / "out").exists()
        if (self.folder / "ledger.db").exists():
            with Ledger(self.folder / "ledger.db") as ledger:
                assert [row.kind for row in ledger.rows() if row.kind == "charge"] == []
        return code, said


def split(command: str) -> list[str]:
    """The words of a command, of which some stand between quotes."""
    return [a or b for a, b in re.findall(r"'([^']*)'|([^\s']+)", command)]


@pytest.fixture
def site(
    entry: Any, world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Site:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return Site(entry, world, tmp_path)


def check_refused(site: Site, command: str, code: int, message: str) -> None:
    before = {name: tree(Path(site.world[name])) for name in ("scans", "full", "empty")}
    ended, said = site.abuse(command)
    assert re.search(message, said), said
    assert ended == code, said
    assert {name: tree(Path(site.world[name])) for name in before} == before


@pytest.mark.parametrize(("command", "code", "message"), ABUSES, ids=[one[0] for one in ABUSES])
def test_it_is_refused_with_a_message(site: Site, command: str, code: int, message: str) -> None:
    check_refused(site, command, code, message)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code", "message"), SLOW_ABUSES)
def test_it_is_refused_when_more_is_imported(
    site: Site, command: str, code: int, message: str
) -> None:
    check_refused(site, command, code, message)


# Numbers out of the ranges that options declare


def bad_numbers(hint: Any) -> list[str]:
    """Texts that an option of numbers cannot take, by its type and range."""
    option, kinds = option_of(hint), kinds_of(hint)
    bad = ["nan", "inf", "-inf", "1e999"]
    if str not in kinds:
        bad += ["many", "1,5"]
    if float not in kinds:
        bad += ["1.5", "0x10"]
    bad += [str(least - 1) for least in (option.least,) if least is not None]
    bad += [str(most + 1) for most in (option.most,) if most is not None]
    bad += [str(above) for above in (option.above,) if above is not None]
    return bad


def is_number(hint: Any) -> bool:
    return any(kind in (int, float) for kind in kinds_of(hint))


OPTIONS = [
    (name, text)
    for name, hint in run_options().items()
    if is_number(hint)
    for text in (bad_numbers(hint)[0], bad_numbers(hint)[-1])
]
SETTINGS = [
    (method.name, name, bad_numbers(hint)[-1])
    for method in methods().values()
    for name, hint in declared_options(method.params).items()
    if is_number(hint)
]


@pytest.mark.parametrize(("name", "text"), OPTIONS)
def test_no_option_takes_a_number_out_of_its_range(site: Site, name: str, text: str) -> None:
    flag = "--" + name.replace("_", "-")
    code, said = site.abuse(f"{RUN}{flag}={text}")
    assert code == 2, said
    assert re.search(rf"{flag}|{name}|{name.split('_')[0]}", said), said


@pytest.mark.parametrize(("method", "name", "text"), SETTINGS)
def test_no_setting_takes_a_number_out_of_its_range(
    site: Site, method: str, name: str, text: str
) -> None:
    code, said = site.abuse(f"{RUN}--method {method} --set {name}={text}")
    assert code == 2, said
    assert f"{name} " in said
