"""What every generator of images, and every tuner of one, must do."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from understudy.backends.registry import load_model
from understudy.core.errors import BackendError, UnsupportedTask
from understudy.core.ports import Generator, Tuner
from understudy.core.types import Images, Masks
from understudy.testing.sample_inputs import CLOSE, largest_difference, load_once

DRAWN_IMAGES = 5
PLAIN_TASKS = frozenset({"text", "variation", "inpainting"})  # besides control:KIND
GENERATOR_PROMPTS = ["a dog", "a cat on a sofa", "a dog", "", "a blue wall"]
PROMPT, CLASS = "xyz dog", "a dog"
SETTINGS: list[dict[str, Any]] = [
    {"steps": 1, "rate": 1e-2},
    {"steps": "1", "full": "true", "rate": "0.01", "class_images": 2},
]

_DRAWN: dict[tuple[str, str], Images] = {}


def smooth_images(generator: Generator) -> Images:
    """Images without noise, which any autoencoder's range would cut off."""
    row, column = np.indices(generator.shape[:2])
    waves = [np.sin(row / (3 + k)) * np.cos(column / (2 + k)) for k in range(DRAWN_IMAGES)]
    grey = (127 + 100 * np.stack(waves)).astype(np.uint8)
    return np.repeat(grey[..., None], generator.shape[2], axis=3)


