import hashlib
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import load_file
from tests.data.samples import class_folders, picture, release_of

from understudy.core.errors import ConfigError, RunError
from understudy.core.types import Release
from understudy.data import open_source, write_release
from understudy.data import release as release_module
from understudy.testing.source_suite import sound_rows

CLASSES = ("T-shirt/top", "test", "t-shirt_TOP", "10")
LABELS = np.array([2, 0, 1, 1, 0, 2, 2, 3, 0], np.int64)
EMBEDDINGS = np.random.default_rng(3).normal(size=(9, 5)).astype(np.float32)


def pictures(channels: int) -> np.ndarray:
    return np.stack([picture(row, channels=channels) for row in range(9)])


def make(
    *, classes: tuple[str, ...] = CLASSES, labels: np.ndarray = LABELS, **more: Any
) -> Release:
    return release_of(labels, classes, **more)


def by_class(images: np.ndarray, labels: np.ndarray) -> dict[int, np.ndarray]:
    return {int(label): images[labels == label] for label in np.unique(labels)}


@pytest.mark.parametrize("format", ["png", "parquet", "npz"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_release_comes_back(tmp_path: Path, format: Any, channels: int) -> None:
    images = pictures(channels)
    facts = write_release(make(images=images), tmp_path / "OUT" / "release", format=format)
    for name in ("OUT", "OUT/release"):
        source = open_source(tmp_path / name)
        values, labels, _ = sound_rows(source)
        assert source.classes == CLASSES
        assert source.shape == images.shape[1:]
        expected = by_class(images, LABELS)
        found = by_class(values, labels)
        for label in expected:
            np.testing.assert_array_equal(found[label], expected[label])
    assert facts["rows"] == 9
    assert facts["format"] == format
    assert facts["rows_per_class"] == dict(zip(CLASSES, [3, 2, 3, 1], strict=True))
    files = [path for path in (tmp_path / "OUT").rglob("*") if path.is_file()]
    assert facts["files"] == len(files)
    assert facts["bytes"] == sum(path.stat().st_size for path in files)


def test_class_folders_have_safe_and_distinct_names(tmp_path: Path) -> None:
    facts = write_release(make(images=pictures(1)), tmp_path / "r")
    folders = facts["class_folders"]
    assert folders == {
        "T-shirt/top": "T-shirt_top",
        "test": "test~",
        "t-shirt_TOP": "t-shirt_TOP-2",
        "10": "10",
    }
    assert sorted(os.listdir(tmp_path / "r" / "train")) == sorted(folders.values())
    # An image's number is its row in the release.
    assert os.listdir(tmp_path / "r" / "train" / "10") == ["000007.png"]


def test_embeddings_are_rows_of_the_same_release(tmp_path: Path) -> None:
    images = pictures(3)
    write_release(make(images=images, embeddings=EMBEDDINGS), tmp_path / "r")
    path = tmp_path / "r" / "embeddings.safetensors"
    tensors = load_file(path)
    np.testing.assert_array_equal(tensors["embeddings"], EMBEDDINGS)
    np.testing.assert_array_equal(tensors["labels"], LABELS)
    assert tensors["embeddings"].dtype == np.float32
    with safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["classes"]) == list(CLASSES)
    source = open_source(path)
    values, labels, _ = sound_rows(source)
    np.testing.assert_array_equal(values, EMBEDDINGS)
    np.testing.assert_array_equal(labels, LABELS)
    assert source.classes == CLASSES
    assert open_source(tmp_path / "r").kind == "images"


@pytest.mark.parametrize("classes", [(), ("all",)])
def test_embeddings_without_labels(tmp_path: Path, classes: tuple[str, ...]) -> None:
    release = make(classes=classes, labels=LABELS * 0, embeddings=EMBEDDINGS)
    write_release(release, tmp_path / "r")
    source = open_source(tmp_path / "r")
    sound_rows(source)
    assert source.classes == ("all",)


def test_embeddings_alone(tmp_path: Path) -> None:
    facts = write_release(make(embeddings=EMBEDDINGS), tmp_path / "r")
    assert facts["format"] is None
    assert os.listdir(tmp_path / "r") == ["embeddings.safetensors"]
    sound_rows(open_source(tmp_path / "r"))


@pytest.mark.parametrize("format", ["png", "parquet", "npz"])
@pytest.mark.parametrize("classes", [(), ("all",)])
def test_without_labels(tmp_path: Path, format: Any, classes: tuple[str, ...]) -> None:
    images = pictures(3)
    release = make(classes=classes, labels=LABELS * 0, images=images, embeddings=EMBEDDINGS)
    facts = write_release(release, tmp_path / "r", format=format)
    assert facts["rows_per_class"] == {"all": 9}
    source = open_source(tmp_path / "r")
    values, _, _ = sound_rows(source)
    assert source.classes == ("all",)
    np.testing.assert_array_equal(values, images)


@pytest.mark.parametrize("format", ["png", "parquet", "npz"])
def test_a_class_may_stay_empty(tmp_path: Path, format: Any) -> None:
    labels = np.where(LABELS == 1, 0, LABELS)
    release = make(labels=labels, images=pictures(1), embeddings=EMBEDDINGS)
    facts = write_release(release, tmp_path / "r", format=format)
    assert facts["rows_per_class"]["test"] == 0
    for name in ("r", "r/embeddings.safetensors"):
        source = open_source(tmp_path / name)
        _, again, _ = sound_rows(source)
        assert source.classes == CLASSES
        assert sorted(again) == sorted(labels)


def test_large_batches_are_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.data.release._ROWS", 2)
    done: list[int] = []
    release = make(images=pictures(1), embeddings=EMBEDDINGS, batch=9)
    write_release(release, tmp_path / "r", progress=done.append)
    assert done == [2, 2, 2, 2, 1]
    np.testing.assert_array_equal(
        load_file(tmp_path / "r" / "embeddings.safetensors")["embeddings"], EMBEDDINGS
    )


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        (make(images=pictures(1), count=10), "yields 9 rows; it promises 10"),
        (make(images=pictures(1), count=8), "more rows than the 8"),
        (make(images=pictures(1), labels=LABELS + 1), "no index into its 4 classes"),
        (make(images=pictures(1), labels=LABELS - 1), "no index into its 4 classes"),
        (make(images=pictures(1).astype(float)), "expected uint8"),
        (make(embeddings=EMBEDDINGS.astype(float)), "expected float32"),
        (make(embeddings=np.full_like(EMBEDDINGS, np.nan)), "embeddings of the release hold NaN"),
        (make(), "neither images nor embeddings"),
    ],
)
@pytest.mark.parametrize("format", ["png", "parquet", "npz"])
def test_nothing_is_left_of_a_release_that_breaks_its_word(
    tmp_path: Path, release: Release, reason: str, format: Any
) -> None:
    with pytest.raises(RunError, match=reason):
        write_release(release, tmp_path / "r", format=format)
    assert os.listdir(tmp_path) == []


