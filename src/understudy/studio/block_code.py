"""The network of ``embedded:photo``, begun as the best linear code of blocks of 8 x 8 pixels.

An AutoencoderDC (Chen et al. 2024, "Deep Compression Autoencoder") has shortcuts that lose nothing
where every level has four times the channels of the level before at half its side: pixels are
rearranged and pass. So a linear code can be written into its first and last weights exactly. Here
that is the Karhunen-Loeve transform of blocks of 8 x 8 pixels: of all linear codes of so few
numbers a block the one of least squared error. Residual blocks beside it begin at nothing and learn
what a linear code cannot do: to use what stands around a block, and to draw what is likely.
"""

from __future__ import annotations

from typing import Any

import diffusers
import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_dc import DCDownBlock2d, DCUpBlock2d, ResBlock
from numpy.typing import NDArray
from torch import nn

from understudy.core.types import Images

BLOCK_SIDE = 8
"""Pixels a side of what one place of the latents stands for."""

_WIDTHS = (16, 16, 64, 256)  # channels at full size (not used), half, a quarter, an eighth
_COLOURS = 3
_OFFSET = 1.5  # added to pixels in [-1, 1] before the last rectifier, so that it cuts nothing
_STEADY = 8.0  # of the free channels before the last normalisation, which then scales all alike


def new_block_code(latents: int) -> Any:
    """An untrained AutoencoderDC that makes every side eight times smaller."""
    return diffusers.AutoencoderDC(
        latent_channels=latents,
        encoder_block_out_channels=_WIDTHS,
        decoder_block_out_channels=_WIDTHS,
        encoder_layers_per_block=(0, 1, 1, 0),
        decoder_layers_per_block=(0, 1, 2, 1),
        encoder_qkv_multiscales=((),) * len(_WIDTHS),
        decoder_qkv_multiscales=((),) * len(_WIDTHS),
        encoder_out_shortcut=False,
        decoder_in_shortcut=False,
    )


def pixel_blocks(images: Images) -> NDArray[np.float32]:
    """(n, height, width, 3) uint8 as blocks (m, 192) in [-1, 1]: colour, row, column."""
    n, height, width, colours = images.shape
    grid = images.reshape(
        n, height // BLOCK_SIDE, BLOCK_SIDE, width // BLOCK_SIDE, BLOCK_SIDE, colours
    )
    blocks = grid.transpose(0, 1, 3, 5, 2, 4).reshape(-1, colours * BLOCK_SIDE * BLOCK_SIDE)
    return np.asarray(blocks.astype(np.float32) / np.float32(127.5) - 1)


def principal_axes(
    blocks: NDArray[np.float32], count: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """The Karhunen-Loeve transform of blocks (m, 192).

    Returns:
        The mean (192,), the axes of most variance (192, count), and the standard deviations along
        them (count,), falling.
    """
    mean = blocks.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov((blocks - mean).T))
    leading = slice(None, -count - 1, -1)
    deviations = np.sqrt(np.maximum(variances[leading], 1e-12))
    return mean, np.ascontiguousarray(axes[:, leading], np.float32), deviations.astype(np.float32)


@torch.no_grad()
def begin_as_linear_code(network: Any, blocks: NDArray[np.float32]) -> None:
    """Write the best linear code of blocks (m, 192) into a `new_block_code`.

    Its latents have mean 0 and variance 1 over the blocks, and its channels come in the order of
    their variance.
    """
    mean, axes, deviations = (
        torch.from_numpy(part) for part in principal_axes(blocks, network.config.latent_channels)
    )
    channels = _channel_of_pixel()
    encoder, decoder = network.encoder, network.decoder
    for part in network.modules():
        if isinstance(part, ResBlock):
            nn.init.zeros_(part.norm.weight)
        elif isinstance(part, DCDownBlock2d | DCUpBlock2d):
            nn.init.zeros_(part.conv.weight)
            nn.init.zeros_(part.conv.bias)
    _pass_pixels(encoder, decoder, blocks)
    inward, outward = axes / deviations, axes * deviations
    nn.init.zeros_(encoder.conv_out.weight)
    encoder.conv_out.weight[:, channels, 1, 1] = inward.T
    encoder.conv_out.bias.copy_(-mean @ inward)
    decoder.conv_in.weight[channels] = 0.0
    decoder.conv_in.weight[channels, :, 1, 1] = outward
    decoder.conv_in.bias[channels] = mean


def _channel_of_pixel() -> torch.Tensor:
    """Where a block's pixels stand in the deepest level: (192,), for colour, row, column."""
    colour, row, column = np.indices((_COLOURS, BLOCK_SIDE, BLOCK_SIDE)).reshape(_COLOURS, -1)
    channel = colour
    for bit in range(3):
        channel = 4 * channel + 2 * (row >> bit & 1) + (column >> bit & 1)
    return torch.from_numpy(channel)


def _pass_pixels(encoder: Any, decoder: Any, blocks: NDArray[np.float32]) -> None:
    """Let the first layer and the last ones pass pixels as they are."""
    stem, head = encoder.conv_in.conv, decoder.conv_out.conv
    nn.init.kaiming_uniform_(stem.weight, a=5**0.5)  # the fourth channel is free
    last = decoder.up_blocks[1][0].conv.bias
    last[16 * _COLOURS :] = _STEADY
    nn.init.zeros_(head.weight)
    for colour in range(_COLOURS):
        stem.weight[colour] = 0.0
        stem.weight[colour, colour, 1, 1] = 1.0
    pixels = 4 * _COLOURS
    for channel in range(pixels):
        head.weight[channel, channel, 1, 1] = 1.0
    square = float(np.square(blocks).mean())
    scale = ((pixels * square + 4 * _STEADY**2) / (pixels + 4)) ** 0.5
    decoder.norm_out.weight.fill_(scale)
    decoder.norm_out.bias.fill_(_OFFSET)
    head.bias.fill_(-_OFFSET)
