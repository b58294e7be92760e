"""Labelled images in one small file, from which a benchmark goes on.

A pack is an npz of encoded sheets, 256 images each, lossless WebP, with ``labels``, ``classes`` and
``shape``.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from understudy.core.errors import InputError
from understudy.metrics.labelled import Labelled

ROW = 16  # images in a row of a sheet, and rows of it


def write_pack(file: Path, data: Labelled) -> None:
    """Write labelled images."""
    arrays = {
        f"sheet_{at:04d}": np.frombuffer(_encoded(data.values[start : start + ROW**2]), "u1")
        for at, start in enumerate(range(0, len(data.values), ROW**2))
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        file,
        labels=data.labels.astype(np.uint16),
        classes=np.array(data.classes),
        shape=np.array(data.values.shape),
        **arrays,
    )


def read_pack(file: Path) -> Labelled:
    """What `write_pack` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        if not {"labels", "classes", "shape"} <= set(arrays.files):
            raise InputError(f"{file} is no pack: it holds {', '.join(arrays.files)}")
        n, height, width, channels = arrays["shape"].tolist()
        sheets = sorted(name for name in arrays.files if name.startswith("sheet_"))
        parts = [_decoded(arrays[name].tobytes(), (height, width, channels)) for name in sheets]
        labels = arrays["labels"].astype(np.int64)
        classes = tuple(arrays["classes"].tolist())
    return Labelled(np.concatenate(parts)[:n], labels, classes)


def _encoded(images: np.ndarray) -> bytes:
    """Up to 256 images as one: sixteen in a row, the rest black."""
    missing = ROW**2 - len(images)
    full = np.pad(images, ((0, missing), (0, 0), (0, 0), (0, 0)))
    _, height, width, channels = full.shape
    grid = full.reshape(ROW, ROW, height, width, channels).swapaxes(1, 2)
    pixels = grid.reshape(ROW * height, ROW * width, channels)
    stream = io.BytesIO()
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    image.save(stream, "WEBP", lossless=True, quality=60)
    return stream.getvalue()


def _decoded(data: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    """The inverse of `_encoded`: (256, height, width, channels)."""
    height, width, channels = shape
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    grid = pixels.reshape(ROW, height, ROW, width, channels).swapaxes(1, 2)
    return np.ascontiguousarray(grid.reshape(-1, height, width, channels))
