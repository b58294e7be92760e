"""Public examples of the photo autoencoder: how they are stored, and those that are shipped."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("diffusers")

from safetensors.numpy import save_file

from understudy.backends.embedded.example_features import (
    ExampleFeatures,
    Features,
    FeatureScattering,
)
from understudy.backends.embedded.photo.latent_prior import LATENT_NETWORK
from understudy.backends.embedded.photo.photo_examples import (
    PhotoExamples,
    read_examples,
    write_examples,
)
from understudy.backends.embedded.photo.photo_models import PRIOR, PhotoPriorDecoder
from understudy.backends.registry import load_decoder, load_encoder, load_model
from understudy.core.errors import BackendError
from understudy.core.public_examples import ExampleGenerator, PublicExamples
from understudy.core.types import Images, Shape
from understudy.steps.grid import Description, description_length

NAME = "embedded:photo"
COUNT, LENGTH = 60, 12
MOST = 127  # levels of a stored number, and as many below zero
REACH = 6.0  # of descriptions


@pytest.fixture(autouse=True, scope="module")
def quick(one_thread: None) -> None:
    """Few and small images: threads cost more than they give."""


def autoencoder(folder: Path, encoding: float = 1.0, decoding: float = 2.0) -> Path:
    """A folder that holds the weights of an autoencoder, of two numbers."""
    (folder / PRIOR).mkdir(parents=True)
    weights = {"encoder.weight": np.array([encoding]), "decoder.weight": np.array([decoding])}
    save_file(weights, folder / LATENT_NETWORK)
    return folder


def decoder_of(shape: Shape) -> PhotoPriorDecoder:
    decoder = load_decoder(NAME, shape=shape)
    assert isinstance(decoder, PhotoPriorDecoder)
    return decoder


@pytest.fixture(scope="module")
def decoder() -> PhotoPriorDecoder:
    return decoder_of((64, 64, 3))


def described() -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(0, 2, (COUNT, 153)).astype(np.float32)


def latents(side: int = 8) -> NDArray[np.float32]:
    return np.random.default_rng(4).normal(0.1, 0.5, (COUNT, 28 * side**2)).astype(np.float32)


def invented(shape: Shape = (64, 64, 3), coefficients: int = 900) -> ExampleFeatures:
    """Examples of nothing in particular, in three clusters of two kinds."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(coefficients, LENGTH)))[0].astype(np.float16)
    features = rng.normal(size=(COUNT, LENGTH)) * np.arange(1, LENGTH + 1)[::-1]
    centre = rng.normal(size=coefficients).astype(np.float32)
    return ExampleFeatures(
        features.astype(np.float32),
        np.repeat([0, 1, 2], COUNT // 3),
        np.array([0, 0, 1]),
        ("tiles", "a word, “quoted”"),
        np.array([1.5, 2.0, 0.25], dtype=np.float32),
        Features(centre, axes.astype(np.float32), FeatureScattering(shape)),
    )


def written(folder: Path, descriptions: Mapping[int, NDArray[np.float32]]) -> Path:
    """The folder, with examples in the prior's."""
    write_examples(folder, invented(), latents(), descriptions)
    return folder


def test_examples_come_back_to_within_half_a_level(
    tmp_path: Path, decoder: PhotoPriorDecoder
) -> None:
    before, descriptions = invented(), described()
    other = -descriptions[:, :110]
    folder = written(autoencoder(tmp_path / "vae"), {8: descriptions, 16: other})
    after = read_examples(folder, decoder)
    assert after is not None
    for name in ("clusters", "kinds", "radii"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.kind_names == before.kind_names
    np.testing.assert_array_equal(after.encode.centre, before.encode.centre)
    np.testing.assert_array_equal(after.encode.axes, before.encode.axes)
    half = np.abs(before.features).max(axis=0) / MOST / 2
    assert (np.abs(after.features - before.features) <= half * 1.001).all()
    off = after.descriptions - np.clip(descriptions, -REACH, REACH)
    assert np.abs(off).max() <= REACH / MOST / 2 * 1.001
    assert after.recoding is None
    assert np.abs(after.latents - latents()).max() <= latents().std() / 2 * 1.001
    dtypes = {after.features.dtype, after.descriptions.dtype, after.latents.dtype}
    assert dtypes == {np.dtype(np.float32)}
    wide = read_examples(folder, decoder_of((128, 128, 3)))
    assert wide is not None
    np.testing.assert_allclose(wide.descriptions, -after.descriptions[:, :110], atol=1e-6)
    np.testing.assert_array_equal(wide.features, after.features)
    np.testing.assert_array_equal(wide.latents, after.latents)  # of 8 places a side
    assert wide.recoding is not None
    assert wide.recoding(wide.latents[:2]).shape == (2, 28 * 16 * 16)
    narrow = read_examples(folder, decoder_of((64, 48, 3)))
    assert narrow is not None
    assert narrow.recoding is not None
    assert narrow.recoding(narrow.latents[:2]).shape == (2, 28 * 8 * 6)
    np.testing.assert_array_equal(narrow.descriptions, after.descriptions)


def test_there_are_none_of_another_size_and_none_without_the_file(
    tmp_path: Path, decoder: PhotoPriorDecoder
) -> None:
    folder = autoencoder(tmp_path / "vae")
    assert read_examples(folder, decoder) is None
    written(folder, {8: described()})
    assert read_examples(folder, decoder) is not None
    for shape in ((128, 128, 3), (28, 28, 1), (28, 28, 3)):
        assert read_examples(folder, decoder_of(shape)) is None


def test_small_grey_images_have_a_file_of_their_own(
    tmp_path: Path, decoder: PhotoPriorDecoder
) -> None:
    folder, small = autoencoder(tmp_path / "vae"), decoder_of((28, 28, 1))
    write_examples(folder, invented((28, 28, 1), 400), latents(4), {4: described()[:, :110]})
    found = read_examples(folder, small)
    assert found is not None
    assert found.encode(np.zeros((2, 28, 28, 1), np.uint8)).shape == (2, LENGTH)
    assert read_examples(folder, decoder) is None
    assert read_examples(folder, decoder_of((28, 28, 3))) is None
    written(folder, {8: described()})
    assert read_examples(folder, decoder) is not None
    assert read_examples(folder, small) is not None


def test_examples_of_another_autoencoder_are_refused_with_what_to_do(
    tmp_path: Path, decoder: PhotoPriorDecoder
) -> None:
    folder = written(autoencoder(tmp_path / "vae"), {8: described()})
    (file,) = (folder / PRIOR).iterdir()
    other = autoencoder(tmp_path / "other", encoding=1.5)
    shutil.copy(file, other / PRIOR)
    with pytest.raises(BackendError, match="another autoencoder") as refusal:
        read_examples(other, decoder)
    for words in (str(other / PRIOR / file.name), "remove it", "understudy studio examples"):
        assert words in str(refusal.value)
    same = autoencoder(tmp_path / "same", decoding=3.0)  # another decoder of the same latents
    shutil.copy(file, same / PRIOR)
    assert read_examples(same, decoder) is not None


def known(name: str, shape: Shape) -> PhotoExamples | None:
    generator = load_model(ExampleGenerator, name)
    examples = generator.known(shape)
    assert examples is None or isinstance(examples, PhotoExamples)
    return examples


def shipped_of(shape: Shape) -> PhotoExamples:
    examples = known(NAME, shape)
    assert examples is not None
    return examples


@pytest.fixture(scope="module")
def shipped() -> PhotoExamples:
    return shipped_of((64, 64, 3))


@pytest.fixture(scope="module")
def garments() -> PhotoExamples:
    return shipped_of((28, 28, 1))


def nearest(examples: PublicExamples, features: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Of each row of features the example that is nearest, and how far it is in radii."""
    squares = (examples.features**2).sum(axis=1) - 2 * features @ examples.features.T
    rows = squares.argmin(axis=1)
    distances = np.linalg.norm(features - examples.features[rows], axis=1)
    return rows, distances / examples.radii[examples.clusters[rows]]


def test_the_shipped_examples_are_for_images_of_33_to_128_pixels(shipped: PhotoExamples) -> None:
    assert isinstance(shipped, PublicExamples)
    assert shipped.descriptions.shape == (7_775, description_length((28, 8, 8)))
    assert shipped.latents.shape == (7_775, 28 * 8 * 8)
    large = shipped_of((128, 128, 3))
    assert large.descriptions.shape == (7_775, description_length((28, 16, 16)))
    np.testing.assert_array_equal(large.features, shipped.features)
    means, same = shipped.descriptions[:, :3], large.descriptions[:, :3]
    matches = [np.corrcoef(means[:, at], same[:, at])[0, 1] for at in range(3)]
    assert np.abs(matches).min() > 0.9  # the same images, in the same order, on axes of any sign
    for side, has_them in ((28, False), (33, True), (200, False)):
        assert (known(NAME, (side, side, 3)) is not None) == has_them
    assert known(NAME, (48, 64, 1)) is not None


def test_small_grey_images_have_garments(garments: PhotoExamples) -> None:
    assert garments.kind_names == ("garments",)
    assert garments.descriptions.shape == (3_000, description_length((28, 4, 4)))
    assert len(garments.kinds) == len(np.unique(garments.clusters)) == 20
    assert known(NAME, (32, 25, 1)) is not None


def test_the_shipped_examples_are_of_tiles_and_clothes_in_clusters(shipped: PhotoExamples) -> None:
    assert shipped.kind_names == ("satellite tiles", "clothes")
    assert np.bincount(shipped.kinds[shipped.clusters]).tolist() == [6_068, 1_707]
    assert len(shipped.features) == len(shipped.clusters) == len(shipped.descriptions)
    sizes = np.bincount(shipped.clusters)
    assert len(sizes) == len(shipped.kinds) == len(shipped.radii)
    assert sizes.min() > 0
    assert (shipped.radii > 0).all()
    assert np.abs(shipped.descriptions).max() <= REACH * 1.001
    for values in (shipped.features, shipped.descriptions, shipped.radii):
        assert np.isfinite(values).all()


def test_most_shipped_examples_lie_within_its_radius_of_another(shipped: PhotoExamples) -> None:
    some = np.arange(0, len(shipped.features), 20)
    squares = (shipped.features**2).sum(axis=1)
    products = shipped.features[some] @ shipped.features.T
    distances = squares[some, None] + squares - 2 * products
    distances[np.arange(len(some)), some] = np.inf
    nearest_other = np.sqrt(np.maximum(distances.min(axis=1), 0))
    within = nearest_other <= shipped.radii[shipped.clusters[some]]
    assert 0.85 < within.mean() < 0.95


@pytest.mark.parametrize("shape", [(64, 64, 3), (28, 28, 1), (33, 47, 3), (128, 96, 3)])
def test_features_are_of_each_image_alone_whatever_its_size(
    shipped: PhotoExamples, shape: Shape
) -> None:
    images = np.random.default_rng(3).integers(0, 256, (9, *shape), dtype=np.uint8)
    images[1::2] //= 4
    features = shipped.encode(images)
    assert features.shape == (9, 300)
    assert features.dtype == np.float32
    alone = np.concatenate([shipped.encode(images[row : row + 1]) for row in range(9)])
    np.testing.assert_array_equal(alone, features)
    np.testing.assert_array_equal(shipped.encode(images[::-1])[::-1], features)
    np.testing.assert_array_equal(shipped.encode(np.concatenate([images] * 8))[:9], features)
    if shape[2] == 1:
        colour = shipped.encode(np.repeat(images, 3, axis=3))
        np.testing.assert_array_equal(colour, features)


def test_noise_and_flat_images_lie_beyond_every_radius(shipped: PhotoExamples) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (10, 64, 64, 3), dtype=np.uint8)
    flat = np.stack([np.full((64, 64, 3), shade, np.uint8) for shade in (0, 255)])
    _, radii = nearest(shipped, shipped.encode(np.concatenate([noise, flat])))
    assert radii.min() > 1.5


def tiles(folder: Path, remainder: int, count: int) -> Images:
    """Real tiles of the numbers that leave a remainder when divided by four, of all classes."""
    files = sorted((folder / "images" / "eurosat" / "train").glob("*/*.jpg"))
    chosen = [file for file in files if int(file.stem) % 4 == remainder]
    chosen = chosen[:: len(chosen) // count]
    return np.stack([np.asarray(Image.open(file)) for file in chosen])


def test_a_tile_of_the_examples_is_known_by_its_features_and_its_description(
    decoder: PhotoPriorDecoder, shipped: PhotoExamples, shared_data: Path
) -> None:
    images = tiles(shared_data, 0, 20)
    rows, radii = nearest(shipped, shipped.encode(images))
    assert radii.max() < 0.3
    assert (shipped.kinds[shipped.clusters[rows]] == 0).all()
    encoder = load_encoder(NAME, shape=(64, 64, 3))
    description = Description.of_arrays(decoder.description, encoder.latent)  # type: ignore[attr-defined]
    wanted = np.clip(description.forward(encoder.encode(images)), -REACH, REACH)
    assert np.abs(shipped.descriptions[rows] - wanted).max() < REACH / MOST


def test_most_tiles_that_are_no_examples_lie_within_the_radius_of_one(
    shipped: PhotoExamples, shared_data: Path
) -> None:
    rows, radii = nearest(shipped, shipped.encode(tiles(shared_data, 1, 40)))
    assert 0.7 <= (radii <= 1).mean() < 1
    assert (shipped.kinds[shipped.clusters[rows]] == 0).all()


@pytest.mark.parametrize("strength", [0.5, 1])
@pytest.mark.parametrize("shape", [(64, 64, 3), (28, 28, 1), (48, 40, 3)])
def test_what_is_drawn_from_an_example_looks_like_it(shape: Shape, strength: float) -> None:
    examples = known(f"{NAME}?strength={strength}", shape)
    assert examples is not None
    rows = np.arange(0, len(examples.features), len(examples.features) // 9)
    drawn = examples.draw(rows, seeds=np.arange(len(rows), dtype=np.uint64))
    assert drawn.shape == (len(rows), *shape)
    features = examples.encode(drawn)
    own = np.linalg.norm(features - examples.features[rows], axis=1)
    others = np.linalg.norm(features - examples.features[np.roll(rows, 1)], axis=1)
    assert (own < 0.9 * others).mean() > 0.85


def test_the_less_strength_the_more_alike_are_what_is_drawn_and_the_example() -> None:
    distances = []
    for strength in (0.2, 0.5, 1):
        examples = known(f"{NAME}?strength={strength}", (64, 64, 3))
        assert examples is not None
        rows = np.arange(0, len(examples.features), len(examples.features) // 9)
        features = examples.encode(examples.draw(rows, seeds=np.zeros(len(rows), np.uint64)))
        distances.append(np.linalg.norm(features - examples.features[rows], axis=1).mean())
    assert distances[0] < 0.9 * distances[1] < 0.8 * distances[2]


def test_without_the_prior_there_are_no_examples() -> None:
    assert known(f"{NAME}?prior=false", (64, 64, 3)) is None
    plain = load_model(ExampleGenerator, f"{NAME}?prior=false")
    with pytest.raises(BackendError, match=r"no prior for these.*embedded:unchanged"):
        plain.describes((64, 64, 3))
