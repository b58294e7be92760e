"""Softmax regression of private records by full-batch descent on noisy sums of clipped gradients.

Song, Chaudhuri and Sarwate 2013; Abadi et al. 2016, with every record in every step. Public second
moments precondition it (Boehning 1992: softmax regression's Hessian is at most half of them),
damped by the noise that is known to be in a gradient, so a few steps are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.types import Stage, Vector
from understudy.methods.base import Materials
from understudy.privacy.queries import ClippedGradients

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

INPUT_LENGTH = 10.0
"""Of inputs, so that the intercept's part of a gradient's norm is next to nothing."""

MOMENTUM = 0.8
"""Of each step, what the next one repeats, where nothing else is said."""

Gradient = Callable[[Vector], Vector]
"""Of a mean loss at weights: (d + 1, C) to (d + 1, C)."""


@dataclass(frozen=True)
class Descent:
    """How the classifier is trained on private records."""

    steps: int  # how many; each is a release
    clip_norm: float  # of gradients, over the length of inputs: none is longer than 1.5 of that
    damping: float  # standard deviations of a mean gradient's noise, over the length of inputs
    momentum: float = MOMENTUM  # of each step, what the next one repeats


def descend_on_records(
    materials: Materials,
    vault: Vault,
    stages: tuple[Stage, ...],
    descent: Descent,
    start: Vector,
    moments: Vector,
    size: float,
) -> Vector:
    """Weights of a softmax regression of private records: (p + 1, C), released and public.

    ``materials``: keeps the weights that a step asks at. ``vault``: what is read of the records,
    (n, p), `INPUT_LENGTH` long. ``stages``: one a step. ``start``: weights, the intercept's last.
    ``moments``: second moments of public inputs, each with a 1 behind it. ``size``: noisy number of
    records.
    """
    queue, bound = iter(stages), descent.clip_norm * INPUT_LENGTH

    def of_records(theta: Vector) -> Vector:
        stage = next(queue)
        theta = materials.keep(f"weights at {stage.name}", lambda: {"theta": theta})["theta"]
        query = ClippedGradients(theta, bound)
        return query.gradient(vault.release(query, stage=stage.name)) / size

    noise = vault.noise_sd(ClippedGradients(start, bound), stage=stages[0].name) / size
    damped = moments + descent.damping * INPUT_LENGTH * noise * np.eye(len(moments))
    return descend(start, of_records, damped, len(stages), descent.momentum)


def descend(
    theta: Vector, gradient: Gradient, curvature: Vector, steps: int, momentum: float
) -> Vector:
    """Preconditioned descent with momentum: the mean of the weights of its second half."""
    inverse = 2 * np.linalg.inv(curvature)  # the Hessian is at most half of it
    velocity, total, first = np.zeros_like(theta), np.zeros_like(theta), steps // 2
    for step in range(steps):
        velocity = momentum * velocity + inverse @ gradient(theta)
        theta = theta - velocity
        if step >= first:
            total += theta
    return np.asarray(total / (steps - first))
