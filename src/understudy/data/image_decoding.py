"""One encoded image to pixels: every format and mode that Pillow reads, as it comes.

Gives (height, width, 1 or 3) uint8. DICOM and volumes are elsewhere (`image_files`).
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from understudy.core.errors import MissingExtra
from understudy.core.types import Images
from understudy.data.reading_options import AS_STORED, ImageFit, Reading, bytes_of

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif"})
"""File names that count as images."""

MAX_PIXELS = 89_478_485
"""Largest image that is decoded: a quarter of a gigabyte of RGB, Pillow's own warning level."""

MAX_BYTES = 1 << 29  # largest encoded image that is read into memory

_FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF")
_LUMA = np.array([19_595, 38_470, 7_471], dtype=np.uint32)  # of 2^16: red, green, blue
_ORIENTATION = 0x0112  # the EXIF tag
_BITS, _PHOTOMETRIC = 0x0102, 0x0106  # TIFF tags: of each channel; 0 where zero is white
_SIXTEEN_BITS = frozenset({"I;16", "I;16L", "I;16B", "I;16N"})
_CLIPPED = 0.95  # of the pixels of an image
_FLAT = 64  # of 255: values of an image that is of one grey nearly all over
_EQUAL_CHANNELS = 2  # of 255: WebP without colour differs by 1 between its channels
_GREY = frozenset({"1", "L", "LA", "La", "I", "F"}) | _SIXTEEN_BITS

# What Pillow's readers raise on damaged bytes, as its own documentation and fuzzing show.
_DAMAGE = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, AttributeError, OverflowError),
    *(EOFError, RuntimeError, struct.error, zlib.error),
    *(Image.DecompressionBombError, Image.DecompressionBombWarning),
)


WINDOW_WORDS = (
    ": say which are black and white with '?window=CENTRE,WIDTH' after the name of the dataset, "
    "such as '?window=32768,65536' for all of 16 bits, or '?window=2048,4096' for 12"
)
"""The end of what is said of an image of 16 bits or more (`DeepImage`)."""


class BadImage(Exception):
    """Why an image cannot be read; its text ends a sentence that begins with the file's name."""


class DeepImage(BadImage):
    """Why an image of 16 bits or more cannot be read, where nobody says which are shown."""


@dataclass(frozen=True, slots=True)
class Header:
    """What an image's first bytes say."""

    height: int  # as displayed
    width: int  # as displayed
    grey: bool  # whether it has one channel
    # where a window applies, whether it was declared (True) or is the file's own (False); None: 8
    # bits, or colour
    window: bool | None = None
    # whether text may be burnt into the pixels, as the file or its kind says
    burnt_in: bool = False
    # whether its channels are equal although it has three; False where nobody looked at its pixels
    colourless: bool = False
    # whether a window leaves hardly a pixel between black and white, or all of one grey; likewise
    clipped: bool = False
    # (centre, width) by which a DICOM file is shown, as it says itself
    own_window: tuple[float, float] | None = None


def header(data: bytes | Path, reading: Reading = AS_STORED, *, upright: bool = True) -> Header:
    """What the header of an encoded image says; cheap.

    The size is that of the upright image, for which Pillow decodes a PNG, or else as it is stored.

    Raises:
        BadImage: Empty, of no known format, larger than ``MAX_PIXELS``, of several frames or of
            16 bits where ``reading`` does not say what to do with them.
    """
    try:
        with _opened(data) as image:
            _check_frames(image, reading)
            windowed = _is_windowed(image, reading) or None
            width, height = image.size
            if upright and _orientation(image) in (5, 6, 7, 8):
                width, height = height, width
            return Header(height, width, image.mode in _GREY, windowed)
    except _DAMAGE as error:
        raise BadImage(_reason(error)) from error


def decode(
    data: bytes | Path,
    *,
    channels: int | None = None,
    size: tuple[int, int] | None = None,
    fit: ImageFit = "stretch",
    reading: Reading = AS_STORED,
    frame: int = 0,
) -> Images:
    """Decode one image to (height, width, channels) uint8.

    EXIF orientation is applied, transparency is laid on white, and a declared window brings 16 bits
    to 8. Without ``channels``, a grey image gives 1 and any other 3. ``size`` is (height, width).

    Raises:
        BadImage: Not an image, damaged, cut short or too large; or as ``header``.
    """
    try:
        with _opened(data) as image:
            _check_frames(image, reading)
            if frame:
                image.seek(frame)
            turned = ImageOps.exif_transpose(image) if _orientation(image) != 1 else image
            pixels = fitted(_eight_bits(turned, reading), channels, size, fit)
    except _DAMAGE as error:
        raise BadImage(_reason(error)) from error
    return pixels


