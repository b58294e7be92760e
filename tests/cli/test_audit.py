"""``understudy audit`` on the command line: words, a file, an exit code."""

import json
import re

import numpy as np
import pytest
from benchmarks.benches import clouds
from PIL import Image
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.core.errors import ConfigError, SourceError
from understudy.privacy import queries

SURE = ("--confidence", 1 - 1e-6)
"""Once in a million what holds is refuted: the promise, or a part of it beside what is broken."""


def called(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)], catch_exceptions=False)


@pytest.fixture
def source(tmp_path):
    return clouds(tmp_path / "rows.npz", 0)


def test_it_says_what_it_found_and_that_it_is_the_owners(source, tmp_path):
    file = tmp_path / "audit.json"
    done = called(source, "--how", "canaries", "--runs", 40, *SURE, "--out", file)
    assert done.exit_code == 0
    assert "audit (owner only)" in done.output
    assert "Nothing found, and little could have been" in done.output
    assert "by chance" in done.output
    pairs = next(one for one in done.output.splitlines() if "pairs of equal" in one)
    assert len(re.findall(r"\d+\.\d{3}", pairs)) == 2  # what was found, and what chance explains
    assert file.stat().st_mode & 0o077 == 0
    (written,) = json.loads(file.read_text())
    assert written["verdicts"][0]["grade"] == "unknown"


def test_a_refuted_promise_is_an_exit_code(source, monkeypatch):
    honest = queries.CountAndSum.integer_sum
    monkeypatch.setattr(queries.CountAndSum, "integer_sum", lambda *told: 3 * honest(*told))
    done = called(source, "--how", "canaries", "--runs", 20, "--set", "clusters=1", *SURE)
    assert done.exit_code == 1
    assert (
        "Refuted, at a stated epsilon of 1: a record adds 3 times the stated sensitivity."
        in done.output
    )


def test_it_has_the_option_that_its_message_asks_for(source):
    with np.load(source) as rows:
        arrays = dict(rows)
    arrays["embeddings"][3] = np.nan
    np.savez(source, **arrays)
    words = source, "--how", "canaries", "--runs", 20, "--set", "clusters=1", *SURE
    with pytest.raises(SourceError, match="pass --skip-bad"):
        called(*words)
    assert called(*words, "--skip-bad").exit_code == 0


def test_what_is_refused_is_refused_before_the_mechanisms_are_drawn(source):
    """Draws of half a minute came first."""
    words = ["audit", str(source), "--mechanisms", "--runs", "2", "--progress", "plain"]
    done = CliRunner().invoke(app, words)
    assert "runs must be 40 or more" in str(done.exception)
    assert "drawing" not in done.output


@pytest.mark.parametrize("place", ["nowhere/audit.json", "."])
def test_a_file_that_cannot_be_written_is_refused_before_the_runs(source, tmp_path, place):
    """Found after them, it ended in 1: as a promise that is refuted does."""
    with pytest.raises(ConfigError, match=r"there is no folder|is a folder"):
        called(source, "--how", "canaries", "--runs", 20, *SURE, "--out", tmp_path / place)


def test_the_unit_may_be_a_folder(tmp_path):
    """A run whose persons are folders could not be audited for them."""
    rng = np.random.default_rng(0)
    for number in range(24):
        place = tmp_path / "photos" / "ab"[number % 2] / f"p{number // 4}"
        place.mkdir(parents=True, exist_ok=True)
        image = rng.integers(0, 255, (16, 16), dtype=np.uint8)
        Image.fromarray(image).save(place / f"{number}.png")
    words = tmp_path / "photos", "--unit-from", "folder", "--encoder", "embedded:dct"
    done = called(*words, "--how", "canaries", "--runs", 20, *SURE)
    assert done.exit_code == 0
    assert "longest contribution" in done.output


@pytest.mark.parametrize("words", [["--unit", "person"], ["--skip-bad"], ["--set", "clusters=1"]])
def test_an_option_of_runs_is_refused_where_mechanisms_alone_are_drawn(words):
    """A unit was passed over, and the verdict was of images."""
    with pytest.raises(ConfigError, match=f"{words[0]} is of runs on a SOURCE"):
        called("--mechanisms", *words)


@pytest.mark.slow
def test_mechanisms_need_no_source():
    done = called("--mechanisms", "--runs", 4000, "--confidence", 1 - 1e-6)
    assert done.exit_code == 0
    assert "mechanism Votes" in done.output
