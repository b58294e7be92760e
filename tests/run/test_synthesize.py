"""Whole runs: private images in, a release out, for every kind of release the method makes."""

import json
import re
import shutil

import numpy as np
import pytest
from tests.backends.tiny_onnx import block_fill, block_means
from tests.run.samples import (
    QUICK,
    SIZES,
    class_folders,
    embeddings,
    noisy_values,
    quick_run,
    release_pixels,
    tree,
    with_manifest,
)

import understudy
from understudy.core.errors import BudgetRefused, InputError, LedgerError, RunError
from understudy.data import open_source
from understudy.planning.dry import dry_run
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.config import make_config
from understudy.run.synthesize import demo

DOCUMENTS = {"README.md", "PRIVACY.md", "privacy.json"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Private images (grey), a test set, public images, people, vectors."""
    folder = tmp_path_factory.mktemp("data")
    class_folders(folder / "scans")
    class_folders(folder / "test", {"cat": 15, "dog": 15, "eel": 15}, seed=1)
    class_folders(folder / "public", {"ant": 40, "bee": 40}, seed=2)
    class_folders(folder / "colour", shape=(9, 10, 3), seed=3)
    with_manifest(folder / "people")
    class_folders(folder / "large", {"cat": 30, "dog": 30}, (16, 16, 1))
    class_folders(folder / "large-test", {"cat": 9, "dog": 9}, (16, 16, 1), seed=1)
    embeddings(folder / "vectors.npz")
    embeddings(folder / "public.npz", seed=4)
    embeddings(folder / "test.npz", per_class=20, seed=5)
    return folder


@pytest.fixture
def go(data, tmp_path):
    """Runs with quick settings, a ledger of its own and ``out`` in the test's folder."""

    def run(source="scans", out="out", settings=QUICK, **options):
        for name in ("test", "public"):
            if isinstance(options.get(name), str) and ":" not in options[name]:
                options[name] = str(data / options[name])
        options = {"ledger": "ledger.db", "epsilon": 8.0, "count": 30, **options}
        options["ledger"] = str(tmp_path / options["ledger"])
        return understudy.synthesize(
            data / source, out=tmp_path / out, settings=settings, **options
        )

    return run


def check_release(result, *, kind, count, classes=3):
    """What every release must hold to."""
    facts = json.loads((result.release / "privacy.json").read_text())
    assert {path.name for path in result.release.iterdir()} >= DOCUMENTS
    assert facts["data"]["count"] == count == facts["data"]["facts"]["rows"]
    assert sum(s["share"] for s in facts["stages"]) == pytest.approx(1.0)
    assert sum(s["mu"] ** 2 for s in facts["stages"]) == pytest.approx(
        facts["guarantee"]["mu"] ** 2
    )
    assert [s["stage"] for s in facts["stages"]] == [s.stage for s in result.receipt.stages]
    place = result.release if kind == "images" else result.release / "embeddings.safetensors"
    release = open_source(place)
    assert release.kind == kind
    assert len(release) == count
    values = np.concatenate([batch.values for batch in release.batches(64)])
    assert len(release.classes) == classes
    assert np.isfinite(values).all()
    assert (result.owner / "report.html").stat().st_size > 1000
    assert not (result.owner / "cache").exists()
    assert json.loads((result.owner / "run.json").read_text())["kind"] == "owner-only"
    return values


# Every kind of release


@pytest.mark.parametrize(("covariance", "clusters"), [("class", 1), ("full", 3)])
def test_images_with_a_covariance_of_each_class_and_of_each_cluster(go, covariance, clusters):
    settings = {"covariance": covariance, "clusters": clusters, "components": 12}
    result = go(settings=settings, epsilon=20.0)
    values = check_release(result, kind="images", count=30)
    assert values.shape[1:] == (8, 8, 1)
    assert np.ptp(values) > 50


def test_about_as_many_images_as_there_are_look_like_their_class(go):
    result = go(count=None, epsilon=50.0)
    assert result.facts["rows"] == result.facts["noisy_rows"]
    assert result.facts["rows"] == pytest.approx(72, abs=30)
    batch = next(open_source(result.release).batches(200))
    greys = [batch.values[batch.labels == c].mean() for c in range(3)]
    assert greys == pytest.approx([255 / 4, 255 / 2, 255 * 3 / 4], abs=15)


def test_colour_images_of_odd_size(go):
    values = check_release(go("colour"), kind="images", count=30)
    assert values.shape[1:] == (9, 10, 3)


def test_embeddings_only(go):
    result = go(decoder="none", settings={})
    check_release(result, kind="embeddings", count=30)
    assert result.contact_sheet is None
    assert not list(result.release.rglob("*.png"))


def test_a_source_of_embeddings(go):
    result = go("vectors.npz", settings={}, test="test.npz", epsilon=20.0)
    values = check_release(result, kind="embeddings", count=30)
    assert values.shape[1:] == (6,)
    assert result.accuracy[0].synthetic > 0.6


@pytest.mark.slow
def test_an_onnx_pair(go, tmp_path):
    pytest.importorskip("onnxruntime", reason="pip install 'understudy[onnx]'")
    encoder = block_means(tmp_path / "encoder.onnx", channels=1)
    decoder = block_fill(tmp_path / "decoder.onnx", channels=1)
    result = go(encoder=f"onnx:{encoder}", decoder=f"onnx:{decoder}", settings={})
    values = check_release(result, kind="images", count=30)
    assert (values[:, :4, :4] == values[:, :1, :1]).all()
    text = (result.release / "privacy.json").read_text()
    assert "encoder.onnx" in text
    assert str(tmp_path) not in text


def test_unconditional(go):
    settings = {"conditional": False, "components": 12}
    check_release(go(settings=settings), kind="images", count=30, classes=1)


@pytest.mark.parametrize("source", ["large", "vectors.npz"])
def test_private_records_are_no_test_set(go, data, tmp_path, source):
    copy = tmp_path / source
    make_copy = shutil.copytree if (data / source).is_dir() else shutil.copy
    make_copy(data / source, copy)
    with pytest.raises(InputError, match=r"of the test set .* are private records"):
        go(source, settings={}, test=str(copy))
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert not ledger.datasets()
    with pytest.raises(InputError, match=r"of the test set .* are private records"):
        understudy.dry_run(data / source, out=tmp_path / "o", epsilon=8.0, test=copy)
    assert not (tmp_path / "out").exists()


def test_a_test_set_that_cannot_be_used_is_refused_before_anything_is_spent(go, data, tmp_path):
    with pytest.raises(InputError, match="trains no classifier"):
        go(settings={"conditional": False}, test="test")
    with pytest.raises(InputError, match="without labels"):
        go(data / "scans" / "cat", test="test")
    with pytest.raises(InputError, match="at least 16 pixels"):
        go(test="test")
    assert not (tmp_path / "ledger.db").exists()
    assert not (tmp_path / "out").exists()


def test_people_as_units(go):
    result = go("people", unit="patient", unit_rows=3)
    check_release(result, kind="images", count=30)
    assert result.receipt.unit == "rows sharing 'patient'"
    assert "patient" in (result.release / "PRIVACY.md").read_text()
    with pytest.raises(LedgerError, match="rows sharing"):  # units of two kinds are not mixed
        go("people", out="second")


def test_replace_one_doubles_the_noise_of_a_sum(go):
    sigma = {}
    for adjacency in ("add-remove", "replace-one"):
        name = {"out": adjacency, "ledger": f"{adjacency}.db"}
        result = go("people", unit="patient", adjacency=adjacency, **name)
        sigma[adjacency] = {s.stage: s.sigma for s in result.receipt.stages}
    for stage, factor in [("means", 2.0), ("spread", 2**0.5)]:
        assert sigma["replace-one"][stage] == pytest.approx(factor * sigma["add-remove"][stage])


def test_filters(go):
    settings = {**QUICK, "filter": "both", "oversample": 4}
    result = go(settings=settings, epsilon=50.0)
    check_release(result, kind="images", count=30)
    assert result.facts["candidates"] == 120
    stages = [s.stage for s in result.receipt.stages if s.stage.startswith("filter")]
    assert stages == ["filter embeddings", "filter images"]


@pytest.mark.parametrize("count", [1, 500])
def test_any_number_of_rows(go, count):
    check_release(go(count=count), kind="images", count=count)


def test_parquet(go):
    result = go(format="parquet")
    check_release(result, kind="images", count=30)
    assert not list(result.release.rglob("*.png"))
    assert result.contact_sheet.is_file()


@pytest.mark.parametrize(
    "public",
    ["public", pytest.param("procedural:leaves?count=200&channels=1", marks=pytest.mark.slow)],
)
def test_public_images_are_named_and_cost_nothing(go, public, tmp_path):
    settings = {"covariance": "diagonal", "clusters": 1, "components": 12}
    result = go(public=public, settings=settings)
    check_release(result, kind="images", count=30)
    facts = json.loads((result.release / "privacy.json").read_text())
    assert facts["public_data"] == [public]
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert len(ledger.datasets()) == 1


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("vectors.npz", {"test": "test.npz", "settings": {}}),
        # A network for images takes 300 steps, on either side.
        pytest.param("large", {"test": "large-test", "test_rows": 60}, marks=pytest.mark.slow),
    ],
)
def test_accuracy_on_a_real_test_set_is_the_owners(go, source, options):
    result = go(source, epsilon=50.0, **options)
    assert result.accuracy
    assert 0 <= result.accuracy[0].synthetic <= 1
    record = json.loads((result.owner / "run.json").read_text())
    assert record["accuracy"][0]["kind"] == "owner-only"
    released = b"".join(p.read_bytes() for p in result.release.iterdir() if p.is_file())
    assert b"accuracy" not in released.lower().replace(b"accuracies", b"")


