"""A studio of tiny networks, trained for a step or two on a few rooms."""

from pathlib import Path

import pytest

from understudy.backends.training_loop import Machine, Schedule
from understudy.studio import diffusion
from understudy.studio.plan import STAGES, StudioPlan
from understudy.studio.train import Order, train_studio

PLAN = StudioPlan(
    count=40,
    held_out=8,
    side=32,
    latents=4,
    vae_width=16,
    clip_width=32,
    text_width=32,
    clip_layers=2,
    clip_dim=16,
    tokens=800,
    length=16,
    unet_widths=(16, 32),
    schedules={name: Schedule(steps=2, batch=8, rate=1e-3, warmup=1) for name in STAGES},
)


def train_tiny_studio(
    folder: Path, plan: StudioPlan = PLAN, **arguments: object
) -> tuple[str, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffusion, "_SHOWN_STEPS", 2)  # of the sheets, half the time of a training
        return train_studio(
            Order(folder, **arguments),  # type: ignore[arg-type]
            plan=plan,
            machine=Machine(precision="float32"),
            report=lambda stage, step, steps, losses: None,
            bars=lambda words, total=None: lambda done: None,
        )
