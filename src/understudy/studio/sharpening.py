"""The decoder stage: the autoencoder's decoder learns to draw details from what a diffusion draws.

An autoencoder that was taught by errors of pixels alone blurs what it is not sure of. Here its
decoder learns on against a discriminator of patches, as in latent diffusion (Rombach et al. 2022,
section 3.1, after Isola et al. 2017), also from the latents that the diffusion network guesses.
The encoder stays as it is, and with it every latent and every network that was trained on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from understudy.core.types import Images
from understudy.studio.autoencoder import finer, from_network, to_network
from understudy.studio.diffusion import UNetStage

WIDTHS = (48, 96, 128)
"""Channels of the discriminator, each layer at half the side of the one before."""

_ADVERSARIAL, _FEATURES = 0.1, 4.0
"""What the discriminator's verdict and its features weigh beside the errors of pixels."""


class Discriminator(nn.Module):
    """Tells patches of true pictures from drawn ones (PatchGAN).

    Spectral normalisation (Miyato et al. 2018) keeps its slopes bounded.
    """

    def __init__(self) -> None:
        super().__init__()
        ends = zip((3, *WIDTHS), WIDTHS, strict=False)
        self.layers = nn.ModuleList(spectral_norm(nn.Conv2d(a, b, 4, 2, 1)) for a, b in ends)
        self.verdict = spectral_norm(nn.Conv2d(WIDTHS[-1], 1, 3, 1, 1))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """A verdict on each patch, higher for true ones, and the features of each layer."""
        features = []
        for layer in self.layers:
            pixels = functional.leaky_relu(layer(pixels), 0.2)
            features.append(pixels)
        return self.verdict(pixels), features


def game(
    discriminator: Discriminator, decoded: torch.Tensor, pixels: torch.Tensor, share: float = 1.0
) -> dict[str, torch.Tensor]:
    """The losses of a decoder and a discriminator that learn against each other.

    ``decoded`` and ``pixels`` are (n, 3, height, width); ``share`` is how much the game counts for
    the decoder.
    """
    discriminator.requires_grad_(False)  # the opponent does not learn to be deceived
    verdict, features = discriminator(decoded)
    with torch.no_grad():
        _, true = discriminator(pixels)
    discriminator.requires_grad_(True)
    verdicts, _ = discriminator(torch.cat([pixels, decoded.detach()]))
    real, fake = verdicts.chunk(2)
    apart = [functional.l1_loss(a, b) for a, b in zip(features, true, strict=True)]
    return {
        "features": share * _FEATURES * torch.stack(apart).sum(),
        "adversarial": -share * _ADVERSARIAL * verdict.mean(),
        "discriminator": functional.relu(1 - real).mean() + functional.relu(1 + fake).mean(),
    }


class DecoderStage:
    """A decoder and its discriminator learn against each other.

    Half of the latents are the encoder's, disturbed a little; the other half are what the diffusion
    network guesses from noised ones, and count half where they miss the picture's pixels.
    """

    name = "decoder"

    def __init__(self, drawing: UNetStage) -> None:
        self.drawing = drawing
        self.rows = drawing.rows
        drawing.network.requires_grad_(False).eval()
        self.vae: Any = finer(drawing.studied.vae).requires_grad_(False).eval()
        self.decoder = self.vae.decoder.requires_grad_(True)
        self.discriminator = Discriminator()
        self.network = nn.ModuleDict({"decoder": self.decoder, "discriminator": self.discriminator})

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Errors of pixels and features, the decoder's share of the game and its opponent's."""
        studied = self.drawing.studied
        pixels = to_network(studied.corpus.images[rows.numpy()], studied.device)
        latents, weights = self.latents(rows, random)
        decoded = self.vae.decode(latents).sample.float()
        return {
            "pixels": (weights * (decoded - pixels).abs()).mean(),
            "squares": (weights * (decoded - pixels).square()).mean(),
            **game(self.discriminator, decoded, pixels),
        }

    @torch.no_grad()
    def latents(
        self, rows: torch.Tensor, random: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Latents to draw from, and how much the pixels of each count: (n, 1, 1, 1)."""
        studied, half = self.drawing.studied, len(rows) // 2
        clean = studied.clean(rows[half:])
        noise = torch.randn(clean.shape, generator=random, device=studied.device)
        much = 0.2 * torch.rand((len(clean), 1, 1, 1), generator=random, device=studied.device)
        guessed = self.drawing.guess(rows[:half], random)
        weights = torch.ones((len(rows), 1, 1, 1), device=studied.device)
        weights[:half] = 0.5
        return torch.cat([guessed, clean + much * noise]), weights

    @torch.no_grad()
    def sheet(self) -> Images:
        """Held-out images, what comes back of them, and pictures drawn from their captions."""
        studied = self.drawing.studied
        images = np.asarray(studied.corpus.images[studied.corpus.last(8)])
        pixels = to_network(images, studied.device)
        back = from_network(self.vae.decode(self.vae.encode(pixels).latents).sample)
        return np.concatenate([images, back, self.drawing.sheet(self.vae)[8:]])
