import numpy as np
import pytest
from scipy.fft import idctn

from understudy.backends.embedded.dct import DctEncoder, DctOptions, frequency_order
from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.types import Images, Shape

SHAPES = [(1, 1, 1), (28, 28, 1), (13, 7, 3), (64, 64, 3)]


def noise(shape: Shape, rows: int = 5) -> Images:
    return np.random.default_rng(1).integers(0, 256, (rows, *shape), dtype=np.uint8)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_coefficients_keep_distances_and_bring_the_image_back(shape: Shape) -> None:
    images = noise(shape)
    encoder = load_encoder("embedded:dct", shape=shape)
    embeddings = encoder.encode(images)
    pixels = images.reshape(len(images), -1) / 255
    np.testing.assert_allclose(
        np.linalg.norm(embeddings[1:] - embeddings[:-1], axis=1),
        np.linalg.norm(pixels[1:] - pixels[:-1], axis=1),
        rtol=1e-5,
    )
    for partner in (encoder, None):
        decoder = load_decoder("embedded:dct", shape=shape, encoder=partner)
        np.testing.assert_array_equal(decoder.decode(embeddings), images)


def test_coefficients_follow_the_definition() -> None:
    """Against the sum of cosines written out (Ahmed, Natarajan and Rao 1974)."""
    height, width = 5, 8
    image = noise((height, width, 1), rows=1)

    def cosines(n: int) -> np.ndarray:
        k, x = np.indices((n, n))
        rows = np.sqrt(2 / n) * np.cos(np.pi * (2 * x + 1) * k / (2 * n))
        rows[0] = np.sqrt(1 / n)
        return rows

    plain = cosines(height) @ (image[0, ..., 0] / 255 - 0.5) @ cosines(width).T
    found = load_encoder("embedded:dct", shape=(height, width, 1)).encode(image)[0]
    order = sorted((i / height + j / width, i, j) for i in range(height) for j in range(width))
    np.testing.assert_allclose(found, [plain[i, j] for _, i, j in order], atol=1e-5)


def test_low_frequencies_come_first_and_luminance_before_colour() -> None:
    shape = (6, 4, 3)
    i, j, channel = np.unravel_index(frequency_order(shape), shape)
    frequency = i * shape[1] + j * shape[0]
    assert (np.diff(frequency) >= 0).all()
    assert sorted(frequency_order(shape)) == list(range(72))
    for value in np.unique(frequency):
        assert (np.diff(channel[frequency == value]) >= 0).all()
    assert tuple(channel[:3]) == (0, 1, 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_white_reaches_the_norm_bound(shape: Shape) -> None:
    encoder = DctEncoder(shape, DctOptions())
    white = np.full((1, *shape), 255, dtype=np.uint8)
    norm = np.linalg.norm(encoder.encode(white).astype(np.float64))
    assert encoder.norm_bound is not None
    assert norm <= encoder.norm_bound
    assert norm == pytest.approx(encoder.norm_bound, rel=2e-6)
    assert encoder.norm_bound == pytest.approx(0.5 * np.sqrt(np.prod(shape)), rel=1e-6)


def test_fewer_coefficients_are_the_nearest_image_made_of_them() -> None:
    shape, kept = (12, 10, 1), 30
    images = (noise(shape) // 4 + 96).astype(np.uint8)  # far from black and white: no clipping
    encoder = load_encoder("embedded:dct", shape=shape, coefficients=kept)
    whole = load_encoder("embedded:dct", shape=shape).encode(images)
    decoded = load_decoder("embedded:dct", shape=shape, encoder=encoder).decode(
        encoder.encode(images)
    )
    np.testing.assert_array_equal(encoder.encode(images), whole[:, :kept])
    left_out = np.zeros((len(images), 120))
    left_out[:, frequency_order(shape)[kept:]] = whole[:, kept:]
    error = idctn(left_out.reshape(-1, *shape), axes=(1, 2), norm="ortho")
    np.testing.assert_allclose(
        decoded.astype(float), images - 255 * error, atol=0.5 + 1e-3
    )  # half a grey level of rounding
