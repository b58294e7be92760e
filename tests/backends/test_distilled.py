"""A distilled model draws in the few steps and without the guidance that it was trained for."""

from __future__ import annotations

import shutil
from copy import copy
from functools import cache
from pathlib import Path

import pytest

for package in ("torch", "diffusers", "transformers"):
    pytest.importorskip(package)

from tests.backends.tiny_models import diffusion as tiny  # noqa: E402

from understudy.backends.diffusion.distilled import few_steps  # noqa: E402
from understudy.backends.hub.pretrained import quiet  # noqa: E402
from understudy.backends.registry import load_model  # noqa: E402
from understudy.core.ports import Generator, StepwiseModel  # noqa: E402


@pytest.fixture(scope="module")
def sdxl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.saved("sdxl", tmp_path_factory.mktemp("base"))


def drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, float, str]:
    """Steps and guidance of the pipeline's call when one image is drawn, and the model's words."""
    generator = load_model(Generator, name)
    assert isinstance(generator, StepwiseModel)
    calls = []
    kind = type(generator._pipelines.ready("text"))  # type: ignore[attr-defined]
    call = kind.__call__

    def watched(self, *arguments, **options):  # type: ignore[no-untyped-def]
        calls.append((options["num_inference_steps"], options["guidance_scale"]))
        return call(self, *arguments, **{**options, "num_inference_steps": 1})

    watched.__signature__ = __import__("inspect").signature(call)  # type: ignore[attr-defined]
    monkeypatch.setattr(kind, "__call__", watched)
    generator.generate(["a dog"])
    ((steps, guidance),) = calls
    return steps, guidance, generator.sampling


def test_a_model_named_turbo_draws_in_four_steps_without_guidance(
    sdxl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stabilityai" / "sdxl-turbo"
    shutil.copytree(sdxl, folder)
    steps, guidance, words = drawn(f"hf:{folder}", monkeypatch)
    assert (steps, guidance) == (4, 0.0)
    assert words.startswith('4 steps, guidance 0 (a distilled model, by "turbo" in its name;')
    assert "steps=N, guidance=N" in words


def test_what_is_asked_for_stands(
    sdxl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(sdxl, tmp_path / "sdxl-turbo")
    name = f"hf:{tmp_path / 'sdxl-turbo'}?steps=7&guidance=2.5"
    assert drawn(name, monkeypatch) == (7, 2.5, "7 steps, guidance 2.5")


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("stabilityai/sdxl-turbo", 4),
        ("stabilityai/stable-diffusion-3.5-large-turbo", 4),
        ("black-forest-labs/FLUX.1-schnell", 4),
        ("Tongyi-MAI/Z-Image-Turbo", 8),
        ("ByteDance/SDXL-Lightning", 4),
        ("someone/sdxl-lightning-8step", 8),
        ("ByteDance/Hyper-SD", 8),
        ("latent-consistency/lcm-lora-sdxl", 4),
        ("stabilityai/stable-diffusion-xl-base-1.0", None),
        ("someone/hyperrealism-xl", None),
        ("lightning/plain-model", None),
        ("someone/calcmodel", None),
    ],
)
def test_names_that_say_how_a_model_was_trained(name: str, steps: int | None) -> None:
    found = few_steps(pipeline(), [name])
    assert (found and found.steps) == steps


@cache
def pipeline() -> object:
    with quiet():
        return tiny.BUILDERS["sdxl"]()


def test_a_network_that_takes_guidance_as_an_input_keeps_it() -> None:
    made = copy(pipeline())
    with quiet():
        made.unet = tiny.unet(time_cond_proj_dim=8)  # type: ignore[attr-defined]
    found = few_steps(made, ["LCM_Dreamshaper"])
    assert found is not None
    assert (found.steps, found.guidance) == (4, None)
