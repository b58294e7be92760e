"""``understudy select``: what it refuses, what it writes, and the guarantee that it states."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.samples import QUICK, class_folders, embeddings, killed_at

from understudy.cli.show_run import RunPrinter
from understudy.core.errors import ConfigError, InputError, RunError, RunStopped, SourceError
from understudy.core.ports import CaptionedSource
from understudy.core.types import Release, SyntheticBatch
from understudy.data import open_source
from understudy.data.captions import read_captions, with_captions
from understudy.data.release import write_release
from understudy.privacy.accounting import mu_of
from understudy.privacy.budget_plan import composed, inherited
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.checksums import write_checksums
from understudy.release.outputs import read_json
from understudy.release.runs import list_runs
from understudy.report import ModelRecord, RunRecord, public_documents, read_record
from understudy.report.meaning import NO_GUARANTEE, NO_PRIVATE_DATA, composed_mu
from understudy.run.report import load
from understudy.run.run_plan import RunPlan
from understudy.run.run_result import Result
from understudy.run.select import TABLE, run_selection, select
from understudy.run.select_config import make_select_config, share_or_number
from understudy.run.synthesize import synthesize

SILENT: dict[str, Any] = {"progress": "none"}
PRIVATE = ("private", "candidates")
"""What is disclosed where nothing says that the candidates are public."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Private embeddings, candidates of another draw, and others that are not private."""
    for seed, name in enumerate(("private", "candidates", "others")):
        embeddings(tmp_path / f"{name}.npz", seed=seed)
    return tmp_path


def choose(site: Path, out: str = "out", **options: Any) -> Result:
    """A selection of the candidates by the private records, without noise."""
    usual = {"private": site / "private.npz", "keep": "50%", "no_guarantee": True}
    given = {**usual, "ledger": str(site / "ledger.db"), **SILENT, **options}
    return select(given.pop("candidates", site / "candidates.npz"), out=site / out, **given)


def private_release(site: Path, name: str = "dp", **options: Any) -> Path:
    """A release of the private records at epsilon 1."""
    ledger = str(site / "ledger.db")
    given = {"epsilon": 1.0, "settings": QUICK, "ledger": ledger, **SILENT, **options}
    synthesize(site / "private.npz", out=site / name, **given)
    return site / name


def disclosures(site: Path) -> list[tuple[str, int]]:
    with Ledger(str(site / "ledger.db")) as ledger:
        return [(one.name, len(ledger.spent(one.id).disclosures)) for one in ledger.datasets()]


def table(out: Path) -> list[dict[str, str]]:
    with (out / "owner" / TABLE).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# Without a guarantee


def test_a_selection_without_noise_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError, match=r"the selection itself leaks.*--no-guarantee"):
        select(missing, private=missing, keep="50%", out=tmp_path / "out", **SILENT)
    assert not (tmp_path / "out").exists()


def test_more_than_there_are_is_refused_and_leaves_the_name_of_the_folder_free(site: Path) -> None:
    with pytest.raises(InputError, match="180"):
        choose(site, keep="500")
    assert not (site / "out").exists()
    assert not disclosures(site)


def test_a_release_of_no_guarantee_says_so_everywhere(site: Path) -> None:
    result = choose(site)
    assert result.receipt == NO_GUARANTEE
    assert any(warning.startswith("20% of the private records") for warning in result.warnings)
    out = site / "out"
    statement = json.loads((out / "release" / "privacy.json").read_text())
    assert statement["guarantee"]["kind"] == "none"
    assert statement["guarantee"]["epsilon"] is None
    assert statement["data"]["count"] == 90
    assert statement["attacks"] == []
    assert (statement["copies"]["samples"], statement["copies"]["exact"]) == (90, 0)
    assert "no privacy guarantee" in (out / "release" / "README.md").read_text()
    assert "no differential\nprivacy here" in (out / "release" / "PRIVACY.md").read_text()
    assert "no guarantee" in (out / "owner" / "report.html").read_text()
    (run,) = list_runs(out)
    assert (run.state, run.guarantee, run.epsilon) == ("finished", "none", None)
    report = load(out, ledger=str(site / "ledger.db"))
    assert report.record.unprotected
    assert report.owner.spending is not None
    assert (report.owner.spending.disclosures, report.owner.spending.spent) == (1, 0.0)
    assert json.dumps(report.as_dict(), allow_nan=False)
    json.loads((out / "owner" / "run.json").read_text(), parse_constant=lambda text: text / 0)