def test_an_empty_class_is_passed_over_on_request(go, tmp_path):
    source = class_folders(tmp_path / "holes", {"cat": 20, "dog": 0, "eel": 20})
    with pytest.raises(InputError, match="dog"):
        go(source)
    check_release(go(source, skip_bad=True), kind="images", count=30, classes=2)


def test_a_dataset_without_labels(go, tmp_path):
    source = class_folders(tmp_path / "scans", {"cat": 40}) / "cat"
    check_release(go(source), kind="images", count=30, classes=1)


# Budget and ledger


def test_a_dry_run_says_what_the_run_will_do_and_spends_nothing(go, data, tmp_path):
    ledger = str(tmp_path / "ledger.db")
    options = {"source": str(data / "scans"), "out": tmp_path / "out", "ledger": ledger}
    settings = {"clusters": 3, "components": 12, "filter": "both", "oversample": 2}
    plan = dry_run(make_config({**options, "epsilon": 2.0, "settings": settings}))
    assert not (tmp_path / "out").exists()
    assert (plan.spent, plan.refused, plan.dataset) == (0.0, None, None)
    assert plan.after == pytest.approx(2.0, rel=1e-6)
    with Ledger(ledger) as book:
        assert list(book.rows()) == []
    result = go(epsilon=2.0, settings=settings)
    stages = {stage.name: stage for stage in plan.stages}
    assert sorted(stages) == sorted(stage.stage for stage in result.receipt.stages)
    for stage in result.receipt.stages:
        assert stages[stage.stage].share == pytest.approx(stage.share)
        assert stages[stage.stage].noise == pytest.approx(stage.sigma / stage.sensitivity)
    with Ledger(ledger) as book:
        spent = book.spent(book.datasets()[0].id)
    assert spent.epsilon == pytest.approx(plan.after, rel=1e-9)
    elsewhere = {**options, "out": tmp_path / "again"}
    again = dry_run(make_config({**elsewhere, "epsilon": 2.0, "settings": settings}))
    assert again.spent == spent.epsilon
    assert 2.0 < again.after < 4.0


