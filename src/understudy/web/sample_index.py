"""The images of a release by class, a page at a time, without reading more than is shown."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from understudy.core.damaged_files import from_json
from understudy.core.errors import ConfigError
from understudy.core.files import read_bounded
from understudy.data.folder import CLASSES_FILE

PAGE = 60
"""Images on a page."""

_THUMBNAIL = 192  # pixels a side at most
_MOST_PIXELS = 2**26  # of a file that is made smaller
_GROUPS = 4  # row groups of Parquet in memory
_ROWS = 256  # of one that are read at a time
_GROUP_BYTES = 1 << 28  # of the images of one; those of a release have 2^24 or so
_MOST_CLASSES = 2**16  # of a release that names none


@dataclass(frozen=True, slots=True)
class SampleClass:
    """A class of a release, and how many images it has."""

    name: str
    count: int


class SampleIndex:
    """The images of a release, in PNG files or in Parquet.

    Args:
        release: Its folder; no link in it leads out of it.
    """

    def __init__(self, release: Path) -> None:
        self.release = release
        self.shards = _shards(release / "data")

    def classes(self) -> list[SampleClass]:
        """The classes in label order; one without a name where there are no labels."""
        if self.shards:
            names, labels = _labels(self.shards[0].parent, _stamp(self.shards))
            counts = np.bincount(labels, minlength=len(names)).tolist()
            return [SampleClass(*pair) for pair in zip(names, counts, strict=True)]
        return [SampleClass(name, len(_files(path))) for name, path in self._folders()]

    def thumbnail(self, label: int, number: int) -> bytes:
        """An image of a class as a PNG, by its number in the class.

        Raises:
            ConfigError: There is none.
        """
        try:
            data = self._in_shard(label, number) if self.shards else self._file(label, number)
            with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
                if image.width * image.height > _MOST_PIXELS:
                    raise ConfigError("this image is too large to be shown")
                if max(image.size) <= _THUMBNAIL:
                    return data
                image.thumbnail((_THUMBNAIL, _THUMBNAIL))
                small = io.BytesIO()
                image.save(small, "PNG")
                return small.getvalue()
        except (OSError, IndexError, ValueError, Image.DecompressionBombError):
            raise ConfigError("this release has no such image") from None

    def _folders(self) -> list[tuple[str, Path]]:
        train = self.release / "train"
        if not train.is_dir():
            return []
        try:
            content = from_json(read_bounded(self.release / CLASSES_FILE).decode())
            classes = [(str(one["name"]), str(one["folder"])) for one in content["classes"]]
        except (OSError, ValueError, LookupError, TypeError):
            return [("", train)]
        return [
            (name, train / folder)
            for name, folder in classes
            if "/" not in folder and folder not in ("", ".", "..")
        ]

    def _file(self, label: int, number: int) -> bytes:
        if min(label, number) < 0:
            raise IndexError
        folder = self._folders()[label][1]
        path = folder / _files(folder)[number]
        if not path.resolve().is_relative_to(self.release.resolve()):
            raise OSError
        return read_bounded(path)

    def _in_shard(self, label: int, number: int) -> bytes:
        if min(label, number) < 0:
            raise IndexError
        _, labels = _labels(self.shards[0].parent, _stamp(self.shards))
        row = int(np.flatnonzero(labels == label)[number])
        for shard, group, first, count in _groups(self.shards[0].parent, _stamp(self.shards)):
            if first <= row < first + count:
                return _group_images(shard, group, _stamp(self.shards))[row - first]
        raise IndexError


def _shards(folder: Path) -> list[Path]:
    return sorted(shard for shard in folder.glob("*.parquet") if shard.is_file())


def _stamp(shards: list[Path]) -> int:
    return max(shard.stat().st_mtime_ns for shard in shards)


def _files(folder: Path) -> list[str]:
    try:
        return _listed(folder, folder.stat().st_mtime_ns)
    except OSError:
        return []


@lru_cache(maxsize=64)
def _listed(folder: Path, stamp: int) -> list[str]:
    """The PNG files of a folder in order; ``stamp`` is when it was changed last."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.name.endswith(".png"))


@lru_cache(maxsize=8)
def _labels(folder: Path, stamp: int) -> tuple[list[str], NDArray[np.int64]]:
    """Class names, and the label of every row of the shards in a folder."""
    import pyarrow.parquet as pq

    shards = _shards(folder)
    schema = pq.read_schema(shards[0])
    if "label" not in schema.names:
        rows = sum(pq.read_metadata(shard).num_rows for shard in shards)
        return [""], np.zeros(rows, dtype=np.int64)
    note = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    parts = [pq.read_table(shard, columns=["label"])["label"].to_numpy() for shard in shards]
    labels = np.concatenate(parts)
    names = note.get("info", {}).get("features", {}).get("label", {}).get("names")
    most = len(names) if names else _MOST_CLASSES
    if labels.dtype.kind not in "iu" or ((labels < 0) | (labels >= most)).any():
        raise ConfigError("the labels of this release are not those of its classes")
    return names or [str(k) for k in range(int(labels.max(initial=-1)) + 1)], labels


@lru_cache(maxsize=8)
def _groups(folder: Path, stamp: int) -> list[tuple[Path, int, int, int]]:
    """Shard, number, first row and rows of every row group."""
    import pyarrow.parquet as pq

    groups, first = [], 0
    for shard in _shards(folder):
        metadata = pq.read_metadata(shard)
        for group in range(metadata.num_row_groups):
            count = metadata.row_group(group).num_rows
            groups.append((shard, group, first, count))
            first += count
    return groups


@lru_cache(maxsize=_GROUPS)
def _group_images(shard: Path, group: int, stamp: int) -> list[bytes]:
    import pyarrow.parquet as pq

    images: list[bytes] = []
    size = 0
    with pq.ParquetFile(shard, buffer_size=1 << 20, pre_buffer=False) as file:
        for batch in file.iter_batches(_ROWS, [group], ["image"], use_threads=False):
            images += [one["bytes"] for one in batch["image"].to_pylist()]
            size += batch.nbytes
            if size > _GROUP_BYTES:  # a file of kilobytes can say one image very often
                raise ConfigError("the row groups of this release are too large to be shown")
    return images
