"""NumPy's own files: ``.npy`` and ``.npz``, never with pickle."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from understudy.core.damaged_files import NO_HEADER, ZIP_DAMAGE
from understudy.core.errors import SourceError
from understudy.data.archives import safe_members
from understudy.data.encoded_images import Options
from understudy.data.labels import require_no_column
from understudy.data.names import MAX_CLASSES
from understudy.data.stored import StoredArray, stream_from
from understudy.data.stored_arrays import ArraySource, from_arrays

GENERATED = "gen/gen.npz"  # of a release as DPImageBench's tools read it
CLASS_NAMES = "classes"  # the array of class names, in label order


def open_npy(path: Path, options: Options) -> ArraySource:
    """One array without labels."""
    if options.unit is not None:
        raise SourceError(f"an npy file has no unit column {options.unit!r}: use npz", path)
    require_no_column(options.label, path, "an npy file has")
    try:
        with path.open("rb") as stream:
            dtype, shape = _header(stream, str(path), path.stat().st_size)
            start = stream.tell()
    except ZIP_DAMAGE as error:
        raise SourceError(f"is no npy file: {error}", path) from error
    values = StoredArray(str(path), dtype, shape, stream_from(path, start))
    return ArraySource(values, None, options)


def open_npz(path: Path, options: Options) -> ArraySource:
    """Named arrays: ``images``, ``x`` or ``embeddings``; ``labels``, ``label`` or ``y``; units.

    DPImageBench's ``gen.npz`` is one, ``x`` float32 (n, channels, height, width) from 0 to 1.
    ``classes``, where it is there, names what whole-number labels index into, as in a release.
    Members are read as streams, stored or compressed, and their checksums are verified on the way.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            safe_members(archive, path)
            arrays = {name.removesuffix(".npy"): _member(path, archive, name) for name in names}
            classes = _class_names(arrays.pop(CLASS_NAMES, None))
    except ZIP_DAMAGE as error:
        raise SourceError(f"is no npz file, or is damaged: {error}", path) from error
    return from_arrays(arrays, str(path), options, classes=classes, allow_empty=classes is not None)


def _class_names(array: StoredArray | None) -> tuple[str, ...] | None:
    """The names that whole-number labels index into, as a release stores them."""
    if array is None:
        return None
    if len(array.shape) != 1 or array.dtype.kind != "U" or len(array) > MAX_CLASSES:
        raise SourceError(
            f"holds {array.dtype} {array.shape}; class names are text (k,), k at most "
            f"{MAX_CLASSES:,}",
            array.location,
        )
    names = tuple(str(name) for block in array.blocks(array.block_rows) for name in block)
    if len(set(names)) < len(names) or "" in names:
        raise SourceError("has a class name twice, or an empty one", array.location)
    return names


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> StoredArray:
    location = f"{path}[{name.removesuffix('.npy')}]"
    size = archive.getinfo(name).file_size
    with archive.open(name) as stream:
        dtype, shape = _header(stream, location, size)
        header = stream.tell()

    @contextmanager
    def rows() -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(path) as again, again.open(name) as stream:
            _header(stream, location, size)
            yield stream

    first = _stored_at(path, archive.getinfo(name))
    anywhere = None if first is None else stream_from(path, first + header)
    return StoredArray(location, dtype, shape, rows, anywhere)


def _stored_at(path: Path, member: zipfile.ZipInfo) -> int | None:
    """Where a member's bytes begin in the archive; None where they are compressed."""
    if member.compress_type != zipfile.ZIP_STORED:
        return None
    with path.open("rb") as stream:
        stream.seek(member.header_offset)
        local = stream.read(30)  # its end: lengths of the name and of the extra field
    lengths: tuple[int, int] = struct.unpack("<HH", local[26:30])
    return member.header_offset + 30 + sum(lengths)


def _header(stream: IO[bytes], location: str, size: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape, of a file of so many bytes; leaves the stream at the first row."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise SourceError(f"is npy version {version}, which is not known", location)
    # Version 3 differs from 2 only in how it spells the names of record fields, refused below.
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, fortran, dtype = read(stream)
    except NO_HEADER as error:
        raise SourceError("is no npy file: its header describes none", location) from error
    if dtype.hasobject:
        raise SourceError("holds Python objects (pickle), which are never loaded", location)
    if dtype.names is not None:
        raise SourceError("holds records; save plain arrays", location)
    if len(shape) == 0:
        raise SourceError("holds a single value, not rows", location)
    if fortran and len(shape) > 1:
        raise SourceError(
            "is stored column by column (Fortran order), which cannot be read in a stream: "
            "save numpy.ascontiguousarray of it",
            location,
        )
    if min(shape) < 0 or stream.tell() + prod(shape) * dtype.itemsize != size:
        raise SourceError(
            f"declares {dtype} {shape}, {prod(shape) * dtype.itemsize:,} bytes, and holds "
            f"{size - stream.tell():,}: it was cut short, or its header is wrong",
            location,
        )
    return dtype, shape
