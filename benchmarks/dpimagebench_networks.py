"""The classifiers of DPImageBench's protocol: ResNet, wide ResNet and ResNeXt for small images.

He et al. 2016 (basic blocks, and bottlenecks before activation), Zagoruyko and Komodakis 2016, Xie
et al. 2017, each with three groups of blocks of 16, 32 and 64 times their width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from understudy.core.types import Images
from understudy.metrics.utility import Labelled


class PreActivated(nn.Module):
    """A residual block whose normalisation and ReLU precede each convolution.

    Args:
        convolutions: (outputs, kernel, groups) of each.
        inputs: Channels.
        stride: Of the first convolution with a kernel of 3.
        dropout: Before the last convolution.
    """

    def __init__(
        self, convolutions: list[tuple[int, int, int]], inputs: int, stride: int, dropout: float
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels, left = inputs, stride
        for number, (outputs, kernel, groups) in enumerate(convolutions):
            if dropout and number == len(convolutions) - 1:
                layers.append(nn.Dropout(dropout))
            own, left = (left, 1) if kernel == 3 else (1, left)
            layers += [
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, outputs, kernel, own, kernel // 2, groups=groups, bias=False),
            ]
            channels = outputs
        self.layers = nn.Sequential(*layers)
        same = channels == inputs and stride == 1
        self.shortcut = (
            nn.Identity() if same else nn.Conv2d(inputs, channels, 1, stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x plus what the convolutions make of it."""
        total: Tensor = self.shortcut(x) + self.layers(x)
        return total


Block = Callable[[int], list[tuple[int, int, int]]]
"""The convolutions of a block in the group of 16, 32 or 64."""


def basic(width: int) -> Block:
    """Two convolutions of 3 x 3."""
    return lambda group: [(group * width, 3, 1), (group * width, 3, 1)]


def bottleneck(group: int) -> list[tuple[int, int, int]]:
    """1 x 1, 3 x 3, and 1 x 1 to four times as many."""
    return [(group, 1, 1), (group, 3, 1), (4 * group, 1, 1)]


def aggregated(cardinality: int, width: int) -> Block:
    """ResNeXt's: the 3 x 3 in so many groups of ``width`` channels at first."""
    return lambda group: [
        (cardinality * width * group // 16, 1, 1),
        (cardinality * width * group // 16, 3, cardinality),
        (16 * group, 1, 1),
    ]


@dataclass(frozen=True)
class Architecture:
    """A network for images of 28 to 32 pixels.

    Attributes:
        name: As the protocol calls it.
        blocks: Of each of the three groups.
        block: Its convolutions.
        dropout: Within blocks.
    """

    name: str
    blocks: int
    block: Block
    dropout: float = 0.0

    def build(self, channels: int, classes: int) -> nn.Module:
        """Fresh weights, by He et al. 2015."""
        layers: list[nn.Module] = [nn.Conv2d(channels, 16, 3, 1, 1, bias=False)]
        inputs = 16
        for number, group in enumerate((16, 32, 64)):
            for index in range(self.blocks):
                stride = 2 if number and not index else 1
                convolutions = self.block(group)
                layers.append(PreActivated(convolutions, inputs, stride, self.dropout))
                inputs = convolutions[-1][0]
        layers += [nn.BatchNorm2d(inputs), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        network = nn.Sequential(*layers, nn.Linear(inputs, classes))
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        return network


@dataclass(frozen=True)
class Training:
    """How a classifier learns.

    Attributes:
        optimizer: ``"adam"`` or ``"sgd"`` with a momentum of 0.9 and a decay of 5e-4.
        rate: Learning rate, a fifth of it after every ``step`` epochs.
        step: In epochs.
        epochs: In all.
        batch: Images.
        average: Weight of the past in the moving average of the weights, which is what is tested;
            at first (1 + n) / (10 + n) after n updates, if that is less.
    """

    optimizer: str
    rate: float
    step: int
    epochs: int
    batch: int
    average: float = 0.9999


GREY = (
    Architecture("ResNet-110", 18, basic(1)),
    Architecture("WRN-40-4", 6, basic(4), 0.3),
    Architecture("ResNeXt-29 8x64d", 3, aggregated(8, 64), 0.3),
)
COLOUR = (
    Architecture("ResNet-164", 18, bottleneck),
    Architecture("WRN-28-10", 4, basic(10), 0.3),
    Architecture("ResNeXt-28 8x10d", 3, aggregated(8, 10), 0.3),
)
QUICK = (Architecture("WRN-16-1", 2, basic(1)),)

ADAM = Training("adam", 0.01, 20, 50, 256)
SGD = Training("sgd", 0.1, 60, 200, 126)
QUICK_TRAINING = Training("adam", 0.01, 4, 10, 256)


def fit(
    architecture: Architecture,
    training: Training,
    train: Labelled,
    validation: Labelled,
    test: Labelled,
    *,
    device: str = "cpu",
    seed: int = 0,
) -> tuple[float, float]:
    """Train, and test the epoch that is best on validation images.

    Returns:
        Accuracy in [0, 1] on the validation images, and of that epoch on the test images.
    """
    torch.manual_seed(seed)
    classes = len(train.classes)
    network = architecture.build(train.values.shape[3], classes).to(device)
    rate = training.rate
    optimizer: torch.optim.Optimizer = (
        torch.optim.Adam(network.parameters(), rate)
        if training.optimizer == "adam"
        else torch.optim.SGD(network.parameters(), rate, momentum=0.9, weight_decay=5e-4)
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, training.step, 0.2)

    def average(past: Tensor, weights: Tensor, updates: Tensor | int) -> Tensor:
        past_weight = min(training.average, (1 + int(updates)) / (10 + int(updates)))
        return torch.lerp(weights, past, past_weight)

    averaged = torch.optim.swa_utils.AveragedModel(network, avg_fn=average)
    best = (-1.0, 0.0)
    for epoch in range(training.epochs):
        network.train()
        for images, labels in _batches(train, training.batch, np.random.default_rng((seed, epoch))):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            averaged.update_parameters(network)
        schedule.step()
        score = accuracy(averaged, validation, device)
        if score > best[0]:
            best = score, accuracy(averaged, test, device)
    return best


def accuracy(network: nn.Module, data: Labelled, device: str) -> float:
    """The part of the images whose class a network names."""
    network.eval()
    right = 0
    with torch.inference_mode():
        for images, labels in _batches(data, 500):
            right += int((network(images.to(device)).argmax(1).cpu() == labels).sum())
    return right / len(data.labels)


def _batches(
    data: Labelled, size: int, rng: np.random.Generator | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Images in [-1, 1], (n, channels, height, width), and labels; shuffled by a generator."""
    order = np.arange(len(data.labels)) if rng is None else rng.permutation(len(data.labels))
    for rows in np.split(order, range(size, len(order), size)):
        if len(rows) > 1 or rng is None:  # batch normalisation learns nothing from one image
            yield _tensor(data.values[rows]), torch.from_numpy(data.labels[rows])


def _tensor(images: Images) -> Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1
