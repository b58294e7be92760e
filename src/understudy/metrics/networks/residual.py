"""Networks that add what they find to what they were given."""

from __future__ import annotations

from typing import cast

from understudy.core.errors import InputError
from understudy.core.types import Shape
from understudy.metrics.networks.blocks import LARGE_SIDE, Residual, checked, convolution

import torch  # isort: skip  (after blocks, which says what to install)
from torch import Tensor, nn  # isort: skip


def resnet9(shape: Shape, classes: int, *, width: int = 64) -> nn.Module:
    """ResNet-9, as the alignment paper's second classifier: eight convolutions, one dense layer.

    Args:
        shape: (height, width, channels), at least 16 x 16 pixels.
        classes: Number of classes.
        width: Filters of the first convolution; the later ones have 2, 4 and 8 times as many.

    Returns:
        (n, channels, height, width) float32 to (n, classes) scores.

    Raises:
        InputError: The images are too small or not of that shape.
    """
    _, _, channels = checked(shape)
    return nn.Sequential(
        convolution(channels, width),
        convolution(width, 2 * width, pool=True),
        Residual(
            nn.Sequential(convolution(2 * width, 2 * width), convolution(2 * width, 2 * width))
        ),
        convolution(2 * width, 4 * width, pool=True),
        convolution(4 * width, 8 * width, pool=True),
        Residual(
            nn.Sequential(convolution(8 * width, 8 * width), convolution(8 * width, 8 * width))
        ),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8 * width, classes),
    )


def resnet50(shape: Shape, classes: int, *, width: int = 64) -> nn.Module:
    """ResNet-50 (He et al. 2016): 16 bottlenecks of three convolutions each, one dense layer.

    Images below 128 pixels a side meet a first convolution of 3 x 3 without stride or pooling, as
    is usual for them: the original 7 x 7 one would leave nothing to look at.

    Args:
        shape: (height, width, channels), at least 16 x 16 pixels.
        classes: Number of classes.
        width: Filters of the first stage's inner convolutions; the later ones double it.

    Returns:
        (n, channels, height, width) float32 to (n, classes) scores.

    Raises:
        InputError: The images are too small or not of that shape.
    """
    height, wide, channels = checked(shape)
    layers: list[nn.Module] = [convolution(channels, width)]
    if min(height, wide) >= LARGE_SIDE:
        layers = [convolution(channels, width, size=7, stride=2), nn.MaxPool2d(3, 2, padding=1)]
    inside = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(_Bottleneck(inside, width << stage, stride))
            inside = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


class _Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions, added to their input."""

    def __init__(self, inside: int, inner: int, stride: int) -> None:
        super().__init__()
        outside = 4 * inner
        self.inner = nn.Sequential(
            convolution(inside, inner, size=1),
            convolution(inner, inner, stride=stride),
            nn.Conv2d(inner, outside, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.short = nn.Sequential()
        if stride != 1 or inside != outside:
            self.short = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(cast(Tensor, self.inner(x)) + cast(Tensor, self.short(x)))


def wide_resnet(
    shape: Shape, classes: int, *, width: int = 16, depth: int = 40, factor: int = 4
) -> nn.Module:
    """A wide residual network, WRN-40-4 unless told otherwise (Zagoruyko and Komodakis 2016).

    Three groups of blocks that normalise and activate before each convolution, without dropout.

    Args:
        shape: (height, width, channels), at least 16 x 16 pixels; larger ones, from 128 on, are
            first made small.
        classes: Number of classes.
        width: Filters of the first convolution; the groups have 1, 2 and 4 times `factor` as many.
        depth: Layers: 6 n + 4 for n blocks a group.
        factor: How wide.

    Returns:
        (n, channels, height, width) float32 to (n, classes) scores.

    Raises:
        InputError: The images are too small or not of that shape, or no such depth.
    """
    height, wide, channels = checked(shape)
    if depth < 10 or (depth - 4) % 6:
        raise InputError(f"the depth of a wide ResNet is 6 n + 4, such as 40, found {depth}")
    layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False)]
    if min(height, wide) >= LARGE_SIDE:
        layers = [nn.Conv2d(channels, width, 7, 2, padding=3, bias=False), nn.MaxPool2d(3, 2, 1)]
    inside = width
    for group in range(3):
        for block in range((depth - 4) // 6):
            outside = width * factor << group
            layers.append(_Wide(inside, outside, 2 if group > 0 and block == 0 else 1))
            inside = outside
    layers += [nn.BatchNorm2d(inside), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(inside, classes))


class _Wide(nn.Module):
    """Two 3 x 3 convolutions, each after normalisation and ReLU, added to their input."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(inside), nn.ReLU())
        self.inner = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
        )
        self.short: nn.Module | None = None
        if inside != outside:
            self.short = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = cast(Tensor, self.first(x))
        kept = x if self.short is None else cast(Tensor, self.short(active))
        return kept + cast(Tensor, self.inner(active))
