"""``studio fit-niqe``: a pristine model of public images, in a file."""

import numpy as np
import pytest
from PIL import Image

from understudy.core.errors import ConfigError, InputError, SourceError
from understudy.data import open_source
from understudy.run.quality import fit_niqe_model
from understudy.steps.niqe import NiqeModel, fit_niqe, niqe

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
