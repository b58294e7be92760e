"""The architectures of the networks: chains of layers, residual networks, MobileNetV2.

Each is built of the shape (height, width, channels) of the images, 16 x 16 pixels or more (else
`InputError`), the number of classes, and the filters of its first convolution (``width``), which
the others follow in the proportions of its paper. It maps (n, channels, height, width) float32 to
(n, classes) scores.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from understudy.core.errors import InputError, packages_for
from understudy.core.types import Shape

with packages_for("training on a release", "torch"):
    import torch
    from torch import Tensor, nn

SMALLEST_SIDE = 16
"""Images below this many pixels a side leave nothing after the poolings."""

LARGE_SIDE = 128
"""Images from this many pixels a side on are first made small, as ImageNet's are."""


class Residual(nn.Module):
    """x + f(x)."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) to the same shape."""
        return x + cast(Tensor, self.inner(x))


def convolution(
    inside: int,
    outside: int,
    *,
    pool: bool = False,
    size: int = 3,
    stride: int = 1,
    instance: bool = False,
) -> nn.Module:
    """A convolution without bias, batch normalisation, ReLU, and maybe a pooling by 2.

    With ``instance``, instance normalisation: groups of one channel.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(inside, outside, size, stride, padding=size // 2, bias=False),
        nn.GroupNorm(outside, outside) if instance else nn.BatchNorm2d(outside),
        nn.ReLU(),
    ]
    return nn.Sequential(*layers, nn.MaxPool2d(2)) if pool else nn.Sequential(*layers)


def checked(shape: Shape) -> tuple[int, int, int]:
    """Height, width and channels."""
    if len(shape) != 3 or min(shape[:2]) < SMALLEST_SIDE or shape[2] < 1:
        raise InputError(
            f"this network needs images of (height, width, channels) with at least "
            f"{SMALLEST_SIDE} pixels a side, found shape {tuple(shape)}: enlarge the images"
        )
    return shape[0], shape[1], shape[2]


def two_layer(dim: int, classes: int) -> nn.Module:
    """The two-layer network of the clustering paper, appendix C.3, of embeddings (n, dim).

    128 hidden units, batch normalisation, ReLU, dropout 0.5.
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
    8 points on a public benchmark at epsilon 1. The last feature map is pooled to at most 7 x 7,
    which is what a 28 x 28 image gives, so that the dense layer stays as small for larger images.
    """
    height, width, channels = checked(shape)
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


def convnet(shape: Shape, classes: int, *, width: int = 128) -> nn.Module:
    """ConvNet, as PASDA and dataset distillation train it (Gidaris and Komodakis 2018).

    Three blocks of a convolution, instance normalisation, ReLU and an average pooling, and one
    dense layer. It mixes no rows, so that DP-SGD can train the very same network. The last feature
    map is pooled to at most 4 x 4, which is what a 32 x 32 image gives.
    """
    height, wide, inside = checked(shape)
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [
            nn.Conv2d(inside, width, 3, padding=1),
            nn.GroupNorm(width, width),  # one group a channel: instance normalisation
            nn.ReLU(),
            nn.AvgPool2d(2),
        ]
        inside = width
    left = min(4, height // 8), min(4, wide // 8)
    if left != (height // 8, wide // 8):
        layers.append(nn.AdaptiveAvgPool2d(left))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * left[0] * left[1], classes))


def vgg11(shape: Shape, classes: int, *, width: int = 64) -> nn.Module:
    """VGG-11 with batch normalisation (Simonyan and Zisserman 2015), with one dense layer.

    The original's three dense layers are made for 224 x 224 pixels, and hold most of its weights;
    of smaller images the last feature map is averaged instead.
    """
    _, _, inside = checked(shape)
    layers: list[nn.Module] = []
    for times, count in ((1, 1), (2, 1), (4, 2), (8, 2), (8, 2)):
        for _ in range(count):
            layers.append(convolution(inside, times * width))
            inside = times * width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))  # 16 pixels are 1 after four of five
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(inside, classes)
    )


def resnet9(shape: Shape, classes: int, *, width: int = 64) -> nn.Module:
    """ResNet-9, as the alignment paper's second classifier: eight convolutions, one dense layer."""
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


def instance_resnet(shape: Shape, classes: int, *, width: int = 24) -> nn.Module:
    """A narrow residual network with instance normalisation, for images of another kind of camera.

    Seven convolutions in the manner of ResNet-9, and one dense layer; 1.1 MB. Each image is
    normalised by itself (Ulyanov, Vedaldi and Lempitsky 2016), because statistics of drawn images
    do not fit photos: with batch normalisation in its place 77 % of the photos of private homes
    were told right, with this 92 % (docs/methods/sanitize.md). The price: the colour of the whole
    image is lost, so classes that differ in it alone need another network.
    """
    height, wide, channels = checked(shape)
    block = partial(convolution, instance=True)
    cells = height // 8, wide // 8
    quarter = max(1, cells[0] // 2), max(1, cells[1] // 2)
    left = (cells[0] // quarter[0]) * (cells[1] // quarter[1])
    return nn.Sequential(
        block(channels, width, pool=True),
        block(width, 2 * width),
        block(2 * width, 2 * width, pool=True),
        Residual(nn.Sequential(block(2 * width, 2 * width), block(2 * width, 2 * width))),
        block(2 * width, 4 * width, pool=True),
        Residual(nn.Sequential(block(4 * width, 4 * width), block(4 * width, 4 * width))),
        nn.MaxPool2d(quarter),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(4 * width * left, classes),
    )


def resnet50(shape: Shape, classes: int, *, width: int = 64) -> nn.Module:
    """ResNet-50 (He et al. 2016): 16 bottlenecks of three convolutions each, one dense layer.

    Images below 128 pixels a side meet a first convolution of 3 x 3 without stride or pooling, as
    is usual for them: the original 7 x 7 one would leave nothing to look at.
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

    Three groups of blocks that normalise and activate before each convolution, without dropout;
    images from 128 pixels on are first made small. The depth is 6 n + 4 for n blocks a group.
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
        shortcut = x if self.short is None else cast(Tensor, self.short(active))
        return shortcut + cast(Tensor, self.inner(active))


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
