"""One encoded image to pixels: every format and mode that comes, (height, width, 1 or 3) uint8."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from understudy.core.types import Images

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp"})
"""File names that count as images."""

MAX_PIXELS = 89_478_485
"""Largest image that is decoded: a quarter of a gigabyte of RGB, Pillow's own warning level."""

MAX_BYTES = 1 << 29
"""Largest encoded image that is read into memory."""

_FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP")
_LUMA = np.array([19_595, 38_470, 7_471], dtype=np.uint32)  # of 2^16: red, green, blue
_ORIENTATION = 0x0112  # the EXIF tag
_SIXTEEN_BITS = frozenset({"I;16", "I;16L", "I;16B", "I;16N"})
_GREY = frozenset({"1", "L", "LA", "La", "I", "F"}) | _SIXTEEN_BITS

# What Pillow's readers raise on damaged bytes, as its own documentation and fuzzing show.
_DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    EOFError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)


class BadImage(Exception):
    """Why an image cannot be read; its text ends a sentence that begins with the file's name."""


@dataclass(frozen=True, slots=True)
class Header:
    """What an image's first bytes say: its size as displayed, and whether it is grey."""

    height: int
    width: int
    grey: bool


def header(data: bytes | Path) -> Header:
    """Read an image's header only; cheap.

    Raises:
        BadImage: Empty, of no known format, or larger than ``MAX_PIXELS``.
    """
    try:
        with _opened(data) as image:
            width, height = image.size
            if _turned(image):
                width, height = height, width
            return Header(height, width, image.mode in _GREY)
    except _DAMAGE as error:
        raise BadImage(_reason(error)) from error


def decode(
    data: bytes | Path, *, channels: int | None = None, size: tuple[int, int] | None = None
) -> Images:
    """Decode one image to (height, width, channels) uint8.

    EXIF orientation is applied, transparency is laid on white, 16 bits are scaled to 8, and only
    the first page or frame counts. Without ``channels``, a grey image gives 1 and any other 3.

    Args:
        data: The encoded image, or the file that holds it.
        channels: 1 or 3, to have that many.
        size: (height, width) to resize to, by Lanczos; the aspect ratio is not kept.

    Raises:
        BadImage: Not an image, damaged, cut short or too large.
    """
    try:
        with _opened(data) as image:
            turned = ImageOps.exif_transpose(image) if _orientation(image) != 1 else image
            flat = _eight_bits(turned)
            if channels is not None:
                flat = _convert(flat, "L" if channels == 1 else "RGB")
            if size is not None:
                flat = resize_images(flat, size)
            pixels = np.asarray(flat)
    except _DAMAGE as error:
        raise BadImage(_reason(error)) from error
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def resize_images(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Resize to (height, width), antialiased; the same on every machine."""
    height, width = size
    if image.size == (width, height):
        return image
    return image.resize((width, height), Image.Resampling.LANCZOS)


def resize_pixels(pixels: Images, size: tuple[int, int]) -> Images:
    """Resize (n, height, width, channels) uint8 images to (height, width), like `resize_images`."""
    if pixels.shape[1:3] == size:
        return pixels
    out = np.empty((len(pixels), *size, pixels.shape[3]), dtype=np.uint8)
    for row, image in enumerate(pixels):
        pillow_image = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        out[row] = np.asarray(resize_images(pillow_image, size)).reshape(out.shape[1:])
    return out


def converted_channels(pixels: Images, channels: int) -> Images:
    """(n, height, width, 1 or 3) uint8 with ``channels`` of them, as ``decode`` converts.

    Grey is repeated; RGB becomes its luma (ITU-R BT.601), in the whole numbers of Pillow's mode L.
    """
    if pixels.shape[3] == channels:
        return pixels
    if channels == 3:
        return np.repeat(pixels, 3, axis=3)
    luma = pixels.astype(np.uint32) @ _LUMA + (1 << 15)
    return (luma >> 16).astype(np.uint8)[..., None]


@contextmanager
def _opened(data: bytes | Path) -> Iterator[Image.Image]:
    """Pillow's lazy image; refuses what is empty or would need too much memory.

    Pillow's warnings are kept quiet: what they warn of is checked here, or fails to decode.
    """
    length = len(data) if isinstance(data, bytes) else data.stat().st_size
    if length == 0:
        raise BadImage("is empty (zero bytes)")
    if length > MAX_BYTES:
        raise BadImage(f"has {length:,} bytes; the limit is {MAX_BYTES:,}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Both are closed at once: an image is part of a reference cycle, and would otherwise keep
        # its bytes and pixels until the garbage collector comes by.
        stream = BytesIO(data) if isinstance(data, bytes) else data.open("rb")
        with stream, closing(Image.open(stream, formats=_FORMATS)) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise BadImage(
                    f"is {width} x {height}: over {MAX_PIXELS:,} pixels (decompression bomb?)"
                )
            if width == 0 or height == 0:
                raise BadImage(f"is {width} x {height}: no pixels")
            yield image


def _orientation(image: Image.Image) -> int:
    """How the picture must be turned. TIFF is turned by Pillow's own reader."""
    if image.format == "TIFF":
        return 1
    return int(image.getexif().get(_ORIENTATION, 1) or 1)


def _turned(image: Image.Image) -> bool:
    return _orientation(image) in (5, 6, 7, 8)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Mode L or RGB, without transparency."""
    mode = image.mode
    if mode in ("L", "RGB") and "transparency" not in image.info:
        image.load()
        return image
    if mode == "1":
        return image.convert("L")
    if mode in _SIXTEEN_BITS or mode == "I":
        return Image.fromarray(_scale_integers(np.asarray(image)))
    if mode == "F":
        return Image.fromarray(_scale_floats(np.asarray(image)))
    if mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        return _on_white(image)
    return image.convert("RGB")


def _convert(image: Image.Image, mode: str) -> Image.Image:
    return image if image.mode == mode else image.convert(mode)


def _on_white(image: Image.Image) -> Image.Image:
    grey = image.mode in _GREY
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, layer).convert("L" if grey else "RGB")


def _scale_integers(values: NDArray[np.integer]) -> NDArray[np.uint8]:
    """0..65535 to 0..255, rounded."""
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65_535:
        raise BadImage(
            f"holds whole numbers from {wide.min()} to {wide.max()}: save it with 8 or 16 bits"
        )
    return ((wide * 255 + 32_767) // 65_535).astype(np.uint8)


def _scale_floats(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """0..1 to 0..255, rounded. The range is fixed: an image's own range would say something of it.

    Raises:
        BadImage: A value is outside 0..1, or not a number.
    """
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):
        raise BadImage(f"holds real numbers from {low:g} to {high:g}: they must be in 0..1")
    return np.rint(values.astype(np.float64) * 255).astype(np.uint8)


def _reason(error: BaseException) -> str:
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return f"has over {MAX_PIXELS:,} pixels (decompression bomb?)"
    if isinstance(error, UnidentifiedImageError):
        return "is not a JPEG, PNG, WebP, TIFF or BMP image, or its header is damaged"
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    if isinstance(error, PermissionError):
        return "may not be read (permission denied)"
    return f"is damaged or cut short ({type(error).__name__}: {error})"
