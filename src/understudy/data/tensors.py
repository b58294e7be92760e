"""safetensors files: the embeddings of a release, or anybody's, read in a stream."""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.damaged_files import from_json
from understudy.core.errors import SourceError
from understudy.data.encoded_images import Options
from understudy.data.stored import StoredArray, stream_from
from understudy.data.stored_arrays import ArraySource, from_arrays

CLASSES_KEY = "classes"  # where a release keeps its class names in the metadata: a JSON list

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
}
_LONGEST_HEADER = 100_000_000  # the format's own limit


def open_safetensors(path: Path, options: Options) -> ArraySource:
    """Tensors by the names of ``from_arrays``; class names from a release's metadata."""
    header, start = _header(path)
    classes = _classes(path, header.pop("__metadata__", {}))
    arrays = {name: _array(path, name, entry, start) for name, entry in header.items()}
    return from_arrays(arrays, str(path), options, classes=classes, allow_empty=classes is not None)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    try:
        with path.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > _LONGEST_HEADER:
                raise SourceError(f"is no safetensors file: its header has {length:,} bytes", path)
            header = from_json(stream.read(length))
    except (OSError, struct.error, ValueError) as error:
        raise SourceError(f"is no safetensors file, or is cut short: {error}", path) from error
    if not isinstance(header, dict):
        raise SourceError("is no safetensors file: its header is no object", path)
    return header, 8 + length


def _array(path: Path, name: str, entry: Any, start: int) -> StoredArray:
    location = f"{path}[{name}]"
    try:
        shape = tuple(int(n) for n in entry["shape"])
        first, last = (int(n) for n in entry["data_offsets"])
        stored = str(entry["dtype"])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceError(f"has a damaged header ({type(error).__name__})", location) from error
    if stored not in _DTYPES:
        raise SourceError(f"holds {stored}; known are {', '.join(_DTYPES)}", location)
    dtype = np.dtype(_DTYPES[stored])
    if not shape or min(shape) < 0 or last - first != prod(shape) * dtype.itemsize:
        raise SourceError(f"of shape {shape} cannot have {last - first:,} bytes", location)
    if first < 0 or start + last > path.stat().st_size:
        raise SourceError("is cut short: the file ends inside it", location)
    return StoredArray(location, dtype, shape, stream_from(path, start + first))


def _classes(path: Path, metadata: Any) -> tuple[str, ...] | None:
    if not isinstance(metadata, dict) or CLASSES_KEY not in metadata:
        return None
    try:
        names = from_json(metadata[CLASSES_KEY])
    except (TypeError, ValueError) as error:
        raise SourceError(f"metadata {CLASSES_KEY!r} is not JSON: {error}", path) from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SourceError(f"metadata {CLASSES_KEY!r} is no list of names", path)
    if len(set(names)) < len(names):
        raise SourceError(f"metadata {CLASSES_KEY!r} has a name twice", path)
    return tuple(names)
