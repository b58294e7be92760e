"""The classifier of what a run released: its file gives the library's classes, at no charge."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.run.samples import class_folders, embeddings, killed_at, quick_run
from tests.run.stripes import CLASSES, SHAPE, striped_npz, stripes
from typer.testing import CliRunner

pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from understudy.backends.embedded.energies import energy_models  # noqa: E402
from understudy.cli.main import app  # noqa: E402
from understudy.core.errors import ConfigError, RunError  # noqa: E402
from understudy.data.reading_options import OF_EACH_FILE  # noqa: E402
from understudy.evaluation.evaluate import evaluate  # noqa: E402
from understudy.metrics.discriminant import image_discriminant  # noqa: E402
from understudy.metrics.scoring import balanced_accuracy, confusion  # noqa: E402
from understudy.metrics.verdicts import sampling_loss  # noqa: E402
from understudy.release.checksums import write_checksums  # noqa: E402
from understudy.release.outputs import open_release, read_json  # noqa: E402
from understudy.report import Premise, read_record  # noqa: E402
from understudy.run.accuracy import RELEASED_WORDS, collect, evaluation_of_scores  # noqa: E402
from understudy.run.models import front_end, measured_columns  # noqa: E402
from understudy.run.progress import reporting  # noqa: E402
from understudy.run.released_classifier import file_facts, released_classifier  # noqa: E402
from understudy.run.report import load  # noqa: E402
from understudy.run.resample import resample  # noqa: E402
from understudy.run.run_result import Result  # noqa: E402
from understudy.run.trained_model import train_classifier  # noqa: E402

pytestmark = pytest.mark.slow

SILENT: dict[str, Any] = {"progress": "none"}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, quick_networks: None) -> Result:
    place = tmp_path_factory.mktemp("stripes")
    test = striped_npz(place / "test.npz", 90, seed=5)
    options: dict[str, Any] = {"epsilon": 20, "count": 45, "settings": {}, "test_rows": 30}
    return quick_run(striped_npz(place / "private.npz"), place, test=test, **options)


def onnx_scores(file: Path, images: np.ndarray) -> np.ndarray:
    rows = images.transpose(0, 3, 1, 2).astype(np.float32)
    (scores,) = onnxruntime.InferenceSession(file).run(["scores"], {"images": rows})
    return np.asarray(scores)


def litert_scores(file: Path, images: np.ndarray) -> np.ndarray:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(file))
    source = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(source, images.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(source, images.astype(np.float32))
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


@pytest.mark.parametrize(
    ("from_", "suffix"),
    [
        ("statistics", "onnx"),
        ("samples", "tflite"),
        pytest.param("statistics", "tflite", marks=pytest.mark.slow),
        pytest.param("samples", "onnx", marks=pytest.mark.slow),
    ],
)
def test_the_file_alone_gives_the_classes_of_1000_images(
    result: Result, tmp_path: Path, from_: Any, suffix: str
) -> None:
    given: dict[str, Any] = {"from_": from_, "export": tmp_path / f"model.{suffix}", **SILENT}
    written = train_classifier(result, **given)
    assert (written.network, written.classes, written.shape) == ("discriminant", CLASSES, SHAPE)
    assert written.rows == (None if from_ == "statistics" else 45)
    images, labels = stripes(1000, seed=9)
    scores = onnx_scores if suffix == "onnx" else litert_scores
    guesses = scores(written.path, images).argmax(axis=1)
    assert (guesses == labels).mean() > 0.6
    if from_ == "statistics":
        with reporting("none") as events:
            library = released_classifier(result.folder, events).classifier
        assert (guesses == library.predict(images)).all()
        expected = library.linear.scores(library.encoder.encode(images))
        expected -= expected.mean(axis=1, keepdims=True)  # which the file leaves out
        np.testing.assert_allclose(scores(written.path, images), expected, atol=3e-3)


def test_the_file_says_what_it_is_of(result: Result, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    train_classifier(result, from_="statistics", export=file, **SILENT)
    facts = onnxruntime.InferenceSession(file).get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == list(CLASSES)
    words = "epsilon 20, delta 1e-05, unit: one image, adjacency: add-remove"
    assert facts["guarantee"] == words
    assert facts["encoder"] == "embedded:energies"
    assert "statistics that the run released" in facts["trained on"]
    words = "(height x width), 3 channels (red, green, blue), each value from 0 (black) to 255"
    assert words in facts["input"]


@pytest.mark.parametrize(
    ("window", "words"), [([40.0, 400.0], "40,400 (centre, width)"), (OF_EACH_FILE, OF_EACH_FILE)]
)
def test_the_file_says_by_which_window_images_were_read(
    result: Result, window: object, words: str
) -> None:
    record = read_record(read_json(result.release / "privacy.json"))
    premise = Premise("intensity window", window, "declared")
    facts = file_facts(replace(record, premises=(premise,)), CLASSES, (32, 24, 1), None)
    assert facts["input"].startswith("float32 images of 32 x 24 pixels (height x width), 1 channel")
    assert facts["input"].endswith(f"; real ones were read by the intensity window {words}")


def test_who_trains_on_samples_is_told_of_the_statistics_where_they_are_at_hand(
    result: Result, tmp_path: Path
) -> None:
    """Whatever becomes of its progress."""
    model = tmp_path / "model.onnx"
    options: dict[str, Any] = {"export": model, "progress": "none"}
    words = ["train", str(result.folder), "--export", str(model), "--progress", "none"]
    said = CliRunner().invoke(app, words, catch_exceptions=False).output
    assert "note: the statistics that the run released" in said
    assert "--from statistics" in train_classifier(result, **options).hint
    shutil.copytree(result.release, tmp_path / "release")  # as others get it
    for more in ({"from_": "statistics"}, {"network": "discriminant"}):  # it was asked for
        assert train_classifier(result, **options, **more).hint == ""
    assert train_classifier(tmp_path / "release", **options).hint == ""


def test_it_charges_nothing_and_writes_nothing_into_the_run(result: Result, tmp_path: Path) -> None:
    def state() -> dict[Path, bytes]:
        files = [*result.folder.rglob("*"), result.folder.parent / "ledger.db"]
        return {file: file.read_bytes() for file in files if file.is_file()}

    before, names = state(), sorted(path.name for path in result.folder.parent.iterdir())
    train_classifier(result, from_="statistics", export=tmp_path / "model.onnx", **SILENT)
    assert state() == before
    assert sorted(path.name for path in result.folder.parent.iterdir()) == names


def test_a_discriminant_of_samples_looks_at_what_was_measured_alone(result: Result) -> None:
    """What samples hold beside it tells their classes apart, and not those of real images."""
    record = read_record(read_json(result.release / "privacy.json"))
    with reporting("none") as events:
        samples = collect(open_release(result.release, SHAPE), None, events.step)
        statistics = released_classifier(result.folder, events).classifier.linear
    encoder = front_end(SHAPE)
    assert encoder is not None
    columns = measured_columns(encoder, record.facts, samples.values)
    assert columns is not None
    np.testing.assert_array_equal(np.sort(columns), np.flatnonzero(statistics.weights.any(axis=1)))
    assert len(columns) < encoder.dim
    narrow, wide = (
        image_discriminant(encoder, samples.values, samples.labels, 3, columns=some)
        for some in (columns, None)
    )
    others = np.setdiff1d(np.arange(encoder.dim), columns)
    assert wide.linear.weights[others].any()
    assert not narrow.linear.weights[others].any()
    part = samples.at_most(30)  # as the run trained it, on as many rows as there were real ones
    model = image_discriminant(encoder, part.values, part.labels, 3, columns=columns)
    images, labels = stripes(90, seed=5)
    table = confusion(labels, model.predict(images), 3)
    assert result.accuracy[1].report.synthetic[0].confusion == tuple(map(tuple, table.tolist()))
    assert measured_columns(encoder, {}, samples.values) is None


def test_a_run_says_what_sampling_loses(result: Result) -> None:
    network, samples, released = (one.score for one in result.accuracy)
    assert (network.model, network.released) == ("small CNN on images", False)
    assert (released.model, released.released) == (RELEASED_WORDS, True)
    with reporting("none") as events:
        library = released_classifier(result.folder, events).classifier
    images, labels = stripes(90, seed=5)
    table = confusion(labels, library.predict(images), 3)
    assert result.accuracy[2].report.synthetic[0].confusion == tuple(map(tuple, table.tolist()))
    assert released.synthetic == balanced_accuracy(table) > 0.6
    assert released.real == samples.real > 0.5
    evaluation = evaluation_of_scores([network, samples, released])
    assert evaluation is not None
    best = max(network.synthetic, samples.synthetic)
    loss = 100 * (released.synthetic - best)
    words = f"loses {loss:.1f} points" if loss >= 0.05 else "loses nothing"
    sentence = sampling_loss(evaluation.values)
    assert f"released statistics alone reach {released.synthetic:.1%}, so sampling {words}" in (
        sentence
    )
    report = load(result)
    assert [score.released for score in report.owner.scores] == [False, False, True]
    assert report.owner.utility is not None
    assert report.owner.utility.sentence.endswith(sentence)
    page = " ".join(re.sub("<[^>]+>", " ", (result.owner / "report.html").read_text()).split())
    assert RELEASED_WORDS in page
    assert sentence.split("(")[0].strip() in page


def test_evaluate_measures_it_from_the_stored_answers(result: Result) -> None:
    place = result.folder.parent
    sides: dict[str, Any] = {"real": place / "private.npz", "test": place / "test.npz"}
    options: dict[str, Any] = {
        "networks": ["discriminant"],
        "features": "embedded:dct?coefficients=40",
        **SILENT,
    }
    evaluation = evaluate(result, **sides, **options, attacks=False)
    (value,) = [one for one in evaluation.values if one.metric.key == "released_accuracy"]
    released = result.accuracy[-1]
    assert (value.kind, value.measured) == ("owner-only", RELEASED_WORDS)
    assert value.value == released.synthetic
    assert value.baseline is not None
    assert value.baseline > 0.7  # of 300 rows, where the run's own was of 30
    alone = evaluate(result.release, **sides, **options, attacks=False)
    assert alone.values == evaluation.values


def test_evaluate_trains_the_discriminant_that_the_file_holds(
    result: Result, tmp_path: Path
) -> None:
    """It looked at all numbers, also at those that the release did not measure."""
    place, file = result.folder.parent, tmp_path / "model.onnx"
    train_classifier(result, export=file, **SILENT)
    images, labels = stripes(90, seed=5)
    table = confusion(labels, onnx_scores(file, images).argmax(axis=1), 3)
    sides: dict[str, Any] = {"real": place / "private.npz", "test": place / "test.npz"}
    evaluation = evaluate(result, **sides, networks=["discriminant"], attacks=False, **SILENT)
    assert evaluation.settings["confusion"][0]["counts"] == table.tolist()


def assert_refused(
    error: type[Exception], words: str, folder: Any, tmp_path: Path, **given: Any
) -> None:
    file = tmp_path / given.pop("file", "model.onnx")
    with pytest.raises(error, match=words):
        train_classifier(folder, export=file, **{**given, **SILENT})
    assert not file.exists()


def test_a_format_that_no_model_is_written_in_is_refused(result: Result, tmp_path: Path) -> None:
    """ONNX came under the name of PyTorch's files."""
    words = r"name it model\.onnx or model\.tflite, not model\.pt"
    for origin in ("samples", "statistics"):
        assert_refused(ConfigError, words, result, tmp_path, from_=origin, file="model.pt")


