"""A one-stage detector for small images: its network, and what a trained one gives.

A plain chain of convolutions, without anchors: it says for each cell of a coarse grid whether the
middle of an object is there (Zhou et al., "Objects as points", 2019) and how far its four sides
are (Tian et al., FCOS, 2019). Dilated convolutions see the whole object at one resolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError, packages_for
from understudy.core.types import Found, Images, Shape
from understudy.metrics.box_maps import BOX_SIDES, decode_boxes
from understudy.metrics.detection import average_precision

with packages_for("training a detector", "torch"):
    import torch
    from torch import Tensor, nn

_BATCH = 128
_CELLS = 16
"""Cells along the shorter side of the grid, about: 4 pixels each where an image has 64."""
_SMALLEST, _LARGEST = 32, 512
"""Pixels a side of the images that the network is made for."""

_DILATIONS, _WIDTH = (1, 2, 4, 2, 1), 56  # of the convolutions on the grid
_RARE = 0.02  # how probable the middle of an object is in a cell, before any training


def one_stage_detector(shape: Shape, classes: int) -> nn.Module:
    """The network (0.6 MB of weights) for images of (height, width, channels) ``shape``.

    Both sides are 32 to 512 pixels and multiples of a cell. It takes (n, channels, height, width)
    float32 to (n, classes + 4, rows, columns), as `box_maps.decode_boxes` reads it.

    Raises:
        InputError: Images of another shape, or no classes.
    """
    if len(shape) != 3 or not _SMALLEST <= min(shape[:2]) <= max(shape[:2]) <= _LARGEST:
        raise InputError(
            f"a detector takes images of {_SMALLEST} to {_LARGEST} pixels a side, found {shape}: "
            "resize them"
        )
    halvings = max(1, round(math.log2(min(shape[:2]) / _CELLS)))
    if any(side % 2**halvings for side in shape[:2]) or classes < 1:
        raise InputError(
            f"a detector takes sides that are multiples of {2**halvings} pixels and 1 class or "
            f"more, found {shape} and {classes}"
        )
    inside, layers = shape[2], list[nn.Module]()
    for halving in range(halvings):
        outside = _WIDTH if halving == halvings - 1 else _WIDTH // 2
        layers += _convolution(inside, outside, stride=2)
        inside = outside
    for dilation in _DILATIONS:
        layers += _convolution(_WIDTH, _WIDTH, dilation=dilation)
    head = nn.Conv2d(_WIDTH, classes + BOX_SIDES, 1)
    rare, near = math.log(_RARE / (1 - _RARE)), math.log(2.0)
    head.weight.data.mul_(0.1)
    head.bias = nn.Parameter(torch.tensor([rare] * classes + [near] * BOX_SIDES))
    return nn.Sequential(*layers, head)


def _convolution(
    inside: int, outside: int, *, stride: int = 1, dilation: int = 1
) -> list[nn.Module]:
    return [
        nn.Conv2d(inside, outside, 3, stride, dilation, dilation, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    ]


@dataclass(frozen=True, slots=True)
class BoxNetwork:
    """A trained detector and the statistics its inputs are standardised by.

    Attributes:
        model: The network, in evaluation mode.
        shape: (height, width, channels) of an image.
        classes: Number of classes.
        mean: (channels,) of the training set.
        gain: (channels,) 1 / standard deviation of the same; 0 where it is constant.
    """

    model: nn.Module
    shape: Shape
    classes: int
    mean: Tensor
    gain: Tensor

    def maps(self, images: Images) -> NDArray[np.float32]:
        """(n, classes + 4, rows, columns) of (n, height, width, channels) uint8 images.

        Raises:
            InputError: The images have another shape than the training set's.
        """
        if images.shape[1:] != self.shape:
            raise InputError(
                f"the detector was trained on images of shape {self.shape}, found "
                f"{images.shape[1:]}: resize them"
            )
        with torch.inference_mode():
            blocks = [
                self.model(self.prepare(torch.from_numpy(np.array(images[start : start + _BATCH]))))
                for start in range(0, len(images), _BATCH)
            ]
        return np.asarray(torch.cat(blocks).cpu().numpy())

    def detect(self, images: Images, *, certainty: float = 0.05) -> list[Found]:
        """The boxes in each image, best first; boxes of lower scores are left out."""
        if not len(images):
            return []
        height, width = self.shape[:2]
        return decode_boxes(self.maps(images), (height, width), certainty=certainty)

    def prepare(self, images: Tensor) -> Tensor:
        """Standardised, from (n, h, w, c) to (n, c, h, w)."""
        values = images.to(self.mean.device).float()
        return ((values - self.mean) * self.gain).permute(0, 3, 1, 2)


def detector_ap50(detector: BoxNetwork, images: Images, truth: Sequence[Found]) -> float:
    """AP50 of a detector, the mean over its classes that have objects; 0 where none has.

    Raises:
        InputError: No images, or not as many truths.
    """
    names = [str(label) for label in range(detector.classes)]
    precision = average_precision(detector.detect(images, certainty=0.01), truth, names)
    return 0.0 if math.isnan(precision) else precision
