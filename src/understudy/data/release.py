"""Write a release: synthetic images and embeddings, in a stream, all or nothing.

    train/<class>/000001.png            load_dataset("imagefolder", data_dir=FOLDER)
    data/train-00000-of-00001.parquet   or load_dataset("parquet", data_dir=FOLDER)
    gen/gen.npz                         or as DPImageBench reads it: x, y; and class names
    classes.json                        class names in label order, and the folder of each
    embeddings.safetensors              where the method made any
    captions.csv                        path,caption, where it kept any (Parquet: columns)

An image's number is its row in the release, so it is also the row of its embedding.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any, Protocol, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib import format as npy
from numpy.typing import NDArray
from PIL import Image

from understudy.core.entry_points import failure_of_others
from understudy.core.errors import ConfigError, RunError
from understudy.core.files import ReleaseFormat, files_below, whole_folder
from understudy.core.types import Images, Release, Shape, SyntheticBatch
from understudy.data.captions import CAPTION, CAPTIONS_FILE, LICENCE, CaptionsWriter, check_captions
from understudy.data.folder import CLASSES_FILE
from understudy.data.names import UNLABELLED_NAME, safe_names
from understudy.data.npz import CLASS_NAMES, GENERATED
from understudy.data.parquet import RELEASE_KEY
from understudy.data.tensors import CLASSES_KEY

ReleaseProgress = Callable[[int], None]  # called with the number of rows just written

_ROWS = 1024  # at most, handed to a writer at a time, however many a method makes at once
_ROWS_BYTES = 1 << 24  # of pixels, at most, in a Parquet row group, so that readers can stream


class _Writer(Protocol):
    def write(self, first: int, batch: SyntheticBatch) -> None:
        """Write rows ``first`` and on."""


def write_release(
    release: Release,
    folder: Path,
    *,
    format: ReleaseFormat = "png",
    progress: ReleaseProgress | None = None,
    sums: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Write a release to a new folder; nobody ever sees half of one.

    It is written to a hidden folder beside it, which takes the name at the end. Files carry no
    metadata, and rows are in the release's own order. Some rows are written, in a thread, while the
    next ones are drawn.

    Args:
        release: What a method made.
        folder: Must not exist, or be empty.
        format: Of the images; embeddings are always safetensors. An npz has no place for captions.
        progress: Called with the number of rows just written.
        sums: Receives the SHA-256 of each PNG file by its path.

    Returns:
        ``format`` (None without images), ``rows``, ``rows_per_class``, ``class_folders`` (class
        name to folder; empty unless PNG), ``files``, ``bytes``; and where any ``captions`` are.

    Raises:
        ConfigError: An unknown format.
        RunError: The folder is taken or cannot be written; or the release is not what it says of
            itself.
    """
    if format not in get_args(ReleaseFormat):
        raise ConfigError(f"a release is written as 'png', 'parquet' or 'npz', not {format!r}")
    if release.image_shape is None and release.dim is None:
        raise RunError("the release has neither images nor embeddings")
    if release.licence is not None and not release.captioned:
        raise RunError("the release states a licence of its images, which stands beside captions")
    if release.captioned and release.image_shape is None:
        raise RunError("the release has captions and no images that they could be of")
    folder = Path(folder)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder} is taken: choose another, or remove it")
        with whole_folder(folder) as partial:
            sums = {} if sums is None else sums
            facts = _write(release, partial, format, progress or (lambda rows: None), sums)
    except OSError as error:
        if failure_of_others(error):  # a decoder's, not the disk's
            raise
        raise RunError(f"{folder} cannot be written: {error}") from error
    return facts


