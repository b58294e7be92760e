"""``embedded:photo``: images to a small grid of latents and back; objects and persons' keypoints.

An autoencoder of eight pixels a side for each place, in the hub's format, or another one that
`understudy studio train --world photographs` made. Images whose sides are not multiples of eight
are continued by reflection at their edges, and cut again when they come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import diffusers
import numpy as np
from transformers import AutoModelForSemanticSegmentation

from understudy.backends.arrays import require_images
from understudy.backends.diffusion.autoencoders import AutoencoderDecoder, AutoencoderEncoder
from understudy.backends.diffusion.loading import read_network
from understudy.backends.diffusion.options import LatentOptions
from understudy.backends.embedded.shipped import PHOTO_WEIGHTS
from understudy.backends.hub.hub_models import HubOptions
from understudy.backends.hub.preprocessing import Preparation
from understudy.backends.hub.pretrained import licence_of
from understudy.backends.plugin import PositiveCount, full_name, read_options
from understudy.backends.vision.dense import VisionOptions
from understudy.backends.vision.pose_estimators import MapPoseEstimator
from understudy.backends.vision.segmenters import HubSegmenter
from understudy.core.errors import BackendError
from understudy.core.ports import Encoder
from understudy.core.types import Embeddings, Images, Seeds, Shape

PHOTO_NAME = "embedded:photo"
PHOTO_LICENCE = "apache-2.0 (made by Understudy from public images: see its card)"

PIXELS_A_PLACE = 8
"""Pixels a side of one place of the grid of latents, and at least of an image."""

_ENLARGED, _MOST_SHOWN = 2, 256  # times a photo's pixels a side, and at most, for the segmenter


@dataclass(frozen=True, slots=True)
class PhotoOptions(HubOptions):
    """Options of ``embedded:photo``; those of `HubOptions` besides.

    Attributes:
        folder: Another autoencoder than the one in this package.
    """

    exact: ClassVar[bool] = True

    batch: PositiveCount = 32
    folder: str | None = None


class PhotoEncoder:
    """Images of any size, grey or in colour, to latents."""

    ordered = False
    norm_bound: float | None = None

    def __init__(self, shape: Shape, options: PhotoOptions) -> None:
        self.name, self.shape = full_name(PHOTO_NAME, options), shape
        self._margins = reflected_margins(shape, self.name)
        self.folder = options.folder
        vae, latent_options, self.licence = opened(options)
        self._inner = AutoencoderEncoder(
            vae, enlarged(shape), latent_options, name=self.name, licence=self.licence
        )
        self.latent, self.dim = self._inner.latent, self._inner.dim

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d) float32."""
        require_images(images, self.shape, self.name)
        return self._inner.encode(np.pad(images, ((0, 0), *self._margins, (0, 0)), mode="reflect"))


class PhotoDecoder:
    """Latents to images of the size that was encoded."""

    stochastic = False

    def __init__(self, shape: Shape, options: PhotoOptions) -> None:
        self.name, self.shape, self.options = full_name(PHOTO_NAME, options), shape, options
        (self._top, _), (self._left, _) = reflected_margins(shape, self.name)
        vae, latent_options, self.licence = opened(options)
        self._inner = AutoencoderDecoder(
            vae, enlarged(shape), latent_options, name=self.name, licence=self.licence
        )
        self.latent, self.dim = self._inner.latent, self._inner.dim
        self.block = 0 if options.compile or vae.device.type != "cpu" else options.batch

    def decode(self, embeddings: Embeddings, *, seeds: Seeds | None = None) -> Images:
        """(n, d) float32 to (n, height, width, channels) uint8; seeds are ignored."""
        height, width, _ = self.shape
        images = self._inner.decode(embeddings)
        down, across = slice(self._top, self._top + height), slice(self._left, self._left + width)
        return np.ascontiguousarray(images[:, down, across])