def fitted(
    image: Image.Image, channels: int | None, size: tuple[int, int] | None, fit: ImageFit
) -> Images:
    """An image of mode L or RGB as (height, width, 1 or 3) uint8, converted and resized."""
    if channels is not None:
        mode = "L" if channels == 1 else "RGB"
        image = image if image.mode == mode else image.convert(mode)
    if size is not None:
        image = resize_images(image, size, fit)
    pixels = np.asarray(image)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def frame_count(data: bytes | Path) -> int:
    """How many frames or pages a file has."""
    try:
        with _opened(data) as image:
            return _frames(image)
    except _DAMAGE as error:
        raise BadImage(_reason(error)) from error


def resize_images(
    image: Image.Image, size: tuple[int, int], fit: ImageFit = "stretch"
) -> Image.Image:
    """Resize to (height, width), antialiased; the same on every machine.

    An image of another ratio is stretched, cropped about its middle, or padded with black.
    """
    height, width = size
    if image.size == (width, height):
        return image
    if fit == "crop":
        return ImageOps.fit(image, (width, height), Image.Resampling.LANCZOS)
    if fit == "pad":
        return ImageOps.pad(image, (width, height), Image.Resampling.LANCZOS)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def resize_pixels(pixels: Images, size: tuple[int, int], fit: ImageFit = "stretch") -> Images:
    """Resize (n, height, width, channels) uint8 images to (height, width), like `resize_images`."""
    if pixels.shape[1:3] == size:
        return pixels
    out = np.empty((len(pixels), *size, pixels.shape[3]), dtype=np.uint8)
    for row, image in enumerate(pixels):
        pillow_image = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        out[row] = np.asarray(resize_images(pillow_image, size, fit)).reshape(out.shape[1:])
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


def colourless_images(pixels: Images) -> NDArray[np.bool_]:
    """Which of (n, height, width, channels) uint8 images have three channels and no colour.

    Their channels differ by no more than the rounding of file formats.
    """
    if pixels.shape[3] != 3:
        return np.zeros(len(pixels), dtype=np.bool_)
    red, green, blue = np.moveaxis(pixels, 3, 0)
    most = np.maximum(np.maximum(red, green), blue)
    spread = most - np.minimum(np.minimum(red, green), blue)
    return np.asarray(spread.reshape(len(pixels), -1).max(axis=1) <= _EQUAL_CHANNELS)


def header_of_pixels(head: Header, pixels: Images) -> Header:
    """A header with what only the pixels of its image say."""
    ends = float(((pixels == 0) | (pixels == 255)).mean())
    flat = int(pixels.max()) - int(pixels.min()) < _FLAT
    clipped = head.window is not None and (flat or ends > _CLIPPED)
    return replace(head, colourless=bool(colourless_images(pixels[None])[0]), clipped=clipped)


def byte_stream(data: bytes | Path) -> BinaryIO:
    """The bytes of a file, or those given; a `BadImage` where there are none, or too many."""
    length = len(data) if isinstance(data, bytes) else data.stat().st_size
    if length == 0:
        raise BadImage("is empty (zero bytes)")
    if length > MAX_BYTES:
        raise BadImage(f"has {length:,} bytes; the limit is {MAX_BYTES:,}")
    return BytesIO(data) if isinstance(data, bytes) else data.open("rb")


@contextmanager
def medical_reader(kind: str) -> Iterator[None]:
    """Every failure of a reader of damaged files as a `BadImage`, without its text and warnings.

    Texts may quote what a file says of a patient.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"a {kind}", "medical") from error
    except (BadImage, MissingExtra):
        raise
    except Exception as error:  # from any depth of the reader and its codecs
        raise BadImage(f"is damaged or cut short as a {kind} ({type(error).__name__})") from None


@contextmanager
def _opened(data: bytes | Path) -> Iterator[Image.Image]:
    """Pillow's lazy image; refuses what is empty or would need too much memory.

    Pillow's warnings are kept quiet: what they warn of is checked here, or fails to decode.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Both are closed at once: an image is part of a reference cycle, and would otherwise keep
        # its bytes and pixels until the garbage collector comes by.
        with byte_stream(data) as stream, closing(Image.open(stream, formats=_FORMATS)) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise BadImage(
                    f"is {width} x {height}: over {MAX_PIXELS:,} pixels (decompression bomb?)"
                )
            if width == 0 or height == 0:
                raise BadImage(f"is {width} x {height}: no pixels")
            if _has_deep_colours(image):
                raise BadImage(
                    "has colours of 16 bits: save it with 8 bits a colour, such as with `mogrify "
                    "-depth 8`, or as grey"
                )
            yield image


