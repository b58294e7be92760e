"""What every generator and prompted decoder must do. A new model adds its name to a list."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from understudy.backends.registry import load_decoder, load_model
from understudy.core.errors import BackendError, UnsupportedTask
from understudy.core.ports import Generator, PromptedDecoder
from understudy.core.types import Images, Masks

GENERATORS: list[str] = [
    "hf:{models}/sd15?steps=2&batch=3&controlnet=edges:{models}/edges",
    "hf:{models}/sd15?steps=2&batch=3&guidance=1&inpainting={models}/sd15-inpainting",
    "hf:{models}/sd15?steps=3&batch=2&scheduler=EulerAncestralDiscrete&shape=24x16x1",
    "hf:{models}/sd15-inpainting?steps=2&batch=3",
    "hf:{models}/sdxl?steps=2&batch=3&negative=blurred",
    "hf:{models}/sdxl?steps=1&batch=3&guidance=0&scheduler=LCM",
    "hf:{models}/sd21-unclip?steps=2&batch=3&controlnet=edges:{models}/edges",
    "hf:{models}/kandinsky-decoder?steps=2&batch=3&prior={models}/kandinsky-prior",
    "hf:{models}/sd3?steps=2&batch=3",
    "hf:{models}/flux?steps=2&batch=3&size=32",
    "hf:{models}/z-image?steps=2&batch=3&size=32",
    "embedded:studio?folder={studio}&steps=2&batch=3",
]

DECODERS: list[str] = [
    "hf:{models}/sd21-unclip?steps=2&batch=3",
    "hf:{models}/sd21-unclip?steps=2&batch=3&guidance=1&scheduler=UniPCMultistep",
    "hf:{models}/kandinsky-decoder?steps=2&batch=3",
    "embedded:studio?folder={studio}&steps=2&batch=3",
]

ROWS = 5
SEEDS = np.arange(ROWS, dtype=np.uint64)
PROMPTS = ["a dog", "a cat on a sofa", "a dog", "", "a blue wall"]
SHAPE = (28, 28, 3)  # of the decoders' images
CLOSE = 2  # of 255: what rounding in another order may change


@pytest.fixture(scope="session")
def tiny_pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipelines")


_LOADED: dict[str, Generator] = {}


def generator_named(name: str) -> Generator:
    if name not in _LOADED:
        made = load_model(Generator, name)
        _LOADED[name] = _LOADED[made.name] = made
    return _LOADED[name]


@cache
def decoder_named(name: str) -> PromptedDecoder:
    decoder = load_decoder(name, shape=SHAPE)
    assert isinstance(decoder, PromptedDecoder)
    return decoder


def located(name: str, request: pytest.FixtureRequest) -> str:
    """The name with the folder of models in it; each is built when it is first asked for."""
    if "{studio}" in name:
        return name.format(studio=request.getfixturevalue("tiny_studio"))
    if "{models}" not in name:
        return name
    for package in ("torch", "transformers", "diffusers"):
        pytest.importorskip(package)
    from tests.backends.tiny_models.diffusion import saved

    folder = request.getfixturevalue("tiny_pipelines")
    for kind in re.findall(r"\{models\}/([\w-]+)", name):
        saved(kind, folder)
    return name.format(models=folder)


@pytest.fixture(params=GENERATORS)
def generator(request: pytest.FixtureRequest) -> Generator:
    return generator_named(located(request.param, request))


@pytest.fixture(params=DECODERS)
def decoder(request: pytest.FixtureRequest) -> PromptedDecoder:
    return decoder_named(located(request.param, request))


def pictures(generator: Generator) -> Images:
    """Smooth images: noise would be cut off by any autoencoder's range."""
    row, column = np.indices(generator.shape[:2])
    waves = [np.sin(row / (3 + k)) * np.cos(column / (2 + k)) for k in range(ROWS)]
    grey = (127 + 100 * np.stack(waves)).astype(np.uint8)
    return np.repeat(grey[..., None], generator.shape[2], axis=3)


