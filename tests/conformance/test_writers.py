"""What every writer of captions and every tuner must do. A new model adds its name to a list.

``{models}/NAME`` stands for a tiny model in the hub's format that is built when it is first asked
for (tests/backends/tiny_models).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.backends.registry import load_model
from understudy.core.errors import BackendError
from understudy.core.ports import Generator, Tuner, Writer

WRITERS: list[tuple[str, str]] = [  # a name, and a class that it can be asked for
    ("embedded:writer", "sleeping"),
    ("embedded:writer?target=dog&keep=target", "a brown dog"),
    ("hf:{models}/chat?tokens=40&batch=4", "dog"),
    ("hf:{models}/chat?tokens=40&variation=blanks&prompts=aug-pe", "dog"),
]
TUNERS: list[str] = [
    "hf:{models}/sd15?steps=2&guidance=1",
    "hf:{models}/sd21-unclip?steps=2&guidance=1&batch=3&shape=24x16x1",
    "embedded:studio?folder={studio}&steps=2&batch=3",
]

ROWS = 5
PROMPT, CLASS = "xyz dog", "a dog"
SETTINGS: list[dict[str, Any]] = [
    {"steps": 1, "rate": 1e-2},
    {"steps": "1", "full": "true", "rate": "0.01", "class_images": 2},
]
PICKLED = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


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


@cache
def loaded(port: Any, name: str) -> Any:
    return load_model(port, name)


@pytest.fixture(params=WRITERS, ids=lambda case: case[0])
def writer_case(request: pytest.FixtureRequest, tiny_models: Path) -> tuple[Writer, str]:
    name, label = request.param
    return loaded(Writer, located(name, tiny_models)), label


@pytest.fixture
def writer(writer_case: tuple[Writer, str]) -> Writer:
    return writer_case[0]


@pytest.fixture(params=TUNERS)
def tuner(request: pytest.FixtureRequest, tiny_models: Path) -> Tuner:
    if "{studio}" in request.param:
        studio = request.getfixturevalue("tiny_studio")
        return loaded(Tuner, request.param.format(studio=studio))
    return loaded(Tuner, located(request.param, tiny_models))


class TestWriters:
    def test_it_says_its_name_and_licence(self, writer: Writer) -> None:
        assert writer.licence
        again = load_model(Writer, writer.name)
        assert again.name == writer.name
        assert again.write(2, seed=3) == writer.write(2, seed=3)

    def test_it_writes_as_many_as_asked_each_on_one_line(self, writer: Writer) -> None:
        captions = writer.write(ROWS, seed=1)
        assert len(captions) == ROWS
        assert all(isinstance(caption, str) for caption in captions)
        assert all(caption == " ".join(caption.split()) != "" for caption in captions)
        assert writer.write(0) == []

    def test_it_writes_of_a_class(self, writer_case: tuple[Writer, str]) -> None:
        writer, label = writer_case
        assert len(writer.write(3, label=label, seed=2)) == 3

    def test_rows_differ_and_so_do_seeds(self, writer: Writer) -> None:
        one, other = writer.write(8, seed=1), writer.write(8, seed=2)
        assert len(set(one)) > 2
        assert one != other
        assert writer.write(8, seed=1) == one

    def test_a_row_does_not_depend_on_the_others(self, writer: Writer) -> None:
        captions = writer.write(7, seed=4)
        assert writer.write(3, seed=4) == captions[:3]
        varied = writer.vary(captions, degree=0.5, seed=5)
        assert writer.vary(captions[:3], degree=0.5, seed=5) == varied[:3]
        changed = [*captions[:2], *captions[:5]]
        assert writer.vary(changed, degree=0.5, seed=5)[:2] == varied[:2]

    def test_it_varies_each_text_once(self, writer: Writer) -> None:
        captions = writer.write(ROWS, seed=6)
        before = list(captions)
        varied = writer.vary(captions, degree=1.0, seed=7)
        assert len(varied) == ROWS
        assert all(caption.strip() for caption in varied)
        assert captions == before
        assert sum(new != old for new, old in zip(varied, captions, strict=True)) >= 3
        assert writer.vary([]) == []

    def test_no_degree_changes_nothing(self, writer: Writer) -> None:
        texts = [*writer.write(3, seed=8), "a text from elsewhere", ""]
        assert writer.vary(texts, degree=0.0, seed=9) == texts

    def test_a_text_it_can_make_nothing_of_is_not_lost(self, writer: Writer) -> None:
        (text,) = writer.vary(["qwrt zxcv"], degree=0.5)
        assert text
        assert writer.vary([""], degree=0.5) == [""]

    @pytest.mark.parametrize("degree", [-0.5, 1.5])
    def test_degrees_outside_zero_to_one_are_refused(self, writer: Writer, degree: float) -> None:
        with pytest.raises(BackendError, match="degree"):
            writer.vary(["a brown dog sleeping"], degree=degree)

    def test_a_negative_count_is_refused(self, writer: Writer) -> None:
        with pytest.raises(BackendError, match="-2"):
            writer.write(-2)

    def test_the_global_sources_of_chance_are_left_alone(self, writer: Writer) -> None:
        before = np.random.get_state()[1].copy()
        writer.vary(writer.write(2, seed=1), degree=0.5, seed=1)
        np.testing.assert_array_equal(np.random.get_state()[1], before)


def subject(rows: int = 2, height: int = 20, width: int = 28, channels: int = 3) -> np.ndarray:
    shape = (rows, height, width, channels)
    return np.random.default_rng(4).integers(0, 256, shape, dtype=np.uint8)


class TestTuners:
    @pytest.mark.parametrize("settings", SETTINGS, ids=["adapters", "all weights"])
    def test_a_new_generator_comes_out_and_can_be_kept(
        self, tuner: Tuner, tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        base = loaded(Generator, tuner.name)
        before = base.generate([PROMPT], seed=1)
        told = {"class_prompt": CLASS, "settings": settings | {"class_images": 2}}
        images = subject()
        images.setflags(write=False)
        tuned = tuner.tune(images, PROMPT, **told, folder=tmp_path / "kept", seed=2)
        assert isinstance(tuned, Generator)
        assert tuned.name != tuner.name
        assert tuned.licence
        assert (tuned.shape, tuned.tasks) == (base.shape, base.tasks)
        drawn = tuned.generate([PROMPT], seed=1)
        assert not np.array_equal(drawn, before)
        files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
        assert any(path.suffix == ".safetensors" for path in files)
        assert not [path for path in files if path.suffix in PICKLED]
        again = load_model(Generator, tuned.name).generate([PROMPT], seed=1)
        assert np.abs(again.astype(int) - drawn).max() <= 1

    def test_the_seed_decides_what_is_learned_and_the_base_stays(self, tuner: Tuner) -> None:
        told = {"settings": {"steps": 1, "rate": 1e-2, "full": True}}
        images = [
            tuner.tune(subject(), PROMPT, **told, seed=seed).generate([PROMPT], seed=1)
            for seed in (5, 5, 6)
        ]
        np.testing.assert_array_equal(images[0], images[1])
        assert not np.array_equal(images[0], images[2])

    def test_grey_images_of_any_size_are_learned_from(self, tuner: Tuner) -> None:
        told = {"settings": {"steps": 1, "full": True}}
        assert tuner.tune(subject(1, 9, 50, 1), PROMPT, **told).generate([PROMPT]).any()

    def test_wrong_images_and_settings_are_refused(self, tuner: Tuner) -> None:
        with pytest.raises(BackendError, match="uint8 images"):
            tuner.tune(subject() / 255.0, PROMPT)
        with pytest.raises(BackendError, match="found none"):
            tuner.tune(subject(0), PROMPT)
        with pytest.raises(BackendError, match="no option 'speed'"):
            tuner.tune(subject(), PROMPT, settings={"speed": 9})
