from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.backends.registry import load_decoder, load_encoder, load_model
from understudy.core.errors import BackendError, HubUnreachable
from understudy.core.ports import Generator, PromptedDecoder

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
diffusers = pytest.importorskip("diffusers")

from tests.backends.tiny_models import diffusion as tiny  # noqa: E402

from understudy.backends.diffusion.networks import without_image_conditioning  # noqa: E402
from understudy.backends.diffusion.options import UnclipOptions  # noqa: E402
from understudy.backends.diffusion.pipeline_calls import generators, seeded, steps_for  # noqa: E402
from understudy.backends.diffusion.text_conditioning import PromptEncoder  # noqa: E402
from understudy.backends.diffusion.unclip import UnclipDecoder  # noqa: E402
from understudy.backends.hub.pretrained import quiet, without_numpy_notes  # noqa: E402

SHAPE = (32, 32, 3)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("diffusion")


@pytest.fixture(scope="module")
def studio() -> dict[str, Any]:
    return tiny.studio_parts(2)


of_studio = tiny.studio_generator


def pictures(count: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, *SHAPE), dtype=np.uint8)


def test_a_network_without_image_conditioning_is_the_network_at_zeros() -> None:
    unet = tiny.unclip_unet().eval()
    plain = without_image_conditioning(unet)
    x, text = torch.randn(3, 4, 8, 8), torch.randn(3, 5, 32)
    zeros = torch.zeros(3, 2 * tiny.EMBEDDING)
    with torch.no_grad():
        for step in (0, 400, 999):
            want = unet(x, step, text, class_labels=zeros).sample
            torch.testing.assert_close(plain(x, step, text).sample, want, rtol=0, atol=1e-5)
        other = unet(x, 400, text, class_labels=zeros + 1).sample
    assert (other - want).abs().max() > 1e-3


def test_a_network_without_image_conditioning_shares_its_weights() -> None:
    unet = tiny.unclip_unet()
    before = {name: weight.clone() for name, weight in unet.state_dict().items()}
    plain = without_image_conditioning(unet)
    own = {name: weight.data_ptr() for name, weight in unet.named_parameters()}
    alone = [name for name, weight in plain.named_parameters() if own[name] != weight.data_ptr()]
    assert alone == ["time_embedding.linear_2.bias"]
    assert unet.config.class_embed_type == "projection"
    assert unet.class_embedding is not None
    assert all(torch.equal(weight, before[name]) for name, weight in unet.state_dict().items())


def test_a_plain_network_and_a_controlnet_are_served_too() -> None:
    plain = tiny.unet()
    assert without_image_conditioning(plain) is plain
    net = without_image_conditioning(tiny.controlnet(tiny.unclip_unet()).eval())
    x, text, hint = torch.randn(1, 4, 8, 8), torch.randn(1, 5, 32), torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        assert net(x, 5, text, hint).mid_block_res_sample.shape[0] == 1


def test_text_to_image_is_what_the_pipeline_draws(models: Path) -> None:
    folder = tiny.saved("sd15", models)
    made = load_model(Generator, f"hf:{folder}?steps=3&batch=2").generate(["a", "b", "c"], seed=7)
    with quiet():
        pipeline = diffusers.StableDiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    with without_numpy_notes():
        want = pipeline(
            ["a", "b", "c"],
            generator=generators(7, range(3), "text"),
            num_inference_steps=3,
            output_type="np",
        ).images
    np.testing.assert_allclose(made, want * 255, atol=1)


def test_unclip_is_what_the_pipeline_draws(models: Path) -> None:
    folder = tiny.saved("sd21-unclip", models)
    decoder = load_decoder(f"hf:{folder}?steps=3&guidance=4", shape=SHAPE)
    rows = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    made = decoder.decode_prompted(rows, ["a", "b", "c"], noise_level=30, seeds=np.arange(3))
    with quiet():
        pipeline = diffusers.StableUnCLIPImg2ImgPipeline.from_pretrained(
            folder, feature_extractor=None
        )
    pipeline.set_progress_bar_config(disable=True)
    with without_numpy_notes():
        want = pipeline(
            prompt=["a", "b", "c"],
            image_embeds=torch.from_numpy(rows),
            noise_level=30,
            generator=seeded(np.arange(3), "decode"),
            num_inference_steps=3,
            guidance_scale=4.0,
            output_type="np",
        ).images
    np.testing.assert_allclose(made, want * 255, atol=1)


