"""What programs read: a line a row where nothing is a terminal, and JSON of every list."""

import json
from pathlib import Path

import pytest
from tests.run.samples import embeddings
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.data import open_source
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger

LONG = "a-dataset-whose-name-is-longer-than-a-terminal-of-eighty-columns-is-wide-" * 2


@pytest.fixture
def books(tmp_path):
    """A ledger with one dataset of a long name, and its address."""
    place = tmp_path / LONG
    place.mkdir()
    url = str(tmp_path / "ledger.db")
    with Ledger(url) as ledger:
        dataset = ledger.register(open_source(embeddings(place / "x.npz")))
        ledger.set_budget(dataset.id, Budget(3.0))
    return url


def printed(*words):
    ended = CliRunner().invoke(app, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_a_table_that_is_piped_has_a_line_a_row(books):
    lines = printed("ledger", "list", "--ledger", books).splitlines()
    assert len(lines) == 2
    assert LONG in lines[1]
    methods = printed("methods").splitlines()
    assert any(len(line) > 150 for line in methods)


def test_every_list_is_json_where_asked_for(books):
    (listed,) = json.loads(printed("ledger", "list", "--ledger", books, "--json"))
    assert (listed["budget"]["epsilon"], listed["spent"]["epsilon"]) == (3, 0)
    shown = json.loads(printed("ledger", "show", listed["id"], "--ledger", books, "--json"))
    assert {row["kind"] for row in shown["rows"]} >= {"budget"}
    assert shown["name"] == listed["name"]
    assert json.loads(printed("ledger", "verify", "--ledger", books, "--json")) == []
    methods = json.loads(printed("methods", "--json"))
    settings = {one["name"]: one["settings"] for one in methods}
    assert "clusters" in [setting["name"] for setting in settings["clustering"]]
    assert "embedded:dct" in [one["name"] for one in json.loads(printed("backends", "--json"))]
    assert json.loads(printed("runs", Path(books).parent, "--json")) == []


def test_many_stages_that_cost_the_same_are_one_row_of_a_plan(tmp_path):
    source = embeddings(tmp_path / "x.npz")
    words = ["synthesize", source, "--out", tmp_path / "out", "--epsilon", "1", "--dry-run"]
    words += ["--ledger", tmp_path / "ledger.db", "--set", "clusters=2"]
    rows = printed(*words, "--set", "labels=classifier").splitlines()
    gradients = [row for row in rows if row.startswith("label gradient")]
    assert len(gradients) == 1
    assert gradients[0].startswith("label gradient 1 to 80, each")
    assert [row[:7] for row in rows if row.startswith("lloyd")] == ["lloyd 1", "lloyd 2"]