def set_budget(data, tmp_path, epsilon):
    with Ledger(tmp_path / "ledger.db") as ledger:
        dataset = ledger.register(open_source(data / "scans"))
        ledger.set_budget(dataset.id, Budget(epsilon))
        return dataset.id


def test_over_the_budget_nothing_is_charged_and_nothing_written(go, data, tmp_path):
    dataset = set_budget(data, tmp_path, 1.0)
    with pytest.raises(BudgetRefused, match="does not cover"):
        go(epsilon=1.01)
    assert not (tmp_path / "out").exists()
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.spent(dataset).events == 0
    result = go(epsilon=1.0)
    *rest, few, undeclared = result.warnings  # nothing about the budget
    assert undeclared.startswith("not covered unless it is declared: --classes cat,dog,eel")
    assert few.startswith("images of these classes serve little")
    assert rest == result.facts["notes"]
    with pytest.raises(BudgetRefused):
        go(out="more", epsilon=0.001)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.spent(dataset).epsilon == pytest.approx(1.0, rel=1e-6)
        assert ledger.verify() == []


def test_a_copy_under_another_name_draws_on_the_same_budget(go, data, tmp_path):
    set_budget(data, tmp_path, 1.0)
    go(epsilon=1.0)
    shutil.copytree(data / "scans", tmp_path / "renamed")
    with pytest.raises(BudgetRefused):
        go(tmp_path / "renamed", out="more", epsilon=0.1)


