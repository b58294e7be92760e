"""Networks that are trained: their weights are a vector, and a record's gradient is its own."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from understudy.backends.registry import load_model  # noqa: E402
from understudy.core.denoising import NoisyImages  # noqa: E402
from understudy.core.errors import BackendError  # noqa: E402
from understudy.core.ports import Denoiser  # noqa: E402

CLASSES, RECORDS, DRAWS = ("cat", "cow", "dog", "hen"), 5, 3
NAME = "embedded:denoiser?width=8&depth=1"
PIXELS = {"embedded": (8, 12, 3), "ddpm": (12, 10, 3), "sd15": (20, 24, 1), "dit": (32, 32, 3)}

pytestmark = pytest.mark.usefixtures("one_thread")


def denoiser_of(kind, models):
    if kind == "embedded":
        return load_model(Denoiser, NAME)
    pytest.importorskip("diffusers")
    from tests.backends.tiny_models import diffusion as tiny

    return load_model(Denoiser, f"hf:{tiny.saved(kind, models)}?rank=2")


@pytest.fixture(params=PIXELS)
def kind(request):
    return request.param


@pytest.fixture
def network(kind, models):
    return denoiser_of(kind, models).network(PIXELS[kind], CLASSES)


@pytest.fixture
def weights(network):
    """Weights by which every layer has a part in the answer."""
    weights = network.initial(seed=0)
    return weights + np.random.default_rng(0).normal(0, 0.2, len(weights)).astype(np.float32)


def asked(network, seed=0):
    """Noisy images, classes and targets of records."""
    rng, shape = np.random.default_rng(seed), (RECORDS, DRAWS, *network.shape)
    images, denoised, targets = rng.normal(size=(3, *shape)).astype(np.float32)
    sigmas = np.exp(rng.normal(size=shape[:2])).astype(np.float32)
    labels = rng.integers(0, len(CLASSES), RECORDS)
    return NoisyImages(images, denoised, sigmas, 0.5), labels, targets


def of_records(noisy, rows):
    """Some records, or some images of one."""
    parts = (noisy.images, noisy.denoised, noisy.sigmas)
    return NoisyImages(*(part[rows] for part in parts), noisy.deviation)


def error(network, weights, record):
    """The mean squared error of one record."""
    noisy, labels, targets = asked(network)
    told = network.predict(weights, of_records(noisy, record), np.repeat(labels[record], DRAWS))
    return float(np.square(told.astype(np.float64) - targets[record]).mean())


def test_what_it_begins_with_follows_from_the_seed_alone(network):
    weights = network.initial(seed=0)
    torch.manual_seed(1)
    assert np.array_equal(weights, network.initial(seed=0))
    assert not np.array_equal(weights, network.initial(seed=1))
    assert weights.shape == (network.size,)


def test_a_gradient_is_that_of_the_records_error(network, weights):
    gradients = network.gradients(weights, *asked(network), network.size)
    assert gradients.shape == (RECORDS, network.size)
    direction = np.random.default_rng(1).normal(size=network.size).astype(np.float32)
    direction *= 1e-2 / np.linalg.norm(direction)
    for record in range(RECORDS):
        ahead, behind = (error(network, weights + s * direction, record) for s in (1, -1))
        slope = float(gradients[record].astype(np.float64) @ direction)
        assert (ahead - behind) / 2 == pytest.approx(slope, rel=0.02, abs=2e-6)


def test_a_gradient_is_the_same_bits_beside_other_records_and_at_other_places(network, weights):
    noisy, labels, targets = asked(network)
    one = network.gradients(weights, noisy, labels, targets, network.size)
    back = slice(None, None, -1)
    parts = of_records(noisy, back), labels[back].copy(), targets[back].copy()
    assert np.array_equal(one, network.gradients(weights, *parts, network.size)[back])
    others, other_labels, other_targets = asked(network, 9)
    images = {
        part: np.concatenate([getattr(noisy, part)[:1], getattr(others, part)[1:]])
        for part in ("images", "denoised", "sigmas")
    }
    mixed_labels = np.concatenate([labels[:1], other_labels[1:]])
    mixed_targets = np.concatenate([targets[:1], other_targets[1:]])
    mixed = replace(others, **images), mixed_labels, mixed_targets
    assert np.array_equal(network.gradients(weights, *mixed, network.size)[0], one[0])


def test_the_weights_that_adapt_it_are_the_last(network, weights):
    assert 0 < network.adapted <= network.size
    whole = network.gradients(weights, *asked(network), network.size)
    np.testing.assert_allclose(
        network.gradients(weights, *asked(network), network.adapted),
        whole[:, -network.adapted :],
        rtol=1e-4,
        atol=1e-7,
    )


def test_a_class_has_its_own_answer(network, weights):
    noisy = of_records(asked(network)[0], (slice(1), 0))
    images = [network.predict(weights, noisy, np.array([label])) for label in range(len(CLASSES))]
    assert len({image.tobytes() for image in images}) == len(CLASSES)


def test_images_are_rows_and_rows_are_images_each_by_itself(kind, network):
    images = np.zeros((3, *PIXELS[kind]), np.uint8)
    images[1:] = np.linspace(0, 255, images[0].size).reshape(images[0].shape)
    rows = network.rows(images)
    assert rows.shape == (3, np.prod(network.shape))
    assert np.array_equal(rows[1], rows[2])
    back = network.images(rows)
    assert back.dtype == np.uint8
    assert back.shape == images.shape
    if len(network.shape) == 3 and max(network.shape) >= 8 and kind in ("embedded", "ddpm"):
        assert np.abs(back[1].astype(float) - images[1]).mean() < 40
        assert not back[0].any()


def test_threads_side_by_side_give_the_gradients_of_one(network, weights):
    """Without a lock more than half of these calls gave others, or ended with an error."""
    calls = [asked(network, seed) for seed in range(4)]
    expected = [network.gradients(weights, *call, network.size) for call in calls]

    def same(number):
        gradients = (network.gradients(weights, *calls[number], network.size) for _ in range(8))
        return [np.array_equal(one, expected[number]) for one in gradients]

    with ThreadPoolExecutor(len(calls)) as pool:
        assert all(map(all, pool.map(same, range(len(calls)))))


def test_the_embedded_one_answers_zero_untrained_and_few_weights_adapt_it(models):
    network = denoiser_of("embedded", models).network(PIXELS["embedded"], CLASSES)
    noisy, labels, _ = asked(network)
    told = network.predict(network.initial(seed=0), of_records(noisy, (slice(None), 0)), labels)
    assert not told.any()
    assert network.adapted < network.size / 2


def test_its_name_loads_it_again_and_other_options_are_refused(models):
    denoiser = denoiser_of("embedded", models)
    assert load_model(Denoiser, denoiser.name).name == denoiser.name == NAME
    with pytest.raises(BackendError, match="multiple of 8"):
        load_model(Denoiser, "embedded:denoiser?width=9")


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_untrained_a_model_of_the_hub_denoises_as_its_own_schedule_says(tmp_path, prediction):
    diffusers = pytest.importorskip("diffusers")
    from tests.backends.tiny_models import diffusion as tiny

    whole = tiny.ddpm()
    schedule = diffusers.DDIMScheduler(prediction_type=prediction, clip_sample=False)
    diffusers.DDPMPipeline(whole.unet, schedule).save_pretrained(tmp_path)
    network = load_model(Denoiser, f"hf:{tmp_path}").network((8, 8, 1), CLASSES)
    images = np.random.default_rng(0).normal(size=(4, 1, 8, 8)).astype(np.float32)
    labels, weights = np.arange(4), network.initial(seed=0)
    schedule.set_timesteps(1000)
    for time in (0, 300, 999):
        alpha = float(schedule.alphas_cumprod[time])
        sigmas = np.full(4, np.sqrt((1 - alpha) / alpha), np.float32)
        noisy = NoisyImages(images, np.zeros_like(images), sigmas, 0.5)
        gate = 1 / (1 + np.clip(sigmas / noisy.deviation, np.exp(-4), np.exp(4)))
        scales = (noisy.scales / gate)[:, None, None, None]
        told = network.predict(weights, noisy, labels) * scales
        scaled = torch.from_numpy(images) * alpha**0.5
        with torch.no_grad():
            answer = whole.unet(scaled, time).sample
        expected = schedule.step(answer, time, scaled).pred_original_sample.numpy()
        np.testing.assert_allclose(told, expected, rtol=1e-3, atol=2e-3 * sigmas[0])
    above = NoisyImages(images, images / 2, 2 * sigmas, 0.5)
    assert not network.predict(weights, above, labels).any()  # the Gaussian alone


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("sdxl", "", "it is a StableDiffusionXLPipeline"),
        ("flux", "", "of a FluxTransformer2DModel"),
        ("sd21-unclip", "", "it is a StableUnCLIP"),
        ("sd15-inpainting", "", "it is a StableDiffusionInpaintPipeline"),
        ("kl", "", "single network"),
        ("ddpm", "?compile=true", "neither compiled nor offloaded"),
        ("ddpm", "?rank=0", "rank"),
    ],
)
def test_what_cannot_be_adapted_says_why(models, kind, options, message):
    pytest.importorskip("diffusers")
    from tests.backends.tiny_models import diffusion as tiny

    with pytest.raises(BackendError, match=message):
        load_model(Denoiser, f"hf:{tiny.saved(kind, models)}{options}")
