"""A small diffusion network that draws latents which have wanted descriptions.

What a description is, `understudy.steps.grid` says; here it is a row of numbers of about unit
variance. The network predicts the velocity of noised latents (Salimans and Ho 2022). It is given
the description with a *level*, the standard deviation that its numbers may be off by (noise
conditioning augmentation, Ho et al. 2021), and learnt to do without one now and then
(classifier-free guidance). Latents like others begin as those with noise, not as noise alone
(Meng et al. 2022).

A folder holds the network and its scheduler in the hub's format, and ``descriptions.safetensors``:
what settles descriptions for each size of grid that it has learnt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import diffusers
import numpy as np
import torch
from diffusers.utils.torch_utils import randn_tensor
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file
from torch.nn import functional

from understudy.backends.diffusion.loading import quiet, read_network
from understudy.backends.diffusion.pipeline_calls import seeded
from understudy.backends.hub.hub_models import HubOptions
from understudy.core.errors import BackendError
from understudy.core.independence import even_parts
from understudy.core.option import Option
from understudy.core.types import Embeddings, Seeds, Shape

DESCRIPTIONS = "descriptions.safetensors"
LATENT_NETWORK = "diffusion_pytorch_model.safetensors"
_LEAST_SIDE = 4  # places of a grid: their lowest frequencies are described one by one
EXTRA_CONDITIONS = 3  # how many numbers are described, the level, and that there is a description


@dataclass(frozen=True, slots=True)
class PriorOptions(HubOptions):
    """How a prior is run; the options of `HubOptions` besides.

    Attributes:
        batch: Images run at once.
        steps: Denoising steps.
        guidance: Scale of the classifier-free guidance; 1 for none, which takes half the time.
        level: Standard deviation that descriptions are believed to be off by.
        strength: Part of the steps that latents like others are denoised in, at least one; 1: they
            begin as noise alone, and have the others' descriptions only.
    """

    batch: int = 32
    steps: Annotated[int, Option("denoising steps", least=1)] = 6
    guidance: Annotated[float, Option("scale of the guidance", least=0)] = 2.5
    level: Annotated[float, Option("deviation of descriptions", least=0)] = 0.1
    strength: Annotated[float, Option("of drawing others like images", least=0, most=1)] = 0.5


Descriptions = Mapping[int, Mapping[str, NDArray[Any]]]
"""By the sides of grids: the arrays that settle what is described (`Description.arrays`)."""


@dataclass(frozen=True)
class LatentPrior:
    """The network, and how it is run.

    Attributes:
        network: A UNet2DConditionModel without text, conditioned as `conditioned` says.
        scheduler: Of diffusers.
        descriptions: For each size of grid that it has learnt.
        steps: Denoising steps.
        guidance: Scale of the classifier-free guidance; 1 for none, which takes half the time.
        level: Standard deviation that descriptions are believed to be off by.
        batch: Latents drawn at once.
        strength: Part of the steps that latents like others are denoised in.
    """

    network: Any
    scheduler: Any
    descriptions: Descriptions
    steps: int
    guidance: float
    level: float
    batch: int
    strength: float = 1.0

    def descriptions_of(self, shape: Shape) -> Mapping[str, NDArray[Any]] | None:
        """What settles descriptions of latents (C, H, W); None: it draws none of these.

        A grid has as many octaves as the next larger one that was learnt. Larger ones than that are
        not drawn, nor any of fewer places than have the lowest frequencies.
        """
        sides = [side for side in sorted(self.descriptions) if side >= max(shape[1:])]
        return self.descriptions[sides[0]] if sides and min(shape[1:]) >= _LEAST_SIDE else None

    @torch.no_grad()
    def draw(
        self,
        descriptions: NDArray[np.float32],
        shape: Shape,
        seeds: Seeds,
        start: Embeddings | None = None,
    ) -> Embeddings:
        """Latents (n, C * H * W) float32, one of each description (n, d) and seed.

        Args:
            descriptions: (n, d) of latents of this shape.
            shape: (C, H, W).
            seeds: (n,).
            start: (n, C * H * W) latents to draw others like; None: they begin as noise alone.
        """
        out = np.empty((len(descriptions), int(np.prod(shape))), dtype=np.float32)
        numbered = np.arange(len(descriptions))
        channels, height, width = shape
        halved = 2 ** (len(self.network.config.block_out_channels) - 1)  # the network's grids
        down, across = (-side % halved for side in (height, width))
        whole = (channels, height + down, width + across)
        if start is not None:
            margins = ((0, 0), (0, 0), (0, down), (0, across))
            start = np.pad(start.reshape(-1, *shape), margins, mode="edge")
        with quiet():
            for rows, part in even_parts(numbered, self.batch):  # one that is filled repeats row 0
                near = None if start is None else start[part]
                latents = self._drawn(descriptions[part], whole, seeds[part], near)
                latents = latents[:, :, :height, :width].flatten(1)
                out[rows] = latents.cpu().numpy()[: len(out[rows])]
        return out

    def _drawn(
        self,
        descriptions: NDArray[np.float32],
        shape: Shape,
        seeds: Seeds,
        start: NDArray[np.float32] | None,
    ) -> torch.Tensor:
        network = self.network
        noise = randn_tensor((len(seeds), *shape), generator=seeded(seeds, "prior"))
        scheduler = type(self.scheduler).from_config(self.scheduler.config)
        scheduler.set_timesteps(self.steps, device=network.device)
        timesteps = scheduler.timesteps
        skipped = self.steps - max(1, round(self.strength * self.steps))
        if start is not None and skipped:
            timesteps = timesteps[skipped:]
            scheduler.set_begin_index(skipped)
            first = timesteps[:1].expand(len(noise)).to(noise.device)
            noise = scheduler.add_noise(torch.from_numpy(start), noise, first)
        latents: torch.Tensor = noise.to(network.device).contiguous(
            memory_format=torch.channels_last
        )
        given = torch.from_numpy(descriptions).to(network.device)
        level = torch.full((len(given), 1), self.level, device=network.device)
        length = conditions_of(network)
        condition = conditioned(given, level, length)
        if self.guidance != 1:
            condition = torch.cat([condition, torch.zeros_like(condition)])
        for step in timesteps:
            doubled = latents if self.guidance == 1 else torch.cat([latents, latents])
            velocity = network(
                doubled.to(network.dtype), step, None, class_labels=condition.to(network.dtype)
            ).sample.float()
            if self.guidance != 1:
                wanted, free = velocity.chunk(2)
                velocity = free + self.guidance * (wanted - free)
            latents = scheduler.step(velocity, step, latents).prev_sample
        return latents


def conditions_of(network: Any) -> int:
    """How many numbers condition a network."""
    return int(network.config.projection_class_embeddings_input_dim)


def conditioned(descriptions: torch.Tensor, level: torch.Tensor, length: int) -> torch.Tensor:
    """What the network is given: (n, length). Zeros mean no description.

    Descriptions of smaller grids are beginnings of those of larger ones, and filled up with zeros.

    Args:
        descriptions: (n, d) float32, noised with ``level``.
        level: (n, 1) standard deviation of what the descriptions are off by.
        length: How many numbers condition the network.
    """
    scaled = descriptions / (1 + level.square()).sqrt()
    most = length - EXTRA_CONDITIONS
    filled = functional.pad(scaled, (0, most - scaled.shape[1]))
    described = torch.full_like(level, scaled.shape[1] / most)
    return torch.cat([filled, described, level, torch.ones_like(level)], dim=1)


def encoder_sum(folder: Path) -> str:
    """SHA-256 of the weights of an autoencoder's encoder, which settle what its latents mean."""
    total = hashlib.sha256()
    with safe_open(folder / LATENT_NETWORK, "np") as stored:
        for key in sorted(stored.keys()):
            if key.startswith("encoder."):
                total.update(stored.get_tensor(key).tobytes())
    return total.hexdigest()


