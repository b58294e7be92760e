"""Conformance suites, for models, methods and queries of this package and of others.

A suite is a class of pytest tests. A subclass whose name begins with ``Test`` states what is
tested, and inherits the tests::

    from understudy.testing import EncoderSuite

    class TestMean(EncoderSuite):
        name = "toy:mean"
        shape = (16, 16, 3)
"""

from __future__ import annotations

from importlib.util import find_spec

from understudy.core.errors import MissingExtra

if find_spec("pytest") is None:
    raise MissingExtra("the conformance suites (pytest)", "dev")

import pytest

pytest.register_assert_rewrite(
    *(
        f"understudy.testing.{module}"
        for module in (
            "caption_suites",
            "embedding_suites",
            "generation_suites",
            "method_suite",
            "query_suite",
            "recognition_suites",
            "sample_inputs",
            "source_suite",
        )
    )
)

from understudy.testing.caption_suites import CaptionerSuite, WriterSuite  # noqa: E402
from understudy.testing.embedding_suites import (  # noqa: E402
    DecoderSuite,
    EncoderSuite,
    PromptedDecoderSuite,
    TextEncoderSuite,
)
from understudy.testing.generation_suites import GeneratorSuite, TunerSuite  # noqa: E402
from understudy.testing.method_suite import MethodSuite  # noqa: E402
from understudy.testing.query_suite import QuerySuite  # noqa: E402
from understudy.testing.recognition_suites import (  # noqa: E402
    DetectorSuite,
    PoseEstimatorSuite,
    ScoringSegmenterSuite,
    SegmenterSuite,
)
from understudy.testing.source_suite import SourceSuite  # noqa: E402

__all__ = [
    "CaptionerSuite",
    "DecoderSuite",
    "DetectorSuite",
    "EncoderSuite",
    "GeneratorSuite",
    "MethodSuite",
    "PoseEstimatorSuite",
    "PromptedDecoderSuite",
    "QuerySuite",
    "ScoringSegmenterSuite",
    "SegmenterSuite",
    "SourceSuite",
    "TextEncoderSuite",
    "TunerSuite",
    "WriterSuite",
]
