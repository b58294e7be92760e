import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.samples import class_folders, encode, picture, units_of

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.testing.source_suite import KEY, sound_rows

PICTURES = [encode(picture(seed)) for seed in range(6)]


def write(path: Path, *, struct: bool = True, **columns: Any) -> Path:
    images = columns.pop("images", PICTURES)
    cells = [{"bytes": data, "path": None} for data in images] if struct else images
    path.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(pa.table({"image": cells, **columns}), path, row_group_size=2)
    return path


@pytest.mark.parametrize("struct", [False, True])
def test_image_bytes(tmp_path: Path, struct: bool) -> None:
    path = write(
        tmp_path / "a.parquet", struct=struct, label=list("abbaab"), patient=[1, 1, 2, 2, 3, 3]
    )
    source = open_source(path, unit="patient")
    values, labels, _ = sound_rows(source)
    np.testing.assert_array_equal(values, np.stack([picture(seed) for seed in range(6)]))
    assert source.classes == ("a", "b")
    assert labels.tolist() == [0, 1, 1, 0, 0, 1]
    assert units_of(source) == list("112233")
    folder = class_folders(tmp_path / "folder")
    assert list(open_source(folder).digests(KEY)) == list(source.digests(KEY))


@pytest.mark.parametrize("place", ["", "data"])
def test_shards_and_halves(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "set"
    parts = ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001", "validation-0")
    for name in parts:
        write(folder / place / f"{name}.parquet", label=[0, 1, 10, 9, 1, 1])
    source = open_source(folder)
    sound_rows(source)
    assert (len(source), source.classes) == (12, ("0", "1", "9", "10"))
    assert len(open_source(folder, split="test")) == 6
    assert source.unread == ("validation-0.parquet",)


def class_label(path: Path, names: list[str], labels: list[int | None]) -> Path:
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": names}}
    cells = [{"bytes": data, "path": None} for data in PICTURES]
    table = pa.table({"image": cells, "label": labels}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    pq.write_table(table, path)
    return path


def test_class_names_that_the_file_declares(tmp_path: Path) -> None:
    path = class_label(tmp_path / "a.parquet", ["zebra", "ant"], [0, 1, 0, 1, 0, 0])
    source = open_source(path)
    _, labels, _ = sound_rows(source)
    assert source.classes == ("zebra", "ant")
    assert labels.tolist() == [0, 1, 0, 1, 0, 0]


def test_an_empty_class_is_named_or_dropped(tmp_path: Path) -> None:
    path = class_label(tmp_path / "a.parquet", ["x", "never", "y"], [0, 2, 0, 2, 0, 0])
    with pytest.raises(SourceError, match="class 'never' is empty"):
        open_source(path)
    source = open_source(path, skip_bad=True)
    sound_rows(source)
    assert (source.classes, source.skipped) == (("x", "y"), 1)


@pytest.mark.parametrize("label", [None, -1, 2])
def test_labels_that_are_none(tmp_path: Path, label: int | None) -> None:
    path = class_label(tmp_path / "a.parquet", ["x", "y"], [0, 1, label, 1, 0, 0])
    with pytest.raises(SourceError, match="row 2"):
        open_source(path)
    source = open_source(path, skip_bad=True)
    sound_rows(source)
    assert (len(source), source.skipped) == (5, 1)


@pytest.mark.parametrize("image", [b"", b"not an image", None, PICTURES[0][:-30]])
def test_bad_images(tmp_path: Path, image: bytes | None) -> None:
    path = write(
        tmp_path / "a.parquet", images=[*PICTURES[:2], image, *PICTURES[3:]], label=list("abbaab")
    )
    with pytest.raises(SourceError, match="row 2"):
        sound_rows(open_source(path))
    source = open_source(path, skip_bad=True)
    sound_rows(source)
    assert (len(source), source.skipped) == (5, 1)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", label=list("abbaab"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SourceError, match=r"a\.parquet"):
        open_source(path)


def test_a_file_without_the_columns_of_the_first_one_is_named(tmp_path: Path) -> None:
    """Two exports in one folder: it ended in a traceback."""
    write(tmp_path / "a.parquet", label=list("abbaab"))
    other = pa.table({"picture": PICTURES, "label": list("abbaab")})
    pq.write_table(other, tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"b\.parquet: .*no column 'image'.*: picture, label"):
        open_source(tmp_path)


def test_files_whose_labels_are_of_two_kinds_are_refused(tmp_path: Path) -> None:
    """They became more classes without a word: those of the text, and those of the numbers."""
    write(tmp_path / "a.parquet", label=list("abbaab"))
    write(tmp_path / "b.parquet", label=[0, 1, 1, 0, 0, 1])
    with pytest.raises(SourceError, match=r"b\.parquet: its column 'label' .*'whole'.*'text'"):
        open_source(tmp_path)
    write(tmp_path / "a.parquet", label=[0.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    assert len(open_source(tmp_path, label="none")) == 12
    assert open_source(tmp_path / "b.parquet").classes == ("0", "1")


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float16(), 2)])
def test_a_column_of_embeddings_is_told_how_to_become_an_array(
    tmp_path: Path, kind: pa.DataType
) -> None:
    rows = [np.zeros(2, np.float16)] * 4
    table = pa.table({"vector": pa.array(rows, type=kind), "label": list("abab")})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"embeddings=numpy.stack\(table\['vector'\]\)"):
        open_source(tmp_path / "a.parquet")


def test_a_column_of_pixels_as_lists_is_not_taken_for_a_manifest(tmp_path: Path) -> None:
    pixels = pa.array([np.zeros((2, 2, 3), np.uint8).tolist()] * 4)
    pq.write_table(pa.table({"image": pixels, "label": list("abab")}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"'image'.*pixels as images=, of shape \(n, height"):
        open_source(tmp_path / "a.parquet")
