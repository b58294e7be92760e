"""An autoencoder as an encoder and a decoder: latents, flattened from (channels, height, width).

AutoencoderKL (the middle of its posterior, no noise), AutoencoderTiny, AutoencoderDC, and the
representation autoencoder AutoencoderRAE. Latents come scaled as a diffusion model sees them: about
unit variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import diffusers
import numpy as np
import torch

from understudy.backends.arrays import (
    check_embeddings,
    fit_images,
    index_slices,
    require_images,
    resized,
    sizes_of,
    to_uint8,
    with_channels,
)
from understudy.backends.diffusion.loading import read_network
from understudy.backends.diffusion.options import LatentOptions
from understudy.backends.diffusion.pipeline_calls import out_of_memory
from understudy.backends.hub.hub_models import AUTOENCODER_CLASSES, read_hub_config
from understudy.backends.hub.pretrained import exact_kernels, licence_of
from understudy.backends.plugin import full_name, read_options
from understudy.core.errors import BackendError
from understudy.core.independence import even_parts
from understudy.core.ports import Encoder
from understudy.core.types import Embeddings, Images, Seeds, Shape


def to_tensor(images: Images, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """(n, h, w, 3) uint8 as (n, 3, h, w) in 0..1."""
    values = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    return values.to(device).to(dtype) / 255


def latents_of(vae: Any, pixels: torch.Tensor) -> torch.Tensor:
    """(n, 3, h, w) in 0..1 to (n, c, h', w') latents, scaled, without any noise."""
    if isinstance(vae, diffusers.AutoencoderRAE):
        latent: torch.Tensor = vae.encode(pixels).latent  # scales by itself; wants 0..1
        return latent
    encoding = vae.encode(pixels * 2 - 1)
    if isinstance(vae, diffusers.AutoencoderDC):
        latent = encoding.latent
    elif isinstance(vae, diffusers.AutoencoderTiny):
        latent = encoding.latents
    else:
        latent = encoding.latent_dist.mode()
    shift, factor = scale_of(vae)
    return (latent - shift) * factor


def pixels_of(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    """(n, c, h', w') scaled latents to (n, 3, h, w), 0 black and 1 white, unbounded."""
    if isinstance(vae, diffusers.AutoencoderRAE):
        decoded: torch.Tensor = vae.decode(latents).sample
        return decoded
    shift, factor = scale_of(vae)
    decoded = vae.decode(latents / factor + shift).sample
    return decoded / 2 + 0.5


def scale_of(vae: Any) -> tuple[float, float]:
    """What is subtracted from latents, and what they are then multiplied by."""
    config = vae.config
    return float(config.get("shift_factor") or 0.0), float(config.get("scaling_factor") or 1.0)


class AutoencoderEncoder:
    """Images to the latents of an autoencoder."""

    ordered = False
    norm_bound = None

    def __init__(
        self, vae: Any, shape: Shape, options: LatentOptions, *, name: str, licence: str
    ) -> None:
        self.name, self.licence, self.shape = name, licence, shape
        self._vae, self._batch = vae, options.batch
        self._size = working_size(vae, shape, options.size, name)
        if options.compile:
            vae.encoder.compile()
        probe = np.zeros((1, *self._size, 3), dtype=np.uint8)
        self.latent: Shape = tuple(self._latents(probe).shape[1:])
        self.dim = math.prod(self.latent)

    @torch.no_grad()
    def _latents(self, images: Images) -> torch.Tensor:
        pixels = to_tensor(images, self._vae.device, self._vae.dtype)
        return latents_of(self._vae, pixels).float()

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d) float32."""
        require_images(images, self.shape, self.name)
        out = np.empty((len(images), self.dim), dtype=np.float32)
        for rows, part in even_parts(images, self._batch):
            pixels = resized(with_channels(part, 3), *self._size)
            try:
                with exact_kernels(deterministic=self._vae.device.type != "cpu"):
                    latents = self._latents(pixels).flatten(1)
            except torch.OutOfMemoryError as error:
                raise out_of_memory(self.name, self._batch, error) from error
            out[rows] = latents.cpu().numpy()[: len(out[rows])]
        if not np.isfinite(out).all():
            raise BackendError(f"{self.name} gave numbers that are not finite: use dtype=float32")
        return out