def test_each_png_is_hashed_as_it_is_written(tmp_path: Path) -> None:
    sums: dict[str, str] = {}
    write_release(make(images=pictures(1)), tmp_path / "r", sums=sums)
    files = sorted((tmp_path / "r" / "train").rglob("*.png"))
    assert sums == {
        path.relative_to(tmp_path / "r").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def test_a_file_cut_short_by_a_full_disk_ends_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A raw write may write less than it was given, and say so by a number alone."""
    content = b"0" * 8000
    monkeypatch.setattr(release_module, "png_files", lambda images: [content] * len(images))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(RunError, match=r"cannot be written: .*No space left"):
            write_release(make(images=pictures(1)), tmp_path / "r")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


def test_no_half_release_is_ever_seen(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    seen: list[bool] = []

    def fail_late(rows: int) -> None:
        seen.append(folder.exists())
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_release(make(images=pictures(1)), folder, progress=fail_late)
    assert seen == [False, False]
    assert os.listdir(tmp_path) == []
    # What a killed run left behind is cleared away; an empty folder may stand ready.
    (tmp_path / ".r.partial" / "train").mkdir(parents=True)
    folder.mkdir()
    write_release(make(images=pictures(1)), folder)
    assert os.listdir(tmp_path) == ["r"]
    assert len(open_source(folder)) == 9


def test_a_taken_folder_is_refused(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "mine")
    with pytest.raises(RunError, match="is taken"):
        write_release(make(images=pictures(1)), folder)
    assert len(open_source(folder)) == 6
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="is taken"):
        write_release(make(images=pictures(1)), tmp_path / "file")
    with pytest.raises(ConfigError, match="'png', 'parquet' or 'npz'"):
        write_release(make(images=pictures(1)), tmp_path / "r", format="jpeg")  # type: ignore[arg-type]


def test_pictures_carry_pixels_and_nothing_else(tmp_path: Path) -> None:
    write_release(make(images=pictures(3)), tmp_path / "r")
    for path in (tmp_path / "r").rglob("*.png"):
        with Image.open(path) as image:
            image.load()
            assert image.info == {}
            assert not image.getexif()


@pytest.mark.parametrize("with_card", [False, True])
def test_it_loads_with_datasets(tmp_path: Path, quiet_datasets: Any, with_card: bool) -> None:
    images = pictures(3)
    load: Callable[..., Any] = quiet_datasets.load_dataset
    png, parquet, flat = tmp_path / "png", tmp_path / "parquet", tmp_path / "flat"
    write_release(make(images=images, embeddings=EMBEDDINGS), png)
    write_release(make(images=images, embeddings=EMBEDDINGS), parquet, format="parquet")
    write_release(make(images=images, classes=(), labels=LABELS * 0), flat)
    if with_card:
        for folder in (png, parquet, flat):
            (folder / "README.md").write_text("---\nlicense: cc0-1.0\n---\n# Synthetic\n")
            (folder / "privacy.json").write_text("{}")
    order = [2, 0, 1, 1, 0, 2, 2, 3, 0]
    for loaded in (load("imagefolder", data_dir=str(png)), load(str(png))):
        assert list(loaded) == ["train"]
        rows = loaded["train"]
        names = rows.features["label"].names
        assert sorted(names) == ["10", "T-shirt_top", "t-shirt_TOP-2", "test~"]
        safe = ["T-shirt_top", "test~", "t-shirt_TOP-2", "10"]
        expected = sorted((safe[label], images[row].tobytes()) for row, label in enumerate(order))
        assert sorted((names[r["label"]], r["image"].tobytes()) for r in rows) == expected
    for loaded in (load("parquet", data_dir=str(parquet)), load(str(parquet))):
        rows = loaded["train"]
        assert rows.features["label"].names == list(CLASSES)
        assert [row["label"] for row in rows] == order
        assert [row["image"].tobytes() for row in rows] == [image.tobytes() for image in images]
    loaded = load("imagefolder", data_dir=str(flat))
    assert list(loaded["train"].features) == ["image"]
    assert len(loaded["train"]) == 9
