import gzip
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tests.data.samples import units_of

from understudy.core.errors import SourceError
from understudy.core.types import Batch
from understudy.data import open_source
from understudy.data.stored_arrays import regroup
from understudy.testing.source_suite import KEY, read_all, sound_rows

RNG = np.random.default_rng(4)
IMAGES = RNG.integers(0, 256, (7, 4, 5), dtype=np.uint8)
POINTS = RNG.normal(size=(7, 3)).astype(np.float32)
LABELS = np.array([3, 1, 1, 12, 3, 3, 1])


def idx(array: np.ndarray) -> bytes:
    """The bytes of an idx file of uint8."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder: Path, *, packed: bool, halves: tuple[str, ...] = ("train", "t10k")) -> Path:
    folder.mkdir()
    for half in halves:
        rows = slice(None) if half == "train" else slice(0, 4)
        for name, values in (("images-idx3", IMAGES), ("labels-idx1", LABELS.astype(np.uint8))):
            data = idx(values[rows])
            path = folder / f"{half}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(data) if packed else data)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_idx(tmp_path: Path, packed: bool) -> None:
    folder = write_idx(tmp_path / "mnist", packed=packed)
    source = open_source(folder)
    values, labels, _ = sound_rows(source)
    np.testing.assert_array_equal(values[..., 0], IMAGES)
    assert source.classes == ("1", "3", "12")
    assert labels.tolist() == [1, 0, 0, 2, 1, 1, 0]
    assert len(open_source(folder, split="test")) == 4
    first = next(folder.glob("t10k-images*"))
    assert len(open_source(first)) == 4


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["images", "labels"])
def test_idx_cut_short(tmp_path: Path, packed: bool, kind: str) -> None:
    folder = write_idx(tmp_path / "x", packed=packed)
    path = next(folder.glob(f"train-{kind}*"))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(SourceError) as caught:
        read_all(open_source(folder))
    assert caught.value.path == path


def test_idx_that_does_not_fit_together(tmp_path: Path) -> None:
    folder = write_idx(tmp_path / "x", packed=False)
    labels = folder / "train-labels-idx1-ubyte"
    labels.write_bytes(idx(LABELS.astype(np.uint8)[:3]))
    with pytest.raises(SourceError, match="beside 7 rows"):
        open_source(folder)
    (folder / "train-images-idx3-ubyte").write_bytes(b"not an idx file")
    with pytest.raises(SourceError, match="no idx file"):
        open_source(folder)
    labels.unlink()
    with pytest.raises(SourceError, match="no file train-labels"):
        open_source(folder)
    with pytest.raises(SourceError, match="no unit column"):
        open_source(folder, unit="who")


def save_npz(path: Path, *, packed: bool, **arrays: Any) -> Path:
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("names", [("images", "labels"), ("x", "y"), ("x", "label")])
def test_npz_images(tmp_path: Path, packed: bool, names: tuple[str, str]) -> None:
    path = save_npz(tmp_path / "a.npz", packed=packed, **{names[0]: IMAGES, names[1]: LABELS})
    source = open_source(path)
    values, labels, _ = sound_rows(source)
    np.testing.assert_array_equal(values[..., 0], IMAGES)
    assert labels.tolist() == [1, 0, 0, 2, 1, 1, 0]
    sound_rows(open_source(path, size=3))
    assert len(open_source(tmp_path)) == 7  # the only file of its folder


@pytest.mark.parametrize("packed", [False, True])
def test_npz_embeddings_with_units_and_words_for_labels(tmp_path: Path, packed: bool) -> None:
    path = save_npz(
        tmp_path / "a.npz",
        packed=packed,
        embeddings=POINTS.astype(">f8"),
        labels=np.array(["b", "a", "a", "ö", "b", "b", "a"])[:, None],
        patient=np.array([1, 1, 2, 2, 3, 3, 3]),
    )
    source = open_source(path, unit="patient")
    values, labels, _ = sound_rows(source)
    assert (source.kind, source.shape, source.classes) == ("embeddings", (3,), ("a", "b", "ö"))
    np.testing.assert_array_equal(values, POINTS)
    assert labels.tolist() == [1, 0, 0, 2, 1, 1, 0]
    assert units_of(source) == list("1122333")
    with pytest.raises(SourceError, match="'person'; the arrays are: embeddings, labels, patient"):
        open_source(path, unit="person")
    with pytest.raises(SourceError, match="no size"):
        open_source(path, size=3)


def test_texts_of_an_npz_may_be_bytes_and_have_spaces_about_them(tmp_path: Path) -> None:
    summer = "été".encode("latin-1")
    path = save_npz(
        tmp_path / "a.npz",
        packed=False,
        embeddings=POINTS,
        labels=np.array([summer, b"a ", b"a", summer, b"a", b"a", b"b"]),
        who=np.array([" p1", "p1", "p2", "p1", "p2", "p2", "p3"]),
    )
    source = open_source(path, unit="who")
    assert source.classes == (r"\xe9t\xe9", "a", "b")
    assert units_of(source) == ["p1", "p1", "p2", "p1", "p2", "p2", "p3"]
    assert source.lone_classes == (r"\xe9t\xe9", "b")  # each of one person


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    trap = np.array([object()], dtype=object)
    save_npz(tmp_path / "a.npz", packed=False, images=IMAGES, labels=trap.repeat(7))
    with pytest.raises(SourceError, match="never loaded"):
        open_source(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    with pytest.raises(SourceError, match="never loaded"):
        open_source(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"images": IMAGES.astype(np.float32)}, "not all from 0 to 1"),
        ({"images": IMAGES[0, 0]}, "Convert it first"),
        ({"images": RNG.integers(0, 9, (2, 5, 5, 4), dtype=np.uint8)}, "1 or 3"),
        (
            {"pictures": IMAGES},
            "called images, x or embeddings; the arrays are: pictures. Save it anew under",
        ),
        ({"images": IMAGES, "x": IMAGES}, "needs one array"),
        ({"images": IMAGES, "labels": LABELS, "y": LABELS}, "needs one of labels, label, y"),
        ({"images": IMAGES, "labels": LABELS[:5]}, "beside 7 rows"),
        ({"images": IMAGES, "labels": LABELS.astype(float)}, "not whole numbers or text"),
        ({"images": IMAGES, "labels": LABELS * 0}, "one class '0'"),
        ({"images": IMAGES, "labels": LABELS - 2}, "negative"),
        ({"images": IMAGES[:0]}, "no rows"),
        ({"embeddings": POINTS[:, :0]}, "embeddings"),
        ({"embeddings": np.asfortranarray(POINTS)}, "Fortran"),
    ],
)
def test_arrays_that_are_no_dataset(tmp_path: Path, arrays: Any, reason: str) -> None:
    path = save_npz(tmp_path / "a.npz", packed=False, **arrays)
    with pytest.raises(SourceError, match=reason):
        open_source(path)


@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_npz_is_noticed(tmp_path: Path, packed: bool) -> None:
    path = save_npz(tmp_path / "a.npz", packed=packed, images=IMAGES, labels=LABELS)
    data = bytearray(path.read_bytes())
    data[170 if not packed else 90] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(SourceError):
        read_all(open_source(path))
    path.write_bytes(data[:100])
    with pytest.raises(SourceError, match="no npz file"):
        open_source(path)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e39, 1e26])
def test_embeddings_that_are_not_finite(tmp_path: Path, wrong: float) -> None:
    points = POINTS.astype(np.float64)
    points[[1, 5], 2] = wrong
    path = save_npz(tmp_path / "a.npz", packed=False, embeddings=points, labels=LABELS)
    with pytest.raises(SourceError, match=r"row 1: is not finite"):
        read_all(open_source(path))
    source = open_source(path, skip_bad=True)
    values, labels, _ = sound_rows(source)
    assert source.skipped == 2
    np.testing.assert_array_equal(values, POINTS[[0, 2, 3, 4, 6]])
    assert labels.tolist() == [1, 0, 2, 1, 0]
    clean = save_npz(tmp_path / "b.npz", packed=True, embeddings=points[[0, 2, 3, 4, 6]])
    assert list(open_source(clean).digests(KEY)) == list(source.digests(KEY))


def test_rows_without_a_unit(tmp_path: Path) -> None:
    for missing in ("nan", "None", ""):  # as `astype(str)` writes what is missing: not one person
        who = np.array(["a", missing, "b", "b", "c", "c", "c"])
        path = save_npz(tmp_path / "a.npz", packed=False, images=IMAGES, labels=LABELS, units=who)
        with pytest.raises(SourceError, match=r"row 1.*has no unit"):
            open_source(path, unit="unit")
    source = open_source(path, unit="unit", skip_bad=True)
    sound_rows(source)
    assert units_of(source) == list("abbccc"[:1] + "bbccc")
    assert source.skipped == 1


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", POINTS)
    source = open_source(tmp_path / "a.npy")
    values, _, _ = sound_rows(source)
    np.testing.assert_array_equal(values, POINTS)
    assert source.classes == ("all",)
    data = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(data[:-4])
    with pytest.raises(SourceError, match=r"declares float32 \(7, 3\), 84 bytes, and holds 80"):
        read_all(open_source(tmp_path / "a.npy"))
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(SourceError, match="no npy file"):
        open_source(tmp_path / "a.npy")


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"embeddings": POINTS, "labels": LABELS}, path)
    source = open_source(path)
    values, labels, _ = sound_rows(source)
    np.testing.assert_array_equal(values, POINTS)
    assert source.classes == ("1", "3", "12")
    names = json.dumps([f"c{n}" for n in range(13)])
    save_file({"embeddings": POINTS, "labels": LABELS}, path, metadata={"classes": names})
    source = open_source(path)
    _, labels, _ = sound_rows(source)
    assert source.classes == tuple(f"c{n}" for n in range(13))
    assert labels.tolist() == LABELS.tolist()
    save_file({"embeddings": POINTS, "labels": LABELS}, path, metadata={"classes": '["a", "b"]'})
    with pytest.raises(SourceError, match="no index into 2 class names"):
        open_source(path)


@pytest.mark.parametrize("cut", [4, 40, -3])
def test_safetensors_cut_short(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"embeddings": POINTS, "labels": LABELS}, path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(SourceError, match="cut short"):
        open_source(path)


def test_digests_are_of_the_values_whatever_holds_them(tmp_path: Path) -> None:
    folder = write_idx(tmp_path / "one", packed=True)
    digests = list(open_source(folder).digests(KEY))
    assert len(set(digests)) == 7
    shutil.move(folder, tmp_path / "renamed")
    assert list(open_source(tmp_path / "renamed").digests(KEY)) == digests
    np.save(tmp_path / "a.npy", IMAGES)
    assert list(open_source(tmp_path / "a.npy").digests(KEY)) == digests
    for packed in (False, True):
        path = save_npz(tmp_path / "a.npz", packed=packed, x=IMAGES[::-1].copy(), y=LABELS)
        assert list(open_source(path).digests(KEY)) == digests[::-1]


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12))
def test_regrouping_keeps_rows_and_order(sizes: list[int], size: int) -> None:
    first = 0
    batches = []
    for rows in sizes:
        numbers = np.arange(first, first + rows)
        batches.append(Batch(numbers[:, None], numbers, numbers.astype(str)))
        first += rows
    again = list(regroup(iter(batches), size))
    assert all(len(batch.labels) == size for batch in again[:-1])
    assert [row for batch in again for row in batch.labels] == list(range(first))
    assert all((batch.values[:, 0] == batch.labels).all() for batch in again)
