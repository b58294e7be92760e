"""``embedded:photo`` as it is shipped: whole and small.

The autoencoder is true to images of several kinds, the segmenter finds persons, and the pose
estimator finds their keypoints.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.photo_segmenter import drawn_persons, share_near
from benchmarks.sanitize_photos import coco

from understudy.backends.embedded.shipped import PHOTO_WEIGHTS, damaged, is_shipped
from understudy.backends.registry import backends, load_decoder, load_encoder, load_model
from understudy.core.ports import PoseEstimator, Segmenter
from understudy.core.types import Images, Shape
from understudy.data import open_source
from understudy.methods.sanitize.sanitizers import PoseSanitizer
from understudy.testing import PoseEstimatorSuite, ScoringSegmenterSuite

pytest.importorskip("diffusers")

NAME = "embedded:photo"
MOST = 25_000_000
LEAST_NEAR = 0.8
LEAST_OVERLAP = 0.22


def drawn(kind: str, count: int = 12, size: int = 64) -> Images:
    """Drawings of seeds that the autoencoder has not learnt from."""
    source = open_source(f"procedural:{kind}?count={count}&seed=77", size=size)
    batches: Iterator[Images] = (batch.values for batch in source.batches(count))
    return next(batches)


def back(images: Images) -> Images:
    encoder = load_encoder(NAME, shape=images.shape[1:])
    decoder = load_decoder(NAME, shape=images.shape[1:], encoder=encoder)
    return decoder.decode(encoder.encode(images))


def psnr(images: Images, others: Images) -> float:
    squares = np.square(images.astype(float) - others).reshape(len(images), -1).mean(axis=1)
    return float((10 * np.log10(255**2 / squares)).mean())


def test_it_is_there_whole_and_small() -> None:
    assert is_shipped(PHOTO_WEIGHTS)
    assert damaged(PHOTO_WEIGHTS) == []
    assert sum(file.stat().st_size for file in PHOTO_WEIGHTS.rglob("*") if file.is_file()) <= MOST
    assert {file.name for file in PHOTO_WEIGHTS.iterdir()} == {
        *("README.md", "SHA256SUMS", "config.json", "diffusion_pytorch_model.safetensors"),
        *("pose", "segmenter"),
    }
    assert {info.name for info in backends() if info.available} >= {NAME}


@pytest.mark.parametrize(("kind", "least"), [("leaves", 22.0), ("scenes", 24.0)])
def test_images_come_back_better_than_by_as_many_cosines(kind: str, least: float) -> None:
    images = drawn(kind)
    encoder = load_encoder(NAME, shape=images.shape[1:])
    cosine = load_encoder(f"embedded:dct?coefficients={encoder.dim}", shape=images.shape[1:])
    plain = load_decoder("embedded:dct", shape=images.shape[1:], encoder=cosine)
    fidelity = psnr(images, back(images))
    assert fidelity >= least
    assert fidelity > psnr(images, plain.decode(cosine.encode(images)))


@pytest.mark.parametrize("shape", [(28, 28, 1), (33, 47, 3), (96, 40, 1), (8, 8, 3)])
def test_images_of_any_size_come_back_in_their_place(shape: Shape) -> None:
    down, across = np.mgrid[: shape[0], : shape[1]]
    ramp = (160 * down / shape[0] + 80 * across / shape[1]).astype(np.uint8)
    images = np.repeat(np.repeat(ramp[None, ..., None], shape[2], axis=-1), 2, axis=0)
    assert np.abs(back(images).astype(int) - images).mean() < 6


def test_an_embedding_is_the_same_to_the_bit_in_every_full_batch() -> None:
    images = drawn("scenes", 32, 16)
    encoder = load_encoder(f"{NAME}?batch=16", shape=(16, 16, 3))
    embeddings = encoder.encode(images)
    order = np.random.default_rng(0).permutation(32)
    np.testing.assert_array_equal(encoder.encode(images[order]), embeddings[order])


class TestSegments(ScoringSegmenterSuite):
    name = NAME


def overlap(name: str, folder: Path, side: int) -> float:
    """IoU of persons in photos with COCO's masks."""
    images, truth = coco(folder, "person", side)
    model = load_model(Segmenter, name)
    likely = model.segment(images) == model.classes.index("person")
    return float((likely & truth).sum() / (likely | truth).sum())


@pytest.mark.slow
@pytest.mark.parametrize("side", [64, 128])
def test_it_finds_persons_in_photos_and_shows_itself_small_ones_enlarged(
    shared_data: Path, missing: Any, side: int
) -> None:
    folder = shared_data / "images" / "photos"
    if not folder.is_dir():
        missing("data", "needs the photographs of ../shared/data/images/photos")
    enlarged = overlap(NAME, folder, side)
    assert enlarged >= LEAST_OVERLAP
    assert enlarged > 1.2 * overlap(f"{NAME}?size={side}", folder, side)


class TestPoses(PoseEstimatorSuite):
    name = NAME


def test_it_finds_the_keypoints_of_drawn_persons() -> None:
    """Of homes that it was not trained on: within a tenth of the person's longer side."""
    pytest.importorskip("aggdraw")
    part, known = drawn_persons(24)
    sanitizer = PoseSanitizer(load_model(PoseEstimator, NAME), "person")
    assert share_near(sanitizer, part, known, known[..., 2] > 0) > LEAST_NEAR
