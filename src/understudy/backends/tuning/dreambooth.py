"""The loop of DreamBooth (Ruiz et al., CVPR 2023) over latents and texts computed before."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from diffusers import DDPMScheduler
from torch import nn
from torch.nn import functional

from understudy.backends.tuning.material import Latents, token_ids
from understudy.backends.tuning.tuning_settings import TuningSettings
from understudy.backends.tuning.weights import add_lora
from understudy.core.errors import BackendError

Progress = Callable[[int, int, float], None]
"""Steps done, steps in all, loss of the last one."""


class Noising:
    """Latents made noisy, and what the network should say of them, by the model's own schedule.

    Args:
        scheduler: Of the pipeline: noise, velocity, image or flow prediction.

    Raises:
        BackendError: It predicts something else.
    """

    def __init__(self, scheduler: Any) -> None:
        config = scheduler.config
        self._steps = int(config.get("num_train_timesteps", 1000))
        self._kind = str(config.get("prediction_type", "epsilon"))
        if type(scheduler).__name__.startswith("FlowMatch") or self._kind == "flow_prediction":
            self._kind = "flow"
            self._shift = float(config.get("shift") or config.get("flow_shift") or 1.0)
        elif self._kind in ("epsilon", "v_prediction", "sample"):
            self._schedule = DDPMScheduler.from_config(config)  # type: ignore[no-untyped-call]
        else:
            raise BackendError(f"a model that predicts {self._kind} cannot be tuned")

    def __call__(
        self, latents: torch.Tensor, rng: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Noisy latents, time steps, and the goal, for (n, c, h, w) latents on the processor."""
        noise = torch.randn(latents.shape, generator=rng)
        if self._kind == "flow":
            share = torch.rand(len(latents), generator=rng)
            share = self._shift * share / (1 + (self._shift - 1) * share)
            level = share.view(-1, 1, 1, 1)
            noisy = (1 - level) * latents + level * noise
            return noisy, share * self._steps, noise - latents
        times = torch.randint(self._steps, (len(latents),), generator=rng)
        noisy = self._schedule.add_noise(latents, noise, times)
        if self._kind == "epsilon":
            return noisy, times, noise
        if self._kind == "sample":
            return noisy, times, latents
        return noisy, times, self._schedule.get_velocity(latents, noise, times)


@dataclass(slots=True)
class Pupils:
    """The networks that are trained: copies, so that the base model stays as it is.

    Attributes:
        unet: The denoising network.
        text_encoder: The text encoder, where it is trained too.
    """

    unet: Any
    text_encoder: Any | None

    @classmethod
    def of(cls, pipeline: Any, settings: TuningSettings) -> Pupils:
        """Copies of a pipeline's networks, with adapters unless all weights are trained."""
        unet = copy.deepcopy(pipeline.unet)
        text = copy.deepcopy(pipeline.text_encoder) if settings.text_encoder else None
        for network in filter(None, (unet, text)):
            if settings.full:
                network.float().requires_grad_(True)
            else:
                add_lora(network, settings)
            network.train()
        if settings.checkpointing:
            unet.enable_gradient_checkpointing()
        return cls(unet, text)

    def weights(self) -> list[nn.Parameter]:
        """What is trained."""
        networks = filter(None, (self.unet, self.text_encoder))
        return [
            weight
            for network in networks
            for weight in network.parameters()
            if weight.requires_grad
        ]

    def finish(self, like: Any) -> None:
        """Ready to run, in the number format of the base model."""
        for network in filter(None, (self.unet, self.text_encoder)):
            network.requires_grad_(False).eval()
            if network.dtype != like.dtype:
                network.to(like.dtype)
        self.unet.disable_gradient_checkpointing()


@dataclass(frozen=True, slots=True)
class Lesson:
    """One kind of example.

    Attributes:
        latents: Of its images.
        prompt: What they show.
        weight: Of its loss.
    """

    latents: Latents
    prompt: str
    weight: float = 1.0


