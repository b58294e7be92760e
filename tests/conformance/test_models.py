"""What every model must do: captioners, segmenters, detectors, pose estimators, encoders of texts.

A new backend adds its names to the lists; ``{hub}/NAME`` stands for a tiny model that is built for
the test (tests/backends/tiny_models). Generators stand in test_generators.py, writers in
test_writers.py, encoders and decoders without texts in test_ports.py.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny_models.folders import hub, located

from understudy.backends.registry import load_encoder, load_model
from understudy.core.errors import BackendError
from understudy.core.ports import (
    Captioner,
    Detector,
    Encoder,
    PoseEstimator,
    Segmenter,
    TextEncoder,
)
from understudy.core.types import Found, Images, Shape

__all__ = ["hub"]

GRAMMAR = Path(__file__).parents[1] / "backends" / "tiny_models" / "phrases.json"

HUB_ENCODERS: list[tuple[str, Shape]] = [
    ("hf:{hub}/clip", (40, 56, 3)),
    ("hf:{hub}/clip?size=48&batch=4", (28, 28, 1)),
    ("hf:{hub}/clip?normalise=false", (32, 32, 3)),
    ("hf:{hub}/siglip", (32, 32, 3)),
    ("hf:{hub}/siglip2", (24, 40, 3)),
    ("hf:{hub}/dino", (32, 32, 1)),
    ("hf:{hub}/dino?pooling=mean&normalise=false&size=42", (20, 33, 3)),
    ("hf:{hub}/tower", (64, 64, 3)),
    ("hf:{hub}/pipeline_with_tower?subfolder=image_encoder", (40, 40, 3)),
]
TEXT_ENCODERS: list[tuple[str, Shape]] = [
    ("hf:{hub}/clip", (40, 56, 3)),
    ("hf:{hub}/siglip", (32, 32, 1)),
    ("hf:{hub}/siglip2?batch=3", (24, 40, 3)),
    ("embedded:studio?folder={studio}", (40, 40, 3)),
]
CAPTIONERS = [
    f"hf:{{hub}}/clip?grammar={GRAMMAR}",
    "hf:{hub}/blip?tokens=8",
    "hf:{hub}/blip?tokens=8&prefix=a photo of&beams=2&batch=4",
    "hf:{hub}/llava?tokens=8&batch=4",
    "hf:{hub}/qwen2_vl?tokens=8&prompt=What is this%3F&prefix=a",
    "hf:{hub}/idefics3?tokens=8",
    "embedded:studio?folder={studio}",
]
SEGMENTERS = [
    "hf:{hub}/segformer?batch=4",
    "hf:{hub}/segformer?size=32",
    "hf:{hub}/mask2former",
    "hf:{hub}/oneformer",
    "embedded:studio?folder={studio}",
]
DETECTORS = [
    "hf:{hub}/detr?threshold=0.1&batch=4",
    "hf:{hub}/rt_detr?threshold=0.3",
    "hf:{hub}/mask2former?threshold=0.05",
    "hf:{hub}/oneformer?threshold=0.05",
]
POSE_ESTIMATORS = [
    "hf:{hub}/vitpose?batch=4",
    "hf:{hub}/vitpose?detector=hf:{hub}/mask2former%3Fthreshold=0.05&target=frame",
]

ROWS = 6


@cache
def loaded(port: Any, name: str) -> Any:
    return load_model(port, name)


@cache
def encoder_named(name: str, shape: Shape) -> Any:
    return load_encoder(name, shape=shape)


def pictures(shape: Shape = (40, 56, 3), rows: int = ROWS) -> Images:
    """Noise, a flat image, and soft stripes, that leave no two rows alike."""
    images = np.random.default_rng(8).integers(0, 256, (rows, *shape), dtype=np.uint8)
    images[1] = 90
    row, column = np.indices(shape[:2])
    images[2] = (127 + 120 * np.sin(row / 5 + column / 9)).astype(np.uint8)[..., None]
    images.setflags(write=False)
    return images


def placed(name: str, hub: Path, request: pytest.FixtureRequest) -> str:
    if "{studio}" in name:
        return name.format(studio=request.getfixturevalue("tiny_studio"))
    return located(name, hub)


@pytest.fixture(params=HUB_ENCODERS, ids=lambda case: f"{case[0]} {case[1]}")
def encoder_case(request: pytest.FixtureRequest, hub: Path) -> tuple[Encoder, Images]:
    name, shape = request.param
    return encoder_named(placed(name, hub, request), shape), pictures(shape)


@pytest.fixture(params=TEXT_ENCODERS, ids=lambda case: f"{case[0]} {case[1]}")
def text_case(request: pytest.FixtureRequest, hub: Path) -> tuple[TextEncoder, Images]:
    name, shape = request.param
    return encoder_named(placed(name, hub, request), shape), pictures(shape)


@pytest.fixture(params=CAPTIONERS)
def captioner(request: pytest.FixtureRequest, hub: Path) -> Captioner:
    return loaded(Captioner, placed(request.param, hub, request))


@pytest.fixture(params=SEGMENTERS)
def segmenter(request: pytest.FixtureRequest, hub: Path) -> Segmenter:
    return loaded(Segmenter, placed(request.param, hub, request))


@pytest.fixture(params=DETECTORS)
def detector(request: pytest.FixtureRequest, hub: Path) -> Detector:
    return loaded(Detector, placed(request.param, hub, request))


@pytest.fixture(params=POSE_ESTIMATORS)
def pose_estimator(request: pytest.FixtureRequest, hub: Path) -> PoseEstimator:
    return loaded(PoseEstimator, placed(request.param, hub, request))


def check_stated(model: Any) -> None:
    """Every model says its name and its licence."""
    assert model.name
    assert model.licence


def check_refuses(call: Any) -> None:
    """What is no stack of uint8 pictures is refused."""
    with pytest.raises(BackendError, match="uint8 images"):
        call(pictures().astype(np.float32))
    with pytest.raises(BackendError, match="uint8 images"):
        call(pictures()[0])
    with pytest.raises(BackendError, match="uint8 images"):
        call(np.zeros((2, 8, 8, 4), dtype=np.uint8))


def test_an_encoder_gives_finite_rows_and_keeps_its_bound(
    encoder_case: tuple[Encoder, Images],
) -> None:
    encoder, images = encoder_case
    assert isinstance(encoder, Encoder)
    check_stated(encoder)
    embeddings = encoder.encode(images)
    assert embeddings.shape == (ROWS, encoder.dim)
    assert embeddings.dtype == np.float32
    assert np.isfinite(embeddings).all()
    assert np.abs(embeddings[0] - embeddings[1]).max() > 1e-3
    assert encoder.encode(images[:0]).shape == (0, encoder.dim)
    if encoder.norm_bound is not None:
        norms = np.linalg.norm(embeddings.astype(np.float64), axis=1)
        assert norms.max() <= encoder.norm_bound


def test_an_encoders_row_depends_on_its_own_image_only(
    encoder_case: tuple[Encoder, Images],
) -> None:
    encoder, images = encoder_case
    together = encoder.encode(images)
    backwards = encoder.encode(images[::-1])[::-1]
    alone = np.concatenate([encoder.encode(images[i : i + 1]) for i in range(ROWS)])
    slack = 1e-5 * np.abs(together).max()
    np.testing.assert_allclose(backwards, together, rtol=0, atol=slack)
    np.testing.assert_allclose(alone, together, rtol=0, atol=slack)


def test_an_encoders_name_loads_it_again(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    again = load_encoder(encoder.name, shape=images.shape[1:])
    assert again.name == encoder.name
    np.testing.assert_array_equal(again.encode(images), encoder.encode(images))


def test_an_encoder_refuses_other_images(encoder_case: tuple[Encoder, Images]) -> None:
    encoder, images = encoder_case
    with pytest.raises(BackendError, match="uint8 images of shape"):
        encoder.encode(images[:, 1:])
    with pytest.raises(BackendError, match="float32"):
        encoder.encode(images.astype(np.float32))  # type: ignore[arg-type]


def test_texts_are_unit_rows_in_the_space_of_the_images(
    text_case: tuple[TextEncoder, Images],
) -> None:
    encoder, images = text_case
    assert isinstance(encoder, TextEncoder)
    texts = ["a brown dog", "a person reading", "", "a brown dog " * 40]
    embeddings = encoder.encode_text(texts)
    assert embeddings.shape == (len(texts), encoder.dim)
    assert embeddings.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(images), axis=1), 1, atol=1e-5)
    assert np.abs(embeddings[0] - embeddings[1]).max() > 1e-3
    assert encoder.encode_text([]).shape == (0, encoder.dim)


def test_a_text_depends_on_itself_only(text_case: tuple[TextEncoder, Images]) -> None:
    encoder, _ = text_case
    texts = ["a brown dog", "a person reading near the window", "black", "a dog " * 40, "sofa"]
    together = encoder.encode_text(texts)
    alone = np.concatenate([encoder.encode_text([text]) for text in texts])
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-5)


def test_a_text_encoder_refuses_what_is_no_list_of_texts(
    text_case: tuple[TextEncoder, Images],
) -> None:
    encoder, _ = text_case
    with pytest.raises(BackendError, match="list of texts"):
        encoder.encode_text("a dog")
    with pytest.raises(BackendError, match="list of texts"):
        encoder.encode_text(["a dog", None])  # type: ignore[list-item]


def test_a_captioner_says_something_of_every_image(captioner: Captioner) -> None:
    assert isinstance(captioner, Captioner)
    check_stated(captioner)
    for images in (pictures(), pictures((30, 30, 1), 3)):
        captions = captioner.caption(images)
        assert len(captions) == len(images)
        assert all(caption.strip() == caption != "" for caption in captions)
        assert not any("\n" in caption for caption in captions)
    assert captioner.caption(pictures()[:0]) == []


def test_a_caption_depends_on_its_own_image_only(captioner: Captioner) -> None:
    images = pictures()
    together = captioner.caption(images)
    assert captioner.caption(images[::-1])[::-1] == together
    assert [captioner.caption(images[i : i + 1])[0] for i in range(ROWS)] == together


def test_a_captioners_name_loads_it_again(captioner: Captioner) -> None:
    again = load_model(Captioner, captioner.name)
    assert again.name == captioner.name
    assert again.caption(pictures()[:2]) == captioner.caption(pictures()[:2])


def test_a_captioner_refuses_other_images(captioner: Captioner) -> None:
    check_refuses(captioner.caption)


def test_a_segmenter_gives_a_class_for_every_pixel(segmenter: Segmenter) -> None:
    assert isinstance(segmenter, Segmenter)
    check_stated(segmenter)
    for images in (pictures(), pictures((30, 50, 1), 3)):
        maps = segmenter.segment(images)
        assert maps.shape == images.shape[:3]
        assert maps.dtype == np.int64
        assert maps.min() >= 0
        assert maps.max() < len(segmenter.classes)
    assert segmenter.segment(pictures()[:0]).shape == (0, 40, 56)


def test_a_map_depends_on_its_own_image_only(segmenter: Segmenter) -> None:
    images = pictures()
    together = segmenter.segment(images)
    alone = np.concatenate([segmenter.segment(images[i : i + 1]) for i in range(ROWS)])
    assert (alone == together).mean() > 0.999  # a pixel between two classes may fall either way


def test_a_segmenters_name_loads_it_again(segmenter: Segmenter) -> None:
    again = load_model(Segmenter, segmenter.name)
    assert (again.name, again.classes) == (segmenter.name, segmenter.classes)
    np.testing.assert_array_equal(again.segment(pictures()), segmenter.segment(pictures()))


def test_a_segmenter_refuses_other_images(segmenter: Segmenter) -> None:
    check_refuses(segmenter.segment)


def check_found(found: Found, size: tuple[int, int], classes: int) -> None:
    """Boxes inside the image, best first, and masks inside their boxes."""
    count = len(found.boxes)
    assert found.boxes.shape == (count, 4)
    assert found.boxes.dtype == np.float32
    assert found.labels.shape == found.scores.shape == (count,)
    assert found.labels.dtype == np.int64
    assert found.scores.dtype == np.float32
    assert (found.boxes[:, :2] <= found.boxes[:, 2:]).all()
    assert (found.boxes >= 0).all()
    assert (found.boxes[:, [1, 3]] <= size[0]).all()
    assert (found.boxes[:, [0, 2]] <= size[1]).all()
    assert ((found.labels >= 0) & (found.labels < classes)).all()
    assert ((found.scores >= 0) & (found.scores <= 1)).all()
    assert (np.diff(found.scores) <= 0).all()
    if found.masks is not None:
        assert found.masks.shape == (count, *size)
        assert found.masks.dtype == np.bool_
        for mask, (left, top, right, bottom) in zip(
            found.masks, found.boxes.astype(int), strict=True
        ):
            assert mask.any()
            assert mask.sum() == mask[top:bottom, left:right].sum()


def test_a_detector_finds_objects_inside_each_image(detector: Detector) -> None:
    assert isinstance(detector, Detector)
    check_stated(detector)
    for images in (pictures(), pictures((30, 50, 1), 3)):
        found = detector.detect(images)
        assert len(found) == len(images)
        for one in found:
            check_found(one, images.shape[1:3], len(detector.classes))
    assert sum(len(one.boxes) for one in detector.detect(pictures())) > 0
    assert detector.detect(pictures()[:0]) == []


def test_what_is_found_depends_on_its_own_image_only(detector: Detector) -> None:
    images = pictures()
    for row, one in enumerate(detector.detect(images)):
        (alone,) = detector.detect(images[row : row + 1])
        np.testing.assert_allclose(alone.scores, one.scores, atol=1e-4)
        # Two objects that are equally sure may change places.
        assert sorted(alone.labels) == sorted(one.labels)


def test_a_detectors_name_loads_it_again(detector: Detector) -> None:
    again = load_model(Detector, detector.name)
    assert (again.name, again.classes) == (detector.name, detector.classes)
    for one, other in zip(again.detect(pictures()), detector.detect(pictures()), strict=True):
        np.testing.assert_array_equal(one.boxes, other.boxes)


def test_a_detector_refuses_other_images(detector: Detector) -> None:
    check_refuses(detector.detect)


def test_a_pose_has_every_keypoint(pose_estimator: PoseEstimator) -> None:
    assert isinstance(pose_estimator, PoseEstimator)
    check_stated(pose_estimator)
    for images in (pictures(), pictures((30, 50, 1), 3)):
        poses = pose_estimator.pose(images)
        assert len(poses) == len(images)
        for pose in poses:
            assert pose.shape[1:] == (len(pose_estimator.keypoints), 3)
            assert pose.dtype == np.float32
            assert np.isfinite(pose).all()
            assert ((pose[..., 2] >= 0) & (pose[..., 2] <= 1)).all()
    assert sum(len(pose) for pose in pose_estimator.pose(pictures())) > 0
    assert pose_estimator.pose(pictures()[:0]) == []


def test_a_pose_depends_on_its_own_image_only(pose_estimator: PoseEstimator) -> None:
    images = pictures()
    for row, pose in enumerate(pose_estimator.pose(images)):
        (alone,) = pose_estimator.pose(images[row : row + 1])
        assert alone.shape == pose.shape
        np.testing.assert_allclose(alone[..., 2], pose[..., 2], atol=1e-3)
        # Where a heatmap is flat at its top, the last digit of a float moves the refined place.
        assert np.isclose(alone, pose, rtol=1e-2, atol=0.5).mean() > 0.8


def test_a_pose_estimators_name_loads_it_again(pose_estimator: PoseEstimator) -> None:
    again = load_model(PoseEstimator, pose_estimator.name)
    assert (again.name, again.keypoints) == (pose_estimator.name, pose_estimator.keypoints)
    for one, other in zip(again.pose(pictures()), pose_estimator.pose(pictures()), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_pose_estimator_refuses_other_images(pose_estimator: PoseEstimator) -> None:
    check_refuses(pose_estimator.pose)
