"""Arrays at the edge of a model: checks, chunks, colour, size, and floats back to pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from understudy.core.errors import BackendError
from understudy.core.types import Embeddings, Images, Shape, Texts

FloatArray = NDArray[np.float32]

OPPONENT = np.array(
    [
        [1 / np.sqrt(3), 1 / np.sqrt(3), 1 / np.sqrt(3)],
        [1 / np.sqrt(2), 0.0, -1 / np.sqrt(2)],
        [1 / np.sqrt(6), -2 / np.sqrt(6), 1 / np.sqrt(6)],
    ]
)
"""Rows: luminance, red against blue, green against magenta. Orthonormal, so it keeps distances."""

BELOW_ONE = 1 - 2.0**-20  # times a norm's bound: rounding to float32 takes none over it

_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as Pillow's mode "L"


def require_images(images: Images, shape: Shape, name: str) -> None:
    """Refuse anything but (n, height, width, channels) uint8 of a model's shape."""
    if images.dtype != np.uint8 or images.shape[1:] != shape:
        raise BackendError(
            f"{name} was loaded for uint8 images of shape {shape}, "
            f"found {images.dtype} of shape {images.shape[1:]}"
        )


def check_embeddings(embeddings: Embeddings, dim: int, name: str) -> None:
    """Refuse anything but (n, dim) finite numbers."""
    if embeddings.ndim != 2 or embeddings.shape[1] != dim:
        raise BackendError(f"{name} takes embeddings of shape (n, {dim}), found {embeddings.shape}")
    if not np.isfinite(embeddings).all():
        raise BackendError(f"{name} was given embeddings that are not finite")


def require_any_images(images: Images, name: str) -> None:
    """Refuse anything but (n, height, width, 1 or 3) uint8."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise BackendError(
            f"{name} takes uint8 images of shape (n, height, width, 1 or 3), "
            f"found {images.dtype} of shape {images.shape}"
        )


def check_prompts(prompts: Texts, count: int | None, name: str) -> None:
    """Refuse anything but texts, as many as there are images."""
    if isinstance(prompts, str) or not all(isinstance(prompt, str) for prompt in prompts):
        raise BackendError(f"{name} takes a list of texts as prompts, found {prompts!r:.80}")
    if count is not None and len(prompts) != count:
        raise BackendError(
            f"{name} takes one prompt an image, found {len(prompts)} prompts for {count} images"
        )


def check_strength(strength: float, name: str) -> None:
    """Refuse a strength that is not between 0 and 1."""
    if not 0 <= strength <= 1:
        raise BackendError(f"{name}: strength must be between 0 and 1, found {strength}")


def class_indices(classes: Texts, all_classes: Sequence[str], name: str) -> list[int]:
    """Where some classes stand among all of a model."""
    for one in classes:
        if one not in all_classes:
            raise BackendError(f"{name} knows no class {one!r}; it knows {', '.join(all_classes)}")
    return [all_classes.index(one) for one in classes]


def index_slices(total: int, size: int) -> Iterator[slice]:
    """Slices of at most ``size`` that cover ``range(total)``, so that memory stays bounded."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def with_channels(images: Images, channels: int) -> Images:
    """(n, h, w, c) uint8 with 1 or 3 channels: grey is repeated, RGB becomes its luma (BT.601)."""
    if images.shape[3] == channels:
        return images
    if channels == 3:
        return np.repeat(images, 3, axis=3)
    luma: Images = np.rint(images.astype(np.float32) @ _GREY).astype(np.uint8)[..., None]
    return luma


def resized(images: Images, height: int, width: int) -> Images:
    """(n, height, width, c) uint8: each image resized by Pillow, bilinear and antialiased."""
    if images.shape[1:3] == (height, width):
        return images
    out = np.empty((len(images), height, width, images.shape[3]), dtype=np.uint8)
    for source, target in zip(images, out, strict=True):
        grey = source.shape[2] == 1
        image = Image.fromarray(source[..., 0] if grey else source)
        small = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
        target[...] = small[..., None] if grey else small
    return out


def fit_images(images: Images, shape: Shape) -> Images:
    """(n, height, width, c) uint8 brought to another height, width and number of channels."""
    return resized(with_channels(images, shape[2]), shape[0], shape[1])


def sizes_of(text: str, key: str) -> Shape:
    """``"64x96"`` as (64, 96); a ValueError where it is not of that form."""
    parts = text.lower().split("x")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"{key} is whole numbers with x between, like 64x96, found {text!r}")
    return tuple(int(part) for part in parts)


def check_side_text(text: str | None) -> None:
    """A ValueError for an option ``size`` that is neither a number nor height x width."""
    if text is not None and len(sizes_of(text, "size")) > 2:
        raise ValueError(f"size must be like 64 or 64x96, found {text!r}")


def to_uint8(values: NDArray[np.floating]) -> Images:
    """Values where 0 is black and 1 is white, clipped and rounded to uint8."""
    pixels: Images = np.rint(np.clip(values, 0.0, 1.0) * 255.0).astype(np.uint8)
    return pixels
