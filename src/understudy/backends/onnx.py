"""``onnx:FILE``: an encoder or a decoder from an ONNX file, run by ONNX Runtime on the processor.

An encoder takes (n, channels, height, width) float32 RGB and gives anything with n rows; a decoder
takes what an encoder gave and makes (n, channels, height, width). A pair is two files:
``--encoder onnx:enc.onnx --decoder onnx:dec.onnx``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from understudy.backends.arrays import (
    BELOW_ONE,
    FloatArray,
    check_embeddings,
    check_side_text,
    fit_images,
    index_slices,
    require_images,
    resized,
    sizes_of,
    to_uint8,
    with_channels,
)
from understudy.backends.onnx_model import OnnxModel, OnnxOptions, scale_ends
from understudy.backends.plugin import BackendInfo, Kind, full_name, installed, read_options
from understudy.core.errors import BackendError
from understudy.core.independence import even_parts
from understudy.core.option import Option
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Embeddings, Images, Seeds, Shape

_SMALL = 64  # pixels; below this a model may have nothing left to pool
_POOLED = 128  # pixels a side, at least, for models that pool everything into one vector


@dataclass(frozen=True, slots=True)
class OnnxEncoderOptions(OnnxOptions):
    """Options of an encoder, besides those of `OnnxOptions`.

    Attributes:
        size: Pixels a side that images are resized to, ``"128"``, or ``"128x96"`` for height x
            width; by default what the model demands, else the dataset's own size, but at least 128
            a side where the output is one pooled vector, as classifiers' features are: trained on
            large pictures, they say little of small ones.
        norm_bound: Bound of the embeddings' L2 norm; longer embeddings are scaled down to it.
    """

    size: str | None = None
    norm_bound: Annotated[float | None, Option("", above=0)] = None

    def __post_init__(self) -> None:
        OnnxOptions.__post_init__(self)
        check_side_text(self.size)


@dataclass(frozen=True, slots=True)
class DecoderOptions(OnnxOptions):
    """Options of a decoder, besides those of `OnnxOptions`.

    Attributes:
        latent: Shape of one embedding as the model takes it, such as ``"32x8x8"``; by default what
            the encoder makes, else what the model demands.
    """

    latent: str | None = None

    def __post_init__(self) -> None:
        OnnxOptions.__post_init__(self)
        if self.latent is not None:
            sizes_of(self.latent, "latent")


class OnnxEncoder:
    """Images to embeddings by an ONNX model."""

    ordered = False

    def __init__(self, file: str, shape: Shape, options: OnnxEncoderOptions) -> None:
        self._model = model = OnnxModel(file, options)
        self.name = full_name(f"onnx:{file}", options)
        self.shape = shape
        self.licence = model.licence
        self.norm_bound = options.norm_bound
        self._low, self._high = scale_ends(options.scale)
        if len(model.sizes) != 3 or model.sizes[0] not in (None, 1, 3):
            raise BackendError(
                f"{model.path}: its input {model.input} must be (n, 1 or 3, height, width), "
                f"found (n, {', '.join(str(size or '?') for size in model.sizes)})"
            )
        self._channels = model.sizes[0] or shape[2]
        self._size = self._input_size(options.size)
        self.latent = self._probe()
        free = options.size is None and model.sizes[1:] == (None, None)
        if free and len(self.latent) == 1 and min(self._size) < _POOLED:
            # Larger images, if the output is pooled: as long as before.
            size, scale = self._size, _POOLED / min(self._size)
            self._size = (round(size[0] * scale), round(size[1] * scale))
            if self._probe() != self.latent:
                self._size = size
        self.dim = math.prod(self.latent)

    def _probe(self) -> Shape:
        """Shape of the output for one image."""
        probe = (self._channels, *self._size)
        if min(self._size) < _SMALL and None in self._model.sizes:
            self._model.survives(probe)
        black = np.full((min(2, self._model.batch), *probe), self._low, dtype=np.float32)
        return self._model.run(black).shape[1:]

    def _input_size(self, option: str | None) -> tuple[int, int]:
        """(height, width) that images are resized to."""
        height, width = self._model.sizes[1:]
        if option is None:
            return height or self.shape[0], width or self.shape[1]
        sizes = sizes_of(option, "size")
        size = (sizes[0], sizes[-1])
        if (height or size[0], width or size[1]) != size:
            raise BackendError(
                f"{self._model.path}: it takes images of {height or '?'} x {width or '?'} pixels "
                f"only, found size={option}; leave the option out"
            )
        return size

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d) float32."""
        require_images(images, self.shape, self.name)
        out = np.empty((len(images), self.dim), dtype=np.float32)
        for rows, part in even_parts(images, self._model.batch):
            pixels = resized(with_channels(part, self._channels), *self._size)
            unit = pixels.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
            values = unit * np.float32(self._high - self._low) + np.float32(self._low)
            latents = self._model.run(values)
            if latents.shape[1:] != self.latent:
                raise BackendError(
                    f"{self._model.path}: images of one size gave outputs of the shapes "
                    f"{self.latent} and {latents.shape[1:]}; an encoder's output has one shape"
                )
            out[rows] = latents.reshape(len(values), -1)[: len(out[rows])]
        return out if self.norm_bound is None else _clipped(out, self.norm_bound)


