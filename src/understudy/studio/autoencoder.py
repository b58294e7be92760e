"""The autoencoder stage: images to a small grid of latents and back."""

from __future__ import annotations

from typing import Any

import diffusers
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from understudy.core.types import Images
from understudy.studio.corpus import Corpus

_BATCH = 128  # images that are encoded at once


def new_autoencoder(*, latents: int, width: int) -> Any:
    """An untrained AutoencoderTiny that makes every side eight times smaller.

    There are no blocks at full size: they would take most of the time and give little, until
    details are to be drawn (`finer`).
    """
    return diffusers.AutoencoderTiny(
        latent_channels=latents,
        encoder_block_out_channels=(width,) * 4,
        decoder_block_out_channels=(width,) * 4,
        num_encoder_blocks=(0, 1, 2, 2),
        num_decoder_blocks=(2, 2, 1, 0),
    )


def finer(coarse: Any) -> Any:
    """The same AutoencoderTiny with a block at full size before the decoder's last layer."""
    blocks = (2, 2, 1, 1)
    if tuple(coarse.config["num_decoder_blocks"]) == blocks:
        return coarse
    fine = diffusers.AutoencoderTiny.from_config({**coarse.config, "num_decoder_blocks": blocks})
    fine.encoder.load_state_dict(coarse.encoder.state_dict())
    *before, last = coarse.decoder.layers
    for ours, theirs in zip(fine.decoder.layers, before, strict=False):
        ours.load_state_dict(theirs.state_dict())
    fine.decoder.layers[-1].load_state_dict(last.state_dict())
    for part in fine.decoder.layers[-2].conv[-1].parameters():
        nn.init.zeros_(part)  # the new block adds nothing until it learns
    return fine.to(next(coarse.parameters()).device)


def to_network(images: Images, device: torch.device) -> torch.Tensor:
    """(n, height, width, 3) uint8 as (n, 3, height, width) in [-1, 1]."""
    pixels = torch.from_numpy(np.array(images)).to(device)  # a copy: the corpus is read-only
    return pixels.permute(0, 3, 1, 2) / 127.5 - 1


def from_network(pixels: torch.Tensor) -> Images:
    """The inverse of `to_network`, rounded and cut to the range."""
    values = ((pixels.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
    return np.asarray(values.permute(0, 2, 3, 1).cpu().numpy())


def in_pairs(images: Images, others: Images) -> Images:
    """Sixteen images in rows of eight, each above another one."""
    return np.concatenate([images[:8], others[:8], images[8:], others[8:]])


class AutoencoderStage:
    """Learns to give images back from latents of zero mean and unit variance.

    The latents are disturbed a little before they are decoded, so that the decoder forgives what a
    diffusion model gets slightly wrong.
    """

    name = "vae"

    def __init__(self, corpus: Corpus, network: Any, device: torch.device) -> None:
        self.network = network
        self.rows = len(corpus)
        self._corpus, self._device = corpus, device

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Absolute error of pixels and of their differences; moments of the latents."""
        pixels = to_network(self._corpus.images[np.sort(rows.numpy())], self._device)
        if torch.rand((), generator=random, device=self._device) < 0.5:
            pixels = pixels.flip(-1)
        latents = self.network.encode(pixels).latents.float()
        noise = torch.randn(latents.shape, generator=random, device=self._device)
        decoded = self.network.decode(latents + 0.1 * noise).sample.float()
        mean, variance = latents.mean((0, 2, 3)), latents.var((0, 2, 3))
        return {
            "pixels": functional.l1_loss(decoded, pixels),
            "squares": 2 * functional.mse_loss(decoded, pixels),
            "edges": sum(
                (functional.l1_loss(decoded.diff(dim=d), pixels.diff(dim=d)) for d in (-1, -2)),
                torch.zeros((), device=self._device),
            ),
            "moments": 0.05 * (mean.square() + (variance - 1).square()).mean(),
        }

    @torch.no_grad()
    def sheet(self) -> Images:
        """Held-out images, each above what came back of it."""
        images = self._corpus.images[self._corpus.last(16)]
        latents = self.network.encode(to_network(images, self._device)).latents
        return in_pairs(images, from_network(self.network.decode(latents).sample))


@torch.no_grad()
def encode_latents(
    network: Any, images: Images, device: torch.device
) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    """Latents of many images: (n, channels, height / 8, width / 8) float16."""
    latents = []
    for start in range(0, len(images), _BATCH):
        pixels = to_network(images[start : start + _BATCH], device)
        with torch.autocast(device.type, torch.bfloat16):
            latents.append(network.encode(pixels).latents.to(torch.float16).cpu().numpy())
    return np.concatenate(latents)