def _write(
    release: Release,
    folder: Path,
    format: ReleaseFormat,
    progress: ReleaseProgress,
    sums: dict[str, str],
) -> dict[str, Any]:
    # One class is no class: such a release is a flat folder, which every reader takes for one.
    labelled = len(release.classes) > 1
    folders = safe_names(release.classes) if labelled and format == "png" else []
    counts = np.zeros(max(len(release.classes), 1), dtype=np.int64)
    with ExitStack() as stack:
        writers: list[_Writer] = []
        if release.image_shape is not None and format == "png":
            png_writer = _PngWriter(release, folder, folders, sums)
            writers.append(png_writer)
            if release.captioned:
                captions_file = CaptionsWriter(folder, png_writer.path, release.licence)
                writers.append(stack.enter_context(captions_file))
        elif release.image_shape is not None and format == "npz":
            writers.append(stack.enter_context(_NpzWriter(release, release.image_shape, folder)))
        elif release.image_shape is not None:
            writers.append(stack.enter_context(_ParquetWriter(release, folder / "data")))
        if release.dim is not None:
            writers.append(stack.enter_context(_EmbeddingWriter(release, folder)))
        # Entered last, so that its last rows are written before a file is closed.
        thread = stack.enter_context(ThreadPoolExecutor(1))
        for labels in _written(release, writers, thread):
            counts += np.bincount(labels, minlength=len(counts))
            progress(len(labels))
    if folders and release.image_shape is not None:
        rows = [{"name": n, "folder": f} for n, f in zip(release.classes, folders, strict=True)]
        text = json.dumps({"classes": rows}, ensure_ascii=False, indent=1)
        (folder / CLASSES_FILE).write_text(text, encoding="utf-8")
    names = files_below(folder)
    others = sum(os.stat(f"{folder}/{name}").st_size for name in names if name not in sums)
    captions = CAPTIONS_FILE if format == "png" else f"column {CAPTION}"
    return {
        "format": None if release.image_shape is None else format,
        "rows": release.count,
        "rows_per_class": dict(zip(release.classes or ("all",), counts.tolist(), strict=True)),
        "class_folders": dict(zip(release.classes, folders, strict=True)) if folders else {},
        "files": len(names),
        "bytes": others + sum(writer.bytes for writer in writers if isinstance(writer, _PngWriter)),
        **({"captions": captions} if release.captioned and format != "npz" else {}),
    }


def _written(
    release: Release, writers: Sequence[_Writer], thread: Executor
) -> Iterator[NDArray[np.int64]]:
    """The labels of rows that were written; each block is, while the next one is drawn."""
    block: Future[NDArray[np.int64]] | None = None
    for first, batch in _rows(release):
        if block is not None:
            yield block.result()
        block = thread.submit(_write_rows, writers, first, batch)
    if block is not None:
        yield block.result()


def _write_rows(writers: Sequence[_Writer], first: int, batch: SyntheticBatch) -> NDArray[np.int64]:
    for writer in writers:
        writer.write(first, batch)
    return batch.labels


