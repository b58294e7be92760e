"""`understudy studio train --world photographs`: the autoencoder of ``embedded:photo``.

It learns from public images of many kinds: folders that are given, every family of drawings that
the package has, and the rooms of the playhouse. Their licences must allow it: the weights are a
work made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from understudy.backends.hub.pretrained import quiet
from understudy.backends.training_loop import LossReport, Machine, Schedule
from understudy.core.errors import ConfigError
from understudy.core.types import Images
from understudy.data import open_source
from understudy.data.procedural import PROCEDURAL_NAMES
from understudy.studio.autoencoder import AutoencoderStage, from_network, in_pairs, to_network
from understudy.studio.block_code import begin_as_linear_code, new_block_code, pixel_blocks
from understudy.studio.corpus import Corpus, CorpusRow
from understudy.studio.plan import scaled_schedules
from understudy.studio.sharpening import Discriminator, game
from understudy.studio.stages import save_network, train_stage

PHOTO_STAGES = ("vae", "decoder")
"""In the order in which they are trained."""

VIEWS = {
    "whole": 0.32,
    "halved": 0.18,
    "quarters": 0.2,
    "half": 0.12,
    "three quarters": 0.12,
    "enlarged": 0.06,
}
"""How an image comes while the autoencoder learns, and how often."""

_LATENT_NOISE = 0.03
_DECODER_NOISE = 0.1
_GAME = 0.1  # what the adversarial losses count beside those of the mini studio
_BLOCKS_MEASURED = 200_000
_READ = 64  # images at a time


def _schedules() -> dict[str, Schedule]:
    return {
        "vae": Schedule(steps=1_000, batch=16, rate=2e-4, warmup=100, decay=0.0, average=0.997),
        "decoder": Schedule(
            steps=1_000,
            batch=16,
            rate=2e-4,
            warmup=100,
            decay=0.0,
            average=0.998,
            betas=(0.5, 0.99),
        ),
    }


@dataclass(frozen=True, slots=True)
class PhotoPlan:
    """An autoencoder to be made."""

    count: int = 15_000
    held_out: int = 240
    side: int = 64
    latents: int = 28
    schedules: dict[str, Schedule] = field(default_factory=_schedules)

    def scaled(self, scale: float) -> PhotoPlan:
        """The same plan with ``scale`` times the steps of every stage."""
        return replace(self, schedules=scaled_schedules(self.schedules, scale))


def photograph_rows(images: Sequence[str], plan: PhotoPlan) -> Iterator[CorpusRow]:
    """The corpus: as many images of each source, one of each in turn.

    The drawings of the package and the playhouse come besides ``images``.
    """
    each = -(-plan.count // (len(images) + len(PROCEDURAL_NAMES) + 1))
    drawings = [f"{name}?count={each}" for name in (*PROCEDURAL_NAMES, "playhouse:world")]
    streams = [public_images(name, each, plan.side) for name in (*images, *drawings)]
    for row in zip(*streams, strict=True):
        yield from (CorpusRow(image, []) for image in row)


def public_images(name: str, count: int, side: int) -> Iterator[Images]:
    """So many images of a source, each (side, side, 3) uint8, spread evenly over the whole of it.

    Where there are fewer, they come again.
    """
    source = open_source(name, size=side, channels=3, fit="crop")
    if source.kind != "images":
        raise ConfigError(f"{name} holds embeddings; --images are sources of images")
    step = max(1.0, len(source) / count)
    left = count
    while left:
        before = left
        rows = {int(i * step) for i in range(min(left, len(source)))}
        row = 0
        for batch in source.batches(_READ):
            for image in batch.values:
                if row in rows:
                    yield image
                    left -= 1
                row += 1
        if left == before:
            raise ConfigError(f"{source.name} has no images to learn from")


class PhotoStage(AutoencoderStage):
    """Learns to give images of any kind back from latents of zero mean and unit variance.

    An image comes whole, at half its size, in parts or enlarged (`VIEWS`); its colours may be
    exchanged, turned to their opposites, or left out.
    """

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Absolute and squared errors of pixels; moments of the latents."""
        images = self._corpus.images[np.sort(rows.numpy())]
        pixels = disturbed(to_network(images, self._device), random)
        latents = self.network.encode(pixels).latent.float()
        outputs = self.network.decode(noised(latents, random)).sample.float()
        mean, variance = latents.mean((0, 2, 3)), latents.var((0, 2, 3))
        return {
            **errors(outputs, pixels),
            "moments": 0.01 * (mean.square() + (variance - 1).square()).mean(),
        }

    def sheet(self) -> Images:
        """Held-out images, each above what came back of it."""
        return reconstructions(self._corpus, self.network, self._device)


