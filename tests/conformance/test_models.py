"""The models of this package: captioners, segmenters, detectors, pose estimators, hub encoders.

A new backend adds its names to the lists; ``{hub}/NAME`` stands for a tiny model that is built for
the test (tests/backends/tiny_models). Generators stand in test_generators.py, writers in
test_writers.py, encoders and decoders without texts in test_ports.py.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.backends.tiny_models.folders import located

from understudy.core.ports import Captioner, Detector, PoseEstimator, Segmenter
from understudy.core.types import Images, Shape
from understudy.testing import (
    CaptionerSuite,
    DetectorSuite,
    EncoderSuite,
    PoseEstimatorSuite,
    ScoringSegmenterSuite,
    TextEncoderSuite,
)
from understudy.testing.embedding_suites import EMBEDDED, encoder_once
from understudy.testing.sample_inputs import extreme_images, load_once

GRAMMAR = Path(__file__).parents[1] / "backends" / "tiny_models" / "phrases.json"

SLOW = re.compile("rt_detr")
"""Families of networks that go through the code of another of its list."""

HUB_ENCODERS: list[tuple[str, Shape]] = [
    ("hf:{hub}/clip", (40, 56, 3)),
    ("hf:{hub}/siglip", (24, 40, 3)),
    ("hf:{hub}/dino?normalise=false&size=42", (20, 33, 3)),
    ("hf:{hub}/pipeline_with_tower?subfolder=image_encoder", (40, 40, 3)),
]
TEXT_ENCODERS: list[tuple[str, Shape]] = [
    ("hf:{hub}/clip", (40, 56, 3)),
    ("hf:{hub}/siglip?batch=3", (24, 40, 3)),
    ("embedded:studio?folder={studio}", (40, 40, 3)),
]
CAPTIONERS = [
    f"hf:{{hub}}/clip?grammar={GRAMMAR}",
    "hf:{hub}/blip?tokens=8&prefix=a photo of&batch=4",
    "hf:{hub}/llava?tokens=8&batch=4",
    "embedded:studio?folder={studio}",
]
SEGMENTERS = [
    "hf:{hub}/segformer?batch=4",
    "hf:{hub}/mask2former",
    "embedded:studio?folder={studio}",
]
DETECTORS = [
    "hf:{hub}/detr?threshold=0.1&batch=4",
    "hf:{hub}/rt_detr?threshold=0.3",
    "hf:{hub}/mask2former?threshold=0.05",
]
POSE_ESTIMATORS = ["hf:{hub}/vitpose?batch=4"]


def placed(name: str, models: Path, request: pytest.FixtureRequest) -> str:
    if "{studio}" in name:
        return name.format(studio=request.getfixturevalue("tiny_studio"))
    return located(name, models)


def marked(names: list[str]) -> list[object]:
    """The names as parameters, those that are like others among the slow tests."""
    return [pytest.param(one, marks=pytest.mark.slow) if SLOW.search(one) else one for one in names]


class HubCase:
    """Fixtures of an encoder of the hub's format and images of its shape."""

    @pytest.fixture
    def encoder(self, case: tuple[str, Shape]) -> Any:
        return encoder_once(*case)

    @pytest.fixture
    def images(self, case: tuple[str, Shape]) -> Images:
        return extreme_images(case[1], EMBEDDED)


class TestHubEncoders(HubCase, EncoderSuite):
    @pytest.fixture(params=HUB_ENCODERS, ids=lambda case: f"{case[0]} {case[1]}")
    def case(self, request: pytest.FixtureRequest, models: Path) -> tuple[str, Shape]:
        return placed(request.param[0], models, request), request.param[1]


class TestTextEncoders(HubCase, TextEncoderSuite):
    @pytest.fixture(params=TEXT_ENCODERS, ids=lambda case: f"{case[0]} {case[1]}")
    def case(self, request: pytest.FixtureRequest, models: Path) -> tuple[str, Shape]:
        return placed(request.param[0], models, request), request.param[1]


class TestCaptioners(CaptionerSuite):
    @pytest.fixture(params=marked(CAPTIONERS))
    def captioner(self, request: pytest.FixtureRequest, models: Path) -> Captioner:
        return load_once(Captioner, placed(request.param, models, request))


class TestSegmenters(ScoringSegmenterSuite):
    @pytest.fixture(params=marked(SEGMENTERS))
    def segmenter(self, request: pytest.FixtureRequest, models: Path) -> Segmenter:
        return load_once(Segmenter, placed(request.param, models, request))


class TestDetectors(DetectorSuite):
    @pytest.fixture(params=marked(DETECTORS))
    def detector(self, request: pytest.FixtureRequest, models: Path) -> Detector:
        return load_once(Detector, placed(request.param, models, request))


class TestPoseEstimators(PoseEstimatorSuite):
    @pytest.fixture(params=POSE_ESTIMATORS)
    def pose_estimator(self, request: pytest.FixtureRequest, models: Path) -> PoseEstimator:
        return load_once(PoseEstimator, placed(request.param, models, request))
