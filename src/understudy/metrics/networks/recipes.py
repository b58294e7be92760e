"""How each network is trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from understudy.metrics.networks import architectures

import torch  # isort: skip  (after architectures, which says what to install where it is missing)
from torch import nn  # isort: skip


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train, under a cosine.

    Attributes:
        epochs: Passes over the training set.
        batch: Largest batch; batches of one epoch differ by one row at most.
        lr: Highest learning rate.
        momentum: Nesterov momentum of SGD; 0 for plain SGD; None for Adam.
        weight_decay: L2 penalty.
        label_smoothing: In [0, 1).
        warmup: Part of the training over which the rate climbs to ``lr``, in [0, 1).
        least: Steps at least where no number of passes is given: few rows are seen more often.
        averaged: Part of the passes, the last ones, whose weights are averaged where there is a
            validation set (Izmailov et al. 2018); for networks without batch normalisation.
    """

    epochs: int
    batch: int
    lr: float
    momentum: float | None
    weight_decay: float
    label_smoothing: float
    warmup: float = 0.0
    least: int = 0
    averaged: float = 0.0

    def passes(self, rows: int) -> int:
        """Passes over so many rows: ``epochs``, or more where that makes less than ``least``."""
        steps = max(1, math.ceil(rows / max(1, self.batch)))
        return max(self.epochs, math.ceil(self.least / steps))

    def for_rows(self, rows: int, epochs: int | None) -> Recipe:
        """With the passes that were asked for, or else its own."""
        return replace(self, epochs=self.passes(rows) if epochs is None else epochs)


EMBEDDINGS = Recipe(50, 512, 1e-2, 0.9, weight_decay=1e-4, label_smoothing=0.2)
"""Of the two-layer network (clustering paper, appendix C.3, but for the rate and the momentum)."""

_SMALL = Recipe(4, 128, 1e-3, None, 0.0, label_smoothing=0.0, warmup=0.1, least=300)
_DEEP = Recipe(4, 128, 1e-2, 0.9, weight_decay=5e-4, label_smoothing=0.0, warmup=0.2, least=150)
_WIDE = replace(_DEEP, lr=0.1)

IMAGES: dict[str, tuple[Callable[..., nn.Module], Recipe]] = {
    "cnn": (architectures.small_cnn, _SMALL),
    "convnet": (architectures.convnet, _DEEP),
    "resnet9": (architectures.resnet9, replace(_SMALL, batch=64, least=150)),
    "resnet-in": (
        architectures.instance_resnet,
        replace(_SMALL, epochs=24, batch=64, averaged=0.2),
    ),
    "wrn40-4": (architectures.wide_resnet, _WIDE),
    "resnet50": (architectures.resnet50, _DEEP),
    "vgg11": (architectures.vgg11, _DEEP),
    "mobilenetv2": (architectures.mobilenet_v2, replace(_WIDE, lr=0.05, weight_decay=4e-5)),
}
"""Every network for images and its recipe.

ConvNet, ResNet-50 and VGG-11 as the alignment paper trains them; WRN-40-4 and MobileNetV2 with the
weight decay of their own papers. All in one cycle: the rate climbs, then falls by a cosine.
ResNet-9 in the paper's batches of 64, but by Adam: by the paper's SGD (rate 5e-2, weight decay
1e-3) it had learnt nothing of 1,000 images after 320 steps (36 % of four classes, trained and
tested on images of the same kind), by Adam all there is after 128 (99.6 %).
"""

DETECTOR = Recipe(5, 16, 2e-3, None, 1e-4, label_smoothing=0.0, warmup=0.1, least=600)
"""Of the one-stage detector: the passes and batches of SpinML (appendix B.2), but by Adam, and for
600 steps at least: it begins from nothing, where the paper tunes a pre-trained YOLO."""


def optimiser_of(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam, or SGD with Nesterov momentum."""
    if recipe.momentum is None:
        return torch.optim.Adam(model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(
        model.parameters(),
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.momentum > 0,
        weight_decay=recipe.weight_decay,
    )


def rate_at(step: int, steps: int, warmup: float) -> float:
    """Part of the highest learning rate at a step: a straight climb, then half a cosine to 0."""
    climb = warmup * steps
    if step < climb:
        return (step + 1) / (climb + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - climb) / max(steps - climb, 1)))
