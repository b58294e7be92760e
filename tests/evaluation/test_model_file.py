"""``evaluate --model FILE``: a classifier that was exported, or somebody else's, on real data."""

from pathlib import Path

import numpy as np
import pytest
from tests.backends.tiny_onnx import save as save_onnx
from tests.evaluation.test_holes import verdict
from tests.run.blobs import blobs, folder_of
from tests.run.samples import embeddings, quick_run

import understudy
from understudy.backends.classifier_file import ClassifierFile
from understudy.core.errors import ConfigError
from understudy.core.results import Evaluation
from understudy.metrics.scoring import calibration_error
from understudy.metrics.utility import ACCURACY, BALANCED_ACCURACY, CLASS_RECALL
from understudy.run.trained_model import train_classifier

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")


def value(evaluation: Evaluation, key: str) -> float:
    return next(one.value for one in evaluation.values if one.metric.key == key)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("model")
    for seed, name in enumerate(("private", "test")):
        embeddings(place / f"{name}.npz", seed=seed)
    # At epsilon 4, one run in twenty loses a class of sixty records.
    quick_run(place / "private.npz", place, epsilon=20.0, count=None)
    train_classifier(place / "out", export=place / "model.onnx", epochs=10, progress="none")
    return place


def evaluated(
    site: Path, model: str = "model", real: str = "private", test: str = "test"
) -> Evaluation:
    sides = {"real": site / f"{real}.npz", "test": site / f"{test}.npz"}
    return understudy.evaluate(model=site / f"{model}.onnx", **sides, progress="none")


def test_an_exported_classifier_is_tested_and_attacked(site: Path) -> None:
    evaluation = evaluated(site)
    accuracy = value(evaluation, ACCURACY.key)
    assert accuracy > 0.6
    recalls = [one.value for one in evaluation.values if one.metric.key == CLASS_RECALL.key]
    assert value(evaluation, BALANCED_ACCURACY.key) == pytest.approx(np.mean(recalls))
    assert verdict(evaluation, "attack").grade != "poor"
    assert "model.onnx reaches a balanced accuracy" in verdict(evaluation, "utility").sentence
    assert any("loss_auc" in one.metric.key for one in evaluation.values)


def test_a_classifier_that_learnt_the_private_rows_by_heart_is_caught(site: Path) -> None:
    """Random labels, learnt from the private records themselves."""
    private = dict(np.load(site / "private.npz"))
    rng = np.random.default_rng(0)
    values = rng.normal(size=(180, 200)).astype(np.float32)
    others = rng.normal(size=(180, 200)).astype(np.float32)
    np.savez(site / "noise.npz", embeddings=values, labels=private["labels"])
    np.savez(site / "others.npz", embeddings=others, labels=private["labels"])
    understudy.select(
        site / "noise.npz", keep="100%", candidates_public=True, out=site / "same", progress="none"
    )
    train_classifier(site / "same", export=site / "heart.onnx", epochs=60, progress="none")
    evaluation = evaluated(site, model="heart", real="noise", test="others")
    assert verdict(evaluation, "attack").grade == "poor"
    assert value(evaluation, ACCURACY.key) < 0.5


def test_probabilities_of_8_bits_are_not_taken_for_scores(tmp_path: Path) -> None:
    """They are rounded, so that a row of them sums to 1 only about."""
    path = save_onnx(
        tmp_path / "model.onnx", [("Identity", ["x"], ["p"], {})], {"x": ["n", 3]}, {"p": ["n", 3]}
    )
    rounded = np.array([[253, 1, 1], [85, 86, 86]]) / 256
    probabilities = ClassifierFile(path).probabilities(rounded)
    assert probabilities == pytest.approx(rounded / rounded.sum(axis=1, keepdims=True))
    unsure = [1 - 253 / 255, 1 - 86 / 257]  # both are right
    assert calibration_error(probabilities, np.array([0, 1])) == pytest.approx(np.mean(unsure))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.onnx", "model.tflite"])
def test_a_classifier_of_images_is_given_them_in_its_own_size(tmp_path: Path, name: str) -> None:
    if name.endswith("tflite"):
        pytest.importorskip("ai_edge_litert")
    folder_of(tmp_path / "real", blobs(0, 60))
    folder_of(tmp_path / "test", blobs(2, 60))
    out = tmp_path / "out"
    understudy.select(
        tmp_path / "real", keep="100%", candidates_public=True, out=out, progress="none"
    )
    train_classifier(out, export=tmp_path / name, progress="none")
    evaluation = understudy.evaluate(
        model=tmp_path / name, real=tmp_path / "real", test=tmp_path / "test", progress="none"
    )
    assert value(evaluation, ACCURACY.key) > 0.7


def test_an_encoder_that_is_not_found_by_its_name_is_to_be_said(tmp_path: Path) -> None:
    """A release names the file of an encoder without its folder."""
    onnx = pytest.importorskip("onnx")
    path = save_onnx(
        tmp_path / "model.onnx", [("Identity", ["x"], ["p"], {})], {"x": ["n", 3]}, {"p": ["n", 3]}
    )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"encoder": "onnx:encoder.onnx"})
    onnx.save(model, path)
    sides = {"real": tmp_path / "real", "test": tmp_path / "test"}
    for seed, side in enumerate(sides.values()):
        folder_of(side, blobs(seed, 12))
    with pytest.raises(ConfigError, match=r"onnx:encoder.onnx, which is not found.*say --encoder"):
        understudy.evaluate(model=path, **sides, progress="none")
