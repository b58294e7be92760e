"""``embedded:denoiser``: a small transformer of image patches that refines a denoised image.

A DiT (Peebles and Xie 2023) of about 0.13 M parameters whose weights are one vector, so that a
gradient is one, too. Its last layer begins at zero: it changes nothing before it is trained. It has
no weights of its own; whoever trains it hands them over.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from understudy.backends.arrays import fit_images, to_uint8
from understudy.backends.plugin import PositiveCount, full_name, read_options
from understudy.core.denoising import ImageRows, NoisyImages, Weights
from understudy.core.option import Option
from understudy.core.types import Images, Labels, Shape

_Named = dict[str, torch.Tensor]
_NAME = "embedded:denoiser"

_HEADS = 4
_CONDITION = 32  # numbers that say the level of noise and the class
_ONE_PASS_AT_A_TIME = threading.Lock()
"""Held while the network is at some weights and `torch.func` differentiates.

It counts its transforms in one place for all threads: two that begin and end side by side give
wrong gradients without a word, or ``bad optional access``.
"""

_SIDE = 32  # longest side of the images that it sees and draws; larger ones are resized
_LEVEL_SCALE = 0.25  # c_noise of Karras et al. 2022, table 1
_PERIOD = 10_000.0  # longest of the sines that say where a patch is (Vaswani et al. 2017)


@dataclass(frozen=True)
class DenoiserOptions:
    """Options of the network."""

    width: PositiveCount = 64
    depth: PositiveCount = 3
    patch: Annotated[int, Option("", least=1)] = 4

    def __post_init__(self) -> None:
        if self.width % (2 * _HEADS):
            raise ValueError(f"width is a multiple of {2 * _HEADS}, found {self.width}")


class _Block(nn.Module):
    """Attention and a layer, each steered by the condition (adaLN-Zero)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.steer = nn.Linear(_CONDITION, 6 * width)
        self.attend = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        nn.init.zeros_(self.steer.weight)
        nn.init.zeros_(self.steer.bias)
        self.layer = nn.Sequential(
            nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )

    def forward(self, tokens: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        steered = self.steer(condition)[:, None].chunk(6, dim=-1)
        normed = self.norm(tokens) * (1 + steered[0]) + steered[1]
        n, count, width = normed.shape
        parts = self.attend(normed).reshape(n, count, 3, _HEADS, width // _HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(width // _HEADS), dim=-1)
        context = (weights @ value).transpose(1, 2).reshape(n, count, width)
        tokens = tokens + (1 + steered[2]) * self.join(context)
        normed = self.norm(tokens) * (1 + steered[3]) + steered[4]
        result: torch.Tensor = tokens + (1 + steered[5]) * self.layer(normed)
        return result


class _Transformer(nn.Module):
    """Two images, a level of noise and a class to one image of the same size."""

    def __init__(self, shape: Shape, classes: int, options: DenoiserOptions) -> None:
        super().__init__()
        height, width, channels = shape
        self.side, self.shape = options.patch, shape
        numbers = channels * options.patch**2
        self.read = nn.Linear(2 * numbers, options.width)
        self.level = nn.Linear(16, _CONDITION)
        self.label = nn.Parameter(torch.zeros(classes, _CONDITION))
        self.blocks = nn.ModuleList(_Block(options.width) for _ in range(options.depth))
        self.norm = nn.LayerNorm(options.width)
        self.write = nn.Linear(options.width, numbers)
        nn.init.zeros_(self.write.weight)
        nn.init.zeros_(self.write.bias)
        rows, columns = height // options.patch, width // options.patch
        self.register_buffer("places", _places(rows, columns, options.width), persistent=False)

    def forward(
        self, images: torch.Tensor, levels: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        n, (height, width, channels), side = len(images), self.shape, self.side
        rows, columns = height // side, width // side
        patches = images.reshape(n, 2, rows, side, columns, side, channels)
        patches = patches.permute(0, 2, 4, 1, 3, 5, 6).reshape(n, rows * columns, -1)
        angles = levels[:, None] * (2.0 ** torch.arange(8))
        waves = torch.cat([angles.sin(), angles.cos()], dim=1)
        condition = nn.functional.silu(self.level(waves) + self.label[labels])
        tokens = self.read(patches) + self.places
        for block in self.blocks:
            tokens = block(tokens, condition)
        out: torch.Tensor = self.write(self.norm(tokens))
        out = out.reshape(n, rows, columns, side, side, channels)
        return out.permute(0, 1, 3, 2, 4, 5).reshape(n, height, width, channels)


def _places(rows: int, columns: int, width: int) -> torch.Tensor:
    """Sines and cosines of where each patch is, (rows * columns, width)."""
    rates = _PERIOD ** (-torch.arange(width // 4) / (width // 4))
    parts = [torch.arange(n)[:, None] * rates for n in (rows, columns)]
    down, across = (torch.cat([part.sin(), part.cos()], dim=1) for part in parts)
    grid = torch.cat([down[:, None].expand(-1, columns, -1), across[None].expand(rows, -1, -1)], 2)
    return 0.5 * grid.reshape(rows * columns, -1)


@dataclass(frozen=True)
class PatchNetwork:
    """The transformer for images of a shape; see `understudy.core.denoising.TrainableNetwork`."""

    name: str
    image_shape: Shape
    shape: Shape
    classes: int
    options: DenoiserOptions

    @property
    def size(self) -> int:
        """All parameters."""
        return sum(part.numel() for part in self._parameters.values())

    @property
    def adapted(self) -> int:
        """The condition, what it adds to each layer, and the last layer."""
        return sum(part.numel() for name, part in self._parameters.items() if _adapts(name))

    def rows(self, images: Images) -> ImageRows:
        """As of a `TrainableNetwork`: small images of -1 to 1."""
        small = fit_images(images, self.shape)
        return np.asarray(small.reshape(len(small), -1) / 127.5 - 1, dtype=np.float32)

    def images(self, rows: ImageRows) -> Images:
        """As of a `TrainableNetwork`."""
        small = to_uint8((rows.reshape(-1, *self.shape) + 1) / 2)
        return fit_images(small, self.image_shape)

    def initial(self, *, seed: int) -> Weights:
        """As of a `TrainableNetwork`: the last layer is zero, and F with it."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            network = _Transformer(self.shape, self.classes, self.options)
        parts = [part.detach().reshape(-1) for part in _in_order(network).values()]
        return torch.cat(parts).numpy()

    def predict(self, weights: Weights, noisy: NoisyImages, labels: Labels) -> NDArray[np.float32]:
        """As of a `TrainableNetwork`."""
        arguments = *_read(noisy), torch.from_numpy(labels)
        parameters = self._at(weights)
        with _ONE_PASS_AT_A_TIME, torch.no_grad():
            result: NDArray[np.float32] = functional_call(
                self._network, parameters, arguments
            ).numpy()
        return result

    def gradients(
        self,
        weights: Weights,
        noisy: NoisyImages,
        labels: Labels,
        targets: NDArray[np.float32],
        last: int,
    ) -> NDArray[np.float32]:
        """As of a `TrainableNetwork`, by `torch.func`: the mean is over k draws of one record."""
        network, parameters = self._network, self._at(weights)
        whole = last == len(weights)
        trained = {name: part for name, part in parameters.items() if whole or _adapts(name)}

        def loss(trained: _Named, *record: torch.Tensor) -> torch.Tensor:
            pairs, levels, label, targets = record
            arguments = pairs, levels, label.expand(len(levels))
            images: torch.Tensor = functional_call(network, parameters | trained, arguments)
            return (images - targets).square().mean()

        arguments = *_read(noisy), torch.from_numpy(labels), torch.from_numpy(targets)
        with _ONE_PASS_AT_A_TIME:
            parts = vmap(grad(loss), in_dims=(None, 0, 0, 0, 0))(trained, *arguments)
        flat = [part.reshape(len(labels), -1) for part in parts.values()]
        gradients: NDArray[np.float32] = torch.cat(flat, dim=1).numpy()
        return gradients

    @property
    def _network(self) -> _Transformer:
        return _transformer(self.shape, self.classes, self.options)

    @property
    def _parameters(self) -> dict[str, nn.Parameter]:
        return _in_order(self._network)

    def _at(self, weights: Weights) -> _Named:
        """The parameters by their names."""
        vector, start, parameters = torch.from_numpy(np.array(weights, dtype=np.float32)), 0, {}
        for name, part in self._parameters.items():
            parameters[name] = vector[start : start + part.numel()].reshape(part.shape)
            start += part.numel()
        return parameters


def _read(noisy: NoisyImages) -> tuple[torch.Tensor, torch.Tensor]:
    """What the transformer reads: the noise that was removed and what is left, and the level."""
    sigmas = noisy.sigmas[..., None, None, None]
    removed = (noisy.images - noisy.denoised) / np.sqrt(np.square(sigmas) + 1e-6)
    pairs = np.stack([removed, noisy.denoised], axis=-4).astype(np.float32)
    levels = (_LEVEL_SCALE * np.log(noisy.sigmas / noisy.deviation)).astype(np.float32)
    return torch.from_numpy(pairs), torch.from_numpy(levels)


def _adapts(name: str) -> bool:
    """Whether a parameter is one of those that DP-SGD trains: few, so that noise is little."""
    return name.startswith(("level.", "label", "norm.", "write.")) or name.endswith("steer.bias")


def _in_order(network: _Transformer) -> dict[str, nn.Parameter]:
    """Its parameters as they stand in a vector of weights: those that adapt it are the last."""
    return dict(sorted(network.named_parameters(), key=lambda part: _adapts(part[0])))


@cache
def _transformer(shape: Shape, classes: int, options: DenoiserOptions) -> _Transformer:
    with torch.random.fork_rng(devices=[]):
        return _Transformer(shape, classes, options).eval()


class PatchDenoiser:
    """The transformer; see `understudy.core.ports.Denoiser`."""

    licence = "none"

    def __init__(self, name: str, options: DenoiserOptions) -> None:
        self.name, self._options = name, options

    def network(self, shape: Shape, classes: Sequence[str]) -> PatchNetwork:
        """As of a `Denoiser`: images are at most 32 pixels a side, in whole patches."""
        height, width, channels = shape
        side, scale = self._options.patch, min(1.0, _SIDE / max(height, width))
        small = (max(side, round(n * scale / side) * side) for n in (height, width))
        return PatchNetwork(self.name, shape, (*small, channels), len(classes), self._options)


def denoiser(options: dict[str, Any]) -> PatchDenoiser:
    """``embedded:denoiser``, with its options."""
    settings = read_options(options, DenoiserOptions, name=_NAME)
    return PatchDenoiser(full_name(_NAME, settings), settings)
