"""Adam and averaged weights: on public images without noise, on private ones by DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.denoising import Weights
from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Stage, Vector
from understudy.methods.finetuning.edm import DenoisingLoss, Diffusion
from understudy.privacy.network_gradients import NetworkGradients

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from collections.abc import Callable

    from understudy.privacy.vault import Vault

_BETAS = (0.9, 0.99)
_STABLE = 1e-8
_WARMUP = 50  # steps over which the learning rate of public training rises
_PUBLIC_BATCH, _PUBLIC_RATE = 64, 2e-3
_AVERAGED = 0.25  # of all steps, about which the weights are averaged over
_CLIPPED = 64  # public images whose gradients say where private ones are clipped


@dataclass
class Adam:
    """Adam (Kingma and Ba 2015), with the exponential average of its weights."""

    weights: Weights
    steps: int
    average: Weights = field(init=False)
    _first: Vector = field(init=False)
    _second: Vector = field(init=False)
    _done: int = 0

    def __post_init__(self) -> None:
        self.average = self.weights.copy()
        self._first = self._second = np.zeros(len(self.weights))

    def step(self, gradient: NDArray[Any], rate: float) -> None:
        """One step along a gradient (P,)."""
        self._done += 1
        self._first = _BETAS[0] * self._first + (1 - _BETAS[0]) * gradient
        self._second = _BETAS[1] * self._second + (1 - _BETAS[1]) * np.square(gradient)
        first = self._first / (1 - _BETAS[0] ** self._done)
        root = np.sqrt(self._second / (1 - _BETAS[1] ** self._done)) + _STABLE
        self.weights = (self.weights - rate * first / root).astype(np.float32)
        keep = 1 - 1 / min(self._done, max(1.0, _AVERAGED * self.steps))
        self.average = (keep * self.average + (1 - keep) * self.weights).astype(np.float32)


def pretrained(
    diffusion: Diffusion,
    images: Embeddings,
    classes: int,
    steps: int,
    rng: np.random.Generator,
    progress: Callable[[int], None],
) -> Weights:
    """Weights trained on public images (n, d), as if they were of all classes."""
    adam = Adam(diffusion.weights, steps)
    for step in range(steps):
        batch = images[rng.integers(0, len(images), _PUBLIC_BATCH)]
        label = int(rng.integers(classes))
        gradient = diffusion.at(adam.weights).mean_gradient(batch, label, rng)
        falling = 0.5 + 0.5 * np.cos(np.pi * step / steps)
        adam.step(gradient, _PUBLIC_RATE * falling * min(1.0, (step + 1) / _WARMUP))
        progress(1)
    return adam.average


def public_clip_norm(diffusion: Diffusion, images: Embeddings, multiplicity: int) -> float:
    """The median norm of the gradients of public images, at which private ones are clipped."""
    loss = DenoisingLoss(diffusion, multiplicity, b"clip")
    some = images[:_CLIPPED]
    query = NetworkGradients(loss, 1, images.shape[1], 1.0)
    gradients = query.gradients(some, np.zeros(len(some), dtype=np.int64))
    return float(np.median(np.linalg.norm(gradients.astype(np.float64), axis=1)))


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of DP-SGD."""

    stage: Stage  # of its steps
    rate: float  # learning rate
    clip_norm: float
    multiplicity: int  # draws of noise for each record


def trained_by_dp_sgd(
    vault: Vault,
    diffusion: Diffusion,
    settings: TrainingSettings,
    classes: int,
    units: float,
    seed: int,
    progress: Callable[[int], None],
) -> Weights:
    """Weights trained on private images (Abadi et al. 2016), averaged; released and public.

    ``vault``: of (n, d) images. ``units``: their noisy number.
    """
    stage = settings.stage
    if stage.sampling is None:
        raise ConfigError(f"stage {stage.name!r} has no sampling: DP-SGD needs its rate and steps")
    adam = Adam(diffusion.weights, stage.sampling.steps)
    dim = diffusion.gaussians.means.shape[1]
    batch = max(1.0, stage.sampling.rate * units)
    for step in range(1, stage.sampling.steps + 1):
        loss = DenoisingLoss(
            diffusion.at(adam.weights), settings.multiplicity, f"{seed} {step} ".encode()
        )
        query = NetworkGradients(loss, classes, dim, settings.clip_norm)
        noisy = vault.sample(query, stage=stage.name, step=step)
        adam.step(noisy[0] / batch, settings.rate)
        progress(1)
    return adam.average
