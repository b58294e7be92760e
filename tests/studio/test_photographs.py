"""The autoencoder of photographs: its linear beginning, its corpus, and how it is trained."""

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
from understudy.core.types import Images  # noqa: E402
from understudy.studio.photographs import PHOTO_STAGES, PhotoPlan  # noqa: E402
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


@pytest.mark.slow
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
