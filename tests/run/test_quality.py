"""``--quality``, and ``studio fit-niqe``: a pristine model of public images, in a file."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.run.samples import class_folders, quick_run

from understudy.core.errors import InputError
from understudy.data import open_source
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.quality_filter import fit_niqe_model
from understudy.steps.niqe import NiqeModel, fit_niqe, niqe
from understudy.steps.piqe import piqe

LEAVES = "procedural:leaves?count=120"


@pytest.mark.slow
def test_a_model_is_fitted_to_a_named_dataset_and_written(tmp_path):
    out = tmp_path / "pristine.npz"
    model = fit_niqe_model(LEAVES, out, 16)
    batches = [batch.values for batch in open_source(LEAVES).batches(50)]
    np.testing.assert_allclose(model.mu, fit_niqe(batches, block=16).mu)
    read = NiqeModel.load(out)
    assert read.block == 16
    np.testing.assert_array_equal(niqe(batches[0], read), niqe(batches[0], model))
    assert [entry.name for entry in tmp_path.iterdir()] == ["pristine.npz"]


# Runs


@pytest.fixture
def go(tmp_path):
    """Runs of clustering on noisy images of 32 x 32, decoded by ``embedded:dct``."""
    source = class_folders(tmp_path / "scans", {"cat": 40, "dog": 20}, (32, 32, 1))
    usual = {"settings": {"clusters": 1, "covariance": "diagonal"}, "count": 24}
    usual |= {"epsilon": 4000.0, "accept_epsilon": True}

    def run(out="out", **options):
        places = {"out": tmp_path / out, "ledger": str(tmp_path / f"{out}.db")}
        return quick_run(source, tmp_path, **usual | places | options)

    return run


def scores(result):
    return piqe(np.concatenate([b.values for b in open_source(result.release).batches(64)]))


def test_images_are_drawn_again_until_they_are_below_the_threshold(go):
    plain = go("plain")
    assert "quality" not in plain.facts
    assert not (plain.owner / "dropped.png").exists()
    threshold = float(np.quantile(scores(plain), 0.75))
    chosen = go("chosen", quality="piqe", quality_threshold=threshold)
    assert chosen.facts["rows"] == len(scores(chosen)) == 24
    assert (scores(chosen) >= threshold).sum() == chosen.facts["below_quality"] <= 6
    assert chosen.facts["images_left_out"] == chosen.facts["images_drawn"] - 24 > 0
    assert chosen.facts["images_per_embedding"] == 1  # embedded:dct has no randomness
    with Image.open(chosen.owner / "dropped.png") as sheet:
        assert sheet.size[0] >= 32
    assert not list(chosen.release.rglob("dropped*"))
    record = json.loads((chosen.release / "privacy.json").read_text())
    assert record["data"]["facts"]["quality"] == "piqe"


def test_a_threshold_that_nothing_reaches_leaves_the_best_and_says_so(go):
    result = go(quality="piqe", quality_threshold=-1.0)
    assert result.facts["rows"] == result.facts["below_quality"] == 24
    assert any("24 of 24 samples reach no PIQE below -1" in words for words in result.warnings)


@pytest.mark.slow
def test_niqe_is_fitted_to_the_public_images_of_the_run_or_read_from_a_file(go, tmp_path):
    fit_niqe_model(LEAVES, tmp_path / "leaves.npz", 16)
    for number, options in enumerate(
        [
            {"quality": f"niqe:{tmp_path / 'leaves.npz'}"},
            {"quality": "niqe", "public": "procedural:leaves?count=200&channels=1"},
        ]
    ):
        result = go(f"out-{number}", quality_threshold=1e3, **options)
        assert (result.facts["quality"], result.facts["rows"]) == ("niqe", 24)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quality_threshold": 20.0}, "--quality-threshold says how to choose by --quality"),
        ({"images_per_embedding": 2}, "--images-per-embedding says how to choose by --quality"),
        ({"quality": "piqe"}, "one image of each embedding, which is no choice"),
        ({"quality": "piqe", "images_per_embedding": 2}, "draws one image of an embedding"),
        ({"quality": "piqe", "quality_threshold": 20.0, "decoder": "none"}, "embeddings alone"),
        ({"quality": "niqe", "quality_threshold": 5.0}, "NIQE needs public images"),
        ({"quality": "piqe", "quality_threshold": 20.0, "size": 8}, "at least 16 x 16 pixels"),
    ],
)
def test_what_cannot_choose_is_refused_before_anything_is_spent(go, tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        go(**options)
    with Ledger(str(tmp_path / "out.db")) as ledger:
        assert list(ledger.rows()) == []