def test_inpainting_is_what_the_pipeline_draws(models: Path) -> None:
    folder = tiny.saved("sd15-inpainting", models)
    generator = load_model(Generator, f"hf:{folder}?steps=3&seam=0")
    masks = np.zeros((2, 32, 32), dtype=np.bool_)
    masks[:, 8:24, 4:20] = True
    images = pictures(2)
    made = generator.inpaint(images, masks, ["a", "b"], seed=7)
    with quiet():
        pipeline = diffusers.StableDiffusionInpaintPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    # Its posterior is sampled, with the generators; ours is not.
    with without_numpy_notes():
        want = pipeline(
            ["a", "b"],
            image=torch.from_numpy(images.transpose(0, 3, 1, 2) / np.float32(255)),
            mask_image=torch.from_numpy(masks[:, None].astype(np.float32)),
            masked_image_latents=_masked_latents(pipeline.vae, images, masks),
            generator=generators(7, range(2), "inpainting"),
            num_inference_steps=3,
            height=32,
            width=32,
            output_type="np",
        ).images
    np.testing.assert_allclose(made[masks], want[masks] * 255, atol=1)


def _masked_latents(vae: Any, images: np.ndarray, masks: np.ndarray) -> Any:
    pixels = torch.from_numpy(images.transpose(0, 3, 1, 2) / np.float32(127.5) - 1)
    left = pixels * torch.from_numpy(~masks[:, None]).float()
    with torch.no_grad():
        return vae.encode(left).latent_dist.mode() * vae.config.scaling_factor


def test_parts_in_memory_make_a_decoder(studio: dict[str, Any]) -> None:
    options = UnclipOptions(batch=4, steps=2)
    generator = of_studio(studio)
    decoder = UnclipDecoder(
        generator._pipelines, studio["unet"], SHAPE, options, name="tiny", licence="none"
    )
    rows = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    assert isinstance(decoder, PromptedDecoder)
    one, other = (decoder.decode(part, seeds=np.arange(3)) for part in (rows, -rows))
    assert np.abs(one.astype(int) - other).max() > 0
    with pytest.raises(BackendError, match="noise_level is 0 to 0"):
        decoder.decode_prompted(rows, ["a"] * 3, noise_level=1, seeds=np.arange(3))
    with pytest.raises(BackendError, match="one seed an embedding"):
        decoder.decode(rows, seeds=np.arange(2))


def test_control_with_more_scale_counts_more(studio: dict[str, Any]) -> None:
    images, prompts = pictures(), ["a", "b", "c"]
    plain = of_studio(studio, control_scale=0.0)
    without = plain.control("edges", images, prompts)
    np.testing.assert_array_equal(without, plain.control("edges", 255 - images, prompts))
    assert (of_studio(studio).control("edges", images, prompts) != without).any()


def test_the_seam_is_soft_inside_and_hard_outside(studio: dict[str, Any]) -> None:
    images = np.zeros((1, *SHAPE), dtype=np.uint8)
    masks = np.zeros((1, 32, 32), dtype=np.bool_)
    masks[:, 8:24, 8:24] = True
    hard = of_studio(studio, seam=0).inpaint(images, masks, ["a"]).astype(int)
    soft = of_studio(studio, seam=3).inpaint(images, masks, ["a"]).astype(int)
    np.testing.assert_allclose(soft[0, 8, 8:24], hard[0, 8, 8:24] / 4, atol=1)
    np.testing.assert_allclose(soft[0, 9, 9:23], hard[0, 9, 9:23] / 2, atol=1)
    np.testing.assert_array_equal(soft[0, 11:21, 11:21], hard[0, 11:21, 11:21])
    assert soft[~masks].max() == 0
    assert hard[masks].max() > 0


