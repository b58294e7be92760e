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

import io
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image, ImageFilter

from understudy.core.errors import InputError, SourceError
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


def noisy(images, sd):
    noise = np.random.default_rng(0).normal(0, sd, images.shape)
    return np.clip(images + noise, 0, 255).round().astype(np.uint8)


def compressed(images, quality):
    def again(image):
        stored = io.BytesIO()
        image.save(stored, "JPEG", quality=quality)
        return Image.open(stored)

    return each(images, again)


def each(images, change):
    grey = images.shape[3] == 1
    made = [np.asarray(change(Image.fromarray(i[..., 0] if grey else i))) for i in images]
    return np.stack(made).reshape(images.shape)


def rises(score, images, damage, levels):
    means = [score(images).mean(), *(score(damage(images, level)).mean() for level in levels)]
    return all(low < high for low, high in pairwise(means))


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
    [
        (GREY, 60.03002488084478),
        (COLOUR, 60.69355951958727),
        (HALF_NOISE, 76.92811695419269),
    ],
    ids=["grey", "colour", "noise"],
)
def test_piqe_is_pypiqe_s(images, golden):
    assert piqe(images)[0] == pytest.approx(golden, abs=1e-9)


def test_photographs_score_as_published(photos, published):
    for name, (its_niqe, its_piqe) in PHOTOS.items():
        assert niqe(photos[name], published)[0] == pytest.approx(its_niqe, abs=4e-3)
        assert piqe(photos[name])[0] == pytest.approx(its_piqe, abs=1e-6)


# What the scores know


def test_photographs_get_worse_by_blur_noise_and_jpeg(photos, published):
    images = np.concatenate(
        [photo[:, :224, :288] for photo in photos.values() if photo.shape[2] >= 288]
    )
    for score in (partial(niqe, model=published), piqe):
        assert rises(score, images, blurred, (1, 2, 3))
        assert rises(score, images, noisy, (10, 25, 50))
        assert rises(score, images, compressed, (30, 20, 10))


def test_clouds_get_worse_by_blur_noise_and_jpeg(model):
    images = clouds(20, seed=1)
    for score in (partial(niqe, model=model), piqe):
        assert rises(score, images, blurred, (1, 2))
        assert rises(score, images, noisy, (15, 25, 50))
        assert rises(score, images, compressed, (30, 20, 10, 5))


def test_flat_pictures_are_the_worst(model):
    """One textured block is enough for a score."""
    values = np.arange(256, dtype=np.uint8)
    flat = np.broadcast_to(values[:, None, None, None], (256, 48, 48, 1)).copy()
    assert np.isinf(niqe(flat, model)).all()
    np.testing.assert_allclose(piqe(flat), 100)
    flat[:, 16:32, 16:32] = clouds(1, seed=3)[0, :16, :16]
    assert np.isfinite(niqe(flat, model)).all()


def test_brightness_alone_changes_nothing(model):
    """In flat patches pixels differ from their mean by rounding, which must not be read."""
    image = np.full((1, 64, 64, 1), 100, dtype=np.uint8)
    image[:, ::3, :32] += 20
    image[:, 10:60, 20:50] = clouds(1, seed=5)[:, :50, :30] // 2 + 40
    brighter = np.concatenate([image + np.uint8(step) for step in range(60)])
    np.testing.assert_allclose(niqe(brighter, model), niqe(image, model)[0], rtol=1e-7)


def test_a_picture_scores_the_same_in_any_batch(leaves, model):
    images = leaves
    for score in (partial(niqe, model=model), piqe):
        alone = np.concatenate([score(image[None]) for image in images[100:105]])
        # 160 are more than are computed at once.
        np.testing.assert_allclose(score(images)[100:105], alone, rtol=1e-9)
        assert score(images[:0]).shape == (0,)


def test_piqe_takes_grey_as_its_equal_colours():
    np.testing.assert_array_equal(piqe(np.repeat(GREY, 3, axis=3)), piqe(GREY))


# Fitting and keeping models


def test_a_fit_does_not_depend_on_batches(model):
    again = fit_niqe(np.split(clouds(60, seed=0), [1, 20, 20, 55]), block=16)
    np.testing.assert_allclose(again.mu, model.mu, rtol=1e-10)
    np.testing.assert_allclose(again.cov, model.cov, rtol=1e-7, atol=1e-12)
    assert np.linalg.eigvalsh(model.cov).min() > 0


def test_a_fit_reads_the_sharp_blocks_only():
    sharp = clouds(20, seed=4, side=128)
    half = sharp.copy()
    half[:, :, 64:] = blurred(sharp, 3)[:, :, 64:]
    wanted, chosen, every = (
        fit_niqe([images], block=16, sharpness=share).mu
        for images, share in ((sharp, 0.6), (half, 0.6), (half, 0.0))
    )
    assert np.abs(chosen - wanted).max() < 0.2 * np.abs(every - wanted).max()


def test_a_fit_takes_images_of_several_sizes(leaves):
    mixed = [leaves[:100], leaves[100:, :48, :33]]
    assert fit_niqe(mixed, block=16).block == 16


def test_a_model_survives_its_file(tmp_path, model, leaves):
    path = tmp_path / "pristine.npz"
    model.save(path)
    again = NiqeModel.load(path)
    assert again.block == 16
    np.testing.assert_array_equal(niqe(leaves, again), niqe(leaves, model))
    assert [entry.name for entry in tmp_path.iterdir()] == ["pristine.npz"]


