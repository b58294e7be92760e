"""Networks whose layers follow one after the other."""

from __future__ import annotations

from understudy.core.types import Shape
from understudy.metrics.networks.blocks import checked, convolution

from torch import nn  # isort: skip  (after blocks, which says what to install)


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

    Args:
        shape: (height, width, channels), at least 16 x 16 pixels.
        classes: Number of classes.
        width: Filters of each convolution.

    Returns:
        (n, channels, height, width) float32 to (n, classes) scores.

    Raises:
        InputError: The images are too small or not of that shape.
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

    Args:
        shape: (height, width, channels), at least 16 x 16 pixels.
        classes: Number of classes.
        width: Filters of the first convolution; the later ones have 2, 4 and 8 times as many.

    Returns:
        (n, channels, height, width) float32 to (n, classes) scores.

    Raises:
        InputError: The images are too small or not of that shape.
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
