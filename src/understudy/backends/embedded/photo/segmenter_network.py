"""The network of ``embedded:photo`` as a segmenter: MobileNetV2 down to a sixteenth, and back up.

Sandler et al. (2018), "MobileNetV2: Inverted Residuals and Linear Bottlenecks", the 17
blocks of it, with what was normalised by batches folded into the convolutions; the way back adds
a smaller map to a larger one, as feature pyramids do (Lin et al. 2017).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from understudy.core.errors import ConfigError, MissingExtra

_BLOCKS = (
    (1, 16, 1, 1, 1),
    (6, 24, 2, 2, 1),
    (6, 32, 3, 2, 1),
    (6, 64, 4, 2, 1),
    (6, 96, 3, 1, 1),
    (6, 160, 1, 1, 1),
    (6, 160, 2, 1, 2),
    (6, 320, 1, 1, 2),
)
"""Expansion, channels, blocks, first stride and dilation: as DeepLab has it, to a sixteenth."""

_TAPS = {2: 24, 5: 32}  # the last block at a quarter and at an eighth of the size: its channels
_HEAD = 256  # channels of what the coarse scores are made of
_LAYERS = ("MobilenetV2/", "aspp0/", "image_pooling/", "concat_projection/", "logits/")


class InvertedResidual(nn.Module):
    """More channels, a convolution of each by itself, fewer channels; added where sizes agree."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int, dilation: int) -> None:
        super().__init__()
        wide = channels * expansion
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [nn.Conv2d(channels, wide, 1), nn.ReLU6()]
        layers += [
            nn.Conv2d(wide, wide, 3, stride, dilation, dilation, groups=wide),
            nn.ReLU6(),
        ]
        self.layers = nn.Sequential(*layers, nn.Conv2d(wide, out, 1))
        self._adds = stride == 1 and channels == out

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """(n, channels, h, w) to (n, out, h / stride, w / stride)."""
        changed: torch.Tensor = self.layers(maps)
        return maps + changed if self._adds else changed


class Separable(nn.Module):
    """A convolution of each channel by itself, then of all of them at a place."""

    def __init__(self, channels: int, dilation: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation, groups=channels),
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.GroupNorm(8, channels),
            nn.ReLU(),
        )

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """(n, channels, h, w) to the same shape."""
        changed: torch.Tensor = self.layers(maps)
        return maps + changed


class SegmenterNetwork(nn.Module):
    """(n, 3, h, w) in [0, 1], sides multiples of 16, to scores (n, classes, h / 4, w / 4).

    Args:
        classes: How many.
        width: Channels on the way back.
    """

    def __init__(self, classes: int, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU6())
        blocks, channels = [], 32
        for expansion, out, count, stride, dilation in _BLOCKS:
            for position in range(count):
                step = stride if position == 0 else 1
                blocks.append(InvertedResidual(channels, out, expansion, step, dilation))
                channels = out
        self.blocks = nn.ModuleList(blocks)
        self.pooled = nn.Sequential(nn.Conv2d(channels, _HEAD, 1), nn.ReLU())
        self.local = nn.Sequential(nn.Conv2d(channels, _HEAD, 1), nn.ReLU())
        self.together = nn.Sequential(nn.Conv2d(2 * _HEAD, _HEAD, 1), nn.ReLU())
        self.coarse = nn.Conv2d(_HEAD, classes, 1)
        self.deep = nn.Conv2d(_HEAD, width, 1)
        self.eighth = nn.Conv2d(_TAPS[5], width, 1)
        self.eighth_layers = Separable(width)
        self.quarter = nn.Conv2d(_TAPS[2], width, 1)
        self.quarter_layers = Separable(width)
        self.fine = nn.Conv2d(width, classes, 1)
        for values in self.fine.parameters():  # it begins as the coarse scores alone
            nn.init.zeros_(values)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """See the class."""
        maps = self.stem(2 * pixels - 1)
        taps = {}
        for index, block in enumerate(self.blocks):
            maps = block(maps)
            if index in _TAPS:
                taps[index] = maps
        pooled = self.pooled(maps.mean((2, 3), keepdim=True)).expand(-1, -1, *maps.shape[2:])
        maps = self.together(torch.cat([pooled, self.local(maps)], dim=1))
        coarse, maps = self.coarse(maps), self.deep(maps)
        for tap, across, layers in (
            (taps[5], self.eighth, self.eighth_layers),
            (taps[2], self.quarter, self.quarter_layers),
        ):
            maps = functional.interpolate(maps, size=tap.shape[-2:], mode="bilinear")
            maps = layers(functional.relu(across(tap) + maps))
        coarse = functional.interpolate(coarse, size=maps.shape[-2:], mode="bilinear")
        scores: torch.Tensor = coarse + self.fine(maps)
        return scores

    def begin_as(self, file: Path) -> None:
        """Give the way down the convolutions of a DeepLab over MobileNetV2 in TensorFlow Lite.

        Raises:
            ConfigError: The file is of another network.
            MissingExtra: LiteRT is not installed.
        """
        parts = (self.stem, self.blocks, self.local, self.pooled, self.together, self.coarse)
        ours: list[Any] = [
            layer for part in parts for layer in part.modules() if isinstance(layer, nn.Conv2d)
        ]
        stored = _stored_convolutions(file)
        if [weight.shape for weight, _ in stored] != [layer.weight.shape for layer in ours]:
            raise ConfigError(f"{file} is no network over a MobileNetV2 of full width")
        for layer, (weight, bias) in zip(ours, stored, strict=True):
            layer.weight.data, layer.bias.data = weight, bias


def _stored_convolutions(file: Path) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Weights (out, in, h, w) and biases of the layers of a file whose name says MobilenetV2."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise MissingExtra(f"litert:{file}", "litert") from error
    interpreter = Interpreter(str(file), num_threads=1)
    interpreter.allocate_tensors()

    def values(tensor: Any) -> torch.Tensor:
        scale, zero = tensor["quantization"]
        numbers = interpreter.get_tensor(tensor["index"]).astype(np.float32)
        return torch.from_numpy((numbers - zero) * scale)

    tensors = sorted(interpreter.get_tensor_details(), key=lambda one: one["index"])
    own = [one for one in tensors if one["name"].startswith(_LAYERS)]
    layers = []
    for tensor in own:
        name = tensor["name"].partition(";")[0]
        if "weights_quant" not in tensor["name"] or len(tensor["shape"]) != 4:
            continue
        layer = name.rpartition("/")[0] + "/"
        (bias,) = [one for one in own if one["name"].startswith(layer) and len(one["shape"]) == 1]
        order = (3, 0, 1, 2) if name.endswith("depthwise_Fold") else (0, 3, 1, 2)
        layers.append((values(tensor).permute(order).contiguous(), values(bias)))
    return layers
