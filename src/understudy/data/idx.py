"""idx files, plain or gzipped, as MNIST and its kin come: images in one, labels in another."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, cast

import numpy as np

from understudy.core.errors import SourceError
from understudy.data.encoded_images import Options
from understudy.data.labels import require_no_column
from understudy.data.stored import StoredArray
from understudy.data.stored_arrays import ArraySource

_NAME = re.compile(
    r"(?P<head>.*?)(?P<what>images|labels)[-.]idx\d[-.]ubyte(?P<gz>\.gz)?", re.IGNORECASE
)
_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_HALVES = {"train": ("train",), "test": ("t10k", "test")}


def is_idx(name: str) -> bool:
    """Whether a file name is one of an idx pair's."""
    return _NAME.fullmatch(name) is not None


def open_idx_folder(folder: Path, options: Options) -> ArraySource:
    """The half of a folder of idx files that ``split`` asks for; its only pair, if there is one."""
    heads = {
        match["head"]
        for match in (_NAME.fullmatch(path.name) for path in folder.iterdir())
        if match and match["what"].lower() == "images"
    }
    if len(heads) != 1:
        markers = _HALVES[options.split]
        available = ", ".join(f"{head}images" for head in sorted(heads)) or "no images"
        heads = {head for head in heads if any(word in head.lower() for word in markers)}
        if len(heads) != 1:
            raise SourceError(
                f"holds {available}: expected one {options.split} half, such as "
                f"{markers[0]}-images-idx3-ubyte.gz",
                folder,
            )
    return open_idx_pair(_file(folder, heads.pop(), "images"), options)


def open_idx_pair(path: Path, options: Options) -> ArraySource:
    """The images of one idx file, with the labels beside it."""
    if options.unit is not None:
        raise SourceError(f"idx files have no unit column {options.unit!r}: use npz", path)
    require_no_column(options.label, path, "idx files have")
    match = _NAME.fullmatch(path.name)
    if match is None or match["what"].lower() != "images":
        raise SourceError("is not named like ...images-idx3-ubyte or ...images-idx3-ubyte.gz", path)
    labels = _file(path.parent, match["head"], "labels")
    return ArraySource(read_idx(path), read_idx(labels), options)


def read_idx(path: Path) -> StoredArray:
    """One idx file as a stored array."""
    try:
        with _opened(path) as stream:
            magic = stream.read(4)
            if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES or not magic[3]:
                raise SourceError(f"is no idx file: it begins with {magic!r}", path)
            sizes = stream.read(4 * magic[3])
            if len(sizes) < 4 * magic[3]:
                raise SourceError("is cut short in its header", path)
    except (OSError, EOFError) as error:
        raise SourceError(f"cannot be read: {error}", path) from error
    shape = tuple(int(n) for n in np.frombuffer(sizes, dtype=">u4"))
    dtype = np.dtype(_TYPES[magic[2]])
    start = 4 + len(sizes)
    expected = start + prod(shape) * dtype.itemsize
    if path.suffix.lower() != ".gz" and path.stat().st_size != expected:
        raise SourceError(
            f"has {path.stat().st_size:,} bytes; its header promises {expected:,}", path
        )

    @contextmanager
    def rows() -> Iterator[IO[bytes]]:
        with _opened(path) as stream:
            stream.seek(start)
            yield stream

    return StoredArray(str(path), dtype, shape, rows)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        if path.suffix.lower() != ".gz":
            yield file
        else:
            with gzip.open(file) as unpacked:
                yield cast("IO[bytes]", unpacked)


def _file(folder: Path, head: str, what: str) -> Path:
    """The file of that head; the unpacked one where both are there."""
    files = {
        bool(match["gz"]): path
        for path in folder.iterdir()
        if (match := _NAME.fullmatch(path.name))
        and (match["head"], match["what"].lower()) == (head, what)
    }
    if not files:
        raise SourceError(f"there is no file {head}{what}-idx1-ubyte or .gz of it", folder)
    return files[min(files)]