def opened(options: PhotoOptions) -> tuple[Any, LatentOptions, str]:
    """The autoencoder, how it is run, and the licence of its weights."""
    folder = PHOTO_WEIGHTS if options.folder is None else Path(options.folder)
    if not (folder / "config.json").is_file():
        raise BackendError(
            f"{folder} holds no autoencoder: it has no config.json. "
            "`understudy studio train --world photographs --images FOLDER --out OUT` makes one, "
            "in OUT/vae"
        )
    vae = read_network(diffusers.AutoencoderDC, str(folder), options)
    latent_options = LatentOptions(
        device=options.device, dtype=options.dtype, batch=options.batch, compile=options.compile
    )
    licence = PHOTO_LICENCE if options.folder is None else licence_of(options.folder)
    return vae, latent_options, licence


def enlarged(shape: Shape) -> Shape:
    """(height, width, channels) with sides up to the next multiple of eight."""
    height, width = (-(-side // PIXELS_A_PLACE) * PIXELS_A_PLACE for side in shape[:2])
    return height, width, shape[2]


def reflected_margins(shape: Shape, name: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Pixels added above and below, and left and right."""
    if min(shape[:2]) < PIXELS_A_PLACE:
        raise BackendError(
            f"{name} takes images of {PIXELS_A_PLACE} pixels a side or more, found {shape[0]} x "
            f"{shape[1]}; embedded:dct takes any"
        )
    height, width = (
        ((large - side) // 2, (large - side + 1) // 2)
        for side, large in zip(shape[:2], enlarged(shape), strict=False)
    )
    return height, width


def photo_encoder(shape: Shape, options: Mapping[str, Any]) -> PhotoEncoder:
    """The encoder half; ``options`` as in a model's name."""
    return PhotoEncoder(shape, read_options(options, PhotoOptions, name=PHOTO_NAME))


def photo_decoder(
    shape: Shape, encoder: Encoder | None, options: Mapping[str, Any]
) -> PhotoDecoder:
    """The decoder half, of the encoder's folder unless options say another."""
    inherited: dict[str, Any] = {}
    if encoder is not None:
        if not isinstance(encoder, PhotoEncoder):
            raise BackendError(
                f"{PHOTO_NAME} decodes its own embeddings only, found those of {encoder.name}"
            )
        inherited["folder"] = encoder.folder
    read = read_options({**inherited, **options}, PhotoOptions, name=PHOTO_NAME)
    return PhotoDecoder(shape, read)


@dataclass(frozen=True, slots=True)
class SegmenterOptions(VisionOptions):
    """Options of ``embedded:photo`` as a segmenter; those of `VisionOptions` besides.

    Attributes:
        folder: Another one of `understudy studio segmenter` than that in this package.
    """

    folder: str | None = None


class PhotoSegmenter(HubSegmenter):
    """Everyday objects in photos, as `understudy studio segmenter` learnt to find them.

    A small photo is shown enlarged, unless the options have a size: what was learnt from are
    objects that fill a photo. At twice its size persons of COCO's photos were found best.
    """

    def __init__(self, options: SegmenterOptions) -> None:
        folder = options.folder or str(PHOTO_WEIGHTS / "segmenter")
        super().__init__(folder, options, AutoModelForSemanticSegmentation)
        self.name = full_name(PHOTO_NAME, options)
        if options.folder is None:
            self.licence = PHOTO_LICENCE

    def _preparation_of(self, images: Images) -> Preparation:
        side = min(_ENLARGED * min(images.shape[1:3]), _MOST_SHOWN)
        return self._preparation.with_size(self._options.size or side)


def photo_segmenter(options: Mapping[str, Any]) -> PhotoSegmenter:
    """The segmenter; ``options`` are `SegmenterOptions`."""
    return PhotoSegmenter(read_options(options, SegmenterOptions, name=PHOTO_NAME))


def photo_pose_estimator(options: Mapping[str, Any]) -> MapPoseEstimator:
    """The keypoints of one person, as `understudy studio pose` learnt them; `VisionOptions`."""
    read = read_options(options, VisionOptions, name=PHOTO_NAME)
    model = MapPoseEstimator(str(PHOTO_WEIGHTS / "pose"), read)
    model.name, model.licence = full_name(PHOTO_NAME, read), PHOTO_LICENCE
    return model
