"""The stage ``prior`` of `understudy studio train --world photographs`.

A small diffusion network learns to draw the latents of an autoencoder from their descriptions
(`understudy.steps.grid`): small grids, those of the corpus' images, and larger ones. The
descriptions are noised as unCLIP noises embeddings, because those that are sampled from a private
mixture are off by noise, and left out now and then for classifier-free guidance.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from torch.nn import functional

from understudy.backends.embedded.photo.latent_prior import (
    EXTRA_CONDITIONS,
    LatentPrior,
    conditioned,
    write_descriptions,
)
from understudy.backends.embedded.photo.photo_models import PRIOR
from understudy.core.prior_decoder import COVARIANCE
from understudy.core.types import Images
from understudy.steps.grid import SMALLEST_GRID, Description
from understudy.studio.autoencoder import from_network, to_network
from understudy.studio.corpus import Corpus
from understudy.studio.diffusion import NOISING
from understudy.studio.stages import save_network

PRIOR_SIZES = {"half": 0.5, "whole": 1, "double": 2}
"""How large images come, against those of the corpus."""

_SHARES = {"half": 0.25, "whole": 0.6, "double": 0.15}  # how often the network sees each
_STEP = 8  # pixels a side of one place
_VARIANTS = {"half": 0.5, "whole": 1.0, "double": 0.25}  # of each image, against the plan's
_DROPPED = 0.12  # of the descriptions, for classifier-free guidance
_LEVEL = 1.5  # the largest level
_MEASURED = 20_000  # latents that settle what is described
_BLOCK = 256
_LOOKED_AT = 8  # latents whose channels are changed one by one
_SHOWN = 8


def new_prior(latents: int, described: int, widths: tuple[int, int], embedding: int) -> Any:
    """An untrained network.

    Args:
        latents: Channels of a latent.
        described: Numbers of the longest description.
        widths: Channels of the network at the grid's size and at half of it.
        embedding: Length of what the network is told of time and description.
    """
    return diffusers.UNet2DConditionModel(
        sample_size=8,
        in_channels=latents,
        out_channels=latents,
        block_out_channels=widths,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        mid_block_type="UNetMidBlock2D",
        norm_num_groups=16,
        attention_head_dim=32,
        cross_attention_dim=32,
        time_embedding_dim=embedding,
        resnet_time_scale_shift="scale_shift",
        class_embed_type="projection",
        projection_class_embeddings_input_dim=described + EXTRA_CONDITIONS,
    )


@dataclass(frozen=True)
class GridSamples:
    """Latents of one size with their descriptions.

    Attributes:
        latents: (n, C, H, W) float16, on the device.
        values: (n, d) float16 descriptions, on the device.
        description: What is described.
    """

    latents: torch.Tensor
    values: torch.Tensor
    description: Description

    @classmethod
    def of(cls, latents: torch.Tensor) -> GridSamples:
        """Of latents (n, C, H, W), described in terms of themselves."""
        rows = latents.float().flatten(1).cpu().numpy()
        shape = tuple(latents.shape[1:])
        description = Description.of(rows[:: max(1, len(rows) // _MEASURED)], shape)
        blocks = np.array_split(rows, max(1, len(rows) // 4096))
        with ThreadPoolExecutor(cpu_count()) as threads:
            values = np.concatenate(list(threads.map(description.forward, blocks)))
        return cls(latents, torch.from_numpy(values).to(latents), description)


class PriorStage:
    """The velocity of latents (v-prediction), given a noised description.

    A pass is of grids of one size. Channels count by what a change of them changes in pixels.

    Args:
        corpus: The images.
        vae: The autoencoder.
        device: Where to compute.
        variants: Of each image.
        widths: Of the network.
        embedding: Of the network.
    """

    name = "prior"

    def __init__(
        self,
        corpus: Corpus,
        vae: Any,
        device: torch.device,
        *,
        variants: int,
        widths: tuple[int, int],
        embedding: int,
    ) -> None:
        self.rows = len(corpus) * variants
        self.vae = vae.to(device).eval().requires_grad_(False)
        self._corpus, self._device = corpus, device
        self.samples = {
            size: GridSamples.of(self._encoded(size, max(1, round(share * variants))))
            for size, share in _VARIANTS.items()
            if corpus.images.shape[1] * PRIOR_SIZES[size] >= _STEP * SMALLEST_GRID
        }
        shares = np.array([_SHARES[size] for size in self.samples])
        self._limits = np.cumsum(shares / shares.sum())[:-1]
        described = max(one.description.dim for one in self.samples.values())
        channels = self.samples["whole"].latents.shape[1]
        self.network = new_prior(channels, described, widths, embedding)
        self.noising = diffusers.DDPMScheduler(**NOISING)
        self._signal = self.noising.alphas_cumprod.to(device)
        self._counts = importance(self.vae, self.samples["whole"].latents[:_LOOKED_AT])

    @torch.no_grad()
    def _encoded(self, size: str, variants: int) -> torch.Tensor:
        """Latents of every image of the corpus, so many times each: (n, C, H, W) float16."""
        random = torch.Generator(self._device).manual_seed(list(PRIOR_SIZES).index(size))
        parts = [
            self.vae.encode(disturbed_views(pixels, size, random)).latent.half()
            for _ in range(variants)
            for pixels in self._pixels(np.arange(len(self._corpus)))
        ]
        return torch.cat(parts)

    def _pixels(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[torch.Tensor]:
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            yield to_network(np.asarray(self._corpus.images[part]), self._device)

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Mean squared error of the velocity."""
        device = self._device
        which = float(torch.rand((), generator=random, device=device))
        size = [*self.samples][int(np.searchsorted(self._limits, which))]
        samples = self.samples[size]
        chosen = rows.to(device) % len(samples.latents)
        clean, values = samples.latents[chosen].float(), samples.values[chosen].float()
        count = len(chosen)
        draw = torch.rand((3, count, 1), generator=random, device=device)
        level = _LEVEL * draw[0].square()
        values = values + level * torch.randn(values.shape, generator=random, device=device)
        length = self.network.config.projection_class_embeddings_input_dim
        condition = conditioned(values, level, length) * (draw[1] >= _DROPPED)
        steps = (len(self._signal) * draw[2, :, 0]).long()
        noise = torch.randn(clean.shape, generator=random, device=device)
        signal = self._signal[steps][:, None, None, None]
        noised = signal.sqrt() * clean + (1 - signal).sqrt() * noise
        velocity = signal.sqrt() * noise - (1 - signal).sqrt() * clean
        noised = noised.contiguous(memory_format=torch.channels_last)
        prediction = self.network(noised, steps, None, class_labels=condition).sample
        errors = functional.mse_loss(prediction.float(), velocity, reduction="none")
        return {size: (errors * self._counts).mean()}

    def prior(
        self, *, steps: int = 6, guidance: float = 1.5, level: float = 0.0, batch: int = 64
    ) -> LatentPrior:
        """What has been learnt so far, ready to draw."""
        scheduler = diffusers.DPMSolverMultistepScheduler(**NOISING)
        sides = {one.description.shape[1]: one.description for one in self.samples.values()}
        arrays = {side: description.arrays() for side, description in sides.items()}
        for one in self.samples.values():
            rows = one.values[:: max(1, len(one.values) // _MEASURED)].float().cpu().numpy()
            covariance = np.cov(rows, rowvar=False).astype(np.float32)
            arrays[one.description.shape[1]][COVARIANCE] = covariance
        return LatentPrior(self.network, scheduler, arrays, steps, guidance, level, batch)

    @torch.no_grad()
    def sheet(self) -> Images:
        """Held-out images; what comes back of them; what is drawn from their descriptions."""
        images = np.asarray(self._corpus.images[self._corpus.last(_SHOWN)])
        latents = self.vae.encode(to_network(images, self._device)).latent.float()
        description = self.samples["whole"].description
        values = description.forward(latents.flatten(1).cpu().numpy())
        seeds = np.arange(len(images), dtype=np.uint64)
        drawn = torch.from_numpy(self.prior().draw(values, description.shape, seeds))
        drawn = drawn.reshape(latents.shape).to(self._device)
        shown = [from_network(self.vae.decode(one).sample) for one in (latents, drawn)]
        return np.concatenate([images, *shown])

    def save(self, autoencoder: Path) -> None:
        """Write the prior into the folder of its autoencoder, in the hub's format."""
        folder, prior = autoencoder / PRIOR, self.prior()
        folder.mkdir(exist_ok=True)
        prior.scheduler.save_pretrained(folder)
        write_descriptions(folder, prior.descriptions, autoencoder)
        save_network(self.network, folder)


@torch.no_grad()
def importance(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    """What an error of each channel counts for, by what it changes in pixels: (1, C, 1, 1).

    The root of the mean squared change, one on average: between all alike and what a pixel says.
    """
    latents = latents.float()
    decoded = vae.decode(latents).sample
    noise = torch.randn(latents[:, 0].shape, generator=torch.Generator().manual_seed(0))
    changes = []
    for channel in range(latents.shape[1]):
        changed = latents.clone()
        changed[:, channel] += 0.3 * noise.to(latents)
        changes.append((vae.decode(changed).sample - decoded).square().mean().sqrt())
    counts = torch.stack(changes)
    return (counts / counts.mean())[None, :, None, None]


def disturbed_views(pixels: torch.Tensor, size: str, random: torch.Generator) -> torch.Tensor:
    """Images (n, 3, side, side) of one of `PRIOR_SIZES`, turned and with other colours.

    Half of them stay upright, and more than half keep their colours.

    Args:
        pixels: In [-1, 1].
        size: ``"half"``: shrunk, or a quarter of the image; ``"whole"``; ``"double"``: enlarged.
        random: Of the draws.
    """
    count, side = len(pixels), pixels.shape[-1]
    draw = torch.rand((7, count), generator=random, device=pixels.device)
    if size == "half":
        y, x = ((draw[at] * (side // 16 + 1)).long() * 8 for at in (0, 1))
        corner = [
            pixels[i, :, a : a + side // 2, b : b + side // 2]
            for i, (a, b) in enumerate(zip(y.tolist(), x.tolist(), strict=True))
        ]
        quarter, shrunk = torch.stack(corner), functional.avg_pool2d(pixels, 2)
        pixels = torch.where((draw[2] < 0.4)[:, None, None, None], quarter, shrunk)
    elif size == "double":
        pixels = functional.interpolate(pixels, scale_factor=2, mode="bicubic").clamp(-1, 1)
    draw = draw[..., None, None, None]
    mirrored = torch.where(draw[3] < 0.5, pixels.flip(-1), pixels)
    turned = torch.where(draw[4] < 0.5, mirrored.flip(-2), mirrored)
    turned = torch.where(draw[5] < 0.5, turned.transpose(-1, -2), turned)
    pixels = torch.where(draw[6] < 0.5, turned, mirrored)
    return recoloured(pixels, random).contiguous(memory_format=torch.channels_last)


def recoloured(pixels: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Some images with exchanged colours, in grey, or in opposite colours."""
    draw = torch.rand((2, len(pixels)), generator=random, device=pixels.device)
    order = torch.randperm(3, generator=random, device=pixels.device)
    grey = pixels.mean(1, keepdim=True).expand_as(pixels)
    kind = draw[0][:, None, None, None]
    other = torch.where(kind < 0.15, pixels[:, order], torch.where(kind < 0.3, grey, pixels))
    return torch.where((draw[1] < 0.1)[:, None, None, None], -other, other)
