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


def test_a_name_is_printed_as_it_is_and_not_as_a_picture(tmp_path, monkeypatch):
    """Rich drew a cross for what stands between the colons."""
    monkeypatch.chdir(tmp_path)
    embeddings(tmp_path / "a:x:.npz")
    assert printed("check", "a:x:.npz").startswith("a:x:.npz: ")


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
