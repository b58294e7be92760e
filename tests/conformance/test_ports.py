"""What every encoder and decoder must do. A new backend adds its names to the two lists."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.backends.tiny_onnx import block_fill, block_means, channel_means

from understudy.backends.registry import BUILT_IN_BACKENDS, backends, load_decoder, load_encoder
from understudy.core.errors import BackendError
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Images, Shape

ENCODERS: list[tuple[str, Shape]] = [
    ("embedded:dct", (28, 28, 1)),
    ("embedded:dct", (9, 14, 3)),
    ("embedded:dct?coefficients=40", (16, 16, 3)),
    ("embedded:scattering", (28, 28, 1)),
    ("embedded:scattering?J=1&L=4&order=1", (9, 14, 3)),
    ("embedded:scattering?J=3&L=4&padding=symmetric&colour=opponent", (21, 32, 3)),
    ("embedded:scattering?log=10&colour=grey", (16, 16, 3)),
    ("embedded:scattering?J=3&coefficients=90", (20, 17, 3)),
    ("onnx:{models}/block_means.onnx?batch=4", (16, 16, 3)),
    ("onnx:{models}/block_means.onnx?size=20x12&norm_bound=2.5", (28, 28, 1)),
    ("onnx:{models}/batch_of_four.onnx", (16, 16, 3)),
    ("inception:{models}/batch_of_four.onnx?scale=0..1", (16, 16, 3)),
]

DECODERS: list[tuple[str, str, Shape]] = [
    ("embedded:dct", "embedded:dct", (28, 28, 1)),
    ("embedded:dct", "embedded:dct?coefficients=30", (9, 14, 3)),
    ("onnx:{models}/block_fill.onnx?batch=4", "onnx:{models}/block_means.onnx", (16, 16, 3)),
    (
        "onnx:{models}/block_fill.onnx?scale=-1..1",
        "onnx:{models}/block_means.onnx?size=32&scale=-1..1",
        (28, 28, 1),
    ),
]

ROWS = 11
SEEDS = np.arange(ROWS, dtype=np.uint64)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    block_means(folder / "block_means.onnx")
    block_fill(folder / "block_fill.onnx")
    channel_means(folder / "batch_of_four.onnx", batch=4)
    return folder


@pytest.fixture(params=ENCODERS, ids=lambda case: f"{case[0]} {case[1]}")
def encoder_case(request: pytest.FixtureRequest) -> tuple[Encoder, Images]:
    name, shape = request.param
    return encoder_named(located(name, request), shape), pictures(shape)


@pytest.fixture(params=DECODERS, ids=lambda case: f"{case[0]} {case[2]}")
def decoder_case(request: pytest.FixtureRequest) -> tuple[Decoder, NDArray[np.float32]]:
    name, encoder_name, shape = request.param
    encoder = encoder_named(located(encoder_name, request), shape)
    decoder = load_decoder(located(name, request), shape=shape, encoder=encoder)
    return decoder, encoder.encode(pictures(shape))


def located(name: str, request: pytest.FixtureRequest) -> str:
    """The name with the folder of models in it; skips where a package is missing."""
    if name.startswith("embedded:scattering"):
        pytest.importorskip("torch")
    if "{models}" not in name:
        return name
    pytest.importorskip("onnxruntime")
    return name.format(models=request.getfixturevalue("models"))


@cache
def encoder_named(name: str, shape: Shape) -> Encoder:
    return load_encoder(name, shape=shape)


def pictures(shape: Shape) -> Images:
    """Noise, and the extremes: black, white, a chessboard of pixels, stripes, one bright pixel."""
    images = np.random.default_rng(3).integers(0, 256, (ROWS, *shape), dtype=np.uint8)
    images[0], images[1] = 0, 255
    row, column = np.indices(shape[:2])
    images[2] = 255 * ((row + column) % 2)[..., None]
    images[3] = 255 * (row % 2)[..., None]
    images[4] = 0
    images[4, shape[0] // 2, shape[1] // 2] = 255
    return images


def test_every_built_in_model_is_listed_here() -> None:
    families = tuple(f"{family}:" for family in BUILT_IN_BACKENDS)
    listed = [info for info in backends() if info.name.startswith(families)]
    tested = {"encoder": [case[0] for case in ENCODERS], "decoder": [case[0] for case in DECODERS]}
    missing = [
        (info.name, port)
        for info in listed
        for port, names in tested.items()
        if port in info.kind
        and not any(name.startswith(info.name.removesuffix("FILE")) for name in names)
    ]
    assert listed
    assert not missing


def test_an_encoder_says_what_it_is(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, _ = encoder_case
    assert isinstance(encoder, Encoder)
    assert encoder.dim > 0
    assert encoder.ordered in (True, False)
    assert encoder.licence
    assert encoder.norm_bound is None or encoder.norm_bound > 0


def test_embeddings_are_finite_rows(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    embeddings = encoder.encode(images)
    assert embeddings.shape == (ROWS, encoder.dim)
    assert embeddings.dtype == np.float32
    assert np.isfinite(embeddings).all()
    assert np.linalg.norm(embeddings[0] - embeddings[1]) > 0


def test_ordered_numbers_begin_with_the_important_ones(
    encoder_case: tuple[Encoder, Images],
) -> None:
    encoder, images = encoder_case
    if not encoder.ordered:
        pytest.skip("states no order")
    random = np.random.default_rng(5)
    row, column = (axis[..., None] for axis in np.indices(images.shape[1:3]))
    spots = []
    for _ in range(40):  # soft coloured spots of many places and sizes
        y, x, size = random.uniform(0.2, 0.8, 3) * (*images.shape[1:3], max(images.shape[1:3]))
        soft = np.exp(-((row - y) ** 2 + (column - x) ** 2) / (0.1 * size**2))
        spots.append(soft * random.uniform(0, 255, images.shape[3]))
    spread = encoder.encode(np.stack(spots).astype(np.uint8)).var(axis=0)
    half = encoder.dim // 2
    assert spread[:half].sum() > 1.5 * spread[half:].sum()


def test_no_images_give_no_embeddings(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    assert encoder.encode(images[:0]).shape == (0, encoder.dim)


def test_a_row_depends_on_its_own_image_only(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    together = encoder.encode(images)
    backwards = encoder.encode(images[::-1])[::-1]
    alone = np.concatenate([encoder.encode(images[i : i + 1]) for i in range(ROWS)])
    slack = 1e-5 * np.abs(together).max()
    np.testing.assert_allclose(backwards, together, rtol=0, atol=slack)
    np.testing.assert_allclose(alone, together, rtol=0, atol=slack)


def test_the_norm_bound_holds(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    if encoder.norm_bound is None:
        pytest.skip("states no bound")
    norms = np.linalg.norm(encoder.encode(images).astype(np.float64), axis=1)
    assert norms.max() <= encoder.norm_bound


def test_encoding_leaves_its_input_alone(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    before = images.copy()
    images.setflags(write=False)
    encoder.encode(images)
    np.testing.assert_array_equal(images, before)


def test_encoding_repeats_itself(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    first = encoder.encode(images)
    again = load_encoder(encoder.name, shape=images.shape[1:])
    np.testing.assert_array_equal(encoder.encode(images), first)
    np.testing.assert_array_equal(again.encode(images), first)


def test_other_images_are_refused(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    with pytest.raises(BackendError, match="uint8 images of shape"):
        encoder.encode(images[:, 1:])
    with pytest.raises(BackendError, match="float32"):
        encoder.encode(images.astype(np.float32))  # type: ignore[arg-type]


def test_a_decoder_says_what_it_is(decoder_case: tuple[Decoder, NDArray[np.float32]]) -> None:
    decoder, embeddings = decoder_case
    assert isinstance(decoder, Decoder)
    assert decoder.dim == embeddings.shape[1]
    assert decoder.licence


def test_decoded_images_are_uint8(decoder_case: tuple[Decoder, NDArray[np.float32]]) -> None:
    decoder, embeddings = decoder_case
    images = decoder.decode(embeddings, seeds=SEEDS)
    assert images.shape == (ROWS, *decoder.shape)
    assert images.dtype == np.uint8
    assert images[1].astype(int).sum() > images[0].astype(int).sum()
    assert decoder.decode(embeddings[:0], seeds=SEEDS[:0]).shape == (0, *decoder.shape)


def test_decoding_clips_to_black_and_white(
    decoder_case: tuple[Decoder, NDArray[np.float32]],
) -> None:
    decoder, embeddings = decoder_case
    images = decoder.decode(embeddings[:2] * np.float32(1000), seeds=SEEDS[:2])
    assert set(np.unique(images)) <= {0, 255}


def test_an_image_depends_on_its_own_embedding_and_seed_only(
    decoder_case: tuple[Decoder, NDArray[np.float32]],
) -> None:
    decoder, embeddings = decoder_case
    together = decoder.decode(embeddings, seeds=SEEDS).astype(int)
    alone = [decoder.decode(embeddings[i : i + 1], seeds=SEEDS[i : i + 1]) for i in range(ROWS)]
    # A value halfway between two may round either way.
    assert np.abs(together - np.concatenate(alone)).max() <= 1


def test_a_decoder_says_whether_its_images_depend_on_seeds(
    decoder_case: tuple[Decoder, NDArray[np.float32]],
) -> None:
    decoder, embeddings = decoder_case
    images = decoder.decode(embeddings, seeds=SEEDS)
    others = decoder.decode(embeddings, seeds=SEEDS + np.uint64(1000))
    assert decoder.stochastic == bool((images != others).any())


def test_decoding_repeats_itself_and_leaves_its_input_alone(
    decoder_case: tuple[Decoder, NDArray[np.float32]],
) -> None:
    decoder, embeddings = decoder_case
    before = embeddings.copy()
    embeddings.setflags(write=False)
    images = decoder.decode(embeddings, seeds=SEEDS)
    np.testing.assert_array_equal(images, decoder.decode(embeddings, seeds=SEEDS))
    np.testing.assert_array_equal(embeddings, before)


def test_other_embeddings_are_refused(decoder_case: tuple[Decoder, NDArray[np.float32]]) -> None:
    decoder, embeddings = decoder_case
    with pytest.raises(BackendError, match="takes embeddings of shape"):
        decoder.decode(embeddings[:, 1:], seeds=SEEDS)
    embeddings[2, 0] = np.nan
    with pytest.raises(BackendError, match="not finite"):
        decoder.decode(embeddings, seeds=SEEDS)
