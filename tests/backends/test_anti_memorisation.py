"""Against memorisation, on tiny models: guidance away from images, noise on class embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from understudy.core.errors import BackendError
from understudy.core.ports import Generator
from understudy.core.types import Images

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
diffusers = pytest.importorskip("diffusers")

from tests.backends.tiny_models import diffusion as tiny  # noqa: E402

from understudy.backends.diffusion.anti_memorisation import (  # noqa: E402
    AntiMemorisationGenerator,
    AntiMemorisationOptions,
    DissimilarityHook,
    GivenLatents,
)
from understudy.backends.diffusion.generators import DiffusionGenerator  # noqa: E402
from understudy.backends.diffusion.loading import stable_diffusion  # noqa: E402
from understudy.backends.diffusion.options import GeneratorOptions  # noqa: E402
from understudy.backends.diffusion.pipelines import Pipelines  # noqa: E402
from understudy.backends.hub.pretrained import quiet  # noqa: E402

SHAPE = (32, 32, 3)
PROMPTS = ["a dog", "a cat", "a dog", "a bird", "a house"]
ALWAYS = {"threshold": -9.0, "early_threshold": -9.0}
"""Similarities that every guess is above."""


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(4)
        unet = tiny.unclip_unet(in_channels=8, out_channels=8)
        return {
            "vae": tiny.tiny_vae(8).eval(),
            "text_encoder": tiny.CLIPTextModel(tiny.text_config()).eval(),
            "tokenizer": tiny.tokenizer(),
            "unet": unet.eval(),
            "inpainting": tiny.inpainting_of_eight().eval(),
            "edges": tiny.controlnet(unet).eval(),
        }


Make = Callable[..., DiffusionGenerator]


@pytest.fixture(scope="module")
def make(parts: dict[str, Any]) -> Make:
    """A generator over the tiny networks."""

    def generator(**changes: Any) -> DiffusionGenerator:
        options = GeneratorOptions(**{"batch": 4, "steps": 4, "guidance": 3.0, **changes})
        plain = tiny.DPMSolverMultistepScheduler(
            prediction_type="v_prediction",
            timestep_spacing="trailing",
            rescale_betas_zero_snr=True,
            beta_schedule="squaredcos_cap_v2",
        )
        names = ("vae", "text_encoder", "tokenizer", "unet")
        with quiet():
            text = stable_diffusion(**{name: parts[name] for name in names}, scheduler=plain)
        pipelines = Pipelines(
            text,
            options,
            name="tiny",
            inpainting=parts["inpainting"],
            controlnets={"edges": parts["edges"]},
        )
        return DiffusionGenerator(pipelines, options, name="tiny", licence="none")

    return generator


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


def test_without_any_scale_it_draws_what_the_plain_generator_draws(
    make: Make, given: Images
) -> None:
    plain = make()
    quiet_one = guided(plain, given, scale=0.0, **ALWAYS)
    np.testing.assert_array_equal(quiet_one.generate(PROMPTS, seed=3), given)


def test_a_row_far_from_every_given_image_is_drawn_as_before(make: Make, given: Images) -> None:
    others = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), dtype=np.uint8)
    far = guided(make(), others, threshold=0.9, early_threshold=0.9)
    assert isinstance(far, Generator)
    np.testing.assert_array_equal(far.generate(PROMPTS, seed=3), given)


def test_images_lie_farther_from_the_given_ones_the_larger_the_scale(
    make: Make, given: Images
) -> None:
    far = [
        distances(guided(make(), given, scale=scale).generate(PROMPTS, seed=3), given)
        for scale in (0.0, 0.3, 1.0)
    ]
    assert (far[0] == 0).all()
    assert far[0].mean() < far[1].mean() < far[2].mean()
    assert far[2].min() > 0


def test_the_plain_generator_stays_as_it_was(make: Make, given: Images) -> None:
    plain = make()
    guided(plain, given).generate(PROMPTS, seed=3)
    np.testing.assert_array_equal(plain.generate(PROMPTS, seed=3), given)


def test_a_row_does_not_depend_on_its_batch(make: Make, given: Images) -> None:
    whole = guided(make(batch=5), given).generate(PROMPTS, seed=3)
    parted = guided(make(batch=2), given).generate(PROMPTS, seed=3)
    np.testing.assert_allclose(whole.astype(int), parted, atol=1)
    first = guided(make(batch=5), given).generate(PROMPTS[:1], seed=3)
    np.testing.assert_allclose(first.astype(int), whole[:1], atol=1)
    again = guided(make(batch=5), given).generate(PROMPTS, seed=3)
    np.testing.assert_array_equal(again, whole)


def test_every_task_is_guided(make: Make, given: Images) -> None:
    masks = np.zeros((5, 32, 32), dtype=np.bool_)
    masks[:, :16] = True
    tasks: list[Callable[[Any], Images]] = [
        lambda one: one.generate(PROMPTS),
        lambda one: one.vary(given, PROMPTS, strength=0.9),
        lambda one: one.inpaint(given, masks, PROMPTS),
        lambda one: one.inpaint(given, masks, PROMPTS, strength=0.9),
        lambda one: one.control("edges", given, PROMPTS),
    ]
    plain = make()
    away = guided(plain, given, **ALWAYS)
    assert away.tasks == plain.tasks
    for task in tasks:
        assert (task(away) != task(plain)).any()


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


def test_despecification_and_deduplication_change_what_is_drawn(make: Make, given: Images) -> None:
    plain = make(guidance=300.0)  # captions say little to random weights
    images = plain.generate(PROMPTS, seed=3)
    drawn = []
    for scale in ("despecification", "deduplication"):
        for captions in (PROMPTS, PROMPTS[::-1]):
            options = AntiMemorisationOptions(**{"scale": 0.0, scale: 1e3, **ALWAYS})
            one = AntiMemorisationGenerator(plain, given, options, captions=captions)
            drawn.append(one.generate(PROMPTS, seed=3))
    assert all((one != images).any() for one in drawn)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[2] != drawn[3]).any()


@pytest.mark.parametrize("scheduler", ["EulerDiscrete", "EulerAncestralDiscrete", None])
def test_other_schedulers_and_no_guidance_work_too(make: Make, scheduler: str | None) -> None:
    changes = {"guidance": 1.0} if scheduler is None else {"scheduler": scheduler}
    plain = make(**changes)
    images = plain.generate(PROMPTS, seed=3)
    away = guided(plain, images).generate(PROMPTS, seed=3)
    assert distances(away, images).min() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": -1.0}, "scale of anti-memorisation guidance must be 0 or more, found -1"),
        ({"scale": float("nan")}, "scale .* must be 0 or more, found nan"),
        ({"despecification": -0.5}, "despecification .* must be 0 or more"),
        ({"threshold": 1.0}, "threshold .* must be below 1"),
        ({"early_threshold": float("nan")}, "early_threshold .* must be below 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(BackendError, match=message):
        AntiMemorisationOptions(**options)


def test_wrong_images_and_captions_are_refused(make: Make, given: Images) -> None:
    plain = make()
    with pytest.raises(BackendError, match="one image or more, found none"):
        AntiMemorisationGenerator(plain, given[:0])
    with pytest.raises(BackendError, match="32, 32, 3"):
        AntiMemorisationGenerator(plain, given[:, :16])
    options = AntiMemorisationOptions(deduplication=1.0)
    with pytest.raises(BackendError, match="deduplication needs captions"):
        AntiMemorisationGenerator(plain, given, options)
    with pytest.raises(BackendError, match="found 2 prompts for 5 images"):
        AntiMemorisationGenerator(plain, given, options, captions=["a", "b"])
    with pytest.raises(BackendError, match="which is off at guidance=1"):
        AntiMemorisationGenerator(make(guidance=1.0), given, options, captions=PROMPTS)
    plain._options = replace(plain._options, offload=True)
    with pytest.raises(BackendError, match="leave offload out"):
        AntiMemorisationGenerator(plain, given)


def test_other_families_are_refused(tmp_path: Any) -> None:
    from understudy.backends.registry import load_model

    folder = tiny.saved("sd3", tmp_path)
    generator = load_model(Generator, f"hf:{folder}?steps=1")
    images = np.zeros((1, *generator.shape), dtype=np.uint8)
    with pytest.raises(BackendError, match="latent diffusion by a U-Net"):
        AntiMemorisationGenerator(generator, images)


def test_noise_on_class_embeddings_changes_every_image_and_leaves_the_generator_alone(
    make: Make,
) -> None:
    from benchmarks.memorisation import prompts_of, with_noisy_classes

    plain, names = make(), prompts_of(np.arange(4))
    images = plain.generate(names, seed=3)
    np.testing.assert_array_equal(with_noisy_classes(plain, 0.0).generate(names, seed=3), images)
    noisy = with_noisy_classes(plain, 2.0).generate(names, seed=3)
    assert (noisy != images).any(axis=(1, 2, 3)).all()
    again = with_noisy_classes(plain, 2.0)
    np.testing.assert_array_equal(again.generate(names, seed=3), noisy)
    # The same class is the same everywhere: its embedding is noised once.
    np.testing.assert_array_equal(again.generate([names[0]] * 2, seed=3)[0], noisy[0])
    np.testing.assert_array_equal(plain.generate(names, seed=3), images)
