"""NIQE and PIQE agree with published implementations, know damage, and keep the better pictures.

Golden values come from outside, NIQE's from BasicSR 1.4.2, PIQE's from pypiqe 1.2 (with OpenCV
5.0.0), on Python 3.11:

    pip download --no-deps basicsr==1.4.2; pip install pypiqe==1.2 opencv-python-headless
    basicsr/metrics/niqe.py: niqe(image.astype(float), mu[None], cov, window, side, side)
                             calculate_niqe(bgr, 0)          (photographs)
    pypiqe.piqe(bgr or grey)

where the one file of BasicSR is run from the source, as its package needs torchvision. BasicSR's
luma and its half size are in float32, hence the tolerances.
"""

from functools import partial

import numpy as np
import pytest
from PIL import Image, ImageFilter

from understudy.data import open_source
from understudy.steps.mscn import gaussian_taps
from understudy.steps.niqe import NiqeModel, fit_niqe, niqe
from understudy.steps.piqe import piqe
from understudy.steps.quality import QualityFilter


def scramble(numbers):
    """Integers to integers below 2**32, the same on any machine."""
    mixed = numbers.astype(np.uint64) * np.uint64(2654435761) % np.uint64(2**32)
    mixed = (mixed ^ (mixed >> np.uint64(15))) * np.uint64(2246822519) % np.uint64(2**32)
    return mixed ^ (mixed >> np.uint64(13))


