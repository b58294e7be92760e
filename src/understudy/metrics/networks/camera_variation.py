"""What a camera does to images of the same thing: light, colours, sharpness, sensor noise.

Drawn images are smooth and evenly lit; a model that learnt from them alone fails on a dim room and
on a sensor's noise. So they are changed while it learns, each image by draws of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class CameraVariation:
    """How images are changed.

    Attributes:
        light: Largest relative change of brightness.
        tint: The same of each colour.
        contrast: Largest logarithm of the power that values in [0, 1] are raised to.
        blur: Largest part of the mean over 3 x 3 pixels that is mixed in.
        sensor_noise: Largest standard deviation of noise on the pixels, of 255.
    """

    light: float = 0.5
    tint: float = 0.25
    contrast: float = 0.5
    blur: float = 1.0
    sensor_noise: float = 16.0

    def __call__(self, images: Tensor) -> Tensor:
        """Images as other cameras would have them.

        Args:
            images: (n, height, width, channels) in [0, 255].

        Returns:
            The same shape, float32 in [0, 255].
        """
        n, _, _, channels = images.shape
        planes = images.permute(0, 3, 1, 2).float()
        soft = functional.avg_pool2d(functional.pad(planes, (1, 1, 1, 1), "replicate"), 3, 1)
        planes = planes + self.blur * torch.rand(n, 1, 1, 1) * (soft - planes)
        planes = planes * (1 + self.light * _signed(n, 1)) * (1 + self.tint * _signed(n, channels))
        planes = 255 * (planes / 255).clamp(0, 1) ** torch.exp(self.contrast * _signed(n, 1))
        noise = self.sensor_noise * torch.rand(n, 1, 1, 1) * torch.randn_like(planes)
        return (planes + noise).clamp(0, 255).permute(0, 2, 3, 1)


def _signed(n: int, channels: int) -> Tensor:
    """Numbers in [-1, 1) for each image and channel."""
    return 2 * torch.rand(n, channels, 1, 1) - 1