def test_embeddings_of_repeated_prompts_are_kept(studio: dict[str, Any]) -> None:
    pipeline = tiny.plain_text_pipeline(studio)
    seen: list[str] = []
    whole = pipeline.tokenizer

    class Listening:
        """The same tokenizer, and a note of what it was given."""

        def __call__(self, texts: Any, **options: Any) -> Any:
            seen.extend([texts] if isinstance(texts, str) else texts)
            return whole(texts, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(whole, name)

    pipeline.tokenizer = Listening()
    prompts = PromptEncoder(pipeline, negative=None, guided=True, batch=2)
    first = prompts.conditioning(["a", "b", "a", "c"])
    assert {"a", "b", "c"} <= set(seen)
    seen.clear()
    again = prompts.conditioning(["c", "a", "b"])
    assert not seen
    assert first["prompt_embeds"].shape[0] == 4
    torch.testing.assert_close(first["prompt_embeds"][[3, 0, 1]], again["prompt_embeds"])
    torch.testing.assert_close(first["prompt_embeds"][0], first["prompt_embeds"][2])
    assert set(first) == {"prompt_embeds", "negative_prompt_embeds"}


def test_noise_depends_on_seed_row_and_task() -> None:
    def draws(seed: int, rows: range, task: str) -> list[float]:
        return [float(torch.randn(1, generator=g)) for g in generators(seed, rows, task)]

    assert draws(3, range(5), "text")[2:4] == draws(3, range(2, 4), "text")
    everything = [
        value
        for seed in (0, 1, -1)
        for task in ("text", "variation")
        for value in draws(seed, range(20), task)
    ]
    assert len(set(everything)) == len(everything)


@pytest.mark.parametrize("strength", [0.001, 0.05, 0.1, 0.29, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 10])
def test_a_strength_leaves_a_step_to_run(strength: float, steps: int) -> None:
    taken = steps_for(strength, steps)
    assert taken >= steps
    assert int(taken * strength) >= 1
    assert taken == steps or int((taken - 1) * strength) < 1


def test_embeddings_of_unit_norm_get_the_length_the_model_knows(models: Path) -> None:
    folder = tiny.saved("sd21-unclip", models)

    class Unit:
        """As much of an encoder as a decoder looks at."""

        name, dim, norm_bound, ordered, licence = "unit", 32, 1.0, False, "none"

        def encode(self, images: Any) -> Any:
            return images

    name = f"hf:{folder}?steps=2"
    with quiet():
        parts = diffusers.StableUnCLIPImg2ImgPipeline.from_pretrained(
            folder, feature_extractor=None
        ).image_normalizer
    length = float((parts.mean**2 + parts.std**2).sum().sqrt().detach())
    rows = np.random.default_rng(0).normal(size=(2, 32)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    seeds = np.arange(2)
    told = load_decoder(name, shape=SHAPE, encoder=Unit()).decode(rows, seeds=seeds)
    raw = load_decoder(name, shape=SHAPE)
    longer = raw.decode(rows * length, seeds=seeds)
    np.testing.assert_allclose(told.astype(int), longer.astype(int), atol=1)
    assert (told != raw.decode(rows, seeds=seeds)).any()
    by_option = load_decoder(f"{name}&scale={length}", shape=SHAPE).decode(rows, seeds=seeds)
    np.testing.assert_allclose(told.astype(int), by_option.astype(int), atol=1)


def test_a_decoder_refuses_embeddings_of_another_encoder(models: Path) -> None:
    kl = tiny.saved("kl", models)
    encoder = load_encoder(f"hf:{kl}", shape=SHAPE)
    with pytest.raises(BackendError, match="decodes embeddings of 32 numbers"):
        load_decoder(f"hf:{tiny.saved('sd21-unclip', models)}", shape=SHAPE, encoder=encoder)


def test_a_kandinsky_decoder_takes_length_and_blank_from_its_prior(models: Path) -> None:
    folders = [tiny.saved(f"kandinsky-{part}", models) for part in ("decoder", "prior")]
    alone = load_decoder(f"hf:{folders[0]}?steps=2", shape=SHAPE)
    joined = load_decoder(f"hf:{folders[0]}?steps=2&prior={folders[1]}", shape=SHAPE)
    rows = np.random.default_rng(0).normal(size=(2, 32)).astype(np.float32)
    seeds = np.arange(2)
    assert (alone.decode(rows, seeds=seeds) != joined.decode(rows, seeds=seeds)).any()
    with pytest.raises(BackendError, match="say prior=NAME"):
        load_model(Generator, f"hf:{folders[0]}?steps=2")


def test_an_image_size_that_does_not_fit_is_refused(models: Path) -> None:
    folder = tiny.saved("sd15", models)
    with pytest.raises(BackendError, match="multiples of 8, found size=30; say size=32"):
        load_model(Generator, f"hf:{folder}?size=30")
    wide = load_model(Generator, f"hf:{folder}?size=32x48&steps=1")
    assert wide.generate(["a"]).shape == (1, 32, 48, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("steps=0", "steps must be 1 or more"),
        ("size=1x2x3", "size must be like 64 or 64x96"),
        ("shape=32", "shape must be like 64x64"),
        ("shape=32x32x4", "shape must be like 64x64"),
        ("seam=-1", "seam must be 0 or more"),
        ("controlnet=edges", "controlnet must be like"),
        ("controlnet=edges:a/b,edges:c/d", "controlnet names edges twice"),
        ("colour=red", "no option 'colour'"),
        ("dtype=int8", "dtype is one of auto"),
        ("offload=true&device=cpu", "offload moves parts to a GPU"),
    ],
)
def test_wrong_options_are_refused(models: Path, options: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        load_model(Generator, f"hf:{tiny.saved('sd15', models)}?{options}")


def test_an_unknown_scheduler_names_those_there_are(models: Path) -> None:
    folder = tiny.saved("sd15", models)
    with pytest.raises(BackendError, match=r"no scheduler 'Magic'.*DPMSolverMultistepScheduler"):
        load_model(Generator, f"hf:{folder}?scheduler=Magic")
    short = load_model(Generator, f"hf:{folder}?scheduler=DPMSolverMultistep&steps=2")
    long = load_model(Generator, f"hf:{folder}?scheduler=DPMSolverMultistepScheduler&steps=2")
    np.testing.assert_array_equal(short.generate(["a"]), long.generate(["a"]))


def test_pickled_weights_are_refused(models: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "pickled"
    shutil.copytree(tiny.saved("sd15", models), folder)
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    torch.save(tiny.unet().state_dict(), weights.with_suffix(".bin"))
    weights.unlink()
    with pytest.raises(BackendError, match="no weights in safetensors"):
        load_model(Generator, f"hf:{folder}")


@pytest.mark.parametrize(
    "name",
    [
        "nobody/no-such-pipeline",
        "{models}/sd15?inpainting=nobody/none",
        "{models}/sd15?controlnet=edges:nobody/none",
    ],
)
def test_a_hub_that_is_away_says_what_to_use_instead(
    name: str, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    tiny.saved("sd15", models)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubUnreachable, match="embedded:studio"):
        load_model(Generator, "hf:" + name.replace("{models}", str(models)))


def test_quiet_is_of_both_libraries_and_ends() -> None:
    from transformers.utils import logging

    noises = (logging, diffusers.logging)

    def heard() -> list[tuple[int, bool]]:
        return [(each.get_verbosity(), each.is_progress_bar_enabled()) for each in noises]

    before = heard()
    levels = [logging.INFO, logging.WARNING]
    try:
        for each, level in zip(noises, levels, strict=True):
            each.set_verbosity(level)
            each.enable_progress_bar()
        diffusers.logging.disable_progress_bar()  # somebody's wish
        with quiet():
            assert heard() == [(logging.ERROR, False)] * 2
        assert heard() == [(logging.INFO, True), (logging.WARNING, False)]
    finally:
        for each, (level, bars) in zip(noises, before, strict=True):
            each.set_verbosity(level)
            (each.enable_progress_bar if bars else each.disable_progress_bar)()


def test_what_makes_no_pictures_is_refused(models: Path) -> None:
    with pytest.raises(BackendError, match="not a pipeline"):
        load_model(Generator, f"hf:{tiny.saved('kl', models)}")
    prior = tiny.saved("kandinsky-prior", models)
    with pytest.raises(BackendError, match="makes no images from text"):
        load_model(Generator, f"hf:{prior}")
    edges = tiny.saved("edges", models)
    with pytest.raises(BackendError, match="no autoencoder that is known here"):
        load_decoder(f"hf:{edges}", shape=SHAPE)
    folder = tiny.saved("sd15", models)
    with pytest.raises(BackendError, match="is no ControlNet"):
        load_model(Generator, f"hf:{folder}?controlnet=edges:{tiny.saved('kl', models)}")
    with pytest.raises(BackendError, match="takes 9 channels, found 4"):
        load_model(Generator, f"hf:{folder}?inpainting={folder}")
    for kind in ("flux", "kandinsky-decoder"):
        name = f"hf:{tiny.saved(kind, models)}?controlnet=edges:{edges}&prior={prior}"
        with pytest.raises(BackendError, match=r"no pipeline for a .* with a ControlNetModel"):
            load_model(Generator, name)


def test_loading_and_drawing_are_silent(models: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tiny.saved("sd15", models)
    capfd.readouterr()
    load_model(Generator, f"hf:{folder}?steps=2").generate(["a"])
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err == ""


def test_full_strength_draws_other_noise_than_the_text_task(studio: dict[str, Any]) -> None:
    generator = of_studio(studio)
    made = generator.generate(["a"], seed=4)
    assert (generator.vary(made, ["a"], strength=1.0, seed=4) != made).any()


def test_a_network_that_is_told_more_than_text_is_refused(studio: dict[str, Any]) -> None:
    odd = tiny.unet(in_channels=11, out_channels=8)
    with pytest.raises(BackendError, match="takes 11 channels where latents have 8"):
        of_studio({**studio, "unet": odd})


@pytest.mark.slow
def test_the_benchmark_runs_on_a_processor(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks import diffusion as benchmark

    benchmark.main(tiny=True)
    told = capsys.readouterr().out
    assert told.count("plain call, float32") == told.count("ours, batch 4, float32") == 3