def write_descriptions(folder: Path, descriptions: Descriptions, autoencoder: Path) -> None:
    """Write what settles descriptions into a prior's folder, and which autoencoder they are of."""
    arrays = {
        f"{side}.{name}": np.ascontiguousarray(array)
        for side, parts in descriptions.items()
        for name, array in parts.items()
    }
    save_file(arrays, folder / DESCRIPTIONS, metadata={"encoder": encoder_sum(autoencoder)})


def read_descriptions(folder: Path, autoencoder: Path) -> dict[int, dict[str, NDArray[Any]]]:
    """What `write_descriptions` wrote.

    Raises:
        BackendError: The prior learnt the latents of another autoencoder.
    """
    descriptions: dict[int, dict[str, NDArray[Any]]] = {}
    with safe_open(folder / DESCRIPTIONS, "np") as stored:
        if stored.metadata()["encoder"] != encoder_sum(autoencoder):
            raise BackendError(
                f"{folder} learnt the latents of another autoencoder than {autoencoder} holds now: "
                "train it again (`understudy studio train --world photographs --stage prior`), or "
                "say prior=false"
            )
        for key in stored.keys():  # noqa: SIM118
            side, _, name = key.partition(".")
            descriptions.setdefault(int(side), {})[name] = stored.get_tensor(key)
    return descriptions


def read_latent_prior(folder: Path, autoencoder: Path, options: PriorOptions) -> LatentPrior:
    """The prior of a folder, ready to draw.

    Args:
        folder: Of the prior.
        autoencoder: Folder of the autoencoder whose latents it draws.
        options: How it is run.

    Raises:
        BackendError: It is of another autoencoder, or not whole.
    """
    descriptions = read_descriptions(folder, autoencoder)
    network = read_network(diffusers.UNet2DConditionModel, str(folder), options)
    network = network.to(memory_format=torch.channels_last)
    scheduler = diffusers.DPMSolverMultistepScheduler.from_pretrained(folder)
    steps, guidance, level = options.steps, options.guidance, options.level
    return LatentPrior(
        network,
        scheduler,
        descriptions,
        steps,
        guidance,
        level,
        options.batch,
        options.strength,
    )