def holes(generator: Generator) -> Masks:
    height, width = generator.shape[:2]
    masks = np.zeros((ROWS, height, width), dtype=np.bool_)
    for row, mask in enumerate(masks[:3]):
        mask[height // 4 : height // 2 + row, width // 4 : 3 * width // 4] = True
    masks[3] = True  # and row 4 has no hole
    return masks


def draw(generator: Generator, task: str, rows: slice, seed: int = 1) -> Images:
    """Run a task on some of the rows."""
    prompts, images = PROMPTS[rows], pictures(generator)[rows]
    if task == "text":
        return generator.generate(prompts, seed=seed)
    if task == "variation":
        return generator.vary(images, prompts, strength=0.5, seed=seed)
    if task == "inpainting":
        return generator.inpaint(images, holes(generator)[rows], prompts, seed=seed)
    return generator.control(task.removeprefix("control:"), images, prompts, seed=seed)


@cache
def drawn(name: str, task: str) -> Images:
    """All rows of a task, drawn once for the tests to look at."""
    return draw(generator_named(name), task, slice(None))


def apart(one: Images, other: Images) -> int:
    return int(np.abs(one.astype(int) - other.astype(int)).max())


def test_a_generator_says_what_it_is(generator: Generator) -> None:
    assert generator.licence
    assert len(generator.shape) == 3
    assert generator.shape[2] in (1, 3)
    plain = {"text", "variation", "inpainting"}
    assert generator.tasks
    assert all(task in plain or task.startswith("control:") for task in generator.tasks)


def test_each_task_gives_an_image_a_row(generator: Generator) -> None:
    for task in sorted(generator.tasks):
        made = drawn(generator.name, task)
        assert made.shape == (ROWS, *generator.shape)
        assert made.dtype == np.uint8
        assert apart(made[0], made[1]) > CLOSE
        assert draw(generator, task, slice(0)).shape == (0, *generator.shape)


def test_a_seed_gives_the_same_images_again_and_another_seed_others(generator: Generator) -> None:
    for task in sorted(generator.tasks):
        first = drawn(generator.name, task)
        assert apart(draw(generator, task, slice(None)), first) == 0
        assert apart(draw(generator, task, slice(3), seed=2), first[:3]) > CLOSE


def test_rows_of_one_prompt_differ(generator: Generator) -> None:
    for task in sorted(generator.tasks - {"inpainting"}):
        made = drawn(generator.name, task)
        assert PROMPTS[0] == PROMPTS[2]
        assert apart(made[0], made[2]) > CLOSE


def test_a_row_depends_on_its_own_inputs_and_place_only(generator: Generator) -> None:
    for task in sorted(generator.tasks):
        for rows in (slice(1), slice(2)):
            part = draw(generator, task, rows)
            assert apart(part, drawn(generator.name, task)[rows]) <= CLOSE


def test_what_is_asked_counts(generator: Generator) -> None:
    if "text" not in generator.tasks:
        pytest.skip("draws nothing from text alone")
    one = generator.generate(["a dog"], seed=3)
    other = generator.generate(["seventeen blue bottles"], seed=3)
    assert apart(one, other) > 0


def test_inpainting_leaves_the_other_pixels_alone(generator: Generator) -> None:
    if "inpainting" not in generator.tasks:
        pytest.skip("does not inpaint")
    images, masks = pictures(generator), holes(generator)
    made = drawn(generator.name, "inpainting")
    np.testing.assert_array_equal(made[~masks], images[~masks])
    np.testing.assert_array_equal(made[4], images[4])
    assert (made[masks] != images[masks]).mean() > 0.5
    np.testing.assert_array_equal(
        generator.inpaint(images, masks, PROMPTS, strength=0.0, seed=1), images
    )


def test_no_strength_gives_the_images_back(generator: Generator) -> None:
    if "variation" not in generator.tasks:
        pytest.skip("makes no variations")
    images = pictures(generator)
    same = generator.vary(images, PROMPTS, strength=0.0, seed=1)
    np.testing.assert_array_equal(same, images)
    assert not np.shares_memory(same, images)


def test_more_strength_forgets_more(generator: Generator) -> None:
    if "variation" not in generator.tasks:
        pytest.skip("makes no variations")
    images = pictures(generator)
    others, prompts = images[::-1].copy(), PROMPTS[:1]
    told = []
    for strength in (0.5, 1.0):
        one = generator.vary(images[:1], prompts, strength=strength, seed=1)
        told.append(apart(one, generator.vary(others[:1], prompts, strength=strength, seed=1)))
    assert told[0] > 0 == told[1]


def test_inputs_are_left_alone(generator: Generator) -> None:
    images, masks = pictures(generator), holes(generator)
    before = images.copy(), masks.copy()
    for array in (images, masks):
        array.setflags(write=False)
    if "variation" in generator.tasks:
        generator.vary(images[:1], PROMPTS[:1], strength=0.5)
    if "inpainting" in generator.tasks:
        generator.inpaint(images[:1], masks[:1], PROMPTS[:1])
    np.testing.assert_array_equal(images, before[0])
    np.testing.assert_array_equal(masks, before[1])


def test_other_tasks_are_refused(generator: Generator) -> None:
    images, masks = pictures(generator), holes(generator)
    with pytest.raises(UnsupportedTask, match="control:weather"):
        generator.control("weather", images, PROMPTS)
    if "text" not in generator.tasks:
        with pytest.raises(UnsupportedTask, match="text"):
            generator.generate(PROMPTS)
    if "inpainting" not in generator.tasks:
        with pytest.raises(UnsupportedTask, match="inpainting"):
            generator.inpaint(images, masks, PROMPTS)
    if "variation" not in generator.tasks:
        with pytest.raises(UnsupportedTask, match="variation"):
            generator.vary(images, PROMPTS, strength=0.5)


def test_wrong_inputs_are_refused(generator: Generator) -> None:
    images, masks = pictures(generator), holes(generator)
    if "text" in generator.tasks:
        with pytest.raises(BackendError, match="list of texts"):
            generator.generate("a dog")
    if "variation" in generator.tasks:
        with pytest.raises(BackendError, match="4 prompts for 5 images"):
            generator.vary(images, PROMPTS[:4], strength=0.5)
        with pytest.raises(BackendError, match="between 0 and 1"):
            generator.vary(images, PROMPTS, strength=1.5)
        with pytest.raises(BackendError, match="uint8 images of shape"):
            generator.vary(images[:, 1:], PROMPTS, strength=0.5)
    if "inpainting" in generator.tasks:
        with pytest.raises(BackendError, match="bool masks of shape"):
            generator.inpaint(images, masks[:, 1:], PROMPTS)
        with pytest.raises(BackendError, match="4 prompts for 5 images"):
            generator.inpaint(images, masks, PROMPTS[:4])


def test_the_name_loads_the_same_generator(generator: Generator) -> None:
    again = load_model(Generator, generator.name)
    assert again.name == generator.name
    assert again.tasks == generator.tasks
    assert again.shape == generator.shape
    task = min(generator.tasks)
    assert apart(draw(again, task, slice(2)), drawn(generator.name, task)[:2]) <= CLOSE


def embeddings(decoder: PromptedDecoder) -> np.ndarray:
    rows = np.random.default_rng(4).normal(size=(ROWS, decoder.dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_decoder_draws_embeddings_with_prompts(decoder: PromptedDecoder) -> None:
    rows = embeddings(decoder)
    made = decoder.decode_prompted(rows, PROMPTS, seeds=SEEDS)
    assert decoder.stochastic
    assert made.shape == (ROWS, *SHAPE)
    assert made.dtype == np.uint8
    assert decoder.licence
    assert decoder.shape == SHAPE
    assert decoder.decode_prompted(rows[:0], [], seeds=SEEDS[:0]).shape == (0, *SHAPE)
    assert decoder.decode(rows, seeds=SEEDS).shape == (ROWS, *SHAPE)
    np.testing.assert_array_equal(decoder.decode_prompted(rows, PROMPTS, seeds=SEEDS), made)
    assert apart(decoder.decode_prompted(rows, PROMPTS, seeds=SEEDS + np.uint64(9)), made) > CLOSE


def test_the_same_embedding_has_an_image_for_each_seed(decoder: PromptedDecoder) -> None:
    rows = np.repeat(embeddings(decoder)[:1], ROWS, axis=0)
    seeds = np.array([3, 5, 3, 7, 2**64 - 1], dtype=np.uint64)
    for images in (
        decoder.decode(rows, seeds=seeds),
        decoder.decode_prompted(rows, PROMPTS[:1] * ROWS, seeds=seeds),
    ):
        assert apart(images[2], images[0]) <= CLOSE
        for other in (1, 3, 4):
            assert apart(images[other], images[0]) > CLOSE


def test_an_embedding_and_a_seed_count_for_their_own_row_only(decoder: PromptedDecoder) -> None:
    rows = embeddings(decoder)
    made = decoder.decode_prompted(rows, PROMPTS, seeds=SEEDS)
    for part in (slice(1), slice(2), slice(2, 5), slice(4, 5)):
        alone = decoder.decode_prompted(rows[part], PROMPTS[part], seeds=SEEDS[part])
        assert apart(alone, made[part]) <= CLOSE
    changed = rows.copy()
    changed[1] = -8 * rows[1]
    moved = decoder.decode_prompted(changed, PROMPTS, seeds=SEEDS)
    assert apart(moved[[0, 2, 3, 4]], made[[0, 2, 3, 4]]) <= CLOSE
    assert apart(moved[1], made[1]) > 0


def test_wrong_embeddings_are_refused(decoder: PromptedDecoder) -> None:
    rows = embeddings(decoder)
    with pytest.raises(BackendError, match="embeddings of shape"):
        decoder.decode(rows[:, 1:], seeds=SEEDS)
    with pytest.raises(BackendError, match="4 prompts for 5"):
        decoder.decode_prompted(rows, PROMPTS[:4], seeds=SEEDS)
    with pytest.raises(BackendError, match="noise_level"):
        decoder.decode_prompted(rows, PROMPTS, seeds=SEEDS, noise_level=100_000)
    with pytest.raises(BackendError, match="4,\\) for 5 embeddings"):
        decoder.decode(rows, seeds=SEEDS[:4])
    rows[0, 0] = np.nan
    with pytest.raises(BackendError, match="finite"):
        decoder.decode(rows, seeds=SEEDS)


def test_the_name_loads_the_same_decoder(decoder: PromptedDecoder) -> None:
    again = load_decoder(decoder.name, shape=SHAPE)
    rows = embeddings(decoder)[:2]
    seeds = SEEDS[:2]
    images = decoder.decode(rows, seeds=seeds)
    np.testing.assert_array_equal(again.decode(rows, seeds=seeds), images)
