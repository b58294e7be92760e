"""Reports made anew from what runs have left, and what may go with a release."""

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.metric_values import metric_value
from tests.report.pages import Page, pictures, pixels
from tests.run.samples import class_folders, embeddings, quick_run, save
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.core.errors import ConfigError, LedgerError, RunError
from understudy.core.results import Curve, Evaluation, Verdict
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger
from understudy.run import report

CLASSES = {"cat": 37, "dog": 23}
MARKED_FOLDER, MARKED_FILE = "ward-seven-photos", "patient-zed"
FIGURES = {"accuracy": 0.123456, "Frechet distance": 98.7654321}
"""Planted owner-only figures."""
ROWS, SKIPPED, SECONDS = 48_613, 17_717, 954.81
COUNTS = {"cat": 31_337, "dog": 17_276}
"""Planted counts, and a planted time. The true counts are so small that a noisy one, which may be
told, can be the same."""


@pytest.fixture(scope="module")
def marked() -> NDArray[np.uint8]:
    """A private image like no other."""
    return np.random.default_rng(77).integers(0, 256, (8, 8, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, marked: NDArray[np.uint8]) -> Path:
    """A private dataset with a marked name and a marked image in each class."""
    folder = tmp_path_factory.mktemp("home") / MARKED_FOLDER
    class_folders(folder, CLASSES, (8, 8, 3))
    for name in CLASSES:
        save(marked, folder / name / f"{MARKED_FILE}-000.png")
    return folder


@pytest.fixture(scope="module")
def finished(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs on it, made once."""
    place = tmp_path_factory.mktemp("runs")
    for epsilon in (1.0, 4.0, 8.0):
        quick_run(source, place, out=place / f"run-{epsilon:g}", epsilon=epsilon)
    return place


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> Path:
    """A copy of them, for a test to change."""
    return Path(shutil.copytree(finished, tmp_path / "runs"))


def measured(
    out: Path, marked: NDArray[np.uint8], values: dict[str, float], **settings: Any
) -> Evaluation:
    """What an evaluation would leave: marked figures, and the marked image in the pairs."""
    found = Evaluation(
        values=tuple(
            metric_value("utility", name, value, measured="x", label=label)
            for name, value in values.items()
            for label in ("", "cat")
        ),
        curves=(Curve("attack", "ROC of x", "fpr", "tpr", (0.0, 1.0), (0.0, 0.123456)),),
        verdicts=(Verdict("leakage", "poor", f"{MARKED_FILE} was copied", "none"),),
        settings={"real": MARKED_FOLDER, "rows per class": COUNTS, **settings},
    )
    (out / "owner" / "evaluation.json").write_text(json.dumps(found.as_dict()))
    both = np.stack([marked, marked])
    rows, none = np.array([[3.0, 4.0], [5.0, 6.0]]), np.zeros(2)
    np.savez(
        out / "owner" / "pairs.npz",
        synthetic=both, real=both, distances=none, rows=rows, how="pixels",
    )  # fmt: skip
    return found


def trained(value: float) -> dict[str, Any]:
    """What ``run.json`` holds of one training."""
    recalls = {"cat": value, "dog": value}
    return {"accuracy": value, "balanced": value, "per_class": recalls, "confusion": [[9, 1]] * 2}


def planted(out: Path, marked: NDArray[np.uint8]) -> None:
    """Marks in every file of the owner's."""
    measured(out, marked, FIGURES)
    path = out / "owner" / "run.json"
    run = json.loads(path.read_text())
    run |= {"rows": ROWS, "skipped": SKIPPED, "seconds": {"reading": SECONDS}}
    runs = [trained(FIGURES["accuracy"])]
    run["accuracy"] = [{"model": "m", "synthetic": runs, "real": runs}]
    run["spending"] = {"epsilon": 55.5, "delta": 1e-5, "spent": 13.2489, "remaining": 42.2511}
    path.write_text(json.dumps(run))


def marks(text: str, source: Path, marked: NDArray[np.uint8]) -> set[str]:
    """The marks that are in a text or in its pictures."""
    words = {word.strip(".,") for word in re.findall(r"[\w.,%-]+", Page(text).words + " " + text)}
    numbers: list[object] = [*FIGURES.values(), "98.77", "0.1235", "12.3%", ROWS, f"{ROWS:,}"]
    numbers += [SKIPPED, f"{SKIPPED:,}", SECONDS, "15 min", 55.5, 13.2489, 42.2511]
    numbers += [*COUNTS.values(), *(f"{count:,}" for count in COUNTS.values())]
    found = {str(number) for number in numbers} & words
    names = [MARKED_FOLDER, MARKED_FILE, str(source.parent), str(source.parent.parent)]
    found |= {name for name in names if name in text}
    files = [path.read_bytes() for path in source.rglob(f"{MARKED_FILE}*")]
    decoded = pictures(text)
    plain = [bytes.fromhex(run) for run in re.findall(r"(?:[0-9a-f]{2}){24,}", text)]
    for file in [*decoded, *plain, text.encode()]:
        if any(one in file or base64.b64encode(one) in file for one in files):
            found.add("a private file")
    if any(holds(pixels(file), marked) for file in decoded):
        found.add("a private image")
    return found


def holds(picture: NDArray[np.uint8], image: NDArray[np.uint8]) -> bool:
    """Whether a picture has any row of an image in it, anywhere."""
    raw = [row.tobytes() for row in picture]
    return any(row.tobytes() in one for row in image for one in raw)


def test_nothing_that_is_private_is_in_the_public_report(
    runs: Path, source: Path, marked: NDArray[np.uint8], tmp_path: Path
) -> None:
    out = runs / "run-1"
    planted(out, marked)
    page = report.write_public_report(out, tmp_path / "public.html").read_text()
    assert marks(page, source, marked) == set()
    assert marks(json.dumps(report.public_as_dict(out)), source, marked) == set()
    sizes = [len(list(folder.iterdir())) for folder in (out / "release" / "train").iterdir()]
    # The first of each class, and the worst where noise left it more than one.
    assert len(pictures(page)) == sum(min(size, 2) for size in sizes)


def test_the_search_finds_the_marks_where_they_are(
    runs: Path, source: Path, marked: NDArray[np.uint8]
) -> None:
    out = runs / "run-1"
    planted(out, marked)
    found = report.load(out)
    page = found.write().read_text()
    seen = marks(page, source, marked)
    assert {"a private image", MARKED_FOLDER, MARKED_FILE, "48,613", "17,717", "31,337"} <= seen
    assert {"98.77", "0.1235", "12.3%"} & seen
    told = marks(json.dumps(found.as_dict()), source, marked)
    assert {"0.123456", "98.7654321", str(ROWS), str(SECONDS), "31337"} <= told


def test_the_public_report_reads_nothing_of_the_owners(
    runs: Path, marked: NDArray[np.uint8], tmp_path: Path
) -> None:
    out = runs / "run-1"
    planted(out, marked)
    with_owner = report.write_public_report(out, tmp_path / "a.html").read_bytes()
    alone = shutil.copytree(out / "release", tmp_path / "elsewhere")
    shutil.rmtree(out / "owner")
    assert report.write_public_report(out, tmp_path / "b.html").read_bytes() == with_owner
    assert report.write_public_report(alone, tmp_path / "c.html").read_bytes() == with_owner


def test_a_release_that_was_changed_is_called_unverified_and_has_no_public_page(
    runs: Path, tmp_path: Path
) -> None:
    out = runs / "run-4"
    statement = out / "release" / "privacy.json"
    content = json.loads(statement.read_text())
    content["guarantee"]["epsilon"] = 0.5
    statement.write_text(json.dumps(content))
    page = Page(report.load(out).write().read_text())
    assert "Guarantee: unverified" in page.words
    for passed_on in (report.public_page, report.public_as_dict):
        with pytest.raises(RunError, match=r"no sound release.* privacy.json"):
            passed_on(out)


def test_the_files_of_a_release_are_read_once_for_a_page_and_json(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, verify = [], report.verify
    monkeypatch.setattr(report, "verify", lambda place: calls.append(place) or verify(place))
    told = report.load(runs / "run-1")
    told.write()
    assert told.as_dict()
    assert calls == [runs / "run-1" / "release"]


def test_an_evaluation_comes_into_the_report(runs: Path, marked: NDArray[np.uint8]) -> None:
    measured(runs / "run-1", marked, FIGURES)
    text = report.refresh(runs / "run-1").read_text()
    assert "98.77" in text
    assert "Leakage: found" in Page(text).words
    assert any(holds(pixels(file), marked) for file in pictures(text))


def test_the_budget_is_the_ledgers_of_now(runs: Path, finished: Path) -> None:
    run = json.loads((runs / "run-1" / "owner" / "run.json").read_text())
    with Ledger(finished / "ledger.db") as book:
        spent = book.set_budget(run["dataset_id"], Budget(20.0, 1e-5)).epsilon
    owner = report.load(runs / "run-1").owner
    assert owner.budget_from == "ledger"
    assert owner.spending is not None
    assert owner.spending.spent == pytest.approx(spent) != run["spending"]["spent"]
    assert owner.spending.remaining is not None
    assert 20 - spent < owner.spending.remaining < 20  # as one run: epsilons do not add up


def test_without_its_ledger_the_budget_is_the_runs(runs: Path) -> None:
    path = runs / "run-1" / "owner" / "run.json"
    run = json.loads(path.read_text())
    gone = runs / "gone.db"
    path.write_text(json.dumps({**run, "ledger": str(gone)}))
    owner = report.load(runs / "run-1").owner
    assert owner.budget_from == "run"
    assert owner.spending is not None
    assert owner.spending.spent == run["spending"]["spent"]
    ended = CliRunner().invoke(app, ["report", str(runs / "run-1")])
    assert "name the ledger: --ledger LEDGER" in ended.output
    assert "--ledger LEDGER" in (runs / "run-1" / "owner" / "report.html").read_text()
    assert not gone.exists()
    with pytest.raises(LedgerError, match="knows no dataset"):
        report.load(runs / "run-1", ledger=str(gone))


def test_runs_on_the_same_dataset_make_a_curve(runs: Path, marked: NDArray[np.uint8]) -> None:
    for epsilon, value in ((1, 0.5), (4, 0.7)):
        measured(runs / f"run-{epsilon}", marked, {"accuracy": value})
    stranger = shutil.copytree(runs / "run-8", runs / "stranger")
    run = json.loads((stranger / "owner" / "run.json").read_text())
    (stranger / "owner" / "run.json").write_text(json.dumps({**run, "dataset_id": "other"}))
    found = report.load(runs / "run-1")
    assert [one.name for one in found.owner.releases] == ["run-1", "run-4", "run-8"]
    assert "accuracy over epsilon" in found.write().read_text()
    for name, damage in (("run-4", "owner/run.json"), ("run-8", "release/privacy.json")):
        (runs / name / damage).write_text("{")  # a neighbour's damage is no matter of this report
    assert report.load(runs / "run-1").owner.releases == ()


def test_embeddings_have_a_report_without_pictures(tmp_path: Path) -> None:
    quick_run(embeddings(tmp_path / "v.npz"), tmp_path, settings={"clusters": 1})
    assert pictures(report.refresh(tmp_path / "out").read_text()) == []
    page = report.write_public_report(tmp_path / "out", tmp_path / "p.html").read_text()
    assert "30 synthetic embeddings" in Page(page).words


def test_releases_side_by_side(runs: Path, marked: NDArray[np.uint8], tmp_path: Path) -> None:
    measured(runs / "run-1", marked, {"accuracy": 0.5}, rows=10)
    measured(runs / "run-4", marked, {"accuracy": 0.7}, rows=20)
    folders = [runs / "run-1", runs / "run-4"]
    found = report.compare_folders(folders)
    assert [one.value.name for one in found.shared] == ["accuracy"]
    assert "Measured with different rows (run-1: 10; run-4: 20)" in found.notes[0]
    page = report.write_comparison(folders, found, tmp_path / "c.html").read_text()
    assert len(pictures(page)) == 2
    assert "Measured with different rows" in Page(page).words
    lines = report.write_table(found.rows(), tmp_path / "c.csv").read_text().splitlines()
    assert lines[0].startswith("release,method,guarantee,epsilon,delta,group,name,value")
    assert len(lines) == 1 + 4
    # An epsilon is only as good as its file.
    stated = runs / "run-4" / "release" / "privacy.json"
    stated.write_text(stated.read_text().replace('"epsilon": 4.0', '"epsilon": 1.0'))
    note = report.compare_folders(folders).notes[0]
    assert note.startswith("What run-4 states is unverified: ")


def test_a_folder_alone_is_not_compared_with_itself(runs: Path) -> None:
    one = str(runs / "run-1")
    for folders in (one, [one], [one, Path(one)]):
        with pytest.raises(ConfigError, match="two or more different releases, found 1"):
            report.compare_folders(folders)


def test_accuracies_of_no_seed_are_named(runs: Path) -> None:
    place = runs / "run-1" / "owner" / "run.json"
    run = json.loads(place.read_text())
    empty = {"model": "cnn", "synthetic": [], "real": []}
    place.write_text(json.dumps({**run, "accuracy": [empty]}))
    with pytest.raises(RunError, match=r"run\.json is not whole"):
        report.load(runs / "run-1")


@pytest.mark.parametrize("name", ["run.json", "evaluation.json", "pairs.npz", "gallery.npz"])
def test_a_damaged_file_is_named(runs: Path, marked: NDArray[np.uint8], name: str) -> None:
    measured(runs / "run-1", marked, FIGURES)
    (runs / "run-1" / "owner" / name).write_bytes(b"{")
    with pytest.raises(RunError, match=re.escape(name)):
        report.load(runs / "run-1")