class AutoencoderDecoder:
    """The latents of an autoencoder to images, resized to the dataset's size and channels."""

    stochastic = False

    def __init__(
        self,
        vae: Any,
        shape: Shape,
        options: LatentOptions,
        *,
        name: str,
        licence: str,
        latent: Shape | None = None,
    ) -> None:
        self.name, self.licence, self.shape = name, licence, shape
        self._vae, self._batch = vae, options.batch
        self.latent = (
            latent or AutoencoderEncoder(vae, shape, options, name=name, licence="").latent
        )
        self.dim = math.prod(self.latent)
        if options.compile:
            vae.decoder.compile()

    @torch.no_grad()
    def decode(self, embeddings: Embeddings, *, seeds: Seeds | None = None) -> Images:
        """(n, d) float32 to (n, height, width, channels) uint8; seeds are ignored."""
        check_embeddings(embeddings, self.dim, self.name)
        out = np.empty((len(embeddings), *self.shape), dtype=np.uint8)
        for rows in index_slices(len(embeddings), self._batch):
            flat = torch.from_numpy(np.array(embeddings[rows], dtype=np.float32))
            latents = flat.reshape(-1, *self.latent).to(self._vae.device, self._vae.dtype)
            try:
                decoded = pixels_of(self._vae, latents).float().cpu().numpy()
            except torch.OutOfMemoryError as error:
                raise out_of_memory(self.name, self._batch, error) from error
            if not np.isfinite(decoded).all():
                raise BackendError(f"{self.name} gave pixels that are not finite")
            out[rows] = fit_images(to_uint8(decoded.transpose(0, 2, 3, 1)), self.shape)
        return out


def working_size(vae: Any, shape: Shape, size_option: str | None, name: str) -> tuple[int, int]:
    """(height, width) that images are given to an autoencoder in."""
    if isinstance(vae, diffusers.AutoencoderRAE):
        return (vae.encoder_input_size, vae.encoder_input_size)
    sizes = shape[:2] if size_option is None else sizes_of(size_option, "size")
    step = pixels_of_latent(vae)
    if sizes[0] % step or sizes[-1] % step:
        near = "x".join(str(max(1, round(size / step)) * step) for size in (sizes[0], sizes[-1]))
        raise BackendError(
            f"{name} works on images whose sides are multiples of {step}, found "
            f"{sizes[0]} x {sizes[-1]}; say size={near}"
        )
    return sizes[0], sizes[-1]


def pixels_of_latent(vae: Any) -> int:
    """How many pixels a side of a latent stands for."""
    levels = vae.config.get("block_out_channels") or vae.config.encoder_block_out_channels
    return int(2 ** (len(levels) - 1))


def read_autoencoder(rest: str, options: LatentOptions) -> Any:
    """The autoencoder of a folder, or of the pipeline in it."""
    kind, config = read_hub_config(rest, options.revision)
    network_class, subfolder = config.get("_class_name", ""), None
    if kind == "pipeline":
        subfolder, (_, network_class) = "vae", config.get("vae") or (None, "")
    if network_class not in AUTOENCODER_CLASSES:
        raise BackendError(
            f"hf:{rest} has no autoencoder that is known here ({network_class or 'none'} found): "
            f"it must be of {', '.join(AUTOENCODER_CLASSES)}"
        )
    source = rest if options.revision is None else f"{rest}@{options.revision}"
    return read_network(getattr(diffusers, network_class), source, options, subfolder=subfolder)


def latent_encoder(rest: str, shape: Shape, options: Mapping[str, Any]) -> AutoencoderEncoder:
    """The encoder half of an autoencoder, or of a pipeline's autoencoder; see `LatentOptions`."""
    read = read_options(options, LatentOptions, name=f"hf:{rest}")
    vae = read_autoencoder(rest, read)
    name, licence = full_name(f"hf:{rest}", read), licence_of(rest, read.revision)
    return AutoencoderEncoder(vae, shape, read, name=name, licence=licence)


def latent_decoder(
    rest: str, shape: Shape, encoder: Encoder | None, options: Mapping[str, Any]
) -> AutoencoderDecoder:
    """The decoder half of an autoencoder, or of a pipeline's autoencoder."""
    read = read_options(options, LatentOptions, name=f"hf:{rest}")
    vae = read_autoencoder(rest, read)
    name, licence = full_name(f"hf:{rest}", read), licence_of(rest, read.revision)
    latent = getattr(encoder, "latent", None)
    return AutoencoderDecoder(vae, shape, read, name=name, licence=licence, latent=latent)
