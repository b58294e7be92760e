"""Distilled models: trained to draw in a few steps, with the guidance already in their weights.

At the fifty steps and the guidance of the pipeline they run in, which was written for the model
they were distilled from, they are ten times slower and their images are burnt. Sources: Sauer et
al. 2023 (adversarial diffusion distillation: SD-Turbo, SDXL-Turbo), Luo et al. 2023 (latent
consistency), Lin et al. 2024 (SDXL-Lightning), Ren et al. 2024 (Hyper-SD).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_STEPS = 4
_NAMES: tuple[tuple[str, int], ...] = (
    (r"z-?image-?turbo(?![a-z])", 8),
    (r"hyper-?sd(?![a-z])", 8),
    (r"(turbo|lightning|schnell)(?![a-z])", _STEPS),
    (r"(?<![a-z])(lcm|tcd)(?![a-z])", _STEPS),
)
"""What the names of distilled models hold, and the steps that their authors draw in."""

_MOST_STEPS = 16  # "8step" in a name is a number of steps; "1000steps" is one of the training
_SCHEDULERS = ("LCMScheduler", "TCDScheduler")
_TRAILING = ("EulerDiscreteScheduler", "EulerAncestralDiscreteScheduler")


@dataclass(frozen=True, slots=True)
class FewSteps:
    """What a distilled model draws with.

    Attributes:
        guidance: 0: none; None: the pipeline's own, which is an input of the network.
        reason: By what it was recognised, for people.
    """

    steps: int
    guidance: float | None
    reason: str


def few_steps(pipeline: Any, name: str) -> FewSteps | None:
    """What a distilled model draws with; None where nothing says that it is distilled."""
    if type(pipeline).__name__.startswith("LatentConsistency"):
        return None  # its own numbers are those of the distilled model
    recipe = _by_name(name) or _by_files(pipeline)
    if recipe is None:
        return None
    network = getattr(pipeline, "unet", None)
    embeds = network is not None and network.config.get("time_cond_proj_dim") is not None
    return FewSteps(recipe[0], None if embeds else 0.0, recipe[1])


def _by_name(name: str) -> tuple[int, str] | None:
    last = name.rstrip("/").rpartition("/")[2].lower()
    for pattern, usual in _NAMES:
        if match := re.search(pattern, last):
            steps_match = re.search(r"(\d+)[-_]?steps?(?![a-z])", last)
            steps = int(steps_match[1]) if steps_match else usual
            return steps if 1 <= steps <= _MOST_STEPS else usual, f'"{match[0]}" in its name'
    return None


def _by_files(pipeline: Any) -> tuple[int, str] | None:
    """By the configuration of the pipeline, its network and its scheduler."""
    if pipeline.config.get("is_distilled"):
        return _STEPS, "its model_index.json"
    flux = type(pipeline).__name__ == "FluxPipeline"
    if flux and not pipeline.transformer.config.get("guidance_embeds"):
        return _STEPS, "its network takes no guidance"
    scheduler = pipeline.scheduler
    kind, config = type(scheduler).__name__, scheduler.config
    if kind in _SCHEDULERS:
        return _STEPS, f"its scheduler {kind}"
    # SD-Turbo and SDXL-Turbo. Models of zero terminal SNR count from the end too, and predict v.
    few = config.get("timestep_spacing") == "trailing" and kind in _TRAILING
    epsilon = config.get("prediction_type") == "epsilon"
    if few and epsilon and not config.get("rescale_betas_zero_snr"):
        return _STEPS, "its scheduler's timestep_spacing=trailing"
    return None
