"""DreamBooth (Ruiz et al., CVPR 2023) over latents and texts computed before."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import DDPMScheduler
from torch.nn import functional

from understudy.backends.training_loop import Machine, Schedule, train_network
from understudy.backends.tuning.material import Latents, token_ids
from understudy.backends.tuning.tuning_settings import TuningSettings
from understudy.backends.tuning.weights import add_lora
from understudy.core.errors import BackendError


class Noising:
    """Latents made noisy, and what the network should say of them, by the model's own schedule."""

    def __init__(self, scheduler: Any) -> None:
        config = scheduler.config
        self._steps = int(config.get("num_train_timesteps", 1000))
        self._kind = str(config.get("prediction_type", "epsilon"))
        if self._kind not in ("epsilon", "v_prediction", "sample"):
            raise BackendError(f"a model that predicts {self._kind} cannot be tuned")
        self._schedule = DDPMScheduler.from_config(config)

    def __call__(
        self, latents: torch.Tensor, rng: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Noisy latents, time steps, and the goal, for (n, c, h, w) latents on the processor."""
        noise = torch.randn(latents.shape, generator=rng)
        times = torch.randint(self._steps, (len(latents),), generator=rng)
        noisy = self._schedule.add_noise(latents, noise, times)
        if self._kind == "epsilon":
            return noisy, times, noise
        if self._kind == "sample":
            return noisy, times, latents
        return noisy, times, self._schedule.get_velocity(latents, noise, times)


def trainable_copy(network: Any, settings: TuningSettings) -> Any:
    """A copy of a denoising network, with adapters unless all weights are trained."""
    twin = copy.deepcopy(network)
    if settings.full:
        twin.float().requires_grad_(True)
    else:
        add_lora(twin, settings)
    return twin


@dataclass(frozen=True, slots=True)
class Lesson:
    """One kind of example.

    Attributes:
        prompts: What they show: one for all of them, or n.
        pixel_weights: (n, 1, h, w) of the loss on each latent's cells, of mean 1 in each image;
            None: all count the same.
    """

    latents: Latents
    prompts: tuple[str, ...]
    weight: float = 1.0
    pixel_weights: torch.Tensor | None = None

    def cell_weights(self, rows: torch.Tensor) -> torch.Tensor:
        """(len(rows), 1, h, w) of some of the images."""
        if self.pixel_weights is None:
            return torch.ones(len(rows), 1, *self.latents.mean.shape[2:])
        return self.pixel_weights[rows]


class DenoisingTask:
    """The loss of a network that denoises the latents of each lesson by its prompt."""

    name = "tuning"

    def __init__(self, pipeline: Any, network: Any, lessons: list[Lesson], batch: int) -> None:
        self.network, self._lessons, self._batch = network, lessons, batch
        self._noising = Noising(pipeline.scheduler)
        self._device = pipeline.unet.device
        self._prompts = [self._encoded(pipeline, lesson.prompts) for lesson in lessons]

    @torch.no_grad()
    def _encoded(self, pipeline: Any, prompts: tuple[str, ...]) -> torch.Tensor:
        ids = torch.cat([token_ids(pipeline, prompt) for prompt in prompts]).to(self._device)
        return pipeline.text_encoder(ids)[0]  # type: ignore[no-any-return]

    def losses(self, index: int, seed: int) -> dict[str, torch.Tensor]:
        """The loss of a pass over a batch of every lesson, each with its weight."""
        rng = torch.Generator().manual_seed(seed)  # on the processor: the same on every device
        batch, lessons = self._batch, self._lessons
        draws = [lesson.latents.draw(batch, rng) for lesson in lessons]
        noisy, times, goal = self._noising(torch.cat([latents for _, latents in draws]), rng)
        states = torch.cat(
            [
                _of_rows(prompts, rows)
                for prompts, (rows, _) in zip(self._prompts, draws, strict=True)
            ]
        )
        dtype = self.network.dtype
        prediction = self.network(
            noisy.to(self._device, dtype),
            times.to(self._device),
            encoder_hidden_states=states.to(dtype),
        ).sample[:, : goal.shape[1]]
        errors = functional.mse_loss(prediction.float(), goal.to(self._device), reduction="none")
        weights = torch.cat(
            [
                lesson.weight * lesson.cell_weights(rows)
                for lesson, (rows, _) in zip(lessons, draws, strict=True)
            ]
        )
        weighted = (errors * weights.to(self._device)).mean((1, 2, 3))
        return {"denoising": weighted.sum() / batch}


def _of_rows(states: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The texts of some images; a prompt for all stands for each of them."""
    return states[rows.to(states.device) if len(states) > 1 else torch.zeros_like(rows)]


def train_denoiser(
    pipeline: Any,
    lessons: list[Lesson],
    settings: TuningSettings,
    *,
    seed: int = 0,
) -> Any:
    """A copy of a pipeline's denoising network that has learned the lessons."""
    with torch.random.fork_rng():  # adapters draw from the global generator
        torch.manual_seed(seed % 2**63)
        network = trainable_copy(pipeline.unet, settings)
    schedule = Schedule(
        steps=settings.steps,
        batch=settings.batch,
        rate=settings.learning_rate,
        warmup=0,
        final=1.0,
        decay=settings.decay,
        betas=(0.9, 0.999),
        average=None,
        accumulation=settings.accumulation,
        clip=settings.clip,
    )
    machine = Machine(
        pipeline.unet.device,
        settings.precision,
        seed=seed % 2**63,
    )
    task = DenoisingTask(pipeline, network, lessons, settings.batch)
    train_network(task, schedule, machine, report=lambda *_: None)
    network.requires_grad_(False).eval()
    if network.dtype != pipeline.unet.dtype:
        network.to(pipeline.unet.dtype)
    return network
