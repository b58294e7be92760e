"""The diffusion about released Gaussians, and what is refused before anything is spent."""

import shutil
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from skimage.io import imread
from tests.run.samples import class_folders, quick_run

from understudy.core.errors import BackendError, ConfigError
from understudy.core.types import UnitCounts
from understudy.methods.base import Context
from understudy.methods.finetuning.algorithm import METHOD, network_of
from understudy.methods.finetuning.class_gaussians import ClassGaussians, gaussians_of
from understudy.methods.finetuning.edm import DenoisingLoss, Diffusion
from understudy.methods.finetuning.training import Adam

SHAPE = (2, 3, 1)


class Silent:
    """A network that changes nothing."""

    name, shape, size, adapted = "silent", SHAPE, 4, 4

    def predict(self, weights, noisy, labels):
        return np.zeros_like(noisy.images)

    def gradients(self, weights, noisy, labels, targets, last):
        return targets.reshape(len(targets), -1)[:, :last]


@pytest.fixture
def gaussians():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(6, 3)))[0]
    turns = np.stack([np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2)])
    parts = (rng.normal(size=(2, 6)), axes, turns, np.array([[2.0, 1.0, 0.5], [0.3, 0.2, 0.1]]))
    return ClassGaussians(*(part.astype(np.float32) for part in parts), rest=0.05)


@pytest.fixture
def diffusion(gaussians):
    return Diffusion(Silent(), gaussians, np.zeros(4, np.float32))


def covariance(gaussians, label):
    """Of a class, as a matrix."""
    root = gaussians.axes @ gaussians.turns[label] * np.sqrt(gaussians.variances[label])
    across = np.eye(6) - gaussians.axes @ gaussians.axes.T
    return (root @ root.T + gaussians.rest * across).astype(np.float64)


def test_the_denoiser_of_a_gaussian_is_its_posterior_mean(gaussians):
    rng = np.random.default_rng(1)
    noisy, sigmas = rng.normal(size=(8, 6)), np.geomspace(0.01, 30, 8)
    labels = np.arange(8) % 2
    denoised = gaussians.denoise(noisy.astype(np.float32), sigmas.astype(np.float32), labels)
    for row, sigma, label, result in zip(noisy, sigmas, labels, denoised, strict=True):
        spread, mean = covariance(gaussians, label), gaussians.means[label]
        expected = mean + spread @ np.linalg.solve(spread + sigma**2 * np.eye(6), row - mean)
        np.testing.assert_allclose(result, expected, atol=1e-4)


def test_samples_without_a_network_are_of_the_gaussians(diffusion, gaussians):
    labels, seeds = np.repeat([0, 1], 3000), np.arange(6000, dtype=np.uint64)
    samples = diffusion.sample(18, labels, seeds)
    for label in (0, 1):
        mine = samples[labels == label]
        np.testing.assert_allclose(mine.mean(axis=0), gaussians.means[label], atol=0.15)
        np.testing.assert_allclose(np.cov(mine.T), covariance(gaussians, label), atol=0.25)
    assert np.array_equal(diffusion.sample(18, labels[:5], seeds[:5]), samples[:5])


def test_a_records_noise_is_its_own_and_of_the_step(diffusion):
    records = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)
    labels = np.array([0, 1, 0, 1])
    loss = DenoisingLoss(diffusion, 2, b"1")
    together, alone = loss.gradients(records, labels), loss.gradients(records[2:3], labels[2:3])
    np.testing.assert_array_equal(together[2], alone[0])
    other = replace(loss, seed=b"2")
    assert not np.array_equal(other.gradients(records, labels), together)
    assert other.fingerprint != loss.fingerprint != replace(loss, multiplicity=3).fingerprint


