"""What DreamBooth is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TuningSettings:
    """Settings of a tuning.

    Attributes:
        steps: Updates of the weights.
        rate: Learning rate; by default 2e-6 for all weights and 1e-4 for LoRA.
        batch: Images of the subject in one pass, and as many of its class.
        accumulation: Passes for each update.
        prior_weight: What the loss on images of the class counts against that on the subject; 0
            leaves them out.
        class_images: How many images of the class the base model makes of itself.
        class_folder: Where to keep them for the next time; by default they are kept in memory.
        full: Whether to train every weight of the denoising network, instead of LoRA.
        rank: Rank of LoRA.
        layers: What LoRA is put on: ``"attention"`` (and what stands beside it in its blocks), or
            ``"all"`` layers.
        text_encoder: Whether to train the text encoder too, with LoRA or in full likewise.
        precision: Of the passes: ``"float32"``, ``"bfloat16"`` or ``"float16"``, or ``"auto"``:
            bfloat16 on a GPU, float32 elsewhere. Weights that are trained are always float32.
        crop: Smallest side of a random square crop, as a share of the shorter side; 1 for the
            whole height or width.
        flips: Whether to mirror images at random.
        views: Crops and flips of each image that are drawn before the training begins.
        clip: Largest norm of the gradient.
        decay: Weight decay.
        checkpointing: Whether to compute the network's activations twice to save memory.
    """

    steps: int = 400
    rate: float | None = None
    batch: int = 2
    accumulation: int = 1
    prior_weight: float = 1.0
    class_images: int = 64
    class_folder: str | None = None
    full: bool = False
    rank: int = 16
    layers: str = "attention"
    text_encoder: bool = False
    precision: str = "auto"
    crop: float = 1.0
    flips: bool = False
    views: int = 8
    clip: float = 1.0
    decay: float = 0.01
    checkpointing: bool = False

    def __post_init__(self) -> None:
        for key in ("steps", "batch", "accumulation", "class_images", "rank", "views"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key} must be 1 or more, found {getattr(self, key)}")
        if self.rate is not None and not self.rate > 0:
            raise ValueError(f"rate must be positive, found {self.rate}")
        if not self.prior_weight >= 0:
            raise ValueError(f"prior_weight must be 0 or more, found {self.prior_weight}")
        if not 0 < self.crop <= 1:
            raise ValueError(f"crop must be in (0, 1], found {self.crop}")
        if not self.clip > 0:
            raise ValueError(f"clip must be positive, found {self.clip}")
        if self.layers not in ("attention", "all"):
            raise ValueError(f"layers is attention or all, found {self.layers!r}")
        if self.precision not in ("auto", "float32", "bfloat16", "float16"):
            raise ValueError(
                f"precision is auto, float32, bfloat16 or float16, found {self.precision!r}"
            )

    @property
    def learning_rate(self) -> float:
        """The rate, or what it is by default."""
        return self.rate or (2e-6 if self.full else 1e-4)


SPINML = TuningSettings(
    full=True, rate=2e-6, prior_weight=0.01, accumulation=2, steps=800, batch=1, class_images=200
)
"""As SpinML tunes Stable Diffusion 1.5 (appendix B.1); what it leaves open is as in diffusers."""
