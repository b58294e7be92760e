"""What DreamBooth is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from understudy.backends.plugin import PositiveCount
from understudy.core.option import Option, check_options


@dataclass(frozen=True, slots=True)
class TuningSettings:
    """Settings of a tuning.

    Attributes:
        rate: Learning rate; by default 2e-6 for all weights and 1e-4 for LoRA.
        prior_weight: What the loss on images of the class counts against that on the subject; 0
            leaves them out.
        class_images: How many images of the class the base model makes of itself.
        full: Whether to train every weight of the denoising network, instead of LoRA.
        precision: Of the passes: ``"float32"`` or ``"bfloat16"``, or ``"auto"``: bfloat16 on a GPU,
            float32 elsewhere. Weights that are trained are always float32.
        views: Random crops of each image of another ratio than the model's.
    """

    steps: PositiveCount = 400
    rate: Annotated[float | None, Option("", above=0, most=100)] = None
    batch: PositiveCount = 2
    accumulation: PositiveCount = 1
    prior_weight: Annotated[float, Option("", least=0)] = 1.0
    class_images: PositiveCount = 64
    full: bool = False
    rank: PositiveCount = 16
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    views: PositiveCount = 8
    clip: Annotated[float, Option("", above=0)] = 1.0
    decay: Annotated[float, Option("", least=0, most=100)] = 0.01

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def learning_rate(self) -> float:
        """The rate, or what it is by default."""
        return self.rate or (2e-6 if self.full else 1e-4)


SPINML = TuningSettings(
    full=True, rate=2e-6, prior_weight=0.01, accumulation=2, steps=800, batch=1, class_images=200
)
"""As SpinML tunes Stable Diffusion 1.5 (appendix B.1); what it leaves open is as in diffusers."""
