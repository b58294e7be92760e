import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("peft")

import safetensors.torch  # noqa: E402
from diffusers import DDIMScheduler, StableDiffusionPipeline  # noqa: E402
from peft.utils import get_peft_model_state_dict  # noqa: E402
from tests.backends.tiny_models import diffusion as tiny  # noqa: E402
from tests.backends.tiny_models.tuning import subject  # noqa: E402

from understudy.backends.registry import load_model  # noqa: E402
from understudy.backends.tuning.dreambooth import DenoisingTask, Lesson, Noising, train_denoiser  # noqa: E402
from understudy.backends.tuning.material import Latents, cell_weights, encode_images  # noqa: E402
from understudy.backends.tuning.tuner import DreamBooth  # noqa: E402
from understudy.backends.tuning.tuning_settings import TuningSettings  # noqa: E402
from understudy.backends.tuning.weights import (  # noqa: E402
    add_lora,
    fused,
    has_lora,
    merge_into_inpainting,
)
from understudy.core.errors import BackendError, HubUnreachable  # noqa: E402
from understudy.core.ports import Generator, Tuner  # noqa: E402

PROMPT, CLASS = "xyz dog", "a dog"
FULL = TuningSettings(full=True, steps=8, rate=4e-3)
LORA = TuningSettings(steps=24, rate=4e-2)
QUICK = "steps=2&guidance=1"


@pytest.fixture(scope="module")
def tuner(models: Path) -> DreamBooth:
    for kind in ("sd15", "sd15-inpainting"):
        tiny.saved(kind, models)
    return load_model(Tuner, f"hf:{models}/sd15?{QUICK}")


@pytest.fixture(scope="module")
def pipeline(tuner: DreamBooth):
    return tuner._pipelines.text


@pytest.fixture(scope="module")
def latents(pipeline) -> Latents:
    return encode_images(pipeline.vae, subject())


def weights(network) -> dict:
    return {key: weight.clone() for key, weight in network.state_dict().items()}


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def loss_of(pipeline, lesson: Lesson, draws: int = 32) -> float:
    task = DenoisingTask(pipeline, pipeline.unet, [lesson], draws)
    with torch.no_grad():
        return float(task.losses(0, 3)["denoising"])


@pytest.mark.slow
@pytest.mark.parametrize("settings", [FULL, LORA], ids=["full", "lora"])
def test_a_tuned_model_denoises_the_subject_better(pipeline, latents, settings) -> None:
    lesson = Lesson(latents, (PROMPT,))
    tuned = copy.copy(pipeline)
    tuned.unet = fused(train_denoiser(pipeline, [lesson], settings))
    assert loss_of(tuned, lesson) < 0.95 * loss_of(pipeline, lesson)


def test_the_base_model_stays_as_it_is(tuner: DreamBooth, pipeline) -> None:
    parts = [pipeline.unet, pipeline.text_encoder, pipeline.vae]
    before = [weights(part) for part in parts]
    image = tuner._base.generate([PROMPT], seed=3)
    for full in (True, False):
        told = {"full": full, "steps": 1, "rate": 1e-2}
        tuned = tuner.tune(subject(), PROMPT, settings=told)
        assert not np.array_equal(tuned.generate([PROMPT], seed=3), image)
    assert all(same(weights(part), old) for part, old in zip(parts, before, strict=True))
    assert not any(has_lora(part) for part in parts)
    np.testing.assert_array_equal(tuner._base.generate([PROMPT], seed=3), image)


def with_adapters(unet: Any, folder: Path) -> Any:
    """A network with adapters, saved as `save_lora_weights` of diffusers writes them."""
    adapted = copy.deepcopy(unet)
    add_lora(adapted, LORA)
    with torch.no_grad():
        for weight in (one for one in adapted.parameters() if one.requires_grad):
            weight.add_(0.1)
    layers = get_peft_model_state_dict(adapted)
    StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=layers)
    return adapted


