"""``understudy report`` and ``understudy compare`` on the command line."""

import json
from pathlib import Path

import pytest
from tests.metric_values import metric_value
from tests.run.samples import QUICK, class_folders
from typer.testing import CliRunner, Result

import understudy
from understudy.cli.main import app
from understudy.core.errors import ConfigError
from understudy.core.results import Evaluation


def command(*words: object) -> Result:
    """What a command does."""
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs; the first was measured."""
    folder = tmp_path_factory.mktemp("runs")
    source = class_folders(folder / "scans", {"cat": 30, "dog": 30}, (6, 6, 1))
    options = {"settings": QUICK, "count": 20, "ledger": str(folder / "ledger.db")}
    for epsilon, name in ((1.0, "a"), (4.0, "b")):
        understudy.synthesize(source, out=folder / name, epsilon=epsilon, **options)
    found = Evaluation((metric_value("utility", "accuracy", 0.6543, better="higher", unit="%"),))
    (folder / "a" / "owner" / "evaluation.json").write_text(json.dumps(found.as_dict()))
    return [folder / "a", folder / "b"]


def test_a_report_is_written_with_a_table(runs: list[Path], tmp_path: Path) -> None:
    page = runs[0] / "owner" / "report.html"
    page.unlink()
    ended = command("report", runs[0], "--table", tmp_path / "t.csv")
    assert ended.exit_code == 0
    assert ended.stdout.splitlines() == [f"written: {page}", f"written: {tmp_path / 't.csv'}"]
    assert "65.4" in page.read_text()
    assert "utility,accuracy,0.6543,owner-only" in (tmp_path / "t.csv").read_text()


def test_a_table_without_rows_says_why(runs: list[Path], tmp_path: Path) -> None:
    ended = command("report", runs[1], "--table", tmp_path / "t.csv")
    assert "nothing was measured yet (understudy evaluate)" in ended.stderr
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 1


def test_the_public_part(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "public.html"
    ended = command("report", runs[0], "--public", out)
    assert ended.stdout == f"written: {out}\n"
    assert "65.4" not in out.read_text()
    told = json.loads(command("report", runs[0], "--public", out, "--json").stdout)
    assert told["kind"] == "public"


def test_the_public_part_takes_nothing_private(runs: list[Path], tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    ended = command("report", runs[0], "--public", tmp_path / "p.html", "--table", table)
    assert isinstance(ended.exception, ConfigError)
    assert "they are private" in str(ended.exception)
    assert not table.exists()
    assert not (tmp_path / "p.html").exists()