def test_the_ledger_knows_of_it_before_the_records_are_used(site: Path) -> None:
    said = r"what is disclosed was recorded before this.*--resume"
    with killed_at("understudy.run.select.steering_of"), pytest.raises(RunStopped, match=said):
        choose(site)
    assert disclosures(site) == [(str(site / f"{name}.npz"), 1) for name in PRIVATE]
    choose(site, resume=True)
    assert disclosures(site) == [(str(site / f"{name}.npz"), 1) for name in PRIVATE]
    with pytest.raises(RunError, match="is complete"):
        choose(site, resume=True)


def test_a_reference_of_real_records_is_disclosed_too(site: Path) -> None:
    choose(site, reference=site / "others.npz")
    names = (*PRIVATE, "others")
    assert disclosures(site) == [(str(site / f"{name}.npz"), 1) for name in names]
    assert not (site / "out" / "owner" / "holdout.json").exists()


def test_the_owners_table_has_each_candidate(site: Path) -> None:
    result = choose(site, settings={"reconstruction": 2})
    lines = table(site / "out")
    assert len(lines) == 180
    samples = [int(line["sample"]) for line in lines if line["sample"]]
    assert samples == list(range(90))
    assert all(0 <= float(line["gamma"]) <= 1 and line["distance"] for line in lines)
    chosen = [row for row, line in enumerate(lines) if line["sample"]]
    released = open_source(result.release / "embeddings.safetensors")
    values = np.concatenate([batch.values for batch in released.batches(64)])
    np.testing.assert_array_equal(values, np.load(site / "candidates.npz")["embeddings"][chosen])


def copies(site: Path) -> set[int]:
    """Make every third candidate a private record of its class, all but a little noise."""
    arrays = dict(np.load(site / "candidates.npz"))
    private = np.load(site / "private.npz")["embeddings"]
    rows = np.arange(0, 180, 3)
    arrays["embeddings"][rows] = private[rows] + np.float32(1e-3)
    np.savez(site / "candidates.npz", **arrays)
    return set(rows.tolist())


def test_the_penalty_leaves_copies_out_and_the_attack_says_so(site: Path) -> None:
    rows = copies(site)
    by_weight = {}
    for weight in (0.0, 4.0):
        name = f"out-{weight:g}"
        options = {"reference": site / "others.npz", "settings": {"reconstruction": weight}}
        result = choose(site, name, **options)
        chosen = {row for row, line in enumerate(table(site / name)) if line["sample"]}
        by_weight[weight] = len(rows & chosen), [one.auc[0] for one in result.attacks]
        assert result.copies is not None
        assert result.copies.near >= len(rows & chosen)
    (with_none, (before, _, _)), (with_penalty, (_, after, _)) = by_weight[0.0], by_weight[4.0]
    assert with_penalty < with_none / 2
    assert after < before - 0.05


def test_membership_is_a_penalty_of_its_own(site: Path) -> None:
    plain = choose(site, "plain", settings={"reconstruction": 0})
    other = choose(site, "other", settings={"reconstruction": 0, "membership": 3})
    assert plain.facts["selected"] == other.facts["selected"] == 90
    chosen = [[line["sample"] for line in table(site / name)] for name in ("plain", "other")]
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize("reference", ["held-out", None])
def test_what_is_held_out_calibrates(site: Path, reference: str | None) -> None:
    result = choose(site, reference=reference, hold_out="40%")
    assert result.attacks == ()
    run = read_json(site / "out" / "owner" / "run.json")
    assert 40 < run["rows_held_out"] < 110
    assert run["rows"] + run["rows_held_out"] == 180


