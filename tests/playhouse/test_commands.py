"""The command line synthesizes a private dataset of the playhouse, one home a unit."""

import json

from typer.testing import CliRunner

from understudy.cli.main import app

NAME = "playhouse:pet-status?homes=12&per_home=8&size=16"


def test_synthesize_protects_homes(tmp_path):
    words = ["--unit", "home", "--epsilon", "8", "--set", "clusters=1", "--set", "components=8"]
    places = ["--out", str(tmp_path / "out"), "--ledger", str(tmp_path / "ledger.db")]
    ended = CliRunner().invoke(app, ["synthesize", NAME, *words, "--count", "20", *places])
    assert ended.exit_code == 0, ended.output
    assert "records sharing 'home'" in ended.output
    told = json.loads((tmp_path / "out" / "release" / "privacy.json").read_text())
    assert "home" in json.dumps(told)
    assert len(list((tmp_path / "out" / "release").rglob("*.png"))) >= 20
