"""What the networks are made of."""

from __future__ import annotations

from typing import cast

from understudy.core.errors import InputError, MissingExtra
from understudy.core.types import Shape

try:
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtra("training on a release", "torch") from error

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
    inside: int, outside: int, *, pool: bool = False, size: int = 3, stride: int = 1
) -> nn.Module:
    """A convolution without bias, batch normalisation, ReLU, and maybe a pooling by 2."""
    layers: list[nn.Module] = [
        nn.Conv2d(inside, outside, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    ]
    return nn.Sequential(*layers, nn.MaxPool2d(2)) if pool else nn.Sequential(*layers)


def checked(shape: Shape) -> tuple[int, int, int]:
    """Height, width and channels.

    Raises:
        InputError: The images are too small or not of that shape.
    """
    if len(shape) != 3 or min(shape[:2]) < SMALLEST_SIDE or shape[2] < 1:
        raise InputError(
            f"this network needs images of (height, width, channels) with at least "
            f"{SMALLEST_SIDE} pixels a side, found shape {tuple(shape)}: enlarge the images"
        )
    return shape[0], shape[1], shape[2]
