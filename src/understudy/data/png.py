"""Images as PNG files, a batch at a time: small ones take a tenth of the time of one by one.

Eight bits a number, grey or RGB, no metadata (PNG specification, third edition). Each line gets the
filter whose result has the least sum of absolute values, as the specification suggests (12.7), of
None, Sub and Up.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Images

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR = {1: 0, 3: 2}  # channels to colour type
_COMPRESSION = 1  # zlib's fastest; level 3 makes small grey images 1 % smaller


def png_files(images: Images) -> Iterator[bytes]:
    """The content of a PNG file for each image.

    Args:
        images: (n, height, width, channels), of 1 or 3 channels.
    """
    _, height, width, channels = images.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR[channels], 0, 0, 0)
    start, end = _SIGNATURE + _chunk(b"IHDR", head), _chunk(b"IEND", b"")
    for lines in _filtered_lines(images):
        yield start + _chunk(b"IDAT", zlib.compress(lines.tobytes(), _COMPRESSION)) + end


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def _filtered_lines(images: Images) -> NDArray[np.uint8]:
    """(n, height, 1 + width * channels): the number of its filter before each filtered line."""
    count, height, width, channels = images.shape
    plain = np.ascontiguousarray(images).reshape(count, height, width * channels)
    left, up = plain.copy(), plain.copy()
    left[:, :, channels:] -= plain[:, :, :-channels]
    up[:, 1:] -= plain[:, :-1]
    lines = np.zeros((count, height, 1 + width * channels), dtype=np.uint8)
    lines[:, :, 1:] = plain
    least = _weight(plain)
    for number, filtered in enumerate((left, up), 1):
        weight = _weight(filtered)
        better = weight < least
        lines[better, 0] = number
        lines[better, 1:] = filtered[better]
        least = np.minimum(least, weight)
    return lines


def _weight(lines: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Sums of absolute values, bytes above 127 being negative numbers."""
    return np.asarray(np.minimum(lines, 0 - lines).sum(axis=2, dtype=np.int64))
