from pathlib import Path

import numpy as np
import pytest

from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.types import Images

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
diffusers = pytest.importorskip("diffusers")

from tests.backends.tiny_models.diffusion import saved  # noqa: E402

SHAPE = (32, 32, 3)
KINDS = ["kl", "tiny", "dc", "rae", "sd15"]


def pictures(shape: tuple[int, ...] = SHAPE, count: int = 5) -> Images:
    return np.random.default_rng(1).integers(0, 256, (count, *shape), dtype=np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_fits_together(models: Path, kind: str) -> None:
    name = f"hf:{saved(kind, models)}?batch=2"
    encoder = load_encoder(name, shape=SHAPE)
    decoder = load_decoder(name, shape=SHAPE, encoder=encoder)
    alone = load_decoder(name, shape=SHAPE)
    assert encoder.dim == decoder.dim == alone.dim == np.prod(encoder.latent)
    assert encoder.licence.startswith("apache-2.0")
    rows = encoder.encode(pictures())
    assert rows.shape == (5, encoder.dim)
    assert rows.dtype == np.float32
    made = decoder.decode(rows)
    assert made.shape == (5, *SHAPE)
    np.testing.assert_array_equal(alone.decode(rows), made)
    assert encoder.encode(pictures()[:0]).shape == (0, encoder.dim)
    assert decoder.decode(rows[:0]).shape == (0, *SHAPE)


@pytest.mark.parametrize("kind", ["kl", "dc"])
def test_a_row_depends_on_itself_only_and_comes_again(models: Path, kind: str) -> None:
    encoder = load_encoder(f"hf:{saved(kind, models)}?batch=3", shape=SHAPE)
    decoder = load_decoder(f"hf:{saved(kind, models)}?batch=3", shape=SHAPE, encoder=encoder)
    rows = encoder.encode(pictures())
    np.testing.assert_array_equal(encoder.encode(pictures()), rows)
    alone = np.concatenate([encoder.encode(image[None]) for image in pictures()])
    np.testing.assert_allclose(alone, rows, atol=1e-4 * np.abs(rows).max())
    made = decoder.decode(rows).astype(int)
    single = np.concatenate([decoder.decode(row[None]) for row in rows])
    np.testing.assert_allclose(single, made, atol=1)


def test_the_representation_autoencoder_decodes_what_it_encodes(models: Path) -> None:
    folder = saved("rae", models)
    name = f"hf:{folder}"
    encoder = load_encoder(name, shape=(16, 16, 3))
    decoder = load_decoder(name, shape=(16, 16, 3), encoder=encoder)
    images = pictures((16, 16, 3))
    rae = diffusers.AutoencoderRAE.from_pretrained(folder).eval()
    pixels = torch.from_numpy(images.transpose(0, 3, 1, 2) / np.float32(255))
    with torch.no_grad():
        want = rae(pixels).sample.permute(0, 2, 3, 1).clamp(0, 1).numpy() * 255
    np.testing.assert_allclose(decoder.decode(encoder.encode(images)), want, atol=1)
