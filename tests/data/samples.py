"""Small pictures and datasets."""

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from understudy.core.ports import Source
from understudy.core.types import Release, SyntheticBatch
from understudy.testing.source_suite import read_all


def picture(seed: int, height: int = 6, width: int = 5, channels: int = 3) -> np.ndarray:
    """(height, width, channels) uint8, the same for the same seed."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def encode(pixels: np.ndarray, format: str = "PNG", **options: Any) -> bytes:
    """One image file's bytes."""
    file = BytesIO()
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    image.save(file, format, **options)
    return file.getvalue()


def claiming(archive: bytes, *, packed: int | None = None, unpacked: int | None = None) -> bytes:
    """A zip archive whose directory claims other lengths of its first member than it has."""
    content = bytearray(archive)
    entry = content.index(b"PK\1\2")
    for offset, length in ((20, packed), (24, unpacked)):
        if length is not None:
            content[entry + offset : entry + offset + 4] = length.to_bytes(4, "little")
    return bytes(content)


def class_folders(folder: Path, classes: tuple[str, ...] = ("cat", "dog"), rows: int = 3) -> Path:
    """``folder/<class>/<n>.png``, ``rows`` pictures a class, seeds counting up from 0."""
    seed = 0
    for name in classes:
        (folder / name).mkdir(parents=True)
        for row in range(rows):
            (folder / name / f"{row}.png").write_bytes(encode(picture(seed)))
            seed += 1
    return folder


def units_of(source: Source) -> list[str]:
    """The unit of every row."""
    units = read_all(source)[2]
    assert units is not None
    return [str(unit) for unit in units]


def release_of(
    labels: np.ndarray,
    classes: tuple[str, ...],
    *,
    images: np.ndarray | None = None,
    embeddings: np.ndarray | None = None,
    captions: Any = None,
    captioned: bool = False,
    count: int | None = None,
    batch: int = 4,
) -> Release:
    """What a method gives, a few rows at a time."""

    def batches() -> Iterator[SyntheticBatch]:
        for first in range(0, len(labels), batch):
            piece = slice(first, first + batch)
            parts = (
                None if part is None else part[piece] for part in (embeddings, images, captions)
            )
            yield SyntheticBatch(labels[piece], *parts)

    return Release(
        "fake",
        classes,
        len(labels) if count is None else count,
        batches,
        None if embeddings is None else embeddings.shape[1],
        None if images is None else images.shape[1:],
        captioned=captioned,
    )


def png_of_16_bits(values: np.ndarray) -> bytes:
    """(height, width, 2, 3 or 4) uint16 as a PNG, which Pillow does not write."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    head = struct.pack(">LLBBBBB", width, height, 16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">L", len(data)) + kind + data + struct.pack(">L", zlib.crc32(kind + data))
        for kind, data in chunks
    )
