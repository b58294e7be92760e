"""How large the networks of a studio are, and how long each of them learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from understudy.backends.training_loop import Schedule

STAGES = (
    *("vae", "clip", "segmenter", "unet"),
    *("decoder", "inpainting", "controlnet-edges", "controlnet-pose"),
)
"""In the order in which they are trained: each needs those before it."""


def _schedules() -> dict[str, Schedule]:
    return {
        "vae": Schedule(steps=5_500, batch=32, rate=2e-3),
        "clip": Schedule(steps=1_600, batch=128, rate=1e-3, decay=0.05),
        "segmenter": Schedule(steps=3_400, batch=32, rate=2e-3, warmup=100, average=0.998),
        "unet": Schedule(steps=16_000, batch=64, rate=8e-4, warmup=500),
        "decoder": Schedule(
            steps=5_000,
            batch=32,
            rate=6e-4,
            warmup=100,
            decay=0.0,
            average=0.998,
            betas=(0.5, 0.99),
        ),
        "inpainting": Schedule(steps=900, batch=48, rate=3e-4, warmup=100, average=0.998),
        "controlnet-edges": Schedule(steps=900, batch=48, rate=1.5e-3, warmup=100, average=0.998),
        "controlnet-pose": Schedule(steps=7_000, batch=48, rate=1.5e-3, warmup=100, average=0.998),
    }


@dataclass(frozen=True, slots=True)
class StudioPlan:
    """A studio to be made.

    Attributes:
        held_out: Those of them never learnt from.
        side: Pixels a side; a multiple of 16.
        latents: Channels of a latent, which has an eighth of the sides.
        vae_width: Channels inside the autoencoder.
        clip_width: Width of CLIP's image side.
        text_width: Width of its text side, and of what a text tells the diffusion network.
        clip_layers: Layers of CLIP's image side; its text side has two fewer.
        length: Tokens of a text at most.
        unet_widths: Channels of the diffusion network at each of its scales.
        unet_layers: Residual blocks at each scale.
    """

    count: int = 60_000
    held_out: int = 2_000
    side: int = 64
    latents: int = 16
    vae_width: int = 48
    clip_width: int = 192
    text_width: int = 128
    clip_layers: int = 5
    clip_dim: int = 96
    patch: int = 16
    tokens: int = 1_200
    length: int = 32
    unet_widths: tuple[int, ...] = (80, 128)
    unet_layers: int = 1
    schedules: dict[str, Schedule] = field(default_factory=_schedules)

    def __post_init__(self) -> None:
        if self.side % 16 or self.side < 32:
            raise ValueError(f"side must be a multiple of 16, 32 or more, found {self.side}")
        if not 0 <= self.held_out < self.count:
            raise ValueError(
                f"held_out must be less than the {self.count} images, found {self.held_out}"
            )

    def scaled(self, scale: float) -> StudioPlan:
        """The same plan with ``scale`` times the steps of every stage, one at least."""
        return replace(self, schedules=scaled_schedules(self.schedules, scale))


def scaled_schedules(schedules: Mapping[str, Schedule], scale: float) -> dict[str, Schedule]:
    """Schedules with ``scale`` times the steps, one at least."""
    return {
        name: replace(
            one,
            steps=max(1, round(one.steps * scale)),
            warmup=max(1, round(one.warmup * min(1.0, scale))),
        )
        for name, one in schedules.items()
    }
