"""The prior of the photo autoencoder: one latent for each description and seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")

from safetensors.numpy import load_file, save_file  # noqa: E402
from tests.tiny_prior import tiny_prior  # noqa: E402

from understudy.backends.embedded.photo.latent_prior import conditioned  # noqa: E402
from understudy.backends.registry import load_decoder, load_encoder  # noqa: E402
from understudy.core.errors import BackendError  # noqa: E402
from understudy.core.ports import StepwiseModel  # noqa: E402
from understudy.core.prior_decoder import PriorDecoder  # noqa: E402
from understudy.core.types import Shape  # noqa: E402
from understudy.steps.grid import Description, PriorSpace  # noqa: E402

WEIGHTS = "diffusion_pytorch_model.safetensors"


@pytest.fixture(autouse=True, scope="module")
def quick(one_thread: None) -> None:
    """A tiny network: threads cost more than they give."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_prior(tmp_path_factory.mktemp("prior") / "vae")


def decoder_of(folder: Path, shape: Shape = (32, 32, 3), **options: object) -> PriorDecoder:
    decoder = load_decoder("embedded:photo", shape=shape, folder=str(folder), steps=2, **options)
    assert isinstance(decoder, PriorDecoder)
    return decoder


def descriptions(decoder: PriorDecoder, count: int = 5) -> np.ndarray:
    length = decoder.description["usual"].shape[1]
    return np.random.default_rng(0).normal(size=(count, length)).astype(np.float32)


def test_a_latent_depends_on_its_description_and_its_seed_alone(folder: Path) -> None:
    decoder = decoder_of(folder)
    wanted, seeds = descriptions(decoder), np.arange(5, dtype=np.uint64) + 7
    latents = decoder.draw(wanted, seeds=seeds)
    assert latents.shape == (5, 28 * 4 * 4)
    assert latents.dtype == np.float32
    np.testing.assert_array_equal(decoder.draw(wanted, seeds=seeds), latents)
    order = np.array([3, 1])
    np.testing.assert_allclose(
        decoder.draw(wanted[order], seeds=seeds[order]), latents[order], atol=1e-4
    )
    for other in (decoder.draw(wanted, seeds=seeds + 1), decoder.draw(-wanted, seeds=seeds)):
        assert (np.abs(other - latents).mean(axis=1) > 1e-3).all()


def test_latents_like_others_lie_the_nearer_to_these_the_less_strength(folder: Path) -> None:
    wanted = descriptions(decoder_of(folder))
    seeds = np.arange(5, dtype=np.uint64)
    start = np.random.default_rng(2).normal(size=(5, 28 * 4 * 4)).astype(np.float32)

    def drawn(strength: float, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        decoder = decoder_of(folder, strength=strength)
        return decoder.draw(wanted[rows], seeds=seeds[rows], start=start[rows])

    free = decoder_of(folder).draw(wanted, seeds=seeds)
    np.testing.assert_array_equal(drawn(1), free)
    own = [np.corrcoef(drawn(strength)[0], start[0])[0, 1] for strength in (1, 0.5)]
    assert own[1] > own[0] + 0.2
    np.testing.assert_array_equal(drawn(0), drawn(0.5))  # one step of two, at least
    order = np.array([3, 1])
    np.testing.assert_allclose(drawn(0.5, order), drawn(0.5)[order], atol=1e-4)


def test_without_guidance_no_description_is_heard(folder: Path) -> None:
    decoder = decoder_of(folder, guidance=0)
    wanted, seeds = descriptions(decoder), np.arange(5, dtype=np.uint64)
    latents = decoder.draw(wanted, seeds=seeds)
    np.testing.assert_allclose(decoder.draw(-wanted, seeds=seeds), latents, atol=1e-5)


def test_a_condition_is_the_description_how_long_it_is_and_how_far_off() -> None:
    condition = conditioned(torch.ones(2, 4), torch.tensor([[0.0], [1.0]]), 11)
    assert condition.shape == (2, 11)
    half = 0.5**0.5
    expected = [[1.0] * 4 + [0.0] * 4 + [0.5, 0.0, 1.0], [half] * 4 + [0.0] * 4 + [0.5, 1.0, 1.0]]
    np.testing.assert_allclose(condition.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(28, 28, 1), (48, 64, 3), (64, 64, 3), (40, 36, 3)])
def test_descriptions_fit_images_of_any_size_that_was_learnt(folder: Path, shape: Shape) -> None:
    decoder = decoder_of(folder, shape)
    encoder = load_encoder("embedded:photo", shape=shape, folder=str(folder))
    space = PriorSpace.of(decoder, encoder.latent)  # type: ignore[attr-defined]
    images = np.random.default_rng(1).integers(0, 256, (3, *shape), dtype=np.uint8)
    wanted = space.forward(encoder.encode(images))
    latents = space.backward(wanted.astype(np.float64), np.random.default_rng(0))
    assert decoder.decode(latents, seeds=np.zeros(3, np.uint64)).shape == images.shape


def test_the_prior_is_left_out_where_it_is_not_wanted_or_has_not_learnt(folder: Path) -> None:
    shape = (32, 32, 3)
    plain = load_decoder("embedded:photo?prior=false", shape=shape, folder=str(folder))
    assert not isinstance(plain, PriorDecoder)
    large = load_decoder("embedded:photo", shape=(72, 64, 3), folder=str(folder))
    assert not isinstance(large, PriorDecoder)
    low = load_decoder("embedded:photo", shape=(24, 32, 3), folder=str(folder))
    assert not isinstance(low, PriorDecoder)
    assert "prior=False" in plain.name
    drawn = decoder_of(folder)
    assert isinstance(drawn, StepwiseModel)
    assert drawn.sampling == "2 steps, guidance 2.5 (embedded:photo)"


def test_a_prior_of_another_autoencoder_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tiny_prior(tmp_path / "vae")
    weights = load_file(other / WEIGHTS)
    decoding = {k: v + 1 if k.startswith("decoder.") else v for k, v in weights.items()}
    save_file(decoding, other / WEIGHTS)
    assert decoder_of(other) is not None  # another decoder of the same latents
    encoding = {k: v + 1 if k.startswith("encoder.") else v for k, v in weights.items()}
    save_file(encoding, other / WEIGHTS)
    with pytest.raises(BackendError, match="learnt the latents of another autoencoder"):
        decoder_of(other)


@pytest.mark.parametrize("wrong", ["steps=0", "guidance=-1", "level=-0.1", "strength=1.5"])
def test_options_out_of_range_are_refused(folder: Path, wrong: str) -> None:
    with pytest.raises(BackendError, match=wrong.partition("=")[0]):
        load_decoder(f"embedded:photo?{wrong}", shape=(32, 32, 3), folder=str(folder))


def test_descriptions_of_another_length_are_refused(folder: Path) -> None:
    decoder = decoder_of(folder)
    with pytest.raises(BackendError, match="110"):
        decoder.draw(np.zeros((2, 9), np.float32), seeds=np.zeros(2, np.uint64))
    with pytest.raises(BackendError, match="seeds"):
        decoder.draw(descriptions(decoder), seeds=np.zeros(2, np.uint64))
    with pytest.raises(BackendError, match="448"):
        decoder.draw(
            descriptions(decoder), seeds=np.zeros(5, np.uint64), start=np.zeros((5, 9), np.float32)
        )


def test_what_is_stored_describes_the_same(folder: Path) -> None:
    decoder = decoder_of(folder)
    description = Description.of_arrays(decoder.description, (28, 4, 4))
    assert description.scale == 1.0
    assert description.dim == 110