def _rows(release: Release) -> Iterator[tuple[int, SyntheticBatch]]:
    """The release's rows in small pieces, checked against what the release says of itself."""
    step = max(1, min(_ROWS, _ROWS_BYTES // max(prod(release.image_shape or ()), 1)))
    first = 0
    for batch in release.batches():
        _check(release, batch)
        if first + len(batch.labels) > release.count:
            raise RunError(f"the release yields more rows than the {release.count} it promises")
        for start in range(0, len(batch.labels), step):
            piece = slice(start, start + step)
            yield (
                first + start,
                SyntheticBatch(
                    batch.labels[piece],
                    None if batch.embeddings is None else batch.embeddings[piece],
                    None if batch.images is None else batch.images[piece],
                    None if batch.captions is None else batch.captions[piece],
                ),
            )
        first += len(batch.labels)
    if first != release.count:
        raise RunError(f"the release yields {first} rows; it promises {release.count}")


def _check(release: Release, batch: SyntheticBatch) -> None:
    rows = len(batch.labels)
    classes = max(len(release.classes), 1)
    if rows and not (batch.labels.min() >= 0 and batch.labels.max() < classes):
        raise RunError(f"a label of the release is no index into its {classes} classes")
    dim = None if release.dim is None else (release.dim,)
    parts: tuple[tuple[str, NDArray[Any] | None, tuple[int, ...] | None, type], ...] = (
        ("images", batch.images, release.image_shape, np.uint8),
        ("embeddings", batch.embeddings, dim, np.float32),
    )
    for name, values, shape, dtype in parts:
        if shape is None:
            continue
        if values is None or values.shape != (rows, *shape) or values.dtype != dtype:
            description = "none" if values is None else f"{values.dtype} {values.shape}"
            raise RunError(
                f"{name} of the release: expected {dtype.__name__} {(rows, *shape)}, "
                f"got {description}"
            )
        if not np.isfinite(values).all():
            raise RunError(f"{name} of the release hold NaN or infinite numbers")
    if release.captioned:
        check_captions(batch.captions, rows)


def png_files(images: Images) -> Iterator[bytes]:
    """The content of a PNG file without metadata for each image; zlib's fastest level."""
    for image in images:
        file = BytesIO()
        pixels = image[:, :, 0] if image.shape[2] == 1 else image
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
        yield file.getvalue()


class _PngWriter:
    """A file for each row, hashed before it is written; ``bytes`` counts those of all files."""

    def __init__(
        self, release: Release, folder: Path, class_folders: list[str], sums: dict[str, str]
    ) -> None:
        self._folder, self._sums = folder, sums
        self._places = [f"train/{name}" for name in class_folders] or ["train"]
        self._width = max(6, len(str(release.count)))
        self._folders_created: set[str] = set()
        self.bytes = 0
        (folder / "train").mkdir()

    def write(self, first: int, batch: SyntheticBatch) -> None:
        """One file a row, numbered by its row in the release."""
        if batch.images is None:
            return
        labels = batch.labels.tolist()
        for place in {self._places[label] for label in labels} - self._folders_created:
            (self._folder / place).mkdir(exist_ok=True)
            self._folders_created.add(place)
        contents = zip(labels, png_files(batch.images), strict=True)
        for row, (label, content) in enumerate(contents, first):
            name = self._name(row, label)
            self._sums[name] = hashlib.sha256(content).hexdigest()
            self.bytes += len(content)
            with open(f"{self._folder}/{name}", "xb", buffering=0) as file:
                if file.write(content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    def path(self, row: int, label: int) -> Path:
        """Where an image is written."""
        return self._folder / self._name(row, label)

    def _name(self, row: int, label: int) -> str:
        return f"{self._places[label]}/{row:0{self._width}d}.png"


class _ParquetWriter:
    """``data/train-00000-of-00001.parquet``, a row group a piece."""

    def __init__(self, release: Release, folder: Path) -> None:
        self._labelled, self._licence = len(release.classes) > 1, release.licence
        texts = [CAPTION] * release.captioned + [LICENCE] * (release.licence is not None)
        self._schema = _schema(release.classes if self._labelled else (), texts)
        self._path = folder / "train-00000-of-00001.parquet"
        folder.mkdir(parents=True)

    def __enter__(self) -> _ParquetWriter:
        # PNG bytes do not compress again, and no two are alike.
        self._file = pq.ParquetWriter(
            self._path, self._schema, compression="none", use_dictionary=False
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, first: int, batch: SyntheticBatch) -> None:
        """Append rows."""
        if batch.images is None:
            return
        encoded = [{"bytes": content, "path": None} for content in png_files(batch.images)]
        columns: dict[str, Any] = {"image": encoded}
        if self._labelled:
            columns["label"] = batch.labels
        if batch.captions is not None and CAPTION in self._schema.names:
            columns[CAPTION] = list(batch.captions)
        if self._licence is not None:
            columns[LICENCE] = [self._licence] * len(encoded)
        self._file.write_table(pa.Table.from_pydict(columns, schema=self._schema))


def _schema(classes: tuple[str, ...], texts: Sequence[str]) -> pa.Schema:
    """The columns, with what ``datasets`` needs to see images and class names in them."""
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    fields = [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())]))]
    if classes:
        features["label"] = {"names": list(classes), "_type": "ClassLabel"}
        fields.append(("label", pa.int64()))
    for name in texts:
        features[name] = {"dtype": "string", "_type": "Value"}
        fields.append((name, pa.string()))
    note = json.dumps({"info": {"features": features}})
    return pa.schema(fields, metadata={"huggingface": note, RELEASE_KEY: b"release"})


