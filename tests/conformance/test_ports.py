"""The encoders and decoders of this package. A new backend adds its names to the two lists."""

from pathlib import Path

import pytest
from tests.backends.tiny_onnx import block_fill, block_means, channel_means

from understudy.backends.registry import backends
from understudy.core.entry_points import BACKENDS, BUILT_IN
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Embeddings, Images, Shape
from understudy.testing import DecoderSuite, EncoderSuite
from understudy.testing.embedding_suites import EMBEDDED, decoder_once, encoder_once
from understudy.testing.sample_inputs import extreme_images

ENCODERS: list[tuple[str, Shape]] = [
    ("embedded:dct", (9, 14, 3)),
    ("embedded:dct?coefficients=40", (16, 16, 3)),
    ("embedded:energies", (28, 28, 1)),
    ("embedded:energies", (21, 32, 3)),
    ("embedded:photo?batch=4", (21, 32, 3)),
    ("embedded:scattering", (28, 28, 1)),
    ("embedded:scattering?J=3&L=4&colour=opponent&coefficients=90", (21, 32, 3)),
    ("onnx:{models}/block_means.onnx?size=20x12&norm_bound=2.5", (28, 28, 1)),
    ("onnx:{models}/batch_of_four.onnx", (16, 16, 3)),
    ("inception:{models}/batch_of_four.onnx", (16, 16, 3)),
]

DECODERS: list[tuple[str, str, Shape]] = [
    ("embedded:dct", "embedded:dct?coefficients=30", (9, 14, 3)),
    ("embedded:energies", "embedded:energies", (21, 32, 3)),
    ("embedded:photo?batch=4", "embedded:photo", (21, 32, 3)),
    ("onnx:{models}/block_fill.onnx?batch=4", "onnx:{models}/block_means.onnx", (16, 16, 3)),
    (
        "onnx:{models}/block_fill.onnx?scale=-1..1",
        "onnx:{models}/block_means.onnx?size=32&scale=-1..1",
        (28, 28, 1),
    ),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    block_means(folder / "block_means.onnx")
    block_fill(folder / "block_fill.onnx")
    channel_means(folder / "batch_of_four.onnx", batch=4)
    return folder


def located(name: str, request: pytest.FixtureRequest) -> str:
    """The name with the folder of models in it; skips where a package is missing."""
    if name.startswith(("embedded:scattering", "embedded:energies")):
        pytest.importorskip("torch")
    if name.startswith("embedded:photo"):
        pytest.importorskip("diffusers")
    if "{models}" not in name:
        return name
    pytest.importorskip("onnxruntime")
    return name.format(models=request.getfixturevalue("models"))


class TestEncoders(EncoderSuite):
    @pytest.fixture(params=ENCODERS, ids=lambda case: f"{case[0]} {case[1]}")
    def case(self, request: pytest.FixtureRequest) -> tuple[str, Shape]:
        name, shape = request.param
        return located(name, request), shape

    @pytest.fixture
    def encoder(self, case: tuple[str, Shape]) -> Encoder:
        return encoder_once(*case)

    @pytest.fixture
    def images(self, case: tuple[str, Shape]) -> Images:
        return extreme_images(case[1], EMBEDDED)


class TestDecoders(DecoderSuite):
    @pytest.fixture(params=DECODERS, ids=lambda case: f"{case[0]} {case[2]}")
    def case(self, request: pytest.FixtureRequest) -> tuple[str, str, Shape]:
        name, encoder_name, shape = request.param
        return located(name, request), located(encoder_name, request), shape

    @pytest.fixture
    def decoder(self, case: tuple[str, str, Shape]) -> Decoder:
        name, encoder_name, shape = case
        return decoder_once(name, shape, encoder_name)

    @pytest.fixture
    def embeddings(self, case: tuple[str, str, Shape]) -> Embeddings:
        _, encoder_name, shape = case
        return encoder_once(encoder_name, shape).encode(extreme_images(shape, EMBEDDED))


def test_every_built_in_model_is_listed_here() -> None:
    families = tuple(f"{family}:" for family in BUILT_IN[BACKENDS])
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