def test_without_a_budget_the_owner_is_told_so_before_the_charge(go, capsys):
    go(progress="plain")
    said = capsys.readouterr().err
    assert -1 < said.index("understudy ledger set-budget") < said.index("embedding private records")


# Resume


def test_the_demo_removes_its_own_files_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("understudy.run.synthesize.DEBIAN_FOLDER", tmp_path / "nothing")
    for name in ("nothing", "a-run", "fashion-mnist"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "demo-ledger.db").touch()
    with pytest.raises(InputError, match="no known layout"):
        demo(tmp_path, progress="none")
    assert tree(tmp_path) == ["a-run/file", "nothing/file"]


def test_a_complete_run_is_not_resumed(go, tmp_path):
    result = go()
    before = tree(tmp_path / "out")
    with pytest.raises(RunError, match="complete; there is nothing to resume"):
        go(resume=True)
    with pytest.raises(RunError, match="not empty"):
        go()
    assert tree(tmp_path / "out") == before
    assert result.release.is_dir()


def interrupt(out):
    """What a run leaves that is killed after its last stage and before its end."""
    (out / "owner" / "run.json").unlink()
    shutil.rmtree(out / "release")


def test_a_resumed_run_makes_the_same_release_for_no_more_money(go, tmp_path):
    first = go()
    pixels, noisy = release_pixels(tmp_path / "out"), noisy_values(tmp_path / "out")
    interrupt(tmp_path / "out")
    (tmp_path / "out" / "owner" / ".draft.partial").mkdir()  # of a writer that was killed
    second = go(resume=True)
    again = release_pixels(tmp_path / "out")
    assert pixels.keys() == again.keys()
    assert all(np.array_equal(pixels[name], again[name]) for name in pixels)
    assert all((noisy[name] == v).all() for name, v in noisy_values(tmp_path / "out").items())
    assert first.receipt == second.receipt
    with Ledger(tmp_path / "ledger.db") as ledger:
        spent = ledger.spent(ledger.datasets()[0].id)
        assert (spent.events, len(spent.runs)) == (len(noisy), 1)
    assert not (tmp_path / "out" / "owner" / ".draft.partial").exists()


def test_a_stage_that_was_lost_is_paid_again(go, tmp_path):
    go()
    interrupt(tmp_path / "out")
    (tmp_path / "out" / "owner" / "stages" / "means.npz").unlink()
    with pytest.raises(RunError, match="another query"):  # the later stages hang on the lost one
        go(resume=True)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.spent(ledger.datasets()[0].id).epsilon > 8.0


def test_what_was_paid_in_one_ledger_is_not_released_by_another(go, tmp_path):
    go()
    interrupt(tmp_path / "out")
    with pytest.raises(LedgerError, match="nothing was charged"):
        go(resume=True, ledger="other.db")


