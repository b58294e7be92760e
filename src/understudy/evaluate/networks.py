"""The small networks that a release is judged by. Plain torch; every one takes and gives tensors.

All of them are built with fresh random weights from torch's default generator: seed it, or fork
it, around the call (``evaluate.training`` does).
"""

from __future__ import annotations

from typing import cast

from understudy.core.errors import InputError, MissingExtra
from understudy.core.types import Shape

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra("training on a release", "torch") from error

SMALLEST_SIDE = 16
"""Images below this many pixels a side leave nothing after the poolings."""


def two_layer(dim: int, classes: int) -> nn.Module:
    """The two-layer network of the clustering paper, appendix C.3.

    128 hidden units, batch normalisation, ReLU, dropout 0.5.

    Args:
        dim: d, the length of an embedding.
        classes: Number of classes.

    Returns:
        (n, d) float32 to (n, classes) scores.
    """
    return nn.Sequential(
        nn.Linear(dim, 128, bias=False),
        nn.BatchNorm1d(128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, classes),
    )


def small_cnn(shape: Shape, classes: int) -> nn.Module:
    """Two convolutions and two dense layers: 32 - pool - 64 - pool - 128.

    Without batch normalisation, whose statistics of synthetic images do not fit real ones: it cost
    8 points on Fashion-MNIST at epsilon 1. The last feature map is pooled to at most 7 x 7, which
    is what a 28 x 28 image gives, so that the dense layer stays as small for larger images.

    Args:
        shape: (height, width, channels), at least 16 x 16 pixels.
        classes: Number of classes.

    Returns:
        (n, channels, height, width) float32 to (n, classes) scores.

    Raises:
        InputError: The images are too small or not of that shape.
    """
    height, width, channels = _checked(shape)
    tall, wide = min(7, height // 4), min(7, width // 4)
    larger = (height // 4, width // 4) != (tall, wide)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.MaxPool2d(2),  # before the ReLU, which it commutes with: a quarter of the work
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d((tall, wide)) if larger else nn.Identity(),
        nn.Flatten(),
        nn.Linear(64 * tall * wide, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )


class _Residual(nn.Module):
    """x + f(x)."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + cast(Tensor, self.inner(x))


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
    _, _, channels = _checked(shape)
    return nn.Sequential(
        _convolution(channels, width),
        _convolution(width, 2 * width, pool=True),
        _Residual(
            nn.Sequential(_convolution(2 * width, 2 * width), _convolution(2 * width, 2 * width))
        ),
        _convolution(2 * width, 4 * width, pool=True),
        _convolution(4 * width, 8 * width, pool=True),
        _Residual(
            nn.Sequential(_convolution(8 * width, 8 * width), _convolution(8 * width, 8 * width))
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
    height, wide, channels = _checked(shape)
    layers: list[nn.Module] = [_convolution(channels, width)]
    if min(height, wide) >= 128:
        layers = [_convolution(channels, width, size=7, stride=2), nn.MaxPool2d(3, 2, padding=1)]
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
            _convolution(inside, inner, size=1),
            _convolution(inner, inner, stride=stride),
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


def vgg11(shape: Shape, classes: int, *, width: int = 64) -> nn.Module:
    """VGG-11 with batch normalisation (Simonyan and Zisserman 2015), with one dense layer.

    The original's three dense layers are made for 224 x 224 pixels, and hold most of its weights;
    of smaller images the last feature map is averaged instead.

    Args:
        shape: (height, width, channels), at least 16 x 16 pixels.
        classes: Number of classes.
        width: Filters of the first convolution; the later ones have 2, 4 and 8 times as many.

    Returns:
        (n, channels, height, width) float32 to (n, classes) scores.

    Raises:
        InputError: The images are too small or not of that shape.
    """
    _, _, inside = _checked(shape)
    layers: list[nn.Module] = []
    for times, count in ((1, 1), (2, 1), (4, 2), (8, 2), (8, 2)):
        for _ in range(count):
            layers.append(_convolution(inside, times * width))
            inside = times * width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))  # 16 pixels are 1 after four of five
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(inside, classes)
    )


def _convolution(
    inside: int, outside: int, *, pool: bool = False, size: int = 3, stride: int = 1
) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(inside, outside, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    ]
    return nn.Sequential(*layers, nn.MaxPool2d(2)) if pool else nn.Sequential(*layers)


def _checked(shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[:2]) < SMALLEST_SIDE or shape[2] < 1:
        raise InputError(
            f"this network needs images of (height, width, channels) with at least "
            f"{SMALLEST_SIDE} pixels a side, found shape {tuple(shape)}: enlarge the images"
        )
    return shape[0], shape[1], shape[2]
