"""Small pictures and datasets, and what every source must hold to."""

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

KEY = b"a key of the ledger, 32 bytes ..."[:32]


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


def read_all(source: Source, size: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Every row: (values, labels, units)."""
    parts = list(source.batches(size))
    units = None if parts[0].units is None else np.concatenate([p.units for p in parts])
    return (
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.labels for part in parts]),
        units,
    )


def units_of(source: Source) -> list[str]:
    """The unit of every row."""
    units = read_all(source)[2]
    assert units is not None
    return [str(unit) for unit in units]


def check_source(source: Source) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """What every source must hold to; gives its rows."""
    assert isinstance(source, Source)
    values, labels, units = read_all(source)
    assert values.shape == (len(source), *source.shape)
    assert values.dtype == (np.uint8 if source.kind == "images" else np.float32)
    assert labels.shape == (len(source),)
    assert labels.dtype == np.int64
    assert labels.min() >= 0
    assert labels.max() < len(source.classes)
    assert len(set(source.classes)) == len(source.classes)
    assert (units is not None) == source.has_units
    if units is not None:
        assert units.shape == (len(source),)
        assert units.dtype.kind == "U"
    for size in (1, 5, 1000):
        sizes = [len(batch.labels) for batch in source.batches(size)]
        assert sum(sizes) == len(source)
        assert all(n == size for n in sizes[:-1])
        again, again_labels, _ = read_all(source, size)
        np.testing.assert_array_equal(again, values)
        np.testing.assert_array_equal(again_labels, labels)
    digests = list(source.digests(KEY))
    assert len(digests) == len(source)
    assert all(len(digest) == 16 for digest in digests)
    assert list(source.digests(b"another key")) != digests
    return values, labels, units


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