def test_adapters_of_the_hub_are_folded_into_both_networks(
    tuner: DreamBooth, pipeline, models: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    adapted = with_adapters(pipeline.unet, tmp_path)
    model = f"hf:{models}/sd15?{QUICK}&inpainting={models}/sd15-inpainting"
    plain, generator = (load_model(Generator, model + more) for more in ("", f"&lora={tmp_path}"))
    learnt = fused(adapted).state_dict()
    assert not same(learnt, weights(pipeline.unet))
    folder = load_model(Generator, f"{model}&lora=hf:{tmp_path}")
    assert same(weights(folder._pipelines.text.unet), weights(generator._pipelines.text.unet))
    found = generator._pipelines.text.unet.state_dict()
    assert all(torch.allclose(found[key], learnt[key], atol=1e-6) for key in learnt)
    inpainters = [one._pipelines.inpainter.network for one in (plain, generator)]
    assert not same(*(weights(one) for one in inpainters))
    with pytest.raises(BackendError, match="LoRA"):
        load_model(Generator, f"hf:{models}/sd15?lora={models}/sd15/vae")
    capfd.readouterr()
    with pytest.raises(BackendError, match=r"of another model: .*size mismatch") as stop:
        load_model(Generator, f"hf:{tiny.saved('sdxl', models)}?lora={tmp_path}")
    assert "\n" not in str(stop.value)
    assert "size mismatch" not in capfd.readouterr().err


def test_only_what_a_tuning_changed_is_restored(tuner: DreamBooth) -> None:
    assert len(tuner.changes(tuner._base)) < 100
    with pytest.raises(BackendError, match="of another model"):
        tuner.restore(safetensors.torch.save({"unet.nothing": torch.zeros(2)}))


def test_only_the_pixels_of_a_mask_are_learned_from(pipeline, latents) -> None:
    """The loss of a pass is the mean over the mask: what is outside of it changes nothing."""
    masks = np.zeros((len(subject()), 64, 64, 1), np.uint8)
    masks[:, :32] = 255
    cells = cell_weights(masks, latents)
    assert torch.allclose(cells.mean((1, 2, 3)), torch.ones(len(cells)))
    half = latents.mean.shape[2] // 2
    assert (cells[:, :, half:] == 0).all()
    losses = []
    for weights_of_cells in (None, cells, 2 * cells):
        lesson = Lesson(latents, (PROMPT,), pixel_weights=weights_of_cells)
        losses.append(loss_of(pipeline, lesson))
    assert losses[0] != losses[1]
    assert losses[2] == pytest.approx(2 * losses[1])


def test_masks_and_prompts_that_do_not_fit_are_refused(tuner: DreamBooth) -> None:
    images = subject()
    with pytest.raises(BackendError, match="one an image"):
        tuner.tune(images, [PROMPT] * (len(images) + 1))
    for masks in (np.zeros(images.shape[:3], bool), np.ones(images.shape[:2], bool)):
        with pytest.raises(BackendError, match="some in each image"):
            tuner.tune(images, PROMPT, masks=masks)


@pytest.mark.parametrize("kind", ["epsilon", "v_prediction", "sample"])
def test_the_goal_of_the_loss_gives_the_latents_back(kind: str) -> None:
    """From what is noisy and what the network should say, the latents follow."""
    rng = torch.Generator().manual_seed(0)
    latents = torch.randn((6, 4, 8, 8), generator=rng)
    scheduler = DDIMScheduler(prediction_type=kind)
    noisy, times, goal = Noising(scheduler)(latents, rng)
    level = scheduler.alphas_cumprod[times].view(-1, 1, 1, 1)
    signal, rest = level.sqrt(), (1 - level).sqrt()
    found = {
        "epsilon": (noisy - rest * goal) / signal,
        "v_prediction": signal * noisy - rest * goal,
        "sample": goal,
    }[kind]
    assert torch.allclose(found, latents, atol=2e-3)
    assert len(set(times.tolist())) > 3


class TestMerging:
    def test_what_was_learned_appears_exactly(self) -> None:
        base, inpainting = tiny.unet(), tiny.unet(in_channels=9)
        tuned, before = copy.deepcopy(base), weights(inpainting)
        with torch.no_grad():
            for index, weight in enumerate(tuned.parameters()):
                weight += 0.25 * (index + 1)
        merged = weights(merge_into_inpainting(inpainting, tuned, base))
        for index, (key, _) in enumerate(base.named_parameters()):
            change = merged[key] - before[key]
            shared = change[:, :4] if key == "conv_in.weight" else change
            expected = torch.full_like(shared, 0.25 * (index + 1))
            assert torch.allclose(shared, expected, atol=1e-4), key
        assert torch.equal(merged["conv_in.weight"][:, 4:], before["conv_in.weight"][:, 4:])
        assert same(weights(inpainting), before)

    @pytest.mark.slow
    @pytest.mark.parametrize("full", [True, False], ids=["full", "lora"])
    def test_a_tuned_generator_inpaints_what_it_learned(self, models: Path, full: bool) -> None:
        name = f"hf:{models}/sd15?{QUICK}&inpainting={models}/sd15-inpainting"
        tuner = load_model(Tuner, name)
        told = {"full": full, "steps": 1, "rate": 1e-2}
        tuned = tuner.tune(subject(), PROMPT, settings=told)
        again = tuner.restore(tuner.changes(tuned))
        masks = np.zeros((1, 32, 32), bool)
        masks[:, 8:24, 8:24] = True
        drawn, redrawn, before = (
            one.inpaint(subject(1), masks, [PROMPT], seed=1) for one in (tuned, again, tuner._base)
        )
        assert np.abs(drawn.astype(int) - redrawn).max() <= 1
        assert np.abs(drawn.astype(int) - before).max() > 1
        np.testing.assert_array_equal(drawn[~masks], subject(1)[~masks])


def test_adapters_by_name_are_read_without_the_hub(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the hub diffusers asked for a weight_name; and of lora=hf:NAME an hf:hf: was said."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("diffusers.loaders.lora_base.HF_HUB_OFFLINE", True)
    model = f"hf:{models}/sd15?lora=hf:some/adapters"
    with pytest.raises(HubUnreachable, match=r"^hf:some/adapters"):
        load_model(Generator, model)
    place = tmp_path / "models--some--adapters"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("a" * 40)
    snapshot = place / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    with_adapters(load_model(Generator, f"hf:{models}/sd15")._pipelines.text.unet, snapshot)
    read, cached = (
        load_model(Generator, f"hf:{models}/sd15?lora={name}")._pipelines.text.unet
        for name in (snapshot, "hf:some/adapters")
    )
    assert same(weights(read), weights(cached))
