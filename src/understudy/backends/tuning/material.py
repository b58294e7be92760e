"""What a tuning learns from, computed once before it begins: latents of images, texts embedded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from understudy.backends.arrays import index_slices, resized, with_channels
from understudy.backends.diffusion.autoencoders import scale_of, to_tensor
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
    shift, scale = scale_of(vae)
    for rows in index_slices(len(images), _AT_ONCE):
        pixels = to_tensor(with_channels(images[rows], 3), vae.device, vae.dtype)
        encoding = vae.encode(pixels * 2 - 1)
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


def views(images: Images, size: tuple[int, int], count: int, rng: np.random.Generator) -> Images:
    """Images (n, h, w, c) uint8 at the size (height, width) that the model works at.

    Of images of another ratio ``count`` random crops each: (n * count, ...).
    """
    height, width = images.shape[1:3]
    tall = round(min(height, width * size[0] / size[1]))
    wide = round(min(width, height * size[1] / size[0]))
    if (tall, wide) == (height, width):
        return resized(images, *size)
    crops = []
    for _ in range(count):
        for image in images:
            top, left = rng.integers(height - tall + 1), rng.integers(width - wide + 1)
            view = image[None, top : top + tall, left : left + wide]
            crops.append(resized(np.ascontiguousarray(view), *size))
    return np.concatenate(crops)


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
