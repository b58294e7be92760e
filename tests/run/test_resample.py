"""``understudy resample``: more samples, the same model, the same guarantee, the same ledger."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.methods.colour_world import Site, Squares, nearest_colours, rows_of
from tests.run.samples import QUICK, class_folders, embeddings, killed_at

import understudy
from understudy.core.errors import ConfigError, RunError
from understudy.data import open_source
from understudy.methods.base import Materials, Resampling, weights_of
from understudy.methods.evolution.algorithm import METHOD, EvolutionParams
from understudy.privacy.account import StoredReleases
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.vault import StoredVault
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


def test_the_seed_of_the_run_gives_its_own_samples_again(site: Path) -> None:
    run = release_of(site)
    again = resample(site / "out", count=len(rows(run)[1]), seed=0, **SILENT)
    np.testing.assert_array_equal(rows(again)[0], rows(run)[0])
    assert "the seed of the run itself" in again.warnings[0]


def test_classes_are_as_large_as_asked(site: Path) -> None:
    release_of(site)
    more = resample(site / "out", per_class=70, out=site / "more", **SILENT)
    assert np.bincount(rows(more)[1]).tolist() == [70, 70, 70]
    assert more.release == site / "more" / "release"
    count: Any = np.int64(5)  # was a TypeError
    assert len(rows(resample(site / "out", per_class=count, out=site / "numpy", **SILENT))[1]) == 15
    with pytest.raises(ConfigError, match=r"a whole number of them, found 2\.5"):
        resample(site / "out", per_class=2.5, **SILENT)  # type: ignore[arg-type]


def test_its_guarantee_is_that_of_the_run(site: Path) -> None:
    run = release_of(site)
    more = resample(site / "out", count=20, **SILENT)
    assert (more.receipt.epsilon, more.receipt.delta) == (run.receipt.epsilon, run.receipt.delta)
    assert composed_mu(more.receipt) == composed_mu(run.receipt)
    assert {stage.origin for stage in more.receipt.stages} == {"earlier run"}
    text = " ".join((more.release / "PRIVACY.md").read_text().split())
    assert "this one guarantee together" in text
    assert "private embeddings were not read again" in text
    assert [(one.state, one.samples) for one in list_runs(site / "out-seed-1")] == [
        ("finished", 20)
    ]
    assert load(site / "out-seed-1").owner.spending is None


def test_images_are_decoded_anew(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "scans", shape=(16, 16, 1))
    release_of(tmp_path, source=source, count=20)
    more = resample(tmp_path / "out", count=50, **SILENT)
    values, _ = rows(more)
    assert values.shape == (50, 16, 16, 1)
    assert more.contact_sheet is not None
    assert more.contact_sheet.is_file()
    assert (more.owner / "report.html").is_file()


def test_one_that_was_interrupted_goes_on_and_a_complete_one_stays(site: Path) -> None:
    release_of(site)
    with killed_at("understudy.run.resample.write_release"), pytest.raises(InterruptedError):
        resample(site / "out", count=20, **SILENT)
    with pytest.raises(RunError, match="cannot resume with other settings: count"):
        resample(site / "out", count=21, **SILENT)
    resample(site / "out", count=20, **SILENT)
    with pytest.raises(RunError, match="is complete"):
        resample(site / "out", count=20, **SILENT)


def test_how_many_is_asked_in_one_way(site: Path) -> None:
    for counts in ({}, {"count": 3, "per_class": 3}, {"count": 0}):
        with pytest.raises(ConfigError, match=r"to draw|at least one"):
            resample(site / "out", **counts, **SILENT)
    release_of(site, settings={**QUICK, "conditional": False})
    with pytest.raises(ConfigError, match="give --count"):
        resample(site / "out", per_class=3, **SILENT)


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
    with pytest.raises(ConfigError, match="draws no more samples of a finished run"):
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
    hashes = site / "out" / "release" / "SHA256SUMS"
    shutil.move(hashes, site / "hashes")  # as of a release that an early version wrote
    with pytest.raises(ConfigError, match=r"no sound release.* SHA256SUMS is missing"):
        resample(site / "out", count=3, out=site / "unlisted", **SILENT)
    shutil.move(site / "hashes", hashes)
    record = site / "out" / "owner" / "run.json"
    content = json.loads(record.read_text())
    changed = {**content, "settings": {**content["settings"], "unit_rows": 9, "unit": "patient"}}
    record.write_text(json.dumps(changed))
    with pytest.raises(RunError, match="stored for another"):
        resample(site / "out", count=3, out=site / "changed", **SILENT)
    earlier = {**content, "settings": {**content["settings"], "settings": {"power": 2}}}
    record.write_text(json.dumps(earlier))  # a setting that is no more
    with pytest.raises(ConfigError, match=r"out cannot be sampled anew: unknown setting 'power'"):
        resample(site / "out", count=3, out=site / "earlier", **SILENT)
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


def test_alignment_of_variances_is_refused(site: Path) -> None:
    embeddings(site / "base.npz", seed=3)
    settings = {"second_moment": True}
    release_of(site, method="alignment", base=str(site / "base.npz"), settings=settings)
    with pytest.raises(ConfigError, match="second_moment"):
        resample(site / "out", count=5, **SILENT)


@pytest.mark.parametrize("candidates", ["captions", "images"])
def test_evolution_renders_its_last_candidates_again(tmp_path: Path, candidates: str) -> None:
    squares = Squares({"cat": ["red"] * 60 + ["blue"] * 30, "dog": ["green"] * 90})
    site = Site(tmp_path, squares, epsilon=60.0, count=40)
    settings: dict[str, Any] = {"population": 32, "rounds": 3, "lookahead": 0}
    settings |= {"candidates": candidates}
    first, _, spent = site.run(**settings)
    before = (tmp_path / "ledger.db").read_bytes()

    context = site.context()
    params = METHOD.settle(EvolutionParams(**settings), context)
    plan = Plan.of(Budget(60.0), weights_of(METHOD.stages(params, context)))
    stages = tmp_path / "out" / "owner" / "stages"
    releases = StoredReleases(site.unit, plan, stages)
    anew = Resampling(1, 60, 30, lambda _, make: make())
    materials = Materials(context, StoredVault(releases), None, 0, lambda *_: lambda _: None)
    more = METHOD.run(replace(materials, resampling=anew), params)
    assert (tmp_path / "ledger.db").read_bytes() == before
    assert spent > 0
    images, labels = rows_of(more)
    assert np.bincount(labels).tolist() == [30, 30]
    assert not {image.tobytes() for image in images} & {i.tobytes() for i in rows_of(first)[0]}
    found = nearest_colours(images)
    old, own = rows_of(first)
    for label in range(2):  # the colours of the last generation, and hardly another
        known = set(nearest_colours(old)[own == label].tolist())
        assert np.mean([colour in known for colour in found[labels == label].tolist()]) > 0.7
