"""The autoencoder of photographs: its linear beginning, its corpus, and how it is trained."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")

from safetensors.torch import load_file  # noqa: E402

from understudy.backends.registry import load_decoder, load_encoder  # noqa: E402
from understudy.backends.training_loop import Machine, Schedule  # noqa: E402
from understudy.core.errors import ConfigError  # noqa: E402
from understudy.core.types import Images  # noqa: E402
from understudy.studio.autoencoder import from_network, to_network  # noqa: E402
from understudy.studio.block_code import (  # noqa: E402
    begin_as_linear_code,
    new_block_code,
    pixel_blocks,
    principal_axes,
)
from understudy.studio.photographs import (  # noqa: E402
    PHOTO_STAGES,
    PhotoPlan,
)
from understudy.studio.train import Order, train_photo_autoencoder  # noqa: E402

PLAN = PhotoPlan(
    count=24,
    held_out=16,
    side=32,
    latents=4,
    schedules={name: Schedule(steps=2, batch=4, rate=1e-4, warmup=1) for name in PHOTO_STAGES},
)
WEIGHTS = "diffusion_pytorch_model.safetensors"


def soft_images(count: int, side: int = 32) -> Images:
    """Colour ramps with a little noise: nearly linear, so that few numbers say much."""
    rng = np.random.default_rng(3)
    down, across = np.mgrid[:side, :side] / side
    slopes = rng.normal(0, 60, (count, 1, 1, 3, 2))
    ramps = 128 + slopes[..., 0] * (down[..., None] - 0.5) + slopes[..., 1] * across[..., None]
    return np.clip(ramps + rng.normal(0, 4, ramps.shape), 0, 255).astype(np.uint8)


def written(folder: Path, images: Images) -> Path:
    """The images as PNG files in a folder."""
    folder.mkdir()
    for row, image in enumerate(images):
        Image.fromarray(image.squeeze()).save(folder / f"{row:03d}.png")
    return folder


def trained(out: Path, images: Path, plan: PhotoPlan = PLAN, **order: object) -> tuple[str, ...]:
    return train_photo_autoencoder(
        Order(out, "photographs", images=[str(images)], **order),  # type: ignore[arg-type]
        plan=plan,
        machine=Machine(precision="float32"),
        report=lambda *_: None,
        bars=lambda words, total=None: lambda done: None,
    )


def test_it_begins_as_the_best_linear_code_of_blocks() -> None:
    images = soft_images(40)
    blocks = pixel_blocks(images)
    network = new_block_code(6)
    begin_as_linear_code(network, blocks)
    with torch.no_grad():
        latents = network.encode(to_network(images, torch.device("cpu"))).latent
        back = from_network(network.decode(latents).sample)
    mean, axes, deviations = principal_axes(blocks, 6)
    linear = (blocks - mean) @ axes @ axes.T + mean
    expected = 127.5 * np.abs(linear - blocks).mean()
    assert np.abs(back.astype(float) - images).mean() < 1.1 * expected + 0.5
    assert np.all(np.diff(deviations) <= 0)
    np.testing.assert_allclose(latents.mean((0, 2, 3)), 0, atol=0.02)
    np.testing.assert_allclose(latents.std((0, 2, 3)), 1, atol=0.02)


def test_it_is_trained_in_two_stages_and_opened_by_name(tmp_path: Path) -> None:
    images = written(tmp_path / "images", soft_images(6))
    out = tmp_path / "out"
    assert trained(out, images, stages=["vae"]) == ("vae",)
    first = load_file(out / "vae" / WEIGHTS)
    assert trained(out, images) == PHOTO_STAGES
    second = load_file(out / "vae" / WEIGHTS)
    changed = {key.partition(".")[0] for key in first if not torch.equal(first[key], second[key])}
    assert changed == {"decoder"}
    name = f"embedded:photo?folder={out / 'vae'}"
    encoder = load_encoder(name, shape=(28, 28, 1))
    decoder = load_decoder(name, shape=(28, 28, 1), encoder=encoder)
    assert encoder.dim == 4 * 4 * 4
    assert decoder.decode(encoder.encode(soft_images(3, 28)[..., :1])).shape == (3, 28, 28, 1)
    assert any((out / "work" / "sheets").glob("vae-*.png"))


def test_an_autoencoder_learns_on_from_another(tmp_path: Path) -> None:
    images = written(tmp_path / "images", soft_images(6))
    trained(tmp_path / "first", images, stages=["vae"])
    shutil.copytree(tmp_path / "first" / "work" / "corpus", tmp_path / "on" / "work" / "corpus")
    first = tmp_path / "first" / "vae"
    still = replace(PLAN.schedules["vae"], rate=1e-6)
    plan = replace(PLAN, schedules={"vae": still})
    trained(tmp_path / "on", images, plan, stages=["vae"], start=str(first))
    before, after = load_file(first / WEIGHTS), load_file(tmp_path / "on" / "vae" / WEIGHTS)
    assert all(torch.allclose(before[key], after[key], atol=1e-3) for key in before)
    with pytest.raises(ConfigError, match="holds no autoencoder to learn on from"):
        trained(tmp_path / "wrong", images, stages=["vae"], start=str(tmp_path / "nowhere"))