def _has_deep_colours(image: Image.Image) -> bool:
    """Whether there are colours, or grey with alpha, of more than 8 bits.

    Pillow gives the high bytes alone, which are black where 12 bits are used; of some files it
    takes each byte for a pixel.
    """
    tags: Mapping[int, Any] = getattr(image, "tag_v2", {})
    bits = tags.get(_BITS, ())
    raw_modes = (str(tile.args) for tile in getattr(image, "tile", ()))
    is_colour = image.mode in ("RGB", "RGBA") and any(";16" in mode for mode in raw_modes)
    return is_colour or (len(bits) > 1 and max(bits) > 8)


def _orientation(image: Image.Image) -> int:
    """How the picture must be turned. TIFF is turned by Pillow's own reader."""
    if image.format == "TIFF":
        return 1
    return int(image.getexif().get(_ORIENTATION, 1) or 1)


def _frames(image: Image.Image) -> int:
    """Frames or pages; a phone's JPEG with a second image beside the first has one."""
    return 1 if image.format == "MPO" else int(getattr(image, "n_frames", 1))


def _check_frames(image: Image.Image, reading: Reading) -> None:
    if reading.frames is None and (count := _frames(image)) > 1:
        raise BadImage(many_frames(count))


def many_frames(count: int) -> str:
    """The fault of a file of several frames that nobody spoke of."""
    return (
        f"has {count} frames or pages: take the first of each file with '?frames=first' after the "
        "name of the dataset, or each as an image with '?frames=all'"
    )


def _is_windowed(image: Image.Image, reading: Reading) -> bool:
    """Whether a declared window applies."""
    deep = image.mode in _SIXTEEN_BITS or image.mode == "I"
    if deep and reading.window is None:
        least, most = image.getextrema()
        raise DeepImage(
            "has grey values of 16 bits or more, in this image from "
            f"{least:,} to {most:,}{WINDOW_WORDS}"
        )
    return deep or (image.mode == "F" and reading.window is not None)


def _eight_bits(image: Image.Image, reading: Reading) -> Image.Image:
    """Mode L or RGB, without transparency."""
    mode = image.mode
    if mode in ("L", "RGB") and "transparency" not in image.info:
        image.load()
        return image
    if mode == "1":
        return image.convert("L")
    if _is_windowed(image, reading) and reading.window is not None:
        values = np.asarray(image)
        if not np.isfinite(values).all():
            raise BadImage("holds values that are no numbers")
        return _positive(image, reading.window.eight_bits(values))
    if mode == "F":
        return _positive(image, _scale_floats(np.asarray(image)))
    if mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        grey = image.mode in _GREY
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("L" if grey else "RGB")
    return image.convert("RGB")


def _positive(image: Image.Image, pixels: NDArray[np.uint8]) -> Image.Image:
    """Pixels with white as 255, also of a TIFF whose zero is white: Pillow turns 8 bits only."""
    white_is_zero = getattr(image, "tag_v2", {}).get(_PHOTOMETRIC) == 0
    return Image.fromarray(255 - pixels if white_is_zero else pixels)


def _scale_floats(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """0..1 to 0..255, rounded. The range is fixed: an image's own would say something of it."""
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):
        raise BadImage(
            f"holds real numbers from {low:g} to {high:g}: they must be in 0..1, or be "
            "given black and white by '?window=CENTRE,WIDTH' after the name of the dataset"
        )
    return bytes_of(values.astype(np.float64))


def _reason(error: BaseException) -> str:
    if "out of memory" in str(error):  # Pillow's word of this machine, as an OSError
        raise MemoryError from error
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return f"has over {MAX_PIXELS:,} pixels (decompression bomb?)"
    if isinstance(error, UnidentifiedImageError):
        return (
            "is not a JPEG, PNG, WebP, TIFF, BMP or GIF image, its header is damaged, or it is a "
            "TIFF of numbers that are not read: save those in 8, 16 or 32 bits"
        )
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    if isinstance(error, PermissionError):
        return "may not be read (permission denied)"
    return f"is damaged or cut short ({type(error).__name__}: {error})"