class PhotoDecoderStage:
    """The decoder learns on against a discriminator of patches; the encoder stays as it is."""

    name = "decoder"

    def __init__(self, corpus: Corpus, vae: Any, device: torch.device) -> None:
        self.vae = vae.requires_grad_(False)
        self.rows = len(corpus)
        self.discriminator = Discriminator()
        self.network = nn.ModuleDict(
            {"decoder": vae.decoder.requires_grad_(True), "discriminator": self.discriminator}
        )
        self._corpus, self._device = corpus, device

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Errors of pixels and features, the decoder's share of the game and its opponent's."""
        images = self._corpus.images[np.sort(rows.numpy())]
        pixels = disturbed(to_network(images, self._device), random)
        with torch.no_grad():
            latents = self.vae.encode(pixels).latent.float()
        share = torch.rand((len(latents), 1, 1, 1), generator=random, device=latents.device)
        disturbed_latents = noised(latents, random, _DECODER_NOISE * share)
        outputs = self.vae.decode(disturbed_latents).sample.float()
        return {**errors(outputs, pixels), **game(self.discriminator, outputs, pixels, _GAME)}

    def sheet(self) -> Images:
        """Held-out images, each above what came back of it."""
        return reconstructions(self._corpus, self.vae, self._device)


def errors(outputs: torch.Tensor, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
    """Absolute and squared errors of pixels."""
    return {
        "pixels": functional.l1_loss(outputs, pixels),
        "squares": 5 * functional.mse_loss(outputs, pixels),
    }


def noised(
    latents: torch.Tensor, random: torch.Generator, deviation: torch.Tensor | float = _LATENT_NOISE
) -> torch.Tensor:
    """Latents disturbed a little, so that the decoder forgives what is slightly wrong."""
    noise = torch.randn(latents.shape, generator=random, device=latents.device)
    return latents + deviation * noise


@torch.no_grad()
def reconstructions(corpus: Corpus, vae: Any, device: torch.device) -> Images:
    """Sixteen held-out images, each above what came back of it."""
    images = np.asarray(corpus.images[corpus.last(16)])
    latents = vae.encode(to_network(images, device)).latent
    return in_pairs(images, from_network(vae.decode(latents).sample))


def disturbed(pixels: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Images (n, 3, side, side) in [-1, 1] in another way: (n', 3, side', side').

    The choices follow the generator's seed, so that no pass waits for its device.
    """
    rng = np.random.default_rng(random.initial_seed())
    pixels = viewed(pixels, rng)
    change, order = rng.integers(12, size=2)
    if change % 2:
        pixels = pixels.flip(-1)
    if change % 4 > 1:
        pixels = pixels.transpose(-1, -2)
    if order < 4:
        pixels = pixels[:, rng.permutation(3).tolist()]
    elif order < 6:
        pixels = pixels.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    if change > 8:
        pixels = -pixels
    return pixels.contiguous(memory_format=torch.channels_last)


def viewed(pixels: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Images (n, 3, side, side) whole, smaller, in parts or enlarged: (n', 3, side', side')."""
    side = pixels.shape[-1]
    view = rng.choice(tuple(VIEWS), p=tuple(VIEWS.values()))
    if view == "halved":
        return functional.avg_pool2d(pixels, 2)
    if view == "quarters":
        parts = pixels.reshape(-1, 3, 2, side // 2, 2, side // 2)
        return parts.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3, side // 2, side // 2)
    if view == "whole":
        return pixels
    length = 3 * side // 4 if view == "three quarters" else side // 2
    y, x = 4 * rng.integers((side - length) // 4 + 1, size=2)
    part = pixels[:, :, y : y + length, x : x + length]
    return functional.interpolate(part, side, mode="bilinear") if view == "enlarged" else part


def begun(corpus: Corpus, latents: int) -> Any:
    """The autoencoder as it begins: the best linear code of the corpus."""
    network = new_block_code(latents)
    rng = np.random.default_rng(0)
    images = np.asarray(corpus.images[np.sort(rng.permutation(len(corpus))[:4_000])])
    blocks = pixel_blocks(images)
    begin_as_linear_code(network, blocks[rng.permutation(len(blocks))[:_BLOCKS_MEASURED]])
    return network


def train_photographs(
    corpus: Corpus,
    plan: PhotoPlan,
    machine: Machine,
    folder: Path,
    stages: Sequence[str],
    *,
    report: LossReport,
    show: Callable[[str, Images, int], None],
) -> None:
    """Train the autoencoder in a folder, or go on with one that was begun.

    ``folder`` gets the folder ``vae``, which begins as a linear code. A stage that is done already
    is passed over.
    """
    vae = folder / "vae"
    folders = {"vae": vae, "decoder": folder / "work" / "sharper"}
    for name in stages:
        if (folders[name] / "config.json").is_file():
            continue
        torch.manual_seed(machine.seed)
        with quiet():
            network: Any
            stage: PhotoStage | PhotoDecoderStage
            if name == "vae":
                network = begun(corpus, plan.latents)
                stage = PhotoStage(corpus, network, machine.device)
            else:
                network = diffusers.AutoencoderDC.from_pretrained(
                    vae, torch_dtype=torch.float32, use_safetensors=True
                ).to(machine.device)
                stage = PhotoDecoderStage(corpus, network, machine.device)
            train_stage(
                stage,
                plan.schedules[name],
                machine,
                folder / "work" / name,
                report,
                partial(show, name),
            )
            save_network(network, vae)
            if name == "decoder":
                save_network(network, folders[name])
