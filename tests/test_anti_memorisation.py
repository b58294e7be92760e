"""Guidance away from images, which the benchmark of memorisation measures, on tiny models."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from understudy.core.ports import Generator
from understudy.core.types import Images

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
diffusers = pytest.importorskip("diffusers")

from benchmarks.anti_memorisation import (  # noqa: E402
    AntiMemorisationGenerator,
    AntiMemorisationOptions,
    DissimilarityHook,
    GivenLatents,
)

from tests.backends.tiny_models import diffusion as tiny  # noqa: E402
from understudy.backends.diffusion.generators import DiffusionGenerator  # noqa: E402

SHAPE = (32, 32, 3)
PROMPTS = ["a dog", "a cat", "a dog", "a bird", "a house"]

Make = Callable[..., DiffusionGenerator]


@pytest.fixture(scope="module")
def make() -> Make:
    """A generator over tiny networks."""
    parts = tiny.studio_parts(4)
    return lambda **changes: tiny.studio_generator(
        parts, **{"steps": 4, "guidance": 3.0, **changes}
    )


@pytest.fixture(scope="module")
def given(make: Make) -> Images:
    """What the generator draws itself: a model that copies, and an owner who minds."""
    return make().generate(PROMPTS, seed=3)


def guided(generator: DiffusionGenerator, images: Images, **options: Any) -> Any:
    return AntiMemorisationGenerator(generator, images, AntiMemorisationOptions(**options))


def distances(images: Images, given: Images) -> np.ndarray:
    """Of each image to the nearest given one, root mean square in grey levels."""
    rows = images.reshape(len(images), 1, -1).astype(float)
    return np.sqrt(((rows - given.reshape(1, len(given), -1)) ** 2).mean(2)).min(1)


def test_a_row_far_from_every_given_image_is_drawn_as_before(make: Make, given: Images) -> None:
    others = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), dtype=np.uint8)
    far = guided(make(), others, threshold=0.9, early_threshold=0.9)
    assert isinstance(far, Generator)
    np.testing.assert_array_equal(far.generate(PROMPTS, seed=3), given)


def test_images_lie_farther_from_the_given_ones_the_larger_the_scale(
    make: Make, given: Images
) -> None:
    """And the generator that is guided away stays as it was."""
    plain = make()
    far = [
        distances(guided(plain, given, scale=scale).generate(PROMPTS, seed=3), given)
        for scale in (0.0, 0.3, 1.0)
    ]
    np.testing.assert_array_equal(plain.generate(PROMPTS, seed=3), given)
    assert (far[0] == 0).all()
    assert far[0].mean() < far[1].mean() < far[2].mean()
    assert far[2].min() > 0


@pytest.mark.parametrize("guidance", [1.0, 3.0])
@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_a_guess_turns_away_by_the_angle_that_the_scale_says(
    guidance: float, prediction: str
) -> None:
    """At scale 1 and half noise by 0.5 ** 0.5 of its norm; a row like none stays as it is."""
    latents = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    scheduler = diffusers.DDPMScheduler(prediction_type=prediction)
    scheduler.alphas_cumprod[500] = 0.5
    hook = DissimilarityHook(
        GivenLatents(latents),
        AntiMemorisationOptions(threshold=0.7, early_threshold=0.7),
        scheduler,
        guidance,
    )
    noise = torch.randn(latents.shape, generator=torch.Generator().manual_seed(1))
    guesses = latents + 0.2 * noise.flip(0)
    guesses[3] = 2 * latents.mean(0) - latents[3]  # like none of them
    half = 0.5**0.5
    x = half * (guesses + noise)
    said = {"epsilon": noise, "v_prediction": half * (noise - guesses), "sample": guesses}
    rows = said[prediction]
    if guidance > 1:
        free = rows + 1
        x, rows = torch.cat([x, x]), torch.cat([free, free + (rows - free) / guidance])
    changed = hook(None, (x, 500), {}, (rows,))[0]
    if guidance > 1:
        torch.testing.assert_close(changed[:4], free)
        changed = free + guidance * (changed[4:] - free)
    back = {
        "epsilon": lambda: x[:4] / half - changed,
        "v_prediction": lambda: half * x[:4] - half * changed,
        "sample": lambda: changed,
    }
    moved = back[prediction]() - guesses
    centre = latents.mean(0)
    want = half * (guesses - centre).flatten(1).norm(dim=1)
    want[3] = 0
    torch.testing.assert_close(moved.flatten(1).norm(dim=1), want, rtol=1e-4, atol=1e-5)
    along = (moved * (guesses - centre)).flatten(1).sum(1)
    torch.testing.assert_close(along, torch.zeros(4), rtol=0, atol=1e-4)
    assert ((moved * (latents - centre)).flatten(1).sum(1)[:3] < 0).all()


def test_similarity_is_one_for_a_copy_and_zero_for_what_given_images_are() -> None:
    rng = torch.Generator().manual_seed(2)
    latents = torch.randn(30, 1, 2, 2, generator=rng)
    known = GivenLatents(latents)
    assert known.nearest(latents).similarity.min() > 0.999
    # Copies of an image among the given ones change nothing of what is usual.
    twice = GivenLatents(torch.cat([latents, latents]))
    assert twice.usual == pytest.approx(known.usual, abs=1e-6)
    one = GivenLatents(latents[:1])
    assert one.usual == 0
    assert float(one.nearest(latents[:1]).similarity[0]) == pytest.approx(1)
