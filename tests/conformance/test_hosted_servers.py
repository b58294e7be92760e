"""The contracts of captioner, writer, encoder and generator, over a server.

By default that is the stub of this package. ``UNDERSTUDY_HOSTED`` names the models of a real one,
whose address is in ``OPENAI_BASE_URL``; a role that it leaves out is skipped::

    UNDERSTUDY_HOSTED=captioner=llava,writer=llama3.2,generator=flux?size=256 pytest ...
"""

import os
from collections.abc import Callable, Iterator

import pytest

from understudy.backends.registry import load_encoder, load_model
from understudy.core.ports import Captioner, Encoder, Generator, TextEncoder, Writer
from understudy.testing import CaptionerSuite, GeneratorSuite, TextEncoderSuite, WriterSuite
from understudy.testing.embedding_suites import EncoderSuite
from understudy.testing.hosted_stub import StubServer
from understudy.testing.sample_inputs import load_once

pytest.importorskip("openai")

REAL = dict(
    pair.split("=", 1) for pair in os.environ.get("UNDERSTUDY_HOSTED", "").split(",") if pair
)
SHAPE = (16, 16, 3)

Named = Callable[[str, str], str]


@pytest.fixture(scope="module")
def named() -> Iterator[Named]:
    """A role and options to the name of a model."""

    def of_real_server(role: str, options: str) -> str:
        if role not in REAL:
            pytest.skip(f"UNDERSTUDY_HOSTED names no {role}")
        return f"openai:{REAL[role]}"

    if REAL:
        yield of_real_server
        return
    with StubServer() as server:
        yield lambda role, options: f"openai:{role}?base_url={server.url}{options}"


class TestCaptioner(CaptionerSuite):
    @pytest.fixture
    def captioner(self, named: Named) -> Captioner:
        return load_once(Captioner, named("captioner", ""))


class TestWriter(WriterSuite):
    @pytest.fixture
    def writer(self, named: Named) -> Writer:
        return load_once(Writer, named("writer", ""))

    @pytest.fixture
    def label(self) -> str:
        return "dog"


class TestGenerator(GeneratorSuite):
    @pytest.fixture
    def generator(self, named: Named) -> Generator:
        return load_once(Generator, named("generator", "&size=32"))


class _Embedding:
    @pytest.fixture
    def encoder(self, named: Named) -> Encoder:
        return load_encoder(named("encoder", ""), shape=SHAPE)


class TestEncoder(_Embedding, EncoderSuite):
    """Images."""


class TestTextEncoder(_Embedding, TextEncoderSuite):
    """Texts, in their space."""

    def test_it_is_an_encoder_of_texts(self, encoder: Encoder) -> None:
        assert isinstance(encoder, TextEncoder)


def test_the_family_is_listed_and_has_no_other_kinds() -> None:
    from understudy.backends.registry import backends
    from understudy.core.errors import BackendError
    from understudy.core.ports import Segmenter

    assert "openai:MODEL" in {one.name for one in backends()}
    with pytest.raises(BackendError, match="openai: has no segmenter"):
        load_model(Segmenter, "openai:any")
