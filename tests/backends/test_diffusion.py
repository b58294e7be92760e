import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.backends.registry import load_decoder, load_encoder, load_model
from understudy.core.errors import BackendError, HubUnreachable
from understudy.core.ports import Generator

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
diffusers = pytest.importorskip("diffusers")

from tests.backends.tiny_models import diffusion as tiny  # noqa: E402

from understudy.backends.diffusion.networks import without_image_conditioning  # noqa: E402
from understudy.backends.diffusion.pipeline_calls import generators, seeded  # noqa: E402
from understudy.backends.hub.pretrained import quiet, without_numpy_notes  # noqa: E402

SHAPE = (32, 32, 3)


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


def loaded(kind: str, folder: Path, **options: Any) -> Any:
    """The library's own pipeline of a folder."""
    with quiet():
        pipeline = getattr(diffusers, kind).from_pretrained(folder, **options)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def drawn(pipeline: Any, prompts: list[str], **options: Any) -> Any:
    """What it draws in three steps, (n, h, w, 3) from 0 to 255."""
    with without_numpy_notes():
        made = pipeline(prompt=prompts, num_inference_steps=3, output_type="np", **options)
    return made.images * 255


def test_text_to_image_is_what_the_pipeline_draws(models: Path) -> None:
    folder = tiny.saved("sd15", models)
    made = load_model(Generator, f"hf:{folder}?steps=3&batch=2").generate(["a", "b", "c"], seed=7)
    pipeline = loaded("StableDiffusionPipeline", folder)
    want = drawn(pipeline, ["a", "b", "c"], generator=generators(7, range(3), "text"))
    np.testing.assert_allclose(made, want, atol=1)


def test_unclip_is_what_the_pipeline_draws(models: Path) -> None:
    folder = tiny.saved("sd21-unclip", models)
    decoder = load_decoder(f"hf:{folder}?steps=3&guidance=4", shape=SHAPE)
    rows = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    made = decoder.decode_prompted(rows, ["a", "b", "c"], noise_level=30, seeds=np.arange(3))
    pipeline = loaded("StableUnCLIPImg2ImgPipeline", folder, feature_extractor=None)
    want = drawn(
        pipeline,
        ["a", "b", "c"],
        image_embeds=torch.from_numpy(rows),
        noise_level=30,
        generator=seeded(np.arange(3), "decode"),
        guidance_scale=4.0,
    )
    np.testing.assert_allclose(made, want, atol=1)


def test_unclip_after_the_latents_of_its_own_name_says_where_its_encoder_lies(models: Path) -> None:
    name = f"hf:{tiny.saved('sd21-unclip', models)}"
    latents = load_encoder(name, shape=SHAPE)
    with pytest.raises(BackendError, match=r"--encoder 'hf:MODEL\?subfolder=image_encoder'"):
        load_decoder(name, shape=SHAPE, encoder=latents)


def test_inpainting_is_what_the_pipeline_draws(models: Path) -> None:
    folder = tiny.saved("sd15-inpainting", models)
    generator = load_model(Generator, f"hf:{folder}?steps=3&seam=0")
    masks = np.zeros((2, 32, 32), dtype=np.bool_)
    masks[:, 8:24, 4:20] = True
    images = pictures(2)
    made = generator.inpaint(images, masks, ["a", "b"], seed=7)
    pipeline = loaded("StableDiffusionInpaintPipeline", folder)
    # Its posterior is sampled, with the generators; ours is not.
    want = drawn(
        pipeline,
        ["a", "b"],
        image=torch.from_numpy(images.transpose(0, 3, 1, 2) / np.float32(255)),
        mask_image=torch.from_numpy(masks[:, None].astype(np.float32)),
        masked_image_latents=_masked_latents(pipeline.vae, images, masks),
        generator=generators(7, range(2), "inpainting"),
        height=32,
        width=32,
    )
    np.testing.assert_allclose(made[masks], want[masks], atol=1)


def _masked_latents(vae: Any, images: np.ndarray, masks: np.ndarray) -> Any:
    pixels = torch.from_numpy(images.transpose(0, 3, 1, 2) / np.float32(127.5) - 1)
    left = pixels * torch.from_numpy(~masks[:, None]).float()
    with torch.no_grad():
        return vae.encode(left).latent_dist.mode() * vae.config.scaling_factor


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


@pytest.mark.slow
def test_embeddings_of_unit_norm_get_the_length_the_model_knows(models: Path) -> None:
    folder = tiny.saved("sd21-unclip", models)

    class Unit:
        """As much of an encoder as a decoder looks at."""

        name, dim, norm_bound, ordered, licence = "unit", 32, 1.0, False, "none"

        def encode(self, images: Any) -> Any:
            return images

    name = f"hf:{folder}?steps=2"
    pipeline = loaded("StableUnCLIPImg2ImgPipeline", folder, feature_extractor=None)
    parts = pipeline.image_normalizer
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


def test_pickled_weights_are_refused(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(tiny.saved("sd15", models), folder)
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    torch.save(tiny.unet().state_dict(), weights.with_suffix(".bin"))
    weights.unlink()
    with pytest.raises(BackendError, match="no weights in safetensors"):
        load_model(Generator, f"hf:{folder}")


def told(models: Path, tmp_path: Path, file: str, **fields: Any) -> Path:
    """A pipeline of a stranger, of which one file says something else."""
    folder = tmp_path / "stranger"
    shutil.copytree(tiny.saved("sd15", models), folder)
    content = json.loads((folder / file).read_text()) | fields
    (folder / file).write_text(json.dumps(content))
    return folder


def test_a_tokenizer_of_a_pipeline_names_no_file_elsewhere(models: Path, tmp_path: Path) -> None:
    folder = told(models, tmp_path, "tokenizer/tokenizer_config.json", vocab="/etc/passwd")
    with pytest.raises(BackendError, match="names a file for its vocab"):
        load_model(Generator, f"hf:{folder}")


def test_a_schedule_of_a_billion_steps_is_not_begun(models: Path, tmp_path: Path) -> None:
    file = "scheduler/scheduler_config.json"
    folder = told(models, tmp_path, file, num_train_timesteps=10**12)
    with pytest.raises(BackendError, match="too many num_train_timesteps"):
        load_model(Generator, f"hf:{folder}")


def test_a_part_of_another_library_is_not_imported(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a notebook, Python also imports from the folder that one is in."""
    folder = told(models, tmp_path, "model_index.json", unet=["stranger.evil", "Network"])
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BackendError, match=r"its unet is of stranger\.evil"):
        load_model(Generator, f"hf:{folder}")
    assert not (tmp_path / "ran").exists()


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


@pytest.mark.parametrize("load", [load_encoder, load_decoder])
def test_an_encoder_is_offered_what_takes_images_of_any_kind(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        HubUnreachable, match=r"hf:nobody/none is not .* or use embedded:dct, which"
    ):
        load("hf:nobody/none", shape=SHAPE)
