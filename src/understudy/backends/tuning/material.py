"""What a tuning learns from, computed once before it begins: latents of images, texts embedded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from understudy.backends.arrays import index_slices, resized, with_channels
from understudy.backends.diffusion.autoencoders import to_tensor
from understudy.backends.tuning.tuning_settings import TuningSettings
from understudy.core.errors import BackendError
from understudy.core.types import Images

_AT_ONCE = 8  # images encoded at once


@dataclass(frozen=True, slots=True)
class Latents:
    """Images as an autoencoder sees them: a normal distribution each.

    Attributes:
        mean: (n, c, h, w) float32, scaled as the denoising network takes them.
        std: The same; zeros where the autoencoder is deterministic.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def draw(self, count: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """(count,) rows drawn with replacement, and a latent of each: (count, c, h, w)."""
        rows = torch.randint(len(self.mean), (count,), generator=rng)
        noise = torch.randn((count, *self.mean.shape[1:]), generator=rng)
        return rows, self.mean[rows] + self.std[rows] * noise


@torch.no_grad()
def encode_images(vae: Any, images: Images) -> Latents:
    """The latents of (n, h, w, c) uint8 images, kept on the processor."""
    means, stds = [], []
    scale = float(vae.config.get("scaling_factor") or 1.0)
    shift = float(vae.config.get("shift_factor") or 0.0)
    for rows in index_slices(len(images), _AT_ONCE):
        encoding = vae.encode(to_tensor(with_channels(images[rows], 3), vae) * 2 - 1)
        distribution = getattr(encoding, "latent_dist", None)
        mean = encoding.latents if distribution is None else distribution.mean
        std = torch.zeros_like(mean) if distribution is None else distribution.std
        means.append(((mean.float() - shift) * scale).cpu())
        stds.append((std.float() * scale).cpu())
    return Latents(torch.cat(means), torch.cat(stds))


def cell_weights(masks: Images, latents: Latents) -> torch.Tensor:
    """(n, 1, h, w) of the loss on the latents' cells: the part inside a mask, of mean 1.

    ``masks`` are (n, height, width, 1) uint8, 255 inside, cropped as the images were.
    """
    inside = torch.from_numpy(masks[..., 0].astype(np.float32) / 255)[:, None]
    height, width = latents.mean.shape[2:]
    cells = torch.nn.functional.adaptive_avg_pool2d(inside, (height, width))
    return cells / cells.mean((1, 2, 3), keepdim=True).clamp(min=1e-6)


def views(
    images: Images, size: tuple[int, int], settings: TuningSettings, rng: np.random.Generator
) -> Images:
    """Crops and flips of images, at the size that the model works at.

    Returns:
        (n, ...) where nothing is random, and (n * views, ...) otherwise.
    """
    height, width = images.shape[1:3]
    tall, wide = min(height, width * size[0] / size[1]), min(width, height * size[1] / size[0])
    moves = settings.crop < 1 or (round(tall), round(wide)) != (height, width)
    if not moves and not settings.flips:
        return resized(images, *size)
    crops = []
    for _ in range(settings.views):
        for image in images:
            share = rng.uniform(settings.crop, 1.0)
            h, w = max(1, round(tall * share)), max(1, round(wide * share))
            top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
            view = image[None, top : top + h, left : left + w]
            if settings.flips and rng.random() < 0.5:
                view = view[:, :, ::-1]
            crops.append(resized(np.ascontiguousarray(view), *size))
    return np.concatenate(crops)


def class_images(
    make: Callable[[list[str], int], Images], prompt: str, settings: TuningSettings, seed: int
) -> Images:
    """Images of the class, made by the base model itself: what it must not forget.

    Returns:
        (n, h, w, c) uint8. Those that the folder holds are not made again.
    """
    count = settings.class_images
    if settings.class_folder is None:
        return make([prompt] * count, seed)
    folder = Path(settings.class_folder)
    note, said = folder / "prompt.txt", f"{prompt}\nseed {seed}\n"
    if note.is_file() and note.read_text("utf-8") != said:
        raise BackendError(
            f"{folder} holds images of {note.read_text('utf-8').splitlines()[0]!r} and another "
            "seed or prompt than was asked for: give another class_folder"
        )
    files = [folder / f"{number:05d}.png" for number in range(count)]
    if note.is_file() and all(file.is_file() for file in files):
        return np.stack([np.atleast_3d(np.asarray(Image.open(file))) for file in files])
    images = make([prompt] * count, seed)
    folder.mkdir(parents=True, exist_ok=True)
    for file, image in zip(files, images, strict=True):
        Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(file)
    note.write_text(said, "utf-8")
    return images


def token_ids(pipeline: Any, prompt: str) -> torch.Tensor:
    """(1, length) of a prompt, as the pipeline would cut and pad it."""
    tokenizer = pipeline.tokenizer
    ids: torch.Tensor = tokenizer(
        prompt,
        padding="max_length",
        max_length=tokenizer.model_max_length,
        truncation=True,
        return_tensors="pt",
    ).input_ids
    return ids