def test_a_model_without_a_block_has_the_published_one(tmp_path, model):
    path = tmp_path / "basicsr.npz"
    np.savez(
        path, mu_pris_param=model.mu[None], cov_pris_param=model.cov, gaussian_window=model.window
    )
    assert NiqeModel.load(path).block == 96


def files_that_are_no_model(folder):
    arrays = {"mu_pris_param": np.zeros((1, 36)), "gaussian_window": np.ones((7, 7)) / 49}
    np.savez(folder / "missing.npz", **arrays)
    np.savez(folder / "shape.npz", cov_pris_param=np.eye(35), **arrays)
    np.savez(folder / "nan.npz", cov_pris_param=np.full((36, 36), np.nan), **arrays)
    np.savez(folder / "block.npz", cov_pris_param=np.eye(36), block_size=17, **arrays)
    pickled = np.array([{"a": 1}], dtype=object)
    np.savez(folder / "pickle.npz", cov_pris_param=pickled, **arrays)
    np.save(folder / "array.npy", np.zeros(3))
    whole = (folder / "shape.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "text.npz").write_text("not a model")
    return {
        "absent.npz": "no such file",
        "missing.npz": "no cov_pris_param",
        "shape.npz": r"\(36, 36\), found \(36,\) and \(35, 35\)",
        "nan.npz": "not finite",
        "block.npz": "even number of pixels from 16, found 17",
        "pickle.npz": "allow_pickle=False",
        "array.npy": "single array",
        "cut.npz": "damaged",
        "text.npz": "damaged",
    }


def test_what_is_no_model_is_refused(tmp_path):
    for name, words in files_that_are_no_model(tmp_path).items():
        with pytest.raises(SourceError, match=words) as refusal:
            NiqeModel.load(tmp_path / name)
        assert refusal.value.path == tmp_path / name


def test_a_model_that_cannot_be_written_says_so(tmp_path, model):
    with pytest.raises(SourceError, match=r"cannot be written: No such file or directory"):
        model.save(tmp_path / "nowhere" / "model.npz")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match="cannot be written: Is a directory"):
        model.save(tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_window_that_is_no_product_is_refused(model):
    window = model.window.copy()
    window[0, 0] += 0.01
    with pytest.raises(InputError, match="product of one row and itself"):
        NiqeModel(model.mu, model.cov, window, 16)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 64, 64, 3), r"64 x 64 pixels for a model of 96 x 96.* such as 16 "),
        ((2, 96, 96, 3), r"2 whole block.* such as 24 "),
        ((2, 24, 24, 3), r"use larger images, at least 32 x 32, or PIQE"),
    ],
)
def test_images_too_small_for_a_model_say_which_would_do(shape, words):
    with pytest.raises(InputError, match=words):
        niqe(np.zeros(shape, dtype=np.uint8), made_up_model(96))


@pytest.mark.parametrize("score", [partial(niqe, model=made_up_model(16)), piqe])
def test_only_images_are_scored(score):
    for images in (np.zeros((2, 64, 64), np.uint8), np.zeros((2, 64, 64, 3), np.float32)):
        with pytest.raises(InputError, match="takes uint8 images of shape"):
            score(images)


def test_the_smallest_images():
    small = texture(16, 32)[None, :, :, None]
    assert np.isfinite(niqe(small, made_up_model(16))).all()
    assert 0 < piqe(small[:, :, :16])[0] <= 100
    with pytest.raises(InputError, match="at least 16 x 16 pixels, found 15 x 32"):
        piqe(small[:, :15])


def test_a_fit_needs_enough_sharp_blocks(leaves):
    with pytest.raises(InputError, match="more than 36 sharp blocks, found 0"):
        fit_niqe([np.full((50, 64, 64, 3), 7, dtype=np.uint8)], block=16)
    with pytest.raises(InputError, match="more than 36 sharp blocks, found 0"):
        fit_niqe([], block=16)
    for block in (15, 14):
        with pytest.raises(InputError, match=f"even number of pixels from 16, found {block}"):
            fit_niqe([leaves], block=block)
    with pytest.raises(InputError, match="sharpness is a share"):
        fit_niqe([leaves], block=16, sharpness=1.0)


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
    assert quality.drawn == 9
    assert [score for score, _ in quality.worst] == [50, 41, 40, 30, 30, 10]


def test_a_score_that_is_no_number_is_worst():
    values = {1: np.nan, 2: 7.0, 3: np.inf, 4: np.nan}
    images = np.stack([plain(1, 3, 4), plain(2, 2, 4)])
    score = lambda batch: np.array([values[i] for i in brightness(batch)])  # noqa: E731
    best, quality = chosen(score, images, threshold=8.0)
    np.testing.assert_array_equal(brightness(best), [2, 2, 4])
    assert quality.unmet == 1


def test_damaged_images_are_left_out(model):
    good = clouds(20, seed=2)
    for score in (partial(niqe, model=model), piqe):
        best, _ = chosen(score, np.stack([blurred(good, 1), good]))
        np.testing.assert_array_equal(best, good)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one image of each embedding, which is no choice"),
        ({"threshold": float("inf")}, "finite number, found inf"),
        ({"threshold": 3.0, "images_per_embedding": 0}, "1 or more, found 0"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        QualityFilter("piqe", brightness, **options)


def test_a_score_gives_one_number_an_image():
    with pytest.raises(InputError, match=r"one number an image, 2 here; found shape \(1,\)"):
        chosen(lambda images: np.zeros(1), np.stack([plain(1, 2)] * 2))
