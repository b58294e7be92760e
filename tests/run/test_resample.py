"""``understudy resample``: more samples, the same model, the same guarantee, the same ledger."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.run.samples import QUICK, embeddings

import understudy
from understudy.core.errors import ConfigError, RunError
from understudy.data import open_source
from understudy.release.runs import list_runs
from understudy.report.meaning import composed_mu
from understudy.run.report import load
from understudy.run.resample import resample
from understudy.run.run_result import Result
from understudy.run.synthesize import synthesize

SILENT: dict[str, Any] = {"progress": "none"}


def release_of(site: Path, name: str = "out", **options: Any) -> Result:
    source = options.pop("source", site / "private.npz")
    given = {"epsilon": 1.0, "settings": QUICK, "ledger": str(site / "ledger.db"), **SILENT}
    return synthesize(source, out=site / name, **{**given, **options})


def rows(result: Result) -> tuple[NDArray[Any], NDArray[np.int64]]:
    batches = list(open_source(result.release).batches(10_000))
    values = np.concatenate([batch.values for batch in batches])
    return values, np.concatenate([batch.labels for batch in batches])


@pytest.fixture
def site(tmp_path: Path) -> Path:
    embeddings(tmp_path / "private.npz")
    return tmp_path


def test_more_samples_of_the_same_model_leave_the_ledger_as_it_was(site: Path) -> None:
    run = release_of(site, epsilon=100.0)
    before = (site / "ledger.db").read_bytes()
    (site / "private.npz").unlink()  # nothing private is read
    more = resample(site / "out", count=3000, **SILENT)
    assert (site / "ledger.db").read_bytes() == before
    assert more.release == site / "out-seed-1" / "release"
    values, labels = rows(more)
    assert len(values) == 3000
    first, own = rows(run)
    for label in range(3):
        away = values[labels == label].mean(axis=0) - first[own == label].mean(axis=0)
        assert np.abs(away).max() < 0.6
    assert not (values[: len(first), None] == first[None]).all(axis=2).any()


def test_its_guarantee_is_that_of_the_run(site: Path) -> None:
    run = release_of(site)
    more = resample(site / "out", count=20, **SILENT)
    assert (more.receipt.epsilon, more.receipt.delta) == (run.receipt.epsilon, run.receipt.delta)
    assert composed_mu(more.receipt) == composed_mu(run.receipt)
    assert {stage.origin for stage in more.receipt.stages} == {"earlier run"}
    text = " ".join((more.release / "PRIVACY.md").read_text().split())
    assert "this one guarantee together" in text
    assert "private images were not read again" in text
    assert [(one.state, one.samples) for one in list_runs(site / "out-seed-1")] == [
        ("finished", 20)
    ]
    assert load(site / "out-seed-1").owner.spending is None


def test_one_that_was_interrupted_goes_on_and_a_complete_one_stays(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_of(site)

    def killed(*_: object, **__: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("understudy.run.resample.write_release", killed)
    with pytest.raises(InterruptedError):
        resample(site / "out", count=20, **SILENT)
    monkeypatch.undo()
    with pytest.raises(RunError, match="cannot resume with other settings: count"):
        resample(site / "out", count=21, **SILENT)
    resample(site / "out", count=20, **SILENT)
    with pytest.raises(RunError, match="is complete"):
        resample(site / "out", count=20, **SILENT)


# What cannot be sampled


def test_a_selection_and_a_filter_have_no_more_samples(site: Path) -> None:
    embeddings(site / "candidates.npz", seed=1)
    understudy.select(
        site / "candidates.npz",
        private=site / "private.npz",
        out=site / "chosen",
        keep="50%",
        epsilon=4,
        candidates_public=True,
        ledger=str(site / "ledger.db"),
        **SILENT,
    )
    with pytest.raises(ConfigError, match="chooses among samples that are there"):
        resample(site / "chosen", count=3, **SILENT)
    release_of(site, settings={**QUICK, "filter": "embeddings"})
    with pytest.raises(ConfigError, match="chosen by votes"):
        resample(site / "out", count=3, **SILENT)
    assert not (site / "out-seed-1").exists()


def test_what_has_no_answers_is_refused_with_the_reason(site: Path) -> None:
    with pytest.raises(RunError, match=r"is no folder of a finished run .*the owner draws them"):
        resample(site, count=3, **SILENT)
    run = release_of(site)
    with pytest.raises(RunError, match=r"owner/run\.json is missing"):
        resample(run.release, count=3, **SILENT)
    more = resample(site / "out", count=3, **SILENT)
    with pytest.raises(RunError, match="was itself drawn from"):
        resample(more.release.parent, count=3, **SILENT)
    answer = site / "out" / "owner" / "stages" / "means.npz"
    shutil.move(answer, site / "elsewhere.npz")
    with pytest.raises(RunError, match=r"means\.npz: is missing"):
        resample(site / "out", count=3, out=site / "missing", **SILENT)
    shutil.move(site / "elsewhere.npz", answer)
    record = site / "out" / "owner" / "run.json"
    content = json.loads(record.read_text())
    changed = {**content, "settings": {**content["settings"], "unit_rows": 9, "unit": "patient"}}
    record.write_text(json.dumps(changed))
    with pytest.raises(RunError, match="stored for another"):
        resample(site / "out", count=3, out=site / "changed", **SILENT)
    del content["records"]
    record.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"was made by Understudy .* run it again"):
        resample(site / "out", count=3, out=site / "old", **SILENT)


# Other methods


@pytest.mark.parametrize("settings", [{}, {"clusters": 2}, {"clusters": 2, "partition": "matched"}])
def test_alignment_moves_the_base_set_by_the_same_gaps(
    site: Path, settings: dict[str, Any]
) -> None:
    embeddings(site / "base.npz", seed=3)
    options = {"method": "alignment", "base": str(site / "base.npz"), "settings": settings}
    run = release_of(site, epsilon=50.0, **options)
    more = resample(site / "out", per_class=40, **SILENT)
    values, labels = rows(more)
    assert np.bincount(labels).tolist() == [40, 40, 40]
    first = rows(run)[0]
    known = {row.tobytes() for row in first}  # the base set is finite: the same rows, moved
    assert np.mean([row.tobytes() in known for row in values]) > 0.5