def test_what_has_no_such_statistics_is_refused(result: Result, tmp_path: Path) -> None:
    given: dict[str, Any] = {"from_": "statistics"}
    other = quick_run(class_folders(tmp_path / "scans", shape=(16, 16, 1)), tmp_path, count=12)
    words = r"it worked with embedded:dct\): understudy train .* --from samples"
    assert_refused(ConfigError, words, other, tmp_path, **given)
    third = quick_run(embeddings(tmp_path / "x.npz"), tmp_path / "third", count=12)
    assert_refused(ConfigError, r"it worked with no encoder\)", third, tmp_path, **given)
    alone = tmp_path / "alone"
    result.release.rename(alone)
    try:
        assert_refused(RunError, "is a release alone", alone, tmp_path, **given)
    finally:
        alone.rename(result.release)
    assert_refused(ConfigError, "Leave out --network cnn", result, tmp_path, network="cnn", **given)
    assert_refused(ConfigError, "Leave out --epochs", result, tmp_path, epochs=3, **given)


def test_a_release_tells_the_digest_of_weights_once_and_the_settings_of_its_run_do_not(
    result: Result,
) -> None:
    digest = energy_models.digest_of(energy_models.ENERGY_WEIGHTS, energy_models._AXES)
    models = read_record(read_json(result.release / "privacy.json")).models
    assert {(one.name, one.sha256) for one in models} == {("embedded:energies", digest)}
    assert "weights" not in read_json(result.owner / "run.json")["settings"]


