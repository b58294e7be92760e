"""MobileNetV2: what runs on a small device."""

from __future__ import annotations

from understudy.core.types import Shape
from understudy.metrics.networks.blocks import Residual, checked

from torch import nn  # isort: skip  (after blocks, which says what to install)

_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, filters, blocks and first stride of each stage (table 2 of the paper)."""

_SMALL = 64


def mobilenet_v2(shape: Shape, classes: int, *, width: int = 32) -> nn.Module:
    """MobileNetV2 (Sandler et al. 2018): 17 inverted residuals, one dense layer.

    Images below 64 pixels a side meet no stride in the first convolution and in the first stage
    that has one, as is usual for CIFAR: the paper's five halvings are made for 224 pixels.

    Args:
        shape: (height, width, channels), at least 16 x 16 pixels.
        classes: Number of classes.
        width: Filters of the first convolution; the others follow in the paper's proportions.

    Returns:
        (n, channels, height, width) float32 to (n, classes) scores.

    Raises:
        InputError: The images are too small or not of that shape.
    """
    height, wide, channels = checked(shape)
    small = min(height, wide) < _SMALL
    inside = width
    layers: list[nn.Module] = [_layer(channels, inside, stride=1 if small else 2)]
    for stage, (expansion, filters, blocks, stride) in enumerate(_STAGES):
        outside = max(1, filters * width // 32)
        for block in range(blocks):
            first = 1 if block > 0 or (small and stage == 1) else stride
            layers.append(_inverted(inside, outside, expansion, first))
            inside = outside
    last = 1280 * width // 32
    layers += [_layer(inside, last, size=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(last, classes))


def _inverted(inside: int, outside: int, expansion: int, stride: int) -> nn.Module:
    """Widen, look at each channel alone, narrow without activation; added where shapes agree."""
    inner = inside * expansion
    layers = [] if expansion == 1 else [_layer(inside, inner, size=1)]
    inverted = nn.Sequential(
        *layers,
        _layer(inner, inner, stride=stride, groups=inner),
        nn.Conv2d(inner, outside, 1, bias=False),
        nn.BatchNorm2d(outside),
    )
    return Residual(inverted) if stride == 1 and inside == outside else inverted


def _layer(
    inside: int, outside: int, *, size: int = 3, stride: int = 1, groups: int = 1
) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU6(),
    )
