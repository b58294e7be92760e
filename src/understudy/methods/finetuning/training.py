"""Adam and averaged weights: on released images without noise, on private ones by DP-SGD."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.denoising import Weights
from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Labels, Stage, Vector
from understudy.methods.finetuning.edm import DenoisingLoss, Diffusion
from understudy.privacy.network_gradients import NetworkGradients

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from collections.abc import Callable

    from understudy.privacy.vault import Vault

_BETAS = (0.9, 0.99)
_STABLE = 1e-8
_WARMUP = 50  # steps over which the learning rate of the training before rises
_CLASSES, _OF_EACH, _RATE = 8, 8, 2e-3  # of a step of it
_AVERAGED = 0.25  # of all steps, about which the weights are averaged over
_CLIPPED = 64  # images whose gradients say where private ones are clipped


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
    labels: Labels,
    steps: int,
    rng: np.random.Generator,
    progress: Callable[[int], None],
) -> Weights:
    """Weights trained on released images (n, d), of classes (n,)."""
    adam = Adam(diffusion.weights, steps)
    of_class = {label: np.flatnonzero(labels == label) for label in np.unique(labels)}
    for step in range(steps):
        some = rng.choice(labels, _CLASSES)  # often where there are many of them
        rows = np.stack([rng.choice(of_class[label], _OF_EACH) for label in some])
        gradient = diffusion.at(adam.weights).mean_gradient(images[rows], some, rng)
        falling = 0.5 + 0.5 * np.cos(np.pi * step / steps)
        adam.step(gradient, _RATE * falling * min(1.0, (step + 1) / _WARMUP))
        progress(1)
    return adam.average


def released_clip_norm(
    diffusion: Diffusion, images: Embeddings, labels: Labels, multiplicity: int
) -> float:
    """The median norm of the gradients of released images, at which private ones are clipped."""
    loss = DenoisingLoss(diffusion, multiplicity, b"clip")
    query = NetworkGradients(loss, len(diffusion.gaussians.means), images.shape[1], 1.0)
    gradients = query.gradients(images[:_CLIPPED], labels[:_CLIPPED])
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
    """Weights whose last are trained on private images (Abadi et al. 2016), averaged; public.

    ``vault``: of (n, d) images. ``units``: their noisy number.
    """
    stage = settings.stage
    if stage.sampling is None:
        raise ConfigError(f"stage {stage.name!r} has no sampling: DP-SGD needs its rate and steps")
    dim, batch = diffusion.gaussians.means.shape[1], max(1.0, stage.sampling.rate * units)
    loss = DenoisingLoss(diffusion, settings.multiplicity, b"")
    frozen = diffusion.weights[: -loss.size]
    adam = Adam(diffusion.weights[-loss.size :], stage.sampling.steps)
    for step in range(1, stage.sampling.steps + 1):
        tuned = diffusion.at(np.concatenate([frozen, adam.weights]))
        loss = replace(loss, diffusion=tuned, seed=f"{seed} {step} ".encode())
        query = NetworkGradients(loss, classes, dim, settings.clip_norm)
        noisy = vault.sample(query, stage=stage.name, step=step)
        adam.step(noisy[0] / batch, settings.rate)
        progress(1)
    return np.concatenate([frozen, adam.average])
