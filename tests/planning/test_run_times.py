"""How long a run takes: an estimate by measured runs, or the word that nothing was measured."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from understudy import dry_run
from understudy.cli.main import app
from understudy.planning.dry import RunTime, run_times

GREY = [one for one in run_times() if (one.method, one.numbers) == ("clustering", 28 * 28)]
EMBEDDINGS = [one for one in run_times() if (one.method, one.numbers) == ("clustering", 512)]


def records(path: Path, one: RunTime) -> Path:
    """As many records of such a shape as were measured, of four classes."""
    rng, labels = np.random.default_rng(0), np.arange(one.records) % 4
    if one.numbers == 512:
        values = rng.standard_normal((one.records, 512), dtype=np.float32)
        np.savez(path, embeddings=values, labels=labels)
    else:
        images = rng.integers(0, 256, (one.records, 28, 28, 1), dtype=np.uint8)
        np.savez(path, images=images, labels=labels)
    return path


def planned(path: Path, folder: Path, **options: Any) -> Any:
    ledger = f"sqlite:///{folder}/ledger.db"
    return dry_run(path, epsilon=1.0, ledger=ledger, **options)


@pytest.mark.parametrize("one", [*GREY, *EMBEDDINGS[:1]], ids=lambda one: str(one.records))
def test_what_was_measured_is_what_is_expected_of_it(tmp_path: Path, one: RunTime) -> None:
    """Through two measured runs goes a line, and it says what they took."""
    path = records(tmp_path / "records.npz", one)
    time = planned(path, tmp_path, **one.models).time
    assert time.start + one.records * time.each == pytest.approx(one.seconds, abs=0.05)
    assert "an estimate, from runs of" in time.words
    assert f"{one.records:,}" in time.words


def test_more_records_take_longer_and_other_models_are_not_measured(tmp_path: Path) -> None:
    small, large = sorted(GREY, key=lambda one: one.records)
    assert 0 < small.seconds < large.seconds
    path = records(tmp_path / "records.npz", small)
    assert planned(path, tmp_path, encoder="embedded:dct", decoder="none").time.each is None
    time = planned(path, tmp_path).time
    assert time.each > 0
    more = dataclasses.replace(large, records=2 * large.records)
    assert planned(records(tmp_path / "more.npz", more), tmp_path).time == time  # it knows no count


def test_long_times_are_said_in_minutes_and_no_mu_of_samples(tmp_path: Path) -> None:
    path = records(tmp_path / "records.npz", GREY[0])
    plan = planned(path, tmp_path, method="finetuning")
    assert plan.mu is None  # steps on samples of the units have none
    time = plan.time
    assert time.each > 0.06
    assert re.search(r" and \d+ min \d+ s for each 1,000 records", time.words)


def test_the_command_says_it_and_where_nothing_is_known(tmp_path: Path) -> None:
    path = records(tmp_path / "records.npz", min(GREY, key=lambda one: one.records))
    words = ["plan", str(path), "--epsilon=1", f"--ledger=sqlite:///{tmp_path}/ledger.db"]
    words += ["--encoder=embedded:dct", "--progress=none"]
    said = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "time: about" in " ".join(said.output.split())
    other = CliRunner().invoke(app, [*words, "--decoder=none"], catch_exceptions=False)
    assert "time: not measured" in " ".join(other.output.split())


def test_every_method_is_measured_at_two_sizes_or_not_at_all() -> None:
    """Of one size no line goes through anything."""
    sizes: dict[str, set[int]] = {}
    for one in run_times():
        key = f"{one.method} {sorted(one.models.items())}"
        sizes.setdefault(key, set()).add(one.records * one.numbers)
    assert min(map(len, sizes.values())) >= 2, sizes
