"""``--quality``, and ``studio fit-niqe``: a pristine model of public images, in a file."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.run.samples import class_folders, embeddings

from understudy import synthesize
from understudy.core.errors import ConfigError, InputError, SourceError
from understudy.data import open_source
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.quality_filter import fit_niqe_model
from understudy.steps.niqe import NiqeModel, fit_niqe, niqe
from understudy.steps.piqe import piqe

LEAVES = "procedural:leaves?count=120"


def test_a_model_is_fitted_to_a_named_dataset_and_written(tmp_path):
    out = tmp_path / "pristine.npz"
    model = fit_niqe_model(LEAVES, out, 16)
    batches = [batch.values for batch in open_source(LEAVES).batches(50)]
    np.testing.assert_allclose(model.mu, fit_niqe(batches, block=16).mu)
    read = NiqeModel.load(out)
    assert read.block == 16
    np.testing.assert_array_equal(niqe(batches[0], read), niqe(batches[0], model))
    assert [entry.name for entry in tmp_path.iterdir()] == ["pristine.npz"]


def test_a_folder_of_pictures_of_several_sizes_is_read_at_one(tmp_path):
    folder = tmp_path / "public"
    folder.mkdir()
    images = np.concatenate([batch.values for batch in open_source(LEAVES).batches(50)])
    for number, image in enumerate(images):
        side = 64 + 8 * (number % 3)
        Image.fromarray(image).resize((side, side)).save(folder / f"{number}.png")
    with pytest.raises(SourceError, match="size"):
        fit_niqe_model(str(folder), tmp_path / "model.npz", 16)
    model = fit_niqe_model(str(folder), tmp_path / "model.npz", 16, size=64)
    noise = np.random.default_rng(0).integers(0, 256, (20, 64, 64, 3), dtype=np.uint8)
    assert np.median(niqe(images, model)) < niqe(noise, model).min()


def test_photographs_score_better_than_their_blurred_selves(shared_data, missing, tmp_path):
    photos = shared_data / "images" / "photos" / "img"
    if not photos.is_dir():
        missing("data", "needs the photographs of ../shared/data/images/photos")
    model = fit_niqe_model(str(photos), tmp_path / "photos.npz", 32, size=192)
    images = next(open_source(str(photos), size=192).batches(16)).values
    soft = np.stack(
        [np.asarray(Image.fromarray(i).resize((48, 48)).resize((192, 192))) for i in images]
    )
    assert (niqe(images, model) < niqe(soft, model)).mean() > 0.9


@pytest.mark.parametrize(
    ("out", "block", "words"),
    [
        ("model.npz", 15, "even number of pixels from 16, found 15"),
        ("model.pt", 16, r"written to an \.npz file"),
        ("nowhere/model.npz", 16, "there is no folder"),
        ("model.npz", 96, "1 whole block.*64 x 64 pixels for a model of 96 x 96"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_written(tmp_path, out, block, words):
    with pytest.raises(InputError, match=words):
        fit_niqe_model(LEAVES, tmp_path / out, block)
    assert list(tmp_path.iterdir()) == []


def test_embeddings_are_no_pictures(tmp_path):
    np.save(tmp_path / "cloud.npy", np.zeros((50, 8), dtype=np.float32))
    with pytest.raises(ConfigError, match="holds embeddings; NIQE is fitted to public images"):
        fit_niqe_model(str(tmp_path / "cloud.npy"), tmp_path / "model.npz", 16)


# Runs


@pytest.fixture
def go(tmp_path):
    """Runs of clustering on noisy images of 32 x 32, decoded by ``embedded:dct``."""
    source = class_folders(tmp_path / "scans", {"cat": 40, "dog": 20}, (32, 32, 1))

    def run(out="out", source=source, **options):
        settings = {"clusters": 1, "covariance": "diagonal"}
        options = {"count": 24, "settings": settings, **options}
        ledger = str(tmp_path / f"{out}.db")
        return synthesize(
            source,
            out=tmp_path / out,
            ledger=ledger,
            epsilon=4000.0,
            accept_epsilon=True,
            **options,
        )

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
        ({"quality": "brisque", "quality_threshold": 1.0}, "quality is piqe, niqe or niqe:FILE"),
        ({"quality": "piqe"}, "one image of each embedding, which is no choice"),
        ({"quality": "piqe", "images_per_embedding": 2}, "draws one image of an embedding"),
        ({"quality": "piqe", "quality_threshold": 20.0, "decoder": "none"}, "embeddings alone"),
        ({"quality": "niqe", "quality_threshold": 5.0}, "NIQE needs public images"),
        ({"quality": "niqe:nowhere.npz", "quality_threshold": 5.0}, "there is no such file"),
        ({"quality": "piqe", "quality_threshold": 20.0, "size": 8}, "at least 16 x 16 pixels"),
    ],
)
def test_what_cannot_choose_is_refused_before_anything_is_spent(go, tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        go(**options)
    with Ledger(str(tmp_path / "out.db")) as ledger:
        assert list(ledger.rows()) == []


def test_embeddings_have_no_quality(go, tmp_path):
    with pytest.raises(ConfigError, match="embeddings alone"):
        go(source=embeddings(tmp_path / "v.npz"), quality="piqe", quality_threshold=9.0)
