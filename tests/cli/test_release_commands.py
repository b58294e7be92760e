"""``resample``, ``verify``, ``sign`` and ``train`` on the command line: words and exit codes."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.processes import Commands
from tests.run.samples import embeddings

from understudy.release.checksums import write_checksums


@pytest.fixture(scope="module")
def out(understudy: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    words = ["--set", "components=12", "--ledger", site / "ledger.db", "--publish-total"]
    source = embeddings(site / "private.npz")
    words += ["--contact", "Data office", "--licence", "cc0-1.0"]
    ended = understudy.run("synthesize", source, "--epsilon", "1", "--out", site / "out", *words)
    assert ended.code == 0, ended.err
    return site / "out"


def test_resample_says_where_it_lies_and_that_nothing_was_paid(
    understudy: Commands, out: Path
) -> None:
    ended = understudy.run("resample", out, "--per-class", "5", "--seed", "4")
    assert ended.code == 0, ended.err
    assert "stages were paid for by other releases" in ended.out
    assert str(out.parent / "out-seed-4" / "release") in ended.out
    refused = understudy.run("resample", out)
    assert (refused.code, "--count N, or --per-class N" in refused.err) == (2, True)


def test_verify_exits_with_0_where_all_is_sound_and_with_1_where_not(
    understudy: Commands, out: Path
) -> None:
    ended = understudy.run("verify", out)
    assert ended.code == 0, ended.err
    for part in ("computed anew from its stages", "cc0-1.0", "Data office", "as the owner states"):
        assert part in ended.out
    assert "cannot be checked from outside" in ended.out
    assert ended.out.rstrip().endswith("release: sound")
    card = out / "release" / "README.md"
    text = card.read_text()
    card.write_text(text + " ")
    ended = understudy.run("verify", out / "release")
    assert ended.code == 1
    assert "WRONG: README.md: was changed" in ended.out
    assert "release: NOT sound: 1 fault\n" in ended.out
    ended = understudy.run("verify", out, "--json")
    assert (ended.code, json.loads(ended.out)["sound"]) == (1, False)
    card.write_text(text)
    missing = understudy.run("verify", out.parent)
    assert (missing.code, "holds no release" in missing.err) == (2, True)


def test_a_release_of_others_says_nothing_to_the_terminal(
    understudy: Commands, out: Path, tmp_path: Path
) -> None:
    """Codes that colour, clear or turn the text, and a line that looks like a verdict."""
    forged = Path(shutil.copytree(out, tmp_path / "out"))
    statement = forged / "release" / "privacy.json"
    content = json.loads(statement.read_text())
    hostile = "x\x1b[2J\u202e\nall is sound"
    content["data"] |= {"method": hostile, "licence": hostile, "contact": hostile}
    content["guarantee"]["unit"] = hostile
    statement.write_text(json.dumps(content))
    write_checksums(forged / "release")
    shown = ""
    for words in (["verify"], ["compare", out], ["runs"], ["evidence", "--to", tmp_path / "pack"]):
        ended = understudy.run(*words[:1], forged, *words[1:])
        assert "Traceback" not in ended.err
        shown += ended.out + ended.err
    assert "x\\x1b[2J\\u202e" in shown
    assert not {"\x1b", "\u202e"} & {*shown}
    assert "\nall is sound" not in understudy.run("verify", forged).out


def test_sign_and_train_refuse_what_they_cannot_do(understudy: Commands, out: Path) -> None:
    ended = understudy.run("sign", out, "--key", out / "missing.pem")
    assert (ended.code, "cannot read the key" in ended.err) == (2, True)
    ended = understudy.run("train", out, "--network", "cnn", "--export", out / "m.onnx")
    assert (ended.code, "learns from images" in ended.err) == (2, True)
