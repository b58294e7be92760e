"""The writers of captions and the tuners of this package. A new model adds its name to a list.

``{models}/NAME`` stands for a tiny model in the hub's format that is built when it is first asked
for (tests/backends/tiny_models).
"""

import re
from pathlib import Path

import pytest

from understudy.core.ports import Tuner, Writer
from understudy.testing import TunerSuite, WriterSuite
from understudy.testing.sample_inputs import load_once

pytestmark = pytest.mark.slow

WRITERS: list[tuple[str, str]] = [  # a name, and a class that it can be asked for
    ("embedded:writer", "sleeping"),
    ("embedded:writer?keep=target", "a brown dog"),
    ("hf:{models}/chat?tokens=40&batch=4", "dog"),
    ("hf:{models}/chat?tokens=40&variation=blanks&prompts=aug-pe", "dog"),
]
TUNERS: list[str] = [
    "hf:{models}/sd15?steps=2&guidance=1",
    "hf:{models}/sd21-unclip?steps=2&guidance=1&batch=3&shape=24x16x1",
    "embedded:studio?folder={studio}&steps=2&batch=3",
]

SLOW = [pytest.mark.slow]


def located(name: str, folder: Path) -> str:
    for kind in re.findall(r"\{models\}/([\w-]+)", name):
        for package in ("torch", "transformers", "diffusers", "peft"):
            pytest.importorskip(package)
        if kind == "chat":
            from tests.backends.tiny_models.language import save_chat_model

            if not (folder / kind).exists():
                save_chat_model(folder / kind)
        else:
            from tests.backends.tiny_models.diffusion import saved

            saved(kind, folder)
    return name.format(models=folder)


class TestWriters(WriterSuite):
    @pytest.fixture(params=WRITERS, ids=lambda case: case[0])
    def case(self, request: pytest.FixtureRequest, models: Path) -> tuple[str, str]:
        name, class_name = request.param
        return located(name, models), class_name

    @pytest.fixture
    def writer(self, case: tuple[str, str]) -> Writer:
        return load_once(Writer, case[0])

    @pytest.fixture
    def label(self, case: tuple[str, str]) -> str:
        return case[1]


class TestTuners(TunerSuite):
    @pytest.fixture(params=[pytest.param(one, marks=SLOW * ("unclip" in one)) for one in TUNERS])
    def tuner(self, request: pytest.FixtureRequest, models: Path) -> Tuner:
        if "{studio}" in request.param:
            studio = request.getfixturevalue("tiny_studio")
            return load_once(Tuner, request.param.format(studio=studio))
        return load_once(Tuner, located(request.param, models))
