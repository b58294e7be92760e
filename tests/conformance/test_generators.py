"""The generators and prompted decoders of this package. A new model adds its name to a list."""

import re

import pytest

from understudy.core.ports import Generator, PromptedDecoder
from understudy.testing import GeneratorSuite, PromptedDecoderSuite
from understudy.testing.embedding_suites import decoder_once
from understudy.testing.sample_inputs import load_once

pytestmark = pytest.mark.slow

GENERATORS: list[str] = [
    "hf:{models}/sd15?steps=2&batch=3&controlnet=edges:hf:{models}/edges",
    "hf:{models}/sd15?steps=2&batch=3&guidance=1&inpainting={models}/sd15-inpainting",
    "hf:{models}/sdxl?steps=2&batch=3&negative=blurred",
    "hf:{models}/sd21-unclip?steps=2&batch=3&controlnet=edges:{models}/edges",
    "hf:{models}/kandinsky-decoder?steps=2&batch=3&prior={models}/kandinsky-prior",
    "hf:{models}/sd3?steps=2&batch=3",
    "hf:{models}/pixart?steps=2&batch=3",
    "hf:{models}/flux?steps=2&batch=3&size=32",
    "embedded:studio?folder={studio}&steps=2&batch=3",
]

LIKE_OTHERS = {
    "hf:{models}/sd15?steps=2&batch=3&controlnet=edges:hf:{models}/edges",
    "hf:{models}/sd3?steps=2&batch=3",
    "hf:{models}/pixart?steps=2&batch=3",
    "hf:{models}/kandinsky-decoder?steps=2&batch=3&prior={models}/kandinsky-prior",
    "hf:{models}/kandinsky-decoder?steps=2&batch=3",
    "hf:{models}/flux?steps=2&batch=3&size=32",
}
"""Each goes through the code of another of its list, and waits for the slow tests."""

DECODERS: list[str] = [
    "hf:{models}/sd21-unclip?steps=2&batch=3",
    "hf:{models}/kandinsky-decoder?steps=2&batch=3",
    "embedded:studio?folder={studio}&steps=2&batch=3",
]


def located(name: str, request: pytest.FixtureRequest) -> str:
    """The name with the folder of models in it; each is built when it is first asked for."""
    if "{studio}" in name:
        return name.format(studio=request.getfixturevalue("tiny_studio"))
    if "{models}" not in name:
        return name
    for package in ("torch", "transformers", "diffusers"):
        pytest.importorskip(package)
    from tests.backends.tiny_models.diffusion import saved

    folder = request.getfixturevalue("models")
    for kind in re.findall(r"\{models\}/([\w-]+)", name):
        saved(kind, folder)
    return name.format(models=folder)


def marked(names: list[str]) -> list[object]:
    """The names as parameters, those that are like others among the slow tests."""
    return [
        pytest.param(name, marks=pytest.mark.slow) if name in LIKE_OTHERS else name
        for name in names
    ]


class TestGenerators(GeneratorSuite):
    @pytest.fixture(params=marked(GENERATORS))
    def generator(self, request: pytest.FixtureRequest) -> Generator:
        return load_once(Generator, located(request.param, request))


class TestPromptedDecoders(PromptedDecoderSuite):
    @pytest.fixture(params=marked(DECODERS))
    def decoder(self, request: pytest.FixtureRequest) -> PromptedDecoder:
        decoder = decoder_once(located(request.param, request), self.shape)
        assert isinstance(decoder, PromptedDecoder)
        return decoder