class OnnxDecoder:
    """Embeddings to images by an ONNX model, resized to the dataset's size and channels."""

    stochastic = False

    def __init__(
        self, file: str, shape: Shape, encoder: Encoder | None, options: DecoderOptions
    ) -> None:
        self._model = model = OnnxModel(file, options)
        self.name = full_name(f"onnx:{file}", options)
        self.shape, self.block = shape, model.batch
        self.licence = model.licence
        self._low, self._high = scale_ends(options.scale)
        self._latent = self._latent_shape(encoder, options.latent)
        self.dim = math.prod(self._latent)
        blank = np.zeros((min(2, model.batch), *self._latent), dtype=np.float32)
        output_shape = model.run(blank).shape[1:]
        if len(output_shape) != 3 or output_shape[0] not in (1, 3):
            raise BackendError(
                f"{model.path}: its output {model.output} must be (n, 1 or 3, height, width), "
                f"found (n, {', '.join(map(str, output_shape))})"
            )

    def _latent_shape(self, encoder: Encoder | None, shape: str | None) -> Shape:
        """Shape of one embedding as the model takes it."""
        model = self._model
        demanded = model.sizes
        latent: Shape
        if shape is not None:
            latent = sizes_of(shape, "latent")
        elif isinstance(encoder, OnnxEncoder) and len(encoder.latent) == len(demanded):
            latent = encoder.latent
        elif len(demanded) == 1 and encoder is not None:
            latent = (encoder.dim,)
        elif demanded and None not in demanded:
            latent = tuple(size for size in demanded if size is not None)
        else:
            raise BackendError(
                f"{model.path}: cannot tell the shape of its input {model.input}; give the encoder "
                "that belongs to it, or say ?latent=32x8x8"
            )
        fits = len(latent) == len(demanded) and all(
            want in (None, size) for want, size in zip(demanded, latent, strict=True)
        )
        if not fits:
            raise BackendError(
                f"{model.path}: its input {model.input} is "
                f"{'x'.join(str(size or '?') for size in demanded)}, which does not fit embeddings "
                f"of {'x'.join(map(str, latent))}"
            )
        return latent

    def decode(self, embeddings: Embeddings, *, seeds: Seeds | None = None) -> Images:
        """(n, d) float32 to (n, height, width, channels) uint8, clipped; seeds are ignored."""
        check_embeddings(embeddings, self.dim, self.name)
        out = np.empty((len(embeddings), *self.shape), dtype=np.uint8)
        for rows in index_slices(len(embeddings), self._model.batch):
            values = embeddings[rows].astype(np.float32, copy=False).reshape(-1, *self._latent)
            decoded = (self._model.run(values) - self._low) / (self._high - self._low)
            out[rows] = fit_images(to_uint8(decoded.transpose(0, 2, 3, 1)), self.shape)
        return out


class OnnxBackend:
    """The family ``onnx``."""

    def models(self) -> list[BackendInfo]:
        """Any file."""
        what = "an ONNX file, run by ONNX Runtime; options size, batch, threads, scale, ..."
        pair: Kind = "encoder and decoder"
        there = installed("onnxruntime")
        return [BackendInfo("onnx:FILE", pair, what, "onnx", there, "that of the file")]

    def encoder(self, rest: str, shape: Shape, **options: Any) -> Encoder:
        """The encoder in the file ``rest``; see `OnnxEncoderOptions`."""
        read = read_options(options, OnnxEncoderOptions, name=f"onnx:{rest}")
        return OnnxEncoder(rest, shape, read)

    def decoder(self, rest: str, shape: Shape, encoder: Encoder | None, **options: Any) -> Decoder:
        """The decoder in the file ``rest``; see `DecoderOptions`."""
        read = read_options(options, DecoderOptions, name=f"onnx:{rest}")
        return OnnxDecoder(rest, shape, encoder, read)


def _clipped(rows: NDArray[np.float32], bound: float) -> FloatArray:
    """Rows no longer than ``bound``, rounding of float32 included."""
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    factor = np.minimum(1.0, bound * BELOW_ONE / np.maximum(norms, np.finfo(float).tiny))
    clipped: FloatArray = (rows * factor).astype(np.float32)
    return clipped


backend = OnnxBackend()
