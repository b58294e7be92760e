"""Memory must not grow with the number of rows."""

import os
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.samples import encode, picture

from understudy.core.ports import Source
from understudy.core.types import Release, SyntheticBatch
from understudy.data import open_source, write_release
from understudy.testing.source_suite import KEY

ROWS, SIDE = 320, 96
WHOLE = ROWS * SIDE * SIDE * 3  # bytes of pixels
ROOM = WHOLE // 3


def write(folder: Path, kind: str) -> Path:
    """A dataset of ``ROWS`` noise pictures of 27 KB, which no compression shrinks."""
    path = folder / f"data.{kind}"
    if kind == "folders":
        for name in ("a", "b"):
            (path / name).mkdir(parents=True)
            for row in range(ROWS // 2):
                pixels = picture(row, SIDE, SIDE)
                (path / name / f"{row}.png").write_bytes(encode(pixels, compress_level=1))
    elif kind == "parquet":
        cells = [encode(picture(row, SIDE, SIDE), compress_level=1) for row in range(ROWS)]
        pq.write_table(pa.table({"image": cells}), path, row_group_size=10, use_dictionary=False)
    elif kind == "tar":
        source = write(folder, "folders")
        with tarfile.open(path, "w") as archive:
            for number, image in enumerate(sorted(source.rglob("*.png"))):
                archive.add(image, f"{number}.png")
    else:
        images = np.stack([picture(row, SIDE, SIDE) for row in range(ROWS)])
        if kind == "npy":
            np.save(path, images)
        else:
            (np.savez if kind == "stored.npz" else np.savez_compressed)(path, images=images)
    return path


def peak(path: Path) -> int:
    """Most memory in use at once, Python's, NumPy's and Arrow's, over all a source can do."""
    pool = pa.default_memory_pool()
    tracemalloc.start()
    most = 0

    def note(source: Source) -> Iterator[None]:
        for batch in source.batches(16):
            yield
            del batch
        for _ in source.digests(KEY):
            yield

    try:
        before = pool.bytes_allocated()
        for skip_bad in (False, True):
            for _ in note(open_source(path, skip_bad=skip_bad)):
                most = max(most, pool.bytes_allocated() - before)
        return most + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folders", "parquet", "tar", "npy", "stored.npz", "packed.npz"])
def test_reading(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.data.stored.BLOCK_BYTES", 1 << 18)
    path = write(tmp_path, kind)
    # Twice if need be: the interpreter's own table of names may happen to grow in the first.
    assert peak(path) < ROOM or peak(path) < ROOM


@pytest.mark.slow
@pytest.mark.parametrize("format", ["png", "parquet"])
def test_writing(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.data.release._ROWS", 16)

    def batches() -> Iterator[SyntheticBatch]:
        for first in range(0, ROWS, 10):
            images = np.stack([picture(row, SIDE, SIDE) for row in range(first, first + 10)])
            flat = images.reshape(10, -1)[:, :5000].astype(np.float32)
            yield SyntheticBatch(np.arange(10) % 2, flat, images)

    release = Release("fake", ("a", "b"), ROWS, batches, 5000, (SIDE, SIDE, 3))
    write_release(release, tmp_path / "first", format=format)  # type: ignore[arg-type]  # imports
    tracemalloc.start()
    try:
        write_release(release, tmp_path / "r", format=format)  # type: ignore[arg-type]
        assert tracemalloc.get_traced_memory()[1] < ROOM
    finally:
        tracemalloc.stop()
    assert sum(os.path.getsize(p) for p in (tmp_path / "r").rglob("*.*")) > WHOLE // 2