def test_a_run_of_a_dataset_that_has_changed_is_not_told_to_go_on(tmp_path):
    """It was refused by what to the ledger is another dataset, with the advice to resume it."""
    source, out = tmp_path / "vectors.npz", tmp_path / "out"
    given = {"out": out, "epsilon": 4.0, "ledger": str(tmp_path / "ledger.db"), "count": 9}
    embeddings(source, per_class=20)
    understudy.synthesize(source, **given)
    interrupt(out)
    embeddings(source, per_class=20, seed=8)
    with pytest.raises(RunError, match="has changed since this run was charged") as refusal:
        understudy.synthesize(source, resume=True, **given)
    assert "--resume" not in str(refusal.value)


@pytest.mark.parametrize(
    "change", [lambda noisy: noisy * 1.5, np.ravel, lambda noisy: noisy[:, :1]]
)
def test_a_stage_that_holds_no_answer_to_its_query_is_refused(go, tmp_path, change):
    """Real numbers were cut to whole ones, and another shape ended in a traceback."""
    go()
    interrupt(tmp_path / "out")
    path = tmp_path / "out" / "owner" / "stages" / "means.npz"
    stored = dict(np.load(path))
    np.savez(path, noisy=change(stored["noisy"]), note=stored["note"])
    with pytest.raises(RunError, match=r"means\.npz: holds .*, and no answer to its query"):
        go(resume=True)


def test_a_damaged_stage_is_named(go, tmp_path):
    go()
    interrupt(tmp_path / "out")
    path = tmp_path / "out" / "owner" / "stages" / "spread.npz"
    np.savez(without := tmp_path / "note.npz", noisy=np.zeros(3, np.int64), note=np.array("[]"))
    encrypted = bytearray(path.read_bytes())
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1  # or so a bit says
    for content in (path.read_bytes()[:-40], b"\x80\x04N.", without.read_bytes(), encrypted):
        path.write_bytes(content)
        with pytest.raises(RunError, match=r"spread\.npz: not a stored release"):
            go(resume=True)


@pytest.mark.parametrize("format", ["png", pytest.param("parquet", marks=pytest.mark.slow)])
def test_the_datasets_library_loads_a_release(go, tmp_path, format, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="pip install 'understudy[hf]'")
    result = go(format=format)
    builder = "imagefolder" if format == "png" else "parquet"
    cache = str(tmp_path / "cache")
    rows = datasets.load_dataset(
        builder, data_dir=str(result.release), split="train", cache_dir=cache
    )
    assert len(rows) == 30
    assert rows.features["label"].names == list(SIZES)
    assert rows[0]["image"].size == (8, 8)


@pytest.mark.parametrize("format", ["png", "parquet"])
def test_the_card_reads_its_images_without_this_program(go, format):
    release = go(format=format).release
    blocks = re.findall(r"```python\n(.*?)```", (release / "README.md").read_text(), re.DOTALL)
    names = {}
    (block,) = [one for one in blocks if "from PIL" in one]
    exec(block.replace("FOLDER", str(release)), names)
    assert len(names["images"]) == 30
    assert names["images"][0].size == (8, 8)
    assert format == "parquet" or set(names["labels"]) == set(SIZES)


def test_classes_whose_released_size_is_noise_are_named_by_released_numbers(tmp_path):
    """The plan's note named classes below one deviation of that noise alone, a class of 5."""
    sizes = {"many": 300} | {f"few{number}": 2 for number in range(4)}
    source = class_folders(tmp_path / "real", sizes, shape=(16, 16, 1))
    options = {"encoder": "embedded:energies", "decoder": "embedded:energies", "settings": {}}
    result = quick_run(source, tmp_path, epsilon=1.0, count=10, **options)
    released, sd = (result.facts[name] for name in ("class_sizes", "class_size_noise"))
    faint = sorted(name for name, size in released.items() if size < 2 * sd)
    assert faint  # each of four is, with a probability of 97 %
    (note,) = [one for one in result.warnings if "two deviations of its noise" in one]
    assert note.startswith(f"{', '.join(faint)}: released with a size below")
