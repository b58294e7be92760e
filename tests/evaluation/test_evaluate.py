"""Whole evaluations: five releases, every kind of release, and what is refused at the start."""

import io
import json
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from tests.backends.tiny_onnx import save as save_onnx
from tests.run.blobs import SHAPE, blobs, folder_of
from tests.run.samples import class_folders, embeddings, quick_run, with_manifest
from typer.testing import CliRunner

import understudy
from understudy.cli.main import app
from understudy.core.errors import ConfigError, InputError, RunError, SourceError
from understudy.core.results import Evaluation
from understudy.data import open_source
from understudy.evaluation.evaluate import _keep
from understudy.evaluation.inputs import EvaluationOptions, Inputs
from understudy.report import read_evaluation

GROUPS = ["fidelity", "utility", "leakage", "attack"]


def changed(image, kind):
    """Noise, brightness, a shift by a pixel, JPEG."""
    if kind == 0:
        noise = np.random.default_rng(0).normal(0, 6, image.shape)
        return np.clip(image + noise, 0, 255).astype(np.uint8)
    if kind == 1:
        return np.clip(image * 0.9 + 8, 0, 255).astype(np.uint8)
    if kind == 2:
        return np.roll(image, 1, axis=1)
    file = io.BytesIO()
    Image.fromarray(image[..., 0]).save(file, "JPEG", quality=70)
    return np.asarray(Image.open(file))[..., None]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Private pictures, held-out ones, and releases of every honesty."""
    place = tmp_path_factory.mktemp("world")
    private, others = list(blobs(0, 400)), list(blobs(1, 200))
    folder_of(place / "real", private)
    folder_of(place / "test", blobs(2, 200))
    folder_of(place / "private", private[:200], release=True)
    few = [*private[:8], *others[8:]]
    folder_of(place / "copies", few, release=True)
    again = [(name, changed(image, at % 4)) for at, (name, image) in enumerate(private[:200])]
    folder_of(place / "changed", again, release=True)
    folder_of(place / "held-out", others, release=True)
    quick_run(place / "real", place, out=place / "dp", epsilon=2.0, count=200)
    return place


def evaluate(world, name, **options):
    return understudy.evaluate(world / name, real=world / "real", test=world / "test", **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "grade", "words"),
    [
        ("private", "poor", "The release is private data: all 200"),
        ("copies", "poor", "8 of 200 synthetic images (4.00%) are exact copies"),
        ("changed", "poor", "samples are near-copies of private records"),
        ("held-out", "good", "as near to private records as held-out real records do"),
        ("dp", "good", "No copies: the samples"),
    ],
)
def test_five_releases_are_told_apart(world, name, grade, words):
    found = evaluate(world, name, features="embedded:dct?coefficients=60")
    verdict = {one.group: one for one in found.verdicts}["leakage"]
    assert (verdict.grade, words in verdict.sentence) == (grade, True), verdict.sentence
    if name != "dp":  # whose noise is fresh each time: it may come as near as real records do
        assert (name == "held-out") == ("as if they were real records" in verdict.sentence)
    with np.load(world / name / "owner" / "pairs.npz", allow_pickle=False) as pairs:
        apart, rows = pairs["distances"], pairs["rows"]
        assert pairs["synthetic"].shape == pairs["real"].shape == (24, *SHAPE)
        assert (np.diff(apart) >= 0).all()
        assert len(set(rows[:, 0].tolist())) == 24
        # Rows are those of the sources, whatever order they are read in.
        release, real = (
            np.concatenate([batch.values for batch in open_source(place).batches(99)])
            for place in (world / name / "release", world / "real")
        )
        assert np.array_equal(release[rows[:, 0]], pairs["synthetic"])
        assert np.array_equal(real[rows[:, 1]], pairs["real"])
    assert (apart == 0).sum() == {"private": 24, "copies": 8}.get(name, 0)


@pytest.mark.slow
def test_everything_is_written_and_read_back(world):
    found = evaluate(world, "dp", features="embedded:dct?coefficients=60")
    written = json.loads((world / "dp" / "owner" / "evaluation.json").read_text())
    assert read_evaluation(written).as_dict() == found.as_dict() == written
    assert [one.group for one in found.verdicts] == GROUPS
    assert {one.kind for one in (*found.values, *found.curves, *found.verdicts)} == {"owner-only"}
    assert set(found.seconds) == {"read", "fidelity", "leakage", "attacks"}
    assert found.settings["rows"] == {"private": 400, "release": 200, "held_out": 200}
    assert {one.label for one in found.values} == {"", "cat", "dog"}
    for one in found.values:
        assert one.measured
        assert one.low is None or one.low <= one.value <= one.high
    assert all(len(one.x) <= 200 for one in found.curves)
    assert not [path for path in (world / "dp" / "release").rglob("*") if "evalu" in path.name]


def test_a_release_alone_leaves_nothing_behind(world, tmp_path):
    shutil.copytree(world / "dp" / "release", tmp_path / "shared")
    before = sorted(tmp_path.rglob("*"))
    options = {"features": "embedded:dct", "attacks": False, "rows": 150}
    found = evaluate(world, tmp_path / "shared", **options)
    assert sorted(tmp_path.rglob("*")) == before
    assert not found.of("attack")
    assert "attacks" not in found.seconds
    assert found.settings["rows_with_neighbours"]["private"] == 150
    verdict = {one.group: one for one in found.verdicts}
    assert verdict["attack"].grade == "unknown"


@pytest.mark.slow
def test_only_inceptions_features_give_scores_that_bear_its_name(world, tmp_path, monkeypatch):
    # Roots of 2,048 x 2,048 numbers take a minute.
    monkeypatch.setattr("understudy.evaluation.embedding_pass.INCEPTION_DIM", 6)

    def network(path, numbers):
        weights = np.random.default_rng(0).normal(size=(3, numbers)).astype(np.float32)
        return save_onnx(
            path,
            [
                ("GlobalAveragePool", ["images"], ["pooled"], {}),
                ("Flatten", ["pooled"], ["flat"], {}),
                ("MatMul", ["flat", "weights"], ["features"], {}),
            ],
            {"images": ["n", 3, 299, 299]},
            {"features": ["n", numbers]},
            {"weights": weights},
        )

    pytest.importorskip("onnxruntime")
    for numbers, fid, other in ((6, "FID", "Frechet distance"), (7, "Frechet distance", "FID")):
        file = network(tmp_path / f"{numbers}.onnx", numbers)
        found = evaluate(world, "held-out", features=f"inception:{file}", rows=20, attacks=False)
        assert found.find(fid) is not None
        assert found.find(other) is None
        assert f"inception:{file}" in found.find(fid).measured
    plain = evaluate(world, "held-out", features="embedded:dct", rows=20, attacks=False)
    assert (plain.find("FID"), plain.find("KID"), plain.find("Inception score")) == (None,) * 3


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    place = tmp_path_factory.mktemp("vectors")
    embeddings(place / "real.npz")
    embeddings(place / "test.npz", per_class=30, seed=5)
    quick_run(place / "real.npz", place, epsilon=20.0, count=90, settings={})
    return place


@pytest.mark.slow
def test_embeddings_are_compared_as_they_are_and_models_train_on_them(vectors):
    pytest.importorskip("torch")
    options = {"real": vectors / "real.npz", "test": vectors / "test.npz", "epochs": 30}
    found = understudy.evaluate(vectors / "out", full=True, seeds=2, **options)
    words, features = "two-layer network on embeddings", found.settings["features"]
    accuracy = found.find("balanced accuracy, trained on the release", measured=words)
    assert 0.4 < accuracy.value <= 1
    assert accuracy.baseline > 0.6
    assert accuracy.low <= accuracy.value <= accuracy.high
    with_private = "balanced accuracy, trained on the release and the private records"
    assert found.find(with_private) is not None
    assert found.find("recall of the class, trained on the release", label="dog") is not None
    assert [one for one in found.of("attack") if one.name.startswith("loss of a model")]
    assert {one.group: one.grade for one in found.verdicts}["utility"] != "unknown"
    (confusion,) = found.settings["confusion"]
    counts = np.array(confusion["counts"])
    assert (confusion["classes"], counts.sum(axis=1).tolist()) == (["cat", "dog", "eel"], [60] * 3)
    assert np.trace(counts) / counts.sum() == pytest.approx(accuracy.value)  # of both seeds
    assert "fewer than 200 rows" in " ".join(found.settings["left_out"])
    assert (
        found.find("attribute inference of the class: private records", measured=features)
        is not None
    )
    assert not [one for one in found.of("leakage") if "reconstruction" in one.name]
    assert not (vectors / "out" / "owner" / "pairs.npz").exists()
    with pytest.raises(ConfigError, match="leave out --features"):
        understudy.evaluate(vectors / "out", features="embedded:dct", **options)
    with pytest.raises(ConfigError, match="leave out --lpips"):
        understudy.evaluate(vectors / "out", lpips="any.pt", **options)
    with pytest.raises(ConfigError, match="cnn does not learn from embeddings"):
        understudy.evaluate(vectors / "out", networks=["cnn"], **options)


def test_a_perceptual_distance_of_all_pairs_at_once_is_refused_before_anything_is_measured(
    world, tmp_path
):
    """One pair hid it, and the evaluation ended in the middle."""
    torch = pytest.importorskip("torch")
    image = torch.zeros(1, 3, *SHAPE[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        metric = torch.jit.trace(lambda a, b: ((a - b) ** 2).mean(), (image, image))
        metric.save(str(tmp_path / "mean.pt"))
    options = EvaluationOptions(lpips=tmp_path / "mean.pt")
    with pytest.raises(InputError, match="one finite number a pair; for 2 pairs"):
        Inputs.open(world / "dp" / "release", str(world / "real"), str(world / "test"), options)


def test_private_records_that_the_run_did_not_read_are_noted(tmp_path, capsys):
    """``--real`` and ``--test`` the wrong way round gave a good verdict on leakage, unsaid."""
    embeddings(tmp_path / "real.npz")
    embeddings(tmp_path / "test.npz", per_class=30, seed=5)
    quick_run(tmp_path / "real.npz", tmp_path, epsilon=20.0, count=90, settings={})
    for real, test in (("real.npz", "test.npz"), ("test.npz", "real.npz")):
        options = {"real": tmp_path / real, "test": tmp_path / test, "progress": "plain"}
        understudy.evaluate(tmp_path / "out", attacks=False, **options)
        said = "real.npz, and --real is" in capsys.readouterr().err
        assert said is (real == "test.npz")
    words = ["evaluate", tmp_path / "out", "--real", tmp_path / "test.npz", "--no-attacks"]
    words += ["--test", tmp_path / "real.npz", "--progress", "none"]
    ended = CliRunner().invoke(app, [*map(str, words)])
    assert "real.npz, and --real is" in ended.stdout  # with the result


def test_that_figures_of_a_run_that_protects_persons_count_images_is_said(tmp_path):
    """The page of ``evaluate`` said so, and neither the command nor the report."""
    real = with_manifest(tmp_path / "real")
    test = with_manifest(tmp_path / "test", seed=5)
    quick_run(real, tmp_path, epsilon=20.0, count=30, settings={}, unit="patient")
    options = {"real": real, "test": test, "progress": "none", "attacks": False}
    note = understudy.evaluate(tmp_path / "out", **options).settings["note"]
    assert note.startswith("the guarantee covers all records sharing 'patient'")
    assert "figures count single images" in note
    assert note in (tmp_path / "out" / "owner" / "report.html").read_text().replace("&#39;", "'")


def test_persons_of_the_test_set_who_are_private_are_counted(tmp_path):
    """Identical rows were looked for, and other images of the same persons were not."""
    real = with_manifest(tmp_path / "real")
    test = with_manifest(tmp_path / "test", seed=5)
    apart = with_manifest(tmp_path / "apart", seed=6)
    for place, person in ((test, ",p1\n"), (apart, "")):
        table = place / "manifest.csv"
        rows = table.read_text().replace(",p", ",q").replace(",qatient", ",patient")
        table.write_text(rows.replace(",q1\n", person or ",q1\n"))
    quick_run(real, tmp_path, epsilon=20.0, count=30, settings={}, unit="patient")
    options = {"real": real, "progress": "none", "attacks": False}
    note = understudy.evaluate(tmp_path / "out", test=test, **options).settings["note"]
    assert "1 of the 18 units of the test set, by patient" in note
    assert "with 4 of its 72 records" in note
    note = understudy.evaluate(tmp_path / "out", test=apart, **options).settings["note"]
    assert "units of the test set" not in note


def test_two_evaluations_that_end_at_once_are_both_written_whole(tmp_path):
    """One renamed what the other was writing, which then ended in a traceback."""
    (tmp_path / "owner").mkdir()
    release = tmp_path / "release"

    def keep(name):
        for _ in range(20):
            _keep(release, Evaluation((), settings={name: ["words"] * 20_000}), None)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(keep, ("first", "second"))) == [None, None]
    assert len(json.loads((tmp_path / "owner" / "evaluation.json").read_text())["settings"]) == 1


def test_files_that_the_run_passed_over_are_passed_over(tmp_path):
    """``evidence`` has no ``--skip-bad``, and its message asked for it."""
    folder_of(tmp_path / "real", blobs(0, 20))
    folder_of(tmp_path / "test", blobs(2, 20))
    (tmp_path / "real" / "cat" / "broken.png").write_bytes(b"no image")
    run = {"epsilon": 20.0, "count": 30, "decoder": "none"}
    quick_run(tmp_path / "real", tmp_path, skip_bad=True, **run)
    places = str(tmp_path / "real"), str(tmp_path / "test")
    inputs = Inputs.open(tmp_path / "out" / "release", *places, EvaluationOptions())
    assert (len(inputs.real), inputs.real.skipped) == (20, 1)
    (tmp_path / "test" / "cat" / "broken.png").write_bytes(b"no image")
    with pytest.raises(SourceError, match="--skip-bad"):  # nobody passed over those
        Inputs.open(tmp_path / "out" / "release", *places, EvaluationOptions())


@pytest.mark.slow
def test_real_images_are_embedded_as_the_release_was(world, tmp_path):
    quick_run(world / "real", tmp_path, decoder="none", epsilon=50.0, count=100)
    found = evaluate(world, tmp_path / "out", attacks=False)
    assert "embedded:dct" in found.settings["features"]
    assert found.find("Frechet distance").value > found.find("Frechet distance").baseline


def test_what_does_not_fit_is_refused_before_anything_is_measured(world, tmp_path):
    with pytest.raises(RunError, match="holds no release"):
        evaluate(world, tmp_path)
    strange = class_folders(tmp_path / "strange", {"cat": 2, "yak": 2}, SHAPE)
    with pytest.raises(InputError, match="yak"):
        understudy.evaluate(world / "dp", real=world / "real", test=strange)
    colour = class_folders(tmp_path / "colour", {"cat": 2, "dog": 2}, (16, 16, 3))
    with pytest.raises(InputError, match="shape"):
        understudy.evaluate(world / "dp", real=colour, test=world / "test")
    with pytest.raises(InputError, match="10 or more"):
        evaluate(world, "dp", rows=3)
    with pytest.raises(InputError, match="vgg"):
        evaluate(world, "dp", networks=["vgg"])
    shutil.copytree(world / "held-out", tmp_path / "broken")
    (tmp_path / "broken" / "release" / "privacy.json").write_text("{")
    with pytest.raises(RunError, match="JSON"):
        evaluate(world, tmp_path / "broken")