class _NpzWriter:
    """``gen/gen.npz``, one member after the other: the images, from 0 to 1 and channels first.

    The images are compressed as they come; labels and class names follow.
    """

    def __init__(self, release: Release, shape: Shape, folder: Path) -> None:
        height, width, channels = shape
        self._shape = (release.count, channels, height, width)
        self._classes = np.array(release.classes or UNLABELLED_NAME, dtype=np.str_)
        self._labels: list[NDArray[np.int64]] = []
        self._path = folder / GENERATED
        self._path.parent.mkdir()

    def __enter__(self) -> _NpzWriter:
        self._file = zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        self._member = self._open("x")
        header = {"descr": "<f4", "fortran_order": False, "shape": self._shape}
        npy.write_array_header_1_0(self._member, header)
        return self

    def __exit__(self, *error: object) -> None:
        self._member.close()
        if error == (None, None, None):
            labels = np.concatenate([np.zeros(0, np.int64), *self._labels])
            for name, array in (("y", labels), (CLASS_NAMES, self._classes)):
                with self._open(name) as member:
                    npy.write_array(member, array, allow_pickle=False)
        self._file.close()

    def write(self, first: int, batch: SyntheticBatch) -> None:
        """Append rows."""
        if batch.images is None:
            return
        pixels = np.moveaxis(batch.images, 3, 1).astype("<f4") / np.float32(255)
        self._member.write(np.ascontiguousarray(pixels).tobytes())
        self._labels.append(batch.labels)

    def _open(self, name: str) -> IO[bytes]:
        # Of no date, as every other file of a release is.
        entry = zipfile.ZipInfo(f"{name}.npy")
        entry.compress_type = zipfile.ZIP_DEFLATED
        return self._file.open(entry, "w", force_zip64=True)


class _EmbeddingWriter:
    """``embeddings.safetensors``, its two tensors written side by side as the rows come."""

    def __init__(self, release: Release, folder: Path) -> None:
        n, dim = release.count, release.dim or 0
        # Labels first, so that both begin at a multiple of 8 bytes.
        header = {
            "__metadata__": {CLASSES_KEY: json.dumps(list(release.classes), ensure_ascii=False)},
            "labels": {"dtype": "I64", "shape": [n], "data_offsets": [0, 8 * n]},
            "embeddings": {
                "dtype": "F32",
                "shape": [n, dim],
                "data_offsets": [8 * n, 8 * n + 4 * n * dim],
            },
        }
        text = json.dumps(header).encode("utf-8")
        text += b" " * (-len(text) % 8)
        self._head = struct.pack("<Q", len(text)) + text
        self._n, self._dim = n, dim
        self._path = folder / "embeddings.safetensors"

    def __enter__(self) -> _EmbeddingWriter:
        self._labels, self._embeddings = self._path.open("wb"), self._path.open("r+b")
        self._labels.write(self._head)
        self._labels.flush()
        self._embeddings.seek(len(self._head) + 8 * self._n)
        return self

    def __exit__(self, *error: object) -> None:
        self._labels.close()
        self._embeddings.close()

    def write(self, first: int, batch: SyntheticBatch) -> None:
        """Append to each tensor."""
        if batch.embeddings is None:
            return
        self._labels.write(batch.labels.astype("<i8").tobytes())
        self._embeddings.write(np.ascontiguousarray(batch.embeddings, dtype="<f4").tobytes())