def train(
    pipeline: Any,
    lessons: list[Lesson],
    settings: TuningSettings,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Pupils:
    """Teach a copy of a pipeline's networks.

    Args:
        pipeline: A text-to-image pipeline of Stable Diffusion, on its device; stays as it is.
        lessons: The subject, and its class for prior preservation.
        settings: How.
        seed: Of every draw.
        progress: Called after each step.

    Raises:
        BackendError: The loss is no longer a number.
    """
    device = pipeline.unet.device
    with _seeded(seed):
        pupils = Pupils.of(pipeline, settings)
    noising = Noising(pipeline.scheduler)
    rng = torch.Generator().manual_seed(seed % 2**63)
    weights = pupils.weights()
    optimizer = torch.optim.AdamW(
        weights, lr=settings.learning_rate, weight_decay=settings.decay, fused=True
    )
    autocast, scaler = _precision(settings, device)
    told = [_told(pipeline, pupils, lesson.prompt) for lesson in lessons]

    def forward() -> torch.Tensor:
        with autocast:
            return _loss(pupils, lessons, told, settings.batch, noising, rng, device)

    with _seeded(seed):
        for step in range(settings.steps):
            loss = _update(forward, optimizer, scaler, weights, settings)
            if math.isnan(loss):
                raise BackendError(
                    f"tuning failed at step {step}: the loss is not a number. Use a smaller rate "
                    f"than {settings.learning_rate:g}, or precision=float32"
                )
            if progress is not None:
                progress(step + 1, settings.steps, loss)
    pupils.finish(pipeline.unet)
    return pupils


def _update(
    forward: Callable[[], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    scaler: Any,
    weights: list[nn.Parameter],
    settings: TuningSettings,
) -> float:
    """One step of the optimizer over the passes that belong to it; the mean of their losses."""
    total = 0.0
    for _ in range(settings.accumulation):
        loss = forward() / settings.accumulation
        scaler.scale(loss).backward()
        total += float(loss.detach())
    if not math.isnan(total):
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(weights, settings.clip)
        scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return total


@torch.no_grad()
def denoising_loss(
    pipeline: Any, latents: Latents, prompt: str, *, draws: int = 64, seed: int = 0
) -> float:
    """How badly a pipeline denoises images, by the loss it is trained with.

    Args:
        pipeline: A text-to-image pipeline of Stable Diffusion.
        latents: Of the images.
        prompt: What they show.
        draws: How many noisy latents to average over.
        seed: Draws the images, the noise and the time steps; the same for every model.
    """
    device = pipeline.unet.device
    rng = torch.Generator().manual_seed(seed % 2**63)
    lesson = Lesson(latents, prompt)
    told = _told(pipeline, Pupils(pipeline.unet, None), prompt)
    pupils = Pupils(pipeline.unet, None)
    loss = _loss(pupils, [lesson], [told], draws, Noising(pipeline.scheduler), rng, device)
    return float(loss)


def _loss(
    pupils: Pupils,
    lessons: list[Lesson],
    told: list[torch.Tensor],
    batch: int,
    noising: Noising,
    rng: torch.Generator,
    device: torch.device,
) -> torch.Tensor:
    """Of one pass over a batch of every lesson, each with its weight."""
    noisy, times, goal = noising(
        torch.cat([lesson.latents.draw(batch, rng) for lesson in lessons]), rng
    )
    # Token numbers are embedded here and now where the text encoder is trained too.
    texts = [text if pupils.text_encoder is None else pupils.text_encoder(text)[0] for text in told]
    states = torch.cat([text.expand(batch, -1, -1) for text in texts])
    kind = pupils.unet.dtype
    said = pupils.unet(
        noisy.to(device, kind), times.to(device), encoder_hidden_states=states.to(kind)
    ).sample[:, : goal.shape[1]]
    losses = functional.mse_loss(said.float(), goal.to(device), reduction="none").mean((1, 2, 3))
    weights = [lesson.weight for lesson in lessons for _ in range(batch)]
    return (losses * torch.tensor(weights, device=device)).sum() / batch


@torch.no_grad()
def _told(pipeline: Any, pupils: Pupils, prompt: str) -> torch.Tensor:
    """A prompt as tokens where the text encoder is trained, and embedded otherwise."""
    ids = token_ids(pipeline, prompt).to(pipeline.unet.device)
    if pupils.text_encoder is not None:
        return ids
    made: torch.Tensor = pipeline.text_encoder(ids)[0]
    return made


def _precision(settings: TuningSettings, device: torch.device) -> tuple[Any, Any]:
    wanted = settings.precision
    if wanted == "auto":
        wanted = "float32" if device.type == "cpu" else "bfloat16"
    autocast = torch.autocast(
        device.type, dtype=getattr(torch, wanted), enabled=wanted != "float32"
    )
    return autocast, torch.amp.GradScaler(device.type, enabled=wanted == "float16")


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Dropout and adapters draw from the global generator: seed it, and put it back afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        yield