def test_too_few_held_out_records_measure_nothing_and_it_is_said(site: Path) -> None:
    embeddings(site / "others.npz", per_class=5, seed=2)
    result = choose(site, reference=site / "others.npz")
    assert result.attacks == ()
    assert any("was not measured" in warning for warning in result.warnings)
    assert "What attacks gain was not measured" in (result.release / "PRIVACY.md").read_text()


def test_nothing_need_be_held_out_without_penalties(site: Path) -> None:
    choose(site, hold_out="0", settings={"reconstruction": 0})
    assert read_json(site / "out" / "owner" / "run.json")["rows_held_out"] == 0


def captioned_release(folder: Path) -> None:
    """Twelve images of two classes with captions, the licence of their model, and a statement."""
    images = np.random.default_rng(1).integers(0, 256, (12, 8, 10, 3), dtype=np.uint8)
    labels = np.arange(12) % 2
    captions = [f"image {number}" for number in range(12)]
    batch = SyntheticBatch(labels, images=images, captions=captions)
    release = Release(
        "drawn",
        ("cat", "dog"),
        12,
        lambda: iter([batch]),
        image_shape=(8, 10, 3),
        captioned=True,
        licence="MIT",
    )
    write_release(release, folder)
    record = RunRecord(
        "drawn",
        NO_PRIVATE_DATA,
        ("cat", "dog"),
        12,
        "png",
        "1",
        "2026-11-22",
        image_shape=(8, 10, 3),
        models=(ModelRecord("generator", "a generator", "MIT"),),
        licence="cc0-1.0",
    )
    for name, text in public_documents(record).items():
        (folder / name).write_text(text, encoding="utf-8")
    write_checksums(folder)


def test_images_keep_their_size_and_captions(tmp_path: Path) -> None:
    class_folders(tmp_path / "private", {"cat": 40, "dog": 40})
    captioned_release(tmp_path / "drawn")
    places = {"candidates": tmp_path / "drawn", "private": tmp_path / "private"}
    with pytest.raises(ConfigError, match=r"no second encoder of 3 x 3 pixels: name a"):
        choose(tmp_path, **places, keep=6, size=3)
    result = choose(tmp_path, **places, keep=6, settings={"steps": 20, "rounds": 2})
    captions = [text for _, text in read_captions(result.release / "captions.csv")]
    before = with_captions(open_source(tmp_path / "drawn"))
    after = with_captions(open_source(result.release))
    assert isinstance(before, CaptionedSource)
    assert isinstance(after, CaptionedSource)
    assert after.licence == before.licence == "MIT"
    assert (len(captions), len(after), after.shape) == (6, 6, (8, 10, 3))
    images = {
        text: image
        for source in (before, after)
        for text, image in zip(source.captions, next(iter(source.batches(20))).values, strict=True)
    }
    for text, image in zip(before.captions, next(iter(before.batches(20))).values, strict=True):
        np.testing.assert_array_equal(images[text], image)
    assert result.contact_sheet is not None
    record = read_record(read_json(result.release / "privacy.json"))
    assert {model.role for model in record.models} == {"encoder", "penalty encoder", "generator"}
    assert len({model.name for model in record.models}) == 3
    assert record.licence == "cc0-1.0"


# Post-processing


def test_a_selection_of_a_release_inherits_its_guarantee(site: Path) -> None:
    dp = private_release(site)
    with Ledger(str(site / "ledger.db")) as ledger:
        before = list(ledger.rows())
    result = select(dp, keep="50%", out=site / "half", **SILENT)
    own = load(dp).record.receipt
    assert (result.receipt.epsilon, result.receipt.delta) == (own.epsilon, own.delta)
    assert [stage.stage for stage in result.receipt.stages] == [
        f"candidates: {stage.stage}" for stage in own.stages
    ]
    assert {stage.origin for stage in result.receipt.stages} == {"candidates"}
    with Ledger(str(site / "ledger.db")) as ledger:
        assert list(ledger.rows()) == before
    record = read_record(read_json(result.release / "privacy.json"))
    assert record.receipt == result.receipt
    assert "asked nothing of private embeddings" in public_documents(record)["PRIVACY.md"]
    assert record.premises == load(dp).record.premises
    assert load(site / "half").owner.spending is None
    again = select(result, keep=9, out=site / "few", **SILENT)  # a result stands for its folder
    assert again.receipt.epsilon == own.epsilon


