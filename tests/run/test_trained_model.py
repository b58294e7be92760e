"""``understudy train``: the file computes what the network does, and says what it is of."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.samples import QUICK, class_folders, embeddings

pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from understudy.core.errors import MissingExtra, RunError  # noqa: E402
from understudy.data import open_source  # noqa: E402
from understudy.metrics.networks.classifier import untrained  # noqa: E402
from understudy.metrics.networks.classifier_training import train  # noqa: E402
from understudy.metrics.networks.onnx_export import onnx_bytes  # noqa: E402
from understudy.metrics.networks.recipes import IMAGES  # noqa: E402
from understudy.run.synthesize import synthesize  # noqa: E402
from understudy.run.trained_model import TRAINED, train_classifier  # noqa: E402

SILENT: dict[str, Any] = {"progress": "none"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    given: dict[str, Any] = {"ledger": str(place / "ledger.db"), "settings": QUICK, **SILENT}
    embeddings(place / "private.npz")
    synthesize(place / "private.npz", out=place / "embeddings", epsilon=50, count=600, **given)
    source = class_folders(place / "scans", shape=(16, 16, 1))
    synthesize(source, out=place / "images", epsilon=50, count=40, **given)
    unlabelled = {**given, "settings": {**QUICK, "conditional": False}}
    synthesize(place / "private.npz", out=place / "one", epsilon=1.0, **unlabelled)
    return place


def test_a_model_of_embeddings_finds_the_classes_of_real_ones(site: Path, tmp_path: Path) -> None:
    trained = train_classifier(
        site / "embeddings", export=tmp_path / "model.onnx", epochs=12, **SILENT
    )
    assert (trained.network, trained.rows, trained.source) == ("two-layer", 600, "embeddings")
    session = onnxruntime.InferenceSession(trained.path)
    with np.load(embeddings(tmp_path / "test.npz", seed=9)) as archive:
        values, labels = archive["embeddings"], archive["labels"]
    (scores,) = session.run(None, {"embeddings": values})
    facts = session.get_modelmeta().custom_metadata_map
    classes = json.loads(facts["classes"])
    assert (np.array(classes)[scores.argmax(axis=1)] == labels).mean() > 0.8
    words = "epsilon 50, delta 1e-05, unit: one embedding, adjacency: add-remove"
    assert facts["guarantee"] == words
    assert facts["trained on"] == "samples"  # as of every network
    assert facts["input"] == f"float32 embeddings of {values.shape[1]} numbers"


def test_without_pytorch_its_lack_is_said_and_not_another_size(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for network in (None, "discriminant"):
        with pytest.raises(MissingExtra, match=r"understudy\[torch\]"):
            train_classifier(site / "images", export=tmp_path / "model.onnx", network=network)
    assert "size" not in capsys.readouterr().err


def test_no_model_carries_the_guarantee_of_a_release_that_was_changed(
    site: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(site / "embeddings", tmp_path / "out")
    statement = out / "release" / "privacy.json"
    content = json.loads(statement.read_text())
    content["guarantee"]["epsilon"] = 0.5
    statement.write_text(json.dumps(content))
    for origin in ("samples", "statistics"):
        with pytest.raises(RunError, match="no sound release"):
            train_classifier(out, export=tmp_path / "m.onnx", from_=origin, **SILENT)
    assert not (tmp_path / "m.onnx").exists()


def test_the_file_computes_what_the_network_does(site: Path, tmp_path: Path) -> None:
    trained = train_classifier(site / "embeddings", export=tmp_path / "m.onnx", epochs=2, **SILENT)
    (batch,) = open_source(site / "embeddings" / "release").batches(1000)
    known = train("two-layer", batch.values, batch.labels, classes=3, epochs=2)
    (scores,) = onnxruntime.InferenceSession(trained.path).run(None, {"embeddings": batch.values})
    exact = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(exact, known.probabilities(batch.values), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("network", sorted(set(TRAINED) & set(IMAGES)))
def test_every_network_that_is_offered_can_be_written(network: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 1), dtype=np.uint8)
    model = IMAGES[network][0]((16, 16, 1), 3).eval()
    classifier = untrained(network, model, images, 3)
    data = onnx_bytes(model, (16, 16, 1), classifier.mean.numpy(), classifier.gain.numpy())
    rows = images.transpose(0, 3, 1, 2).astype(np.float32)
    (scores,) = onnxruntime.InferenceSession(data).run(None, {"images": rows})
    assert (scores.argmax(axis=1) == classifier.predict(images)).all()


def test_a_release_of_images_trains_a_network(site: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"network": "cnn", "epochs": 1, **SILENT}
    trained = train_classifier(site / "images", export=tmp_path / "m.onnx", **given)
    assert (trained.network, trained.source, trained.shape) == ("cnn", "images", (16, 16, 1))
    rows = np.zeros((2, 1, 16, 16), np.float32)
    assert onnxruntime.InferenceSession(trained.path).run(None, {"images": rows})[0].shape == (2, 3)