def texture(height, width, seed=0):
    """(height, width) uint8: hashed noise at three scales, a little smoothed, in integers only."""
    rows, columns = np.mgrid[: height + 2, : width + 2]
    total = np.zeros(rows.shape, dtype=np.int64)
    for step, weight in ((1, 1), (4, 2), (16, 3)):
        places = (rows // step * 4099 + columns // step) * 31 + step + 1_000_003 * seed
        total += weight * (scramble(places) >> np.uint64(24)).astype(np.int64)
    smooth = sum(total[i : i + height, j : j + width] for i in range(3) for j in range(3))
    return (smooth // 54).astype(np.uint8)


GREY = texture(104, 136)[None, :, :, None]
COLOUR = np.stack([texture(104, 136, seed) for seed in range(3)], axis=-1)[None]
HALF_NOISE = GREY.copy()
HALF_NOISE[0, :, 64:, 0] = scramble(np.arange(104 * 72).reshape(104, 72)) >> np.uint64(24)

PHOTOS = {  # file: (NIQE, PIQE)
    "coco_000000010005.jpg": (3.7636355567769066, 29.975647977955656),
    "coco_000000010249.jpg": (2.183223546460614, 18.564341352323336),
    "oi_0a7c597abf1e90d4.jpg": (5.88488570354113, 50.07752343697591),
}


def made_up_model(block):
    window = np.outer(gaussian_taps(), gaussian_taps())
    cov = np.diag(np.linspace(0.02, 0.2, 36)) + 0.01
    return NiqeModel(np.linspace(0.2, 2, 36), cov, window, block)


@pytest.fixture(scope="module")
def published(shared_data, missing):
    path = shared_data / "models" / "niqe_pris_params.npz"
    if not path.is_file():
        missing("data", "needs ../shared/data/models/niqe_pris_params.npz (BasicSR's)")
    return NiqeModel.load(path)


@pytest.fixture(scope="module")
def photos(shared_data, missing):
    """File name to (1, height, width, 3)."""
    folder = shared_data / "images" / "photos" / "img"
    paths = sorted(folder.glob("*.jpg"))
    if not PHOTOS.keys() <= {path.name for path in paths}:
        missing("data", "needs the photographs of ../shared/data/images/photos")
    chosen = [path for path in paths[:12] if path.name not in PHOTOS]
    chosen += [folder / name for name in PHOTOS]
    return {path.name: np.asarray(Image.open(path).convert("RGB"))[None] for path in chosen}


def clouds(count, seed, side=96):
    """(count, side, side, 1) uint8 noise with a spectrum as steep as photographs have."""
    rng = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    frequency[0, 0] = np.inf
    waves = rng.standard_normal((2, count, *frequency.shape))
    noise = np.fft.irfft2((waves[0] + 1j * waves[1]) * frequency**-1.5, s=(side, side))
    noise *= 45 / noise.std(axis=(1, 2), keepdims=True)
    return np.clip(128 + noise, 0, 255).round().astype(np.uint8)[..., None]


@pytest.fixture(scope="module")
def model():
    return fit_niqe([clouds(60, seed=0)], block=16)


@pytest.fixture(scope="module")
def leaves():
    """(160, 64, 64, 3)."""
    return next(open_source("procedural:leaves?count=160").batches(160)).values


def blurred(images, radius):
    return each(images, lambda image: image.filter(ImageFilter.GaussianBlur(radius)))


def each(images, change):
    grey = images.shape[3] == 1
    made = [np.asarray(change(Image.fromarray(i[..., 0] if grey else i))) for i in images]
    return np.stack(made).reshape(images.shape)


# Agreement with published implementations


@pytest.mark.parametrize(
    ("images", "block", "golden"),
    [
        (GREY, 16, 19.744111724455426),
        (GREY, 32, 24.05316697222394),
        (COLOUR, 32, 23.237714391899907),
    ],
    ids=["small blocks", "grey", "colour"],
)
def test_niqe_is_basicsr_s(images, block, golden):
    assert niqe(images, made_up_model(block))[0] == pytest.approx(golden, abs=2e-5)


@pytest.mark.parametrize(
    ("images", "golden"),
    [(GREY, 60.03002488084478), (COLOUR, 60.69355951958727), (HALF_NOISE, 76.92811695419269)],
    ids=["grey", "colour", "noise"],
)
def test_piqe_is_pypiqe_s(images, golden):
    assert piqe(images)[0] == pytest.approx(golden, abs=1e-9)


def test_photographs_score_as_published(photos, published):
    for name, (its_niqe, its_piqe) in PHOTOS.items():
        assert niqe(photos[name], published)[0] == pytest.approx(its_niqe, abs=4e-3)
        assert piqe(photos[name])[0] == pytest.approx(its_piqe, abs=1e-6)


def test_a_picture_scores_the_same_in_any_batch(leaves, model):
    images = leaves
    for score in (partial(niqe, model=model), piqe):
        alone = np.concatenate([score(image[None]) for image in images[100:105]])
        # 160 are more than are computed at once.
        np.testing.assert_allclose(score(images)[100:105], alone, rtol=1e-9)
        assert score(images[:0]).shape == (0,)


# Fitting and keeping models


def test_a_fit_does_not_depend_on_batches(model):
    again = fit_niqe(np.split(clouds(60, seed=0), [1, 20, 20, 55]), block=16)
    np.testing.assert_allclose(again.mu, model.mu, rtol=1e-10)
    np.testing.assert_allclose(again.cov, model.cov, rtol=1e-7, atol=1e-12)
    assert np.linalg.eigvalsh(model.cov).min() > 0


def test_a_fit_reads_the_sharp_blocks_only():
    sharp = clouds(20, seed=4, side=128)
    soft = blurred(sharp, 3)
    half = np.concatenate([sharp[:, :, :64], soft[:, :, 64:]], axis=2)
    wanted, chosen, blunt = (fit_niqe([each], block=16).mu for each in (sharp, half, soft))
    assert np.abs(chosen - wanted).max() < 0.2 * np.abs(blunt - wanted).max()


def test_a_model_survives_its_file(tmp_path, model, leaves):
    path = tmp_path / "pristine.npz"
    model.save(path)
    again = NiqeModel.load(path)
    assert again.block == 16
    np.testing.assert_array_equal(niqe(leaves, again), niqe(leaves, model))
    assert [entry.name for entry in tmp_path.iterdir()] == ["pristine.npz"]


# Keeping the better ones


def brightness(images):
    return images.mean(axis=(1, 2, 3))


def plain(*values):
    return np.stack([np.full((16, 16, 1), value, dtype=np.uint8) for value in values])


def chosen(score, images, **settings):
    """What a filter takes of (images of an embedding, n, ...) images."""
    quality = QualityFilter("test", score, images_per_embedding=len(images), **settings)
    return quality(images.shape[1], lambda rows, number, image: images[image, rows]), quality


def test_the_better_of_several_images_is_taken_and_the_first_of_equals():
    images = np.stack([plain(50, 10, 40), plain(20, 30, 40), plain(30, 5, 41)])
    images[1, 2, 0, 0] += 1  # as bright as the first one, but for
    images[1, 2, 0, 1] -= 1  # two pixels
    best, quality = chosen(brightness, images)
    np.testing.assert_array_equal(brightness(best), [20, 5, 40])
    np.testing.assert_array_equal(best[2], images[0, 2])
    assert quality.draws == 9
    assert [score for score, _ in quality.worst] == [50, 41, 40, 30, 30, 10]


def test_a_score_that_is_no_number_is_worst():
    values = {1: np.nan, 2: 7.0, 3: np.inf, 4: np.nan}
    images = np.stack([plain(1, 3, 4), plain(2, 2, 4)])
    score = lambda batch: np.array([values[i] for i in brightness(batch)])  # noqa: E731
    best, quality = chosen(score, images, threshold=8.0)
    np.testing.assert_array_equal(brightness(best), [2, 2, 4])
    assert quality.unmet == 1