def test_two_releases_are_composed_and_one_counts_once(site: Path) -> None:
    first, second = private_release(site), private_release(site, "second", epsilon=2.0)
    itself = select(first, reference=first, keep="50%", out=site / "self", **SILENT)
    assert itself.receipt.epsilon == pytest.approx(1.0, rel=1e-6)
    both = select(first, reference=second / "release", keep="50%", out=site / "both", **SILENT)
    mu = (mu_of(1.0, 1e-5) ** 2 + mu_of(2.0, 1e-5) ** 2) ** 0.5
    assert composed_mu(both.receipt) == pytest.approx(mu, rel=1e-5)
    assert 2.0 < both.receipt.epsilon < 3.0
    assert {stage.origin for stage in both.receipt.stages} == {"candidates", "reference"}
    assert sum(stage.share for stage in both.receipt.stages) == pytest.approx(1.0)


def test_units_that_differ_do_not_compose(site: Path) -> None:
    first = private_release(site)
    second = private_release(site, "second", adjacency="replace-one", ledger=str(site / "l2.db"))
    with pytest.raises(ConfigError, match="do not compose"):
        select(first, reference=second, keep="50%", out=site / "both", **SILENT)
    assert not (site / "both").exists()


def test_public_candidates_need_a_word_of_the_owner_and_it_stands_there(site: Path) -> None:
    plain = site / "candidates.npz"
    with pytest.raises(ConfigError, match="--candidates-public"):
        select(plain, keep="50%", out=site / "out", **SILENT)
    result = select(plain, keep="50%", candidates_public=True, out=site / "out", **SILENT)
    assert result.receipt == NO_PRIVATE_DATA
    premises = read_json(result.release / "privacy.json")["premises"]
    assert {"candidates"} <= {one["name"].split()[-1] for one in premises}
    assert premises[-1]["origin"] == "declared"


def test_what_is_made_of_a_release_of_no_guarantee_has_none(site: Path) -> None:
    choose(site)
    options: dict[str, Any] = {"keep": "50%", "out": site / "again", **SILENT}
    for place in (site / "out", site / "out" / "release" / "embeddings.safetensors"):
        with pytest.raises(ConfigError, match="can never carry a claim"):
            select(place, **options)
        with pytest.raises(ConfigError, match="leave out --candidates-public"):
            select(place, candidates_public=True, **options)
    result = select(site / "out", no_guarantee=True, **options)
    assert result.receipt == NO_GUARANTEE
    assert result.attacks == ()


def test_a_receipt_that_does_not_add_up_is_refused(site: Path) -> None:
    receipt = inherited(load(private_release(site)).record.receipt, "candidates")
    for changed in (replace(receipt, epsilon=0.1), replace(receipt, stages=())):
        with pytest.raises(ConfigError, match="was changed, or is not whole"):
            composed([changed, receipt], 1e-5)