def hole_masks(generator: Generator) -> Masks:
    """Three holes, everything, and nothing."""
    height, width = generator.shape[:2]
    masks = np.zeros((DRAWN_IMAGES, height, width), dtype=np.bool_)
    for row, mask in enumerate(masks[:3]):
        mask[height // 4 : height // 2 + row, width // 4 : 3 * width // 4] = True
    masks[3] = True
    return masks


def run_task(generator: Generator, task: str, rows: slice, seed: int = 1) -> Images:
    """A task on some of the rows."""
    prompts, images = GENERATOR_PROMPTS[rows], smooth_images(generator)[rows]
    if task == "text":
        return generator.generate(prompts, seed=seed)
    if task == "variation":
        return generator.vary(images, prompts, strength=0.5, seed=seed)
    if task == "inpainting":
        return generator.inpaint(images, hole_masks(generator)[rows], prompts, seed=seed)
    return generator.control(task.removeprefix("control:"), images, prompts, seed=seed)


def task_images(generator: Generator, task: str) -> Images:
    """All rows of a task, drawn once for the tests to look at."""
    key = generator.name, task
    if key not in _DRAWN:
        _DRAWN[key] = run_task(generator, task, slice(None))
    return _DRAWN[key]


def subject_images(count: int = 2, height: int = 20, width: int = 28, channels: int = 3) -> Images:
    """Images to tune on."""
    shape = (count, height, width, channels)
    return np.random.default_rng(4).integers(0, 256, shape, dtype=np.uint8)


class GeneratorSuite:
    """What every generator must do in each of its tasks.

    A subclass states ``name``, or overrides the fixture ``generator``.
    """

    name: ClassVar[str]

    @pytest.fixture
    def generator(self) -> Generator:
        return load_once(Generator, self.name)

    def test_a_generator_says_what_it_is(self, generator: Generator) -> None:
        assert generator.licence
        assert len(generator.shape) == 3
        assert generator.shape[2] in (1, 3)
        assert generator.tasks
        assert all(task in PLAIN_TASKS or task.startswith("control:") for task in generator.tasks)

    def test_each_task_gives_an_image_a_row(self, generator: Generator) -> None:
        for task in sorted(generator.tasks):
            results = task_images(generator, task)
            assert results.shape == (DRAWN_IMAGES, *generator.shape)
            assert results.dtype == np.uint8
            assert largest_difference(results[0], results[1]) > CLOSE
            assert run_task(generator, task, slice(0)).shape == (0, *generator.shape)

    def test_a_seed_gives_the_same_images_again_and_another_seed_others(
        self, generator: Generator
    ) -> None:
        for task in sorted(generator.tasks):
            first = task_images(generator, task)
            assert largest_difference(run_task(generator, task, slice(None)), first) == 0
            assert (
                largest_difference(run_task(generator, task, slice(3), seed=2), first[:3]) > CLOSE
            )

    def test_rows_of_one_prompt_differ(self, generator: Generator) -> None:
        for task in sorted(generator.tasks - {"inpainting"}):
            results = task_images(generator, task)
            assert GENERATOR_PROMPTS[0] == GENERATOR_PROMPTS[2]
            assert largest_difference(results[0], results[2]) > CLOSE

    def test_a_row_depends_on_its_own_inputs_and_place_only(self, generator: Generator) -> None:
        for task in sorted(generator.tasks):
            for rows in (slice(1), slice(2)):
                part = run_task(generator, task, rows)
                assert largest_difference(part, task_images(generator, task)[rows]) <= CLOSE

    def test_what_is_asked_counts(self, generator: Generator) -> None:
        if "text" not in generator.tasks:
            pytest.skip("draws nothing from text alone")
        one = generator.generate(["a dog"], seed=3)
        other = generator.generate(["seventeen blue bottles"], seed=3)
        assert largest_difference(one, other) > 0

    def test_inpainting_leaves_the_other_pixels_alone(self, generator: Generator) -> None:
        if "inpainting" not in generator.tasks:
            pytest.skip("does not inpaint")
        images, masks = smooth_images(generator), hole_masks(generator)
        results = task_images(generator, "inpainting")
        np.testing.assert_array_equal(results[~masks], images[~masks])
        np.testing.assert_array_equal(results[4], images[4])
        assert (results[masks] != images[masks]).mean() > 0.5

    def test_inpainting_follows_hints_and_stays_away_from_a_text(
        self, generator: Generator
    ) -> None:
        if "inpainting" not in generator.tasks:
            pytest.skip("does not inpaint")
        images, masks = smooth_images(generator)[3:4], hole_masks(generator)[3:4]
        plain = generator.inpaint(images, masks, ["a dog"], seed=1)
        guided = generator.inpaint(images, masks, ["a dog"], seed=1, negative="a red wall")
        other = generator.inpaint(images, masks, ["a dog"], seed=1, negative="a cat")
        same = generator.inpaint(images, masks, ["a dog"], seed=1)
        np.testing.assert_array_equal(plain, same)
        # Without classifier-free guidance a negative prompt counts for nothing.
        assert largest_difference(guided, plain) == 0 or largest_difference(guided, other) > 0
        kinds = [task.removeprefix("control:") for task in generator.tasks if ":" in task]
        for kind in kinds:
            results = [
                generator.inpaint(images, masks, ["a dog"], seed=1, control=(kind, hints))
                for hints in (images, 255 - images)
            ]
            assert results[0].shape == images.shape
            alone = [
                generator.control(kind, hints, ["a dog"], seed=1)
                for hints in (images, 255 - images)
            ]
            counts = largest_difference(alone[0], alone[1]) > 0  # an untrained ControlNet's do not
            assert (largest_difference(results[0], results[1]) > 0) == counts
            two = np.repeat(images, 2, axis=0)
            with pytest.raises(BackendError, match="2 hints for 1 images"):
                generator.inpaint(images, masks, ["a dog"], control=(kind, two))
        with pytest.raises(UnsupportedTask, match="control:weather"):
            generator.inpaint(images, masks, ["a dog"], control=("weather", images))

    def test_no_strength_gives_the_images_back(self, generator: Generator) -> None:
        if "variation" not in generator.tasks:
            pytest.skip("makes no variations")
        images = smooth_images(generator)
        same = generator.vary(images, GENERATOR_PROMPTS, strength=0.0, seed=1)
        np.testing.assert_array_equal(same, images)
        assert not np.shares_memory(same, images)

    def test_more_strength_forgets_more(self, generator: Generator) -> None:
        if "variation" not in generator.tasks:
            pytest.skip("makes no variations")
        images = smooth_images(generator)
        others, prompts = images[::-1].copy(), GENERATOR_PROMPTS[:1]
        differences = []
        for strength in (0.5, 1.0):
            one = generator.vary(images[:1], prompts, strength=strength, seed=1)
            differences.append(
                largest_difference(
                    one, generator.vary(others[:1], prompts, strength=strength, seed=1)
                )
            )
        assert differences[0] > 0 == differences[1]

    def test_inputs_are_left_alone(self, generator: Generator) -> None:
        images, masks = smooth_images(generator), hole_masks(generator)
        before = images.copy(), masks.copy()
        for array in (images, masks):
            array.setflags(write=False)
        if "variation" in generator.tasks:
            generator.vary(images[:1], GENERATOR_PROMPTS[:1], strength=0.5)
        if "inpainting" in generator.tasks:
            generator.inpaint(images[:1], masks[:1], GENERATOR_PROMPTS[:1])
        np.testing.assert_array_equal(images, before[0])
        np.testing.assert_array_equal(masks, before[1])

    def test_other_tasks_are_refused(self, generator: Generator) -> None:
        with pytest.raises(UnsupportedTask, match="control:weather"):
            run_task(generator, "control:weather", slice(None))
        for task in sorted(PLAIN_TASKS - generator.tasks):
            with pytest.raises(UnsupportedTask, match=task):
                run_task(generator, task, slice(None))

    def test_wrong_inputs_are_refused(self, generator: Generator) -> None:
        images, masks = smooth_images(generator), hole_masks(generator)
        if "text" in generator.tasks:
            with pytest.raises(BackendError, match="list of texts"):
                generator.generate("a dog")
        if "variation" in generator.tasks:
            with pytest.raises(BackendError, match="4 prompts for 5 images"):
                generator.vary(images, GENERATOR_PROMPTS[:4], strength=0.5)
            with pytest.raises(BackendError, match="between 0 and 1"):
                generator.vary(images, GENERATOR_PROMPTS, strength=1.5)
            with pytest.raises(BackendError, match="uint8 images of shape"):
                generator.vary(images[:, 1:], GENERATOR_PROMPTS, strength=0.5)
        if "inpainting" in generator.tasks:
            with pytest.raises(BackendError, match="bool masks of shape"):
                generator.inpaint(images, masks[:, 1:], GENERATOR_PROMPTS)
            with pytest.raises(BackendError, match="4 prompts for 5 images"):
                generator.inpaint(images, masks, GENERATOR_PROMPTS[:4])

    def test_the_name_loads_the_same_generator(self, generator: Generator) -> None:
        again = load_model(Generator, generator.name)
        assert again.name == generator.name
        assert again.tasks == generator.tasks
        assert again.shape == generator.shape
        task = min(generator.tasks)
        assert (
            largest_difference(run_task(again, task, slice(2)), task_images(generator, task)[:2])
            <= CLOSE
        )


class TunerSuite:
    """What every tuner of a generator must do.

    A subclass states ``name``, or overrides the fixture ``tuner``.
    """

    name: ClassVar[str]

    @pytest.fixture
    def tuner(self) -> Tuner:
        return load_once(Tuner, self.name)

    @pytest.mark.parametrize("settings", SETTINGS, ids=["adapters", "all weights"])
    def test_a_new_generator_comes_out_and_is_restored(
        self, tuner: Tuner, settings: dict[str, Any]
    ) -> None:
        base = load_once(Generator, tuner.name)
        before = base.generate([PROMPT], seed=1)
        settings = settings | {"class_images": 2}
        images = subject_images()
        images.setflags(write=False)
        tuned = tuner.tune(images, PROMPT, class_prompt=CLASS, settings=settings, seed=2)
        assert isinstance(tuned, Generator)
        assert tuned.name != tuner.name
        assert tuned.licence
        assert (tuned.shape, tuned.tasks) == (base.shape, base.tasks)
        samples = tuned.generate([PROMPT], seed=1)
        assert not np.array_equal(samples, before)
        restored = tuner.restore(tuner.changes(tuned))
        np.testing.assert_array_equal(restored.generate([PROMPT], seed=1), samples)

    def test_the_seed_decides_what_is_learned_and_the_base_stays(self, tuner: Tuner) -> None:
        settings = {"steps": 1, "rate": 1e-2, "full": True}
        tuned = [
            tuner.tune(subject_images(), PROMPT, settings=settings, seed=seed) for seed in (5, 5, 6)
        ]
        images = [generator.generate([PROMPT], seed=1) for generator in tuned]
        np.testing.assert_array_equal(images[0], images[1])
        assert not np.array_equal(images[0], images[2])

    def test_a_tuned_generator_is_tuned_again(self, tuner: Tuner) -> None:
        settings = {"steps": 1, "rate": 1e-2, "full": True}
        images = subject_images()
        masks = np.ones(images.shape[:3], dtype=np.bool_)
        tuned = tuner.tune(images, [PROMPT] * len(images), settings=settings, masks=masks)
        samples = tuned.generate([PROMPT], seed=1)
        again = tuner.of(tuned).tune(images, PROMPT, settings=settings)
        assert not np.array_equal(again.generate([PROMPT], seed=1), samples)

    def test_grey_images_of_any_size_are_learned_from(self, tuner: Tuner) -> None:
        settings = {"steps": 1, "full": True}
        tuned = tuner.tune(subject_images(1, 9, 50, 1), PROMPT, settings=settings)
        assert tuned.generate([PROMPT]).any()

    def test_wrong_images_and_settings_are_refused(self, tuner: Tuner) -> None:
        with pytest.raises(BackendError, match="uint8 images"):
            tuner.tune(subject_images() / 255.0, PROMPT)  # type: ignore[arg-type]
        with pytest.raises(BackendError, match="found none"):
            tuner.tune(subject_images(0), PROMPT)
        with pytest.raises(BackendError, match="no option 'speed'"):
            tuner.tune(subject_images(), PROMPT, settings={"speed": 9})