def test_gaussians_of_images_have_their_moments_and_a_class_without_images_those_of_all():
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 2], [3000, 1000])
    scales = np.where(labels == 0, 0.3, 0.6)[:, None]
    images = (0.2 * labels[:, None] + scales * rng.normal(size=(4000, 40))).astype(np.float32)
    gaussians = gaussians_of(images, labels, 3)
    np.testing.assert_allclose(gaussians.means[0], images[:3000].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(gaussians.means[1], images.mean(axis=0), atol=1e-5)
    narrow, usual, wide = np.sqrt(gaussians.variances.mean(axis=1))
    assert narrow == pytest.approx(0.3, abs=0.03)
    assert usual == pytest.approx(0.4, abs=0.03)
    assert wide == pytest.approx(0.55, abs=0.05)


def test_adam_finds_a_minimum_and_its_average_follows():
    adam = Adam(np.zeros(2, np.float32), 300)
    for _ in range(300):
        adam.step(adam.weights - np.array([1.0, -2.0]), 0.05)
    np.testing.assert_allclose(adam.weights, [1, -2], atol=0.02)
    np.testing.assert_allclose(adam.average, [1, -2], atol=0.05)


def test_a_rate_that_is_advised_tells_the_number_of_units_to_a_factor_of_two():
    """Its first digit came of the exact number."""

    def advised(total):
        advice = METHOD.advise(None, UnitCounts(total, total))
        return None if advice is None else advice.value

    assert {advised(total) for total in range(46_400, 92_000, 400)} == {"0.00390625"}
    assert advised(1e6) == "0.000244140625"
    assert advised(2_000) is None


@pytest.mark.parametrize(
    ("settings", "width", "message"),
    [
        ({"steps": 10_000}, 512, "a smaller network"),
        ({"rate": 1.5}, 64, "rate"),
        ({"rate": 1e-6, "steps": 2}, 64, "delta.*without noise"),
        ({"rate": 1e-300}, 64, "delta.*without noise"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(tmp_path, settings, width, message):
    pytest.importorskip("torch")
    source = class_folders(tmp_path / "private", {"cat": 10, "dog": 10}, (16, 16, 1))
    with pytest.raises(ConfigError, match=message):
        quick_run(
            source,
            tmp_path,
            method="finetuning",
            denoiser=f"embedded:denoiser?width={width}",
            settings=settings,
        )
    assert not list(tmp_path.rglob("stages/*.npz"))


def test_a_network_that_lacks_a_part_is_refused_before_anything_is_spent():
    """A package's network without `images` was asked for them after the charge."""

    class Partial:
        name, licence = "other:partial", "none"

        def network(self, shape, classes):
            return Silent()

    context = Context((16, 16, 1), public=True, mu=1.0, denoiser=Partial())
    with pytest.raises(BackendError, match="Silent as its network, which lacks a part"):
        network_of(context)


def test_embeddings_and_a_run_without_a_decoder_are_refused(tmp_path):
    source = class_folders(tmp_path / "private", {"cat": 10, "dog": 10}, (16, 16, 1))
    with pytest.raises(ConfigError, match="fine-tuning draws images"):
        quick_run(source, tmp_path, method="finetuning", decoder="none", settings={})


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shape"), [("ddpm", (12, 10, 3)), ("sd15", (20, 24, 1))])
def test_a_model_of_the_hub_is_adapted_and_its_samples_drawn_again(tmp_path, models, kind, shape):
    pytest.importorskip("diffusers")
    from tests.backends.tiny_models import diffusion as tiny

    source = class_folders(tmp_path / "private", {"cat": 20, "dog": 20}, shape)
    few = {"steps": 2, "images": 16, "pretraining": 1, "solver_steps": 2, "multiplicity": 1}
    denoiser = f"hf:{tiny.saved(kind, models)}?rank=1"
    options = {"method": "finetuning", "denoiser": denoiser, "settings": few, "count": 6}

    def samples():
        return {path.name: path.read_bytes() for path in tmp_path.glob("out/release/**/*.png")}

    quick_run(source, tmp_path, **options)
    first = samples()
    assert {imread(BytesIO(image)).shape for image in first.values()} == {
        tuple(side for side in shape if side > 1)
    }
    shutil.rmtree(tmp_path / "out" / "release")
    (tmp_path / "out" / "owner" / "run.json").unlink()
    quick_run(source, tmp_path, resume=True, **options)
    assert samples() == first
    assert len(first) == 6
    wide, many = denoiser.replace("rank=1", "rank=400"), few | {"steps": 10_000, "rate": 0.001}
    with pytest.raises(ConfigError, match="rank=1"):
        quick_run(source, tmp_path / "b", **(options | {"denoiser": wide, "settings": many}))