# What does not fit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"private": "p", "epsilon": 1.0, "no_guarantee": True}, "--no-guarantee"),
        ({"private": "p", "epsilon": 1.0, "reference": "r"}, "--reference"),
        ({"private": "p", "epsilon": 1.0, "penalty_encoder": "e"}, "--penalty-encoder"),
        ({"private": "p", "epsilon": 1.0, "settings": {"reconstruction": 1}}, "no useful private"),
        ({"private": "p", "epsilon": -1.0}, "epsilon must be a positive number"),
        ({"private": "p", "epsilon": 101.0}, "protects next to nothing.*--accept-epsilon"),
        ({"private": "p", "epsilon": 1.0, "delta": 0.002}, "delta 0.002 .* --accept-epsilon"),
        ({"epsilon": 1.0}, "there is no --private"),
        ({"hold_out": "10%"}, "there is no --private"),
        ({"unit_from": "folder"}, "--unit-from is about private images"),
        ({"reference": "held-out"}, "a part of --private"),
        ({"settings": {"membership": "1"}}, "there is no --private"),
        ({"keep": "0%"}, "keep is a share"),
        ({"keep": 2.5}, "keep is a share"),
        ({"keep": "half"}, "keep is a share"),
        ({"kep": 1}, "Did you mean 'keep'"),
        ({"settings": "rounds=3"}, "settings is a mapping of names to values"),
        ({"private": "p", "no_guarantee": True, "encoder": "a", "penalty_encoder": "a"}, "another"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    given = {"candidates": "c", "out": "o", "keep": "50%", **options}
    with pytest.raises(ConfigError, match=message):
        make_select_config(given)


@pytest.mark.parametrize(
    ("keep", "number"), [("50%", 0.5), ("100%", 1.0), (0.2, 0.2), ("0.2", 0.2), (7, 7), ("7", 7)]
)
def test_keep_is_a_share_or_a_number(keep: float | str, number: float) -> None:
    assert share_or_number(keep) == number


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"reconstrution": 1}}, "Did you mean 'reconstruction'"),
        ({"settings": {"rounds": 0}}, "rounds must be 1 to 10000"),
        ({"settings": {"steps": 10**9}}, "steps must be 2 to 100000"),
        ({"settings": {"reconstruction": 1e308}}, "reconstruction must be 0 to 1000000"),
        ({"settings": {"membership": 1e308}}, "membership must be 0 to 1000000"),
        ({"settings": {"learning_rate": 0}}, "learning_rate must be above 0"),
        ({"hold_out": 0}, "a penalty is calibrated"),
        ({"reference": "others.npz", "hold_out": "20%"}, "leave out --hold-out"),
        ({"encoder": "embedded:dct"}, "embeddings already"),
        ({"keep": 181}, "up to the 180 candidates"),
        ({"keep": 2}, "keep leaves 2 samples for 3 classes"),
        ({"unit": "patient"}, "patient"),
        ({"reference": "nowhere"}, "no such file"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_disclosed(
    site: Path, options: dict[str, Any], message: str
) -> None:
    if "reference" in options:
        options = {**options, "reference": site / options["reference"]}
    with pytest.raises(InputError, match=message):
        choose(site, **options)
    assert not (site / "ledger.db").exists() or disclosures(site) == []


@pytest.mark.parametrize("form", ["no guarantee", "differential privacy", "post-processing"])
def test_a_result_inside_the_candidates_is_refused(tmp_path: Path, form: str) -> None:
    """They would be other candidates at the next look, or a release that is not sound."""
    class_folders(tmp_path / "candidates", {"cat": 20, "dog": 20})
    out = str(tmp_path / "candidates" / "out")
    options: dict[str, Any] = {"candidates": str(tmp_path / "candidates"), "keep": "50%"}
    if form != "post-processing":
        options["private"] = str(class_folders(tmp_path / "private", {"cat": 20, "dog": 20}))
    options |= {
        "no guarantee": {"no_guarantee": True},
        "differential privacy": {"epsilon": 1.0},
    }.get(form, {})
    options |= {"candidates_public": True, "ledger": str(tmp_path / "l.db"), "out": out}
    with pytest.raises(ConfigError, match="inside the dataset of the candidates"):
        run_selection(make_select_config(options), progress="none")
    assert not Path(out).exists()


def test_a_part_of_nobody_is_refused_before_anything_is_disclosed(site: Path) -> None:
    """And the same command draws anew, as the message says."""
    for _ in range(2):
        with pytest.raises(SourceError, match="The same command draws anew") as error:
            choose(site, hold_out=1e-9)
        assert "disclosed was recorded" not in str(getattr(error.value, "__notes__", ""))
        assert disclosures(site) == []
        assert not (site / "out").exists()


def test_classes_must_agree_and_have_records(tmp_path: Path) -> None:
    class_folders(tmp_path / "private", {"cat": 20, "dog": 20})
    class_folders(tmp_path / "eels", {"cat": 20, "eel": 20})
    class_folders(tmp_path / "candidates", {"cat": 20, "dog": 20})
    given: dict[str, Any] = {"keep": "50%", "no_guarantee": True, "out": tmp_path / "out", **SILENT}
    given |= {"ledger": str(tmp_path / "ledger.db"), "private": tmp_path / "private"}
    with pytest.raises(SourceError, match=r"lacks eel and has dog besides"):
        select(tmp_path / "eels", **given)
    class_folders(tmp_path / "three", {"cat": 20, "dog": 20, "eel": 20})
    with pytest.raises(SourceError, match="has no record of eel"):
        select(tmp_path / "three", classes=["cat", "dog", "eel"], **given)
    class_folders(tmp_path / "cats", {"cat": 20})
    with pytest.raises(SourceError, match=r"cats: .*one class 'cat'.* Add another one"):
        select(tmp_path / "cats", **{**given, "no_guarantee": False, "epsilon": 1.0})
    assert not (tmp_path / "ledger.db").exists()


# Under differential privacy

QUICK_DP: dict[str, Any] = {"rounds": 2, "steps": 10}


def private_selection(site: Path, candidates: Path, out: str = "out", **options: Any) -> Result:
    usual = {"private": site / "private.npz", "keep": "20%", "epsilon": 1.0, "settings": QUICK_DP}
    given = {**usual, "ledger": str(site / "ledger.db"), **SILENT, **options}
    return select(candidates, out=site / out, **given)


def test_a_private_selection_of_public_candidates_spends_its_epsilon(site: Path) -> None:
    candidates = site / "candidates.npz"
    with pytest.raises(ConfigError, match="--candidates-public"):
        private_selection(site, candidates)
    with Ledger(str(site / "ledger.db")) as ledger:
        assert ledger.datasets() == []
    result = private_selection(site, candidates, candidates_public=True)
    assert result.receipt.epsilon == 1.0
    assert [stage.stage for stage in result.receipt.stages] == ["gradient 1", "gradient 2"]
    assert result.facts["selected"] == 36
    content = read_json(result.release / "privacy.json")
    assert content["premises"][-1] == {
        "name": "no private image had a part in the candidates",
        "value": True,
        "origin": "declared",
    }
    assert content["data"]["facts"]["candidates_guarantee"] == "no private data"
    assert content["attacks"] == []


@pytest.mark.parametrize("form", ["no guarantee", "differential privacy"])
def test_units_of_names_and_colours_are_declared_as_the_notes_say(
    tmp_path: Path, form: str
) -> None:
    for seed, name in enumerate(("private", "candidates")):
        class_folders(tmp_path / name, {"cat": 40, "dog": 40}, seed=seed)
    options: dict[str, Any] = {"no_guarantee": True, "hold_out": "50%"}
    if form == "differential privacy":
        options = {"epsilon": 1.0, "settings": QUICK_DP, "candidates_public": True}
    options |= {"channels": 3, "unit_from_name": r"scan-(\d+)", "size": 8, "classes": "cat,dog"}
    usual = {"private": str(tmp_path / "private"), "ledger": str(tmp_path / "ledger.db")}
    usual |= {"candidates": str(tmp_path / "candidates"), "out": str(tmp_path / "out")}
    result = run_selection(make_select_config({"keep": "20%", **usual, **options}), progress="none")
    content = read_json(result.release / "privacy.json")
    assert {one["origin"] for one in content["premises"]} == {"declared"}
    unit = "none" if form == "no guarantee" else "scan-"
    assert unit in result.receipt.unit


def test_who_pays_for_a_selection_of_everything_is_told_before(site: Path) -> None:
    usual = {"private": site / "private.npz", "epsilon": 1.0, "settings": QUICK_DP}
    usual |= {"ledger": str(site / "ledger.db"), "candidates_public": True, "out": site / "out"}

    def refuse(plan: RunPlan) -> None:
        raise ConfigError("; ".join(plan.notes))

    for keep, told in ((1, True), ("100%", True), ("99%", False)):
        given = {**usual, "candidates": site / "candidates.npz", "keep": keep}
        with pytest.raises(ConfigError) as error:
            run_selection(make_select_config(given), refuse, progress="none")
        assert ("selects every candidate" in str(error.value)) == told, keep
    with Ledger(str(site / "ledger.db")) as ledger:
        assert [ledger.spent(one.id).events for one in ledger.datasets()] == [0]


def test_candidates_of_a_private_release_add_to_the_epsilon(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dp = private_release(site)
    result = private_selection(site, dp)
    mu = (2 * mu_of(1.0, 1e-5) ** 2) ** 0.5
    assert composed_mu(result.receipt) == pytest.approx(mu, rel=1e-5)
    origins = [stage.origin for stage in result.receipt.stages]
    assert origins[:2] == ["", ""]
    assert set(origins[2:]) == {"candidates"}
    with Ledger(str(site / "ledger.db")) as ledger:
        (dataset,) = ledger.datasets()
        spent = ledger.spent(dataset.id)
    assert spent.events == len(result.receipt.stages)
    assert spent.epsilon == pytest.approx(result.receipt.epsilon, rel=1e-6)
    text = (result.release / "PRIVACY.md").read_text()
    assert "`candidates:` were paid for by the releases" in text
    page = (result.owner / "report.html").read_text()
    assert "inherited" in page
    RunPrinter().result(result)
    assert "charged:" not in (printed := capsys.readouterr().out)  # which the smaller epsilon was
    assert "guarantee: epsilon " in printed


def test_candidates_without_a_guarantee_never_carry_a_claim(site: Path) -> None:
    choose(site, "open")
    # Nobody said that they are public, so they are not any more, and why is said.
    with pytest.raises(ConfigError, match="selected from it without --candidates-public"):
        private_selection(site, site / "candidates.npz", candidates_public=True)
    with pytest.raises(ConfigError, match="can never carry a claim"):
        private_selection(site, site / "open")
    with pytest.raises(ConfigError, match="can never carry a claim"):
        private_release(site, method="selection", candidates=str(site / "open"), settings={})
    with Ledger(str(site / "ledger.db")) as ledger:
        assert [ledger.spent(one.id).events for one in ledger.datasets()] == [0, 0]


def test_a_unit_that_differs_from_that_of_the_candidates_is_refused_before_spending(
    site: Path,
) -> None:
    dp = private_release(site, ledger=str(site / "other.db"))
    with pytest.raises(ConfigError, match="Nothing was spent"):
        private_selection(site, dp, adjacency="replace-one")
    assert not (site / "out").exists()


@pytest.mark.parametrize("form", ["no guarantee", "differential privacy"])
def test_other_candidates_are_no_resumption(site: Path, form: str) -> None:
    """Others of the same classes were released by the weights of those before."""

    def go(**options: Any) -> None:
        if form == "no guarantee":
            choose(site, **options)
        else:
            private_selection(site, site / "candidates.npz", candidates_public=True, **options)

    with killed_at("understudy.run.session.write_release"), pytest.raises(RunStopped):
        go()
    embeddings(site / "candidates.npz", seed=3)
    with pytest.raises(RunError, match="the candidates have changed"):
        go(resume=True)


@pytest.mark.parametrize("changed", ["private", "others"])
def test_other_records_that_steer_are_no_resumption(site: Path, changed: str) -> None:
    """What was stored of the weights was made by those before; nothing is disclosed of these."""
    with killed_at("understudy.run.session.write_release"), pytest.raises(RunStopped):
        choose(site, reference=site / "others.npz")
    before = disclosures(site)
    embeddings(site / f"{changed}.npz", seed=5)
    with pytest.raises(RunError, match=f"{changed}.npz: the .* records have changed"):
        choose(site, reference=site / "others.npz", resume=True)
    assert disclosures(site) == before