def test_answers_in_other_weights_are_refused(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy_models, "digest_of", lambda folder, name: "of-another-version")
    with pytest.raises(RunError, match="other weights of embedded:energies than are installed"):
        resample(result.release.parent, count=9, out=tmp_path / "more", **SILENT)


def test_a_run_is_not_resumed_in_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = striped_npz(tmp_path / "private.npz")
    killed = killed_at("understudy.run.session.write_release", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), killed:
        quick_run(source, tmp_path, settings={})
    monkeypatch.setattr(energy_models, "digest_of", lambda folder, name: "of-another-version")
    with pytest.raises(RunError, match="cannot resume with other settings: weights: "):
        quick_run(source, tmp_path, settings={}, resume=True)


def test_statistics_of_one_class_tell_nothing_apart(tmp_path: Path) -> None:
    np.savez(tmp_path / "private.npz", images=stripes(60, seed=0)[0])
    one = quick_run(tmp_path / "private.npz", tmp_path, count=3, settings={}, label="none")
    with (
        reporting("none") as events,
        pytest.raises(ConfigError, match="its statistics tell no classes apart"),
    ):
        released_classifier(one.folder, events)


def test_what_a_discriminant_does_not_take_is_refused(result: Result, tmp_path: Path) -> None:
    assert_refused(ConfigError, "computed, not trained in passes", result, tmp_path, epochs=3)
    words = "written as ONNX only"
    assert_refused(ConfigError, words, result, tmp_path, network="cnn", file="model.tflite")


def test_images_too_large_for_it_train_the_small_cnn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = class_folders(tmp_path / "scans", {"cat": 20, "dog": 20}, (16, 16, 1))
    wide = quick_run(source, tmp_path, count=12).release
    facts = json.loads((wide / "privacy.json").read_text())
    facts["data"]["image_shape"] = [16, 260, 1]  # as its images are from now on
    (wide / "privacy.json").write_text(json.dumps(facts))
    for path in wide.rglob("*.png"):
        Image.open(path).resize((260, 16)).save(path)
    write_checksums(wide)
    options: dict[str, Any] = {"export": tmp_path / "model.onnx", "progress": "plain"}
    assert train_classifier(wide, epochs=1, **options).network == "cnn"
    assert "16 to 256 pixels a side), so the small CNN is trained" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="of images of 16 to 256 pixels a side, found 16 x 260"):
        train_classifier(wide, network="discriminant", **options)
