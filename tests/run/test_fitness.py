"""``--quality-share``: planned, charged and stored as any stage, published with its interval."""

import errno
import json

import numpy as np
import pytest
from tests.run.samples import (
    class_folders,
    embeddings,
    killed_at,
    noisy_values,
    quick_run,
    with_manifest,
)  # fmt: skip

from understudy.backends.registry import load_encoder
from understudy.core.errors import ConfigError, RunStopped
from understudy.data import open_source
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.queries import RecallCounts
from understudy.report import read_record
from understudy.run import report

SIZES = {"cat": 200, "dog": 200, "eel": 60}


def run(source, folder, **options):
    """A quick run that pays for a measure of its quality."""
    return quick_run(source, folder, **{"count": 120, "quality_share": "10%", **options})


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    return class_folders(tmp_path_factory.mktemp("private") / "scans", SIZES)


@pytest.fixture(scope="module")
def folder(scans, tmp_path_factory):
    """Of a run that was stopped by a full disk before its documents, and resumed."""
    place = tmp_path_factory.mktemp("measured")
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        killed_at("understudy.release.documents.write_release_documents", full),
        pytest.raises(RunStopped, match=r"epsilon 8 was charged before this.*--resume"),
    ):
        run(scans, place)
    answers = noisy_values(place / "out")
    run(scans, place, resume=True)
    assert noisy_values(place / "out").keys() == answers.keys()
    assert all((noisy_values(place / "out")[stage] == answers[stage]).all() for stage in answers)
    return place


def test_it_is_a_stage_of_its_own_and_everything_is_charged_once(folder):
    record = json.loads((folder / "out" / "owner" / "run.json").read_text())
    stages = {stage["stage"]: stage for stage in record["receipt"]["stages"]}
    assert stages["quality"]["share"] == pytest.approx(0.1)
    assert stages["quality"]["size"] == 6
    assert sum(stage["share"] for stage in stages.values()) == pytest.approx(1)
    with Ledger(folder / "ledger.db") as ledger:
        (dataset,) = ledger.datasets()
        assert ledger.spent(dataset.id).epsilon == pytest.approx(8)
        charged = [row.data["stage"] for row in ledger.rows() if row.kind == "charge"]
    assert sorted(charged) == sorted(stages)
    assert noisy_values(folder / "out")["quality"].shape == (6, 1)
    assert not (folder / "out" / "owner" / "cache").exists()


def published(folder):
    return json.loads((folder / "out" / "release" / "privacy.json").read_text())


def test_what_is_published_is_near_the_truth_and_says_how_near(folder, scans):
    with np.load(folder / "out" / "owner" / "kept" / "quality-classifier.npz") as file:
        theta = file["theta"]
    encoder = load_encoder("embedded:dct", shape=(8, 8, 1))
    (batch,) = open_source(scans).batches(1000)
    predicted = (encoder.encode(batch.values) @ theta[:-1] + theta[-1]).argmax(1)
    truth = [np.mean(predicted[batch.labels == label] == label) for label in range(3)]
    quality = read_record(published(folder)).quality
    for (_, low, high), recall in zip(quality.recalls.values(), truth, strict=True):
        assert low - 0.05 <= recall <= high + 0.05
    _, low, high = quality.balanced_accuracy
    assert low - 0.02 <= np.mean(truth) <= high + 0.02
    assert 0.001 < high - low < 0.2
    assert quality.chance == pytest.approx(1 / 3)


def test_it_stands_in_every_public_document(folder):
    quality = read_record(published(folder)).quality
    assert published(folder)["quality"]["balanced_accuracy"] == list(quality.balanced_accuracy)
    card = (folder / "out" / "release" / "README.md").read_text()
    assert "softmax regression on embeddings by embedded:dct" in card
    page = report.write_public_report(folder / "out", folder / "page.html").read_text()
    for text in (page, (folder / "out" / "owner" / "report.html").read_text()):
        assert "Fitness for use" in text
        assert "eel" in text


@pytest.mark.parametrize("kind", ["embeddings", "units"])
def test_embeddings_and_units_of_several_images(tmp_path, kind):
    options = {
        "embeddings": {"source": embeddings(tmp_path / "x.npz", 200), "settings": {}},
        # A patient's images lie in all classes, so that it counts a part in each.
        "units": {"source": with_manifest(tmp_path / "flat"), "unit": "patient", "epsilon": 40.0},
    }[kind]
    result = run(options.pop("source"), tmp_path, **options)
    assert [*result.quality.recalls] == ["cat", "dog", "eel"]
    assert result.quality.balanced_accuracy[2] > 0.6


def test_images_of_a_method_without_an_encoder_are_refused_before_the_charge(scans, tmp_path):
    with pytest.raises(ConfigError, match=r"classifier of embeddings.*this method has no encoder"):
        run(scans, tmp_path, encoder="none")
    assert not (tmp_path / "out").exists()


def test_a_unit_of_several_records_counts_once():
    query = RecallCounts(np.array([[1.0, -1.0], [0.0, 0.0]]))
    values = np.array([[1.0], [1.0], [-1.0], [1.0]], dtype=np.float32)
    units = np.array([0, 0, 0, 1])
    grid = query.grid(5.0)
    total = query.integer_sum(values, np.array([0, 0, 0, 1]), units, grid) * grid
    assert total.ravel() == pytest.approx([1 / 3, 2 / 3, 1, 0], abs=1e-4)
