import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.data.samples import class_folders, encode, picture

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.testing.source_suite import KEY, read_all, sound_rows


def test_class_folders(tmp_path: Path) -> None:
    source = open_source(class_folders(tmp_path / "pets"))
    values, labels, units = sound_rows(source)
    assert source.classes == ("cat", "dog")
    assert source.shape == (6, 5, 3)
    assert source.skipped == 0
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert units is None
    np.testing.assert_array_equal(values, np.stack([picture(seed) for seed in range(6)]))


@pytest.mark.parametrize("halves", [("train", "test"), ("Training", "Testing")])
def test_halves_are_chosen_by_split(tmp_path: Path, halves: tuple[str, str]) -> None:
    class_folders(tmp_path / halves[0], rows=3)
    class_folders(tmp_path / halves[1], rows=2)
    class_folders(tmp_path / "val", rows=1)
    assert len(open_source(tmp_path)) == 6
    assert len(open_source(tmp_path, split="test")) == 4
    shutil.rmtree(tmp_path / halves[1])
    with pytest.raises(SourceError, match=f"no folder 'test'; its folders are: {halves[0]}, val"):
        open_source(tmp_path, split="test")
    (tmp_path / "TRAIN").mkdir()
    with pytest.raises(SourceError, match="several folders 'train'"):
        open_source(tmp_path)


def test_a_folder_of_hidden_folders_alone_says_that_it_passes_them_over(tmp_path: Path) -> None:
    class_folders(tmp_path / "pets")
    (tmp_path / "pets" / "cat").rename(tmp_path / "pets" / ".cat")
    shutil.rmtree(tmp_path / "pets" / "dog")
    with pytest.raises(SourceError, match=r"holds 0 images.*hidden ones such as \.cat are passed"):
        open_source(tmp_path / "pets")


def test_images_without_labels(tmp_path: Path) -> None:
    for seed in range(3):
        (tmp_path / f"{seed}.png").write_bytes(encode(picture(seed)))
    (tmp_path / "licence.json").write_text("{}")
    (tmp_path / ".hidden.png").write_bytes(b"")
    source = open_source(tmp_path)
    sound_rows(source)
    assert source.classes == ("all",)
    assert len(source) == 3


def test_grey_only_where_every_image_is(tmp_path: Path) -> None:
    class_folders(tmp_path)
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(encode(picture(1, channels=1)))
    assert open_source(tmp_path).shape == (6, 5, 1)
    (tmp_path / "dog" / "0.png").write_bytes(encode(picture(1)))
    source = open_source(tmp_path)
    values, _, _ = sound_rows(source)
    assert source.shape == (6, 5, 3)
    np.testing.assert_array_equal(values[0], picture(1, channels=1).repeat(3, axis=2))


def test_different_sizes_ask_for_one(tmp_path: Path) -> None:
    class_folders(tmp_path)
    (tmp_path / "dog" / "1.png").write_bytes(encode(picture(1, 9, 7)))
    with pytest.raises(SourceError, match=r"6 x 5 .*1\.png is 9 x 7.* --size 64"):
        open_source(tmp_path, skip_bad=True)
    sound_rows(open_source(tmp_path, size=8))
    assert open_source(tmp_path, size=8).shape == (8, 8, 3)
    assert open_source(tmp_path, size=(4, 8)).shape == (4, 8, 3)


def _damage(folder: Path, kind: str) -> Path:
    """Make one file of ``folder`` bad; gives the file that an error must name."""
    bad = folder / "cat" / "1.png"
    outside = folder.parent / "outside.png"
    if kind == "zero bytes":
        bad.write_bytes(b"")
    elif kind == "not an image":
        bad.write_bytes(b"hello" * 100)
    elif kind == "link out":
        outside.write_bytes(bad.read_bytes())
        bad.unlink()
        bad.symlink_to(outside)
    elif kind == "broken link":
        bad.unlink()
        bad.symlink_to(folder / "cat" / "gone.png")
    elif kind == "pipe":
        bad.unlink()
        os.mkfifo(bad)
    elif kind == "a folder":
        bad = folder / "cat" / "sub"
        bad.mkdir()
    elif kind == "another suffix":
        bad = folder / "cat" / "scan.heic"
        bad.write_text("x")
    elif kind == "empty class":
        bad = folder / "empty"
        bad.mkdir()
    elif kind == "class link out":
        class_folders(folder.parent / "elsewhere")
        bad = folder / "linked"
        bad.symlink_to(folder.parent / "elsewhere" / "cat")
    return bad


BAD = [
    "zero bytes",
    "not an image",
    "link out",
    "broken link",
    "pipe",
    "a folder",
    "another suffix",
    "empty class",
    "class link out",
]


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_named_or_passed_over(tmp_path: Path, kind: str) -> None:
    folder = class_folders(tmp_path / "pets")
    bad = _damage(folder, kind)
    with pytest.raises(SourceError) as caught:
        open_source(folder)
    assert caught.value.path == bad
    assert "--skip-bad" in str(caught.value)
    source = open_source(folder, skip_bad=True)
    sound_rows(source)
    assert source.skipped == 1
    assert [Path(where) for where, _ in source.bad] == [bad]  # type: ignore[attr-defined]
    assert source.classes == ("cat", "dog")
    expected = 5 if bad.name == "1.png" else 6
    assert len(source) == expected


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_a_truncated_file_is_named_when_read_or_passed_over_at_once(
    tmp_path: Path, format: str
) -> None:
    folder = class_folders(tmp_path / "pets")
    bad = folder / "dog" / "1.png"
    data = encode(picture(9, 40, 40), format)
    for path in folder.rglob("*.png"):
        path.write_bytes(data)
    bad.write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError) as caught:
        read_all(open_source(folder))
    assert caught.value.path == bad
    source = open_source(folder, skip_bad=True)
    _, labels, _ = sound_rows(source)
    assert source.skipped == 1
    assert labels.tolist() == [0, 0, 0, 1, 1]


def test_a_link_inside_the_folder_is_fine(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "pets")
    (folder / "dog" / "9.png").symlink_to(folder / "dog" / "0.png")
    assert len(open_source(folder)) == 7
    (tmp_path / "alias").symlink_to(folder)
    assert len(open_source(tmp_path / "alias")) == 7


def test_one_class_is_refused_with_a_way_out(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "x", ("only",))
    for skip_bad in (False, True):
        with pytest.raises(SourceError, match=r"one class 'only'.*--label none"):
            open_source(folder, skip_bad=skip_bad)
    assert open_source(folder, label="none").classes == ("all",)


def test_one_class_beside_bad_ones_says_what_is_bad(tmp_path: Path) -> None:
    """It said that there are no labels, where those of the others lay one folder deeper."""
    folder = class_folders(tmp_path / "x", ("b",))
    class_folders(folder / "a", ("deep",))
    with pytest.raises(SourceError, match=r"one class 'b'.*deep is a folder inside a class folder"):
        open_source(folder, skip_bad=True)


def test_a_class_with_spaces_around_its_name_can_be_declared(tmp_path: Path) -> None:
    """Its declared name lost them, so that no run could name it; tables never kept them."""
    folder = class_folders(tmp_path / "x", (" ill", "well "))
    assert open_source(folder).classes == ("ill", "well")
    assert open_source(folder, classes=["well ", "ill"]).classes == ("well", "ill")


def test_a_class_of_bad_files_only_is_left_out(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "x", ("a", "b", "c"))
    for path in (folder / "b").iterdir():
        path.write_bytes(b"")
    source = open_source(folder, skip_bad=True)
    _, labels, _ = sound_rows(source)
    assert source.classes == ("a", "c")
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert source.skipped == 3


def test_digests_follow_the_bytes_not_the_names(tmp_path: Path) -> None:
    one = class_folders(tmp_path / "one")
    digests = list(open_source(one).digests(KEY))
    two = tmp_path / "two"
    shutil.copytree(one, two)
    (two / "cat").rename(two / "zebra")
    for path in sorted((two / "zebra").iterdir(), reverse=True):
        path.rename(path.with_name(f"{9 - int(path.stem)}.png"))
    assert sorted(open_source(two).digests(KEY)) == sorted(digests)
    assert list(open_source(one, size=3).digests(KEY)) == digests
    (two / "dog" / "0.png").write_bytes(encode(picture(77)))
    assert len(set(open_source(two).digests(KEY)) & set(digests)) == 5


def test_a_dataset_that_changes_underneath_is_refused(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "x")
    source = open_source(folder)
    extra = folder / "dog" / "9.png"
    extra.write_bytes(encode(picture(0)))
    with pytest.raises(SourceError, match="has changed"):
        read_all(source)
    extra.unlink()
    sound_rows(source)
    (folder / "dog" / "2.png").unlink()
    with pytest.raises(SourceError, match="has changed"):
        list(source.digests(KEY))


def test_a_file_that_becomes_a_link_out_is_refused(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "x")
    source = open_source(folder)
    (folder / "cat" / "1.png").rename(tmp_path / "moved.png")
    (folder / "cat" / "1.png").symlink_to(tmp_path / "moved.png")
    for read in (lambda: read_all(source), lambda: list(source.digests(KEY))):
        with pytest.raises(SourceError, match="leads out"):
            read()


@pytest.mark.parametrize("name", ["a.npz", "a.tar", "a.csv", "x-images-idx3-ubyte", "train"])
def test_whole_datasets_that_are_links_out_are_refused(tmp_path: Path, name: str) -> None:
    outside = tmp_path / f"outside-{name}"
    if name == "train":
        class_folders(outside)
    else:
        outside.write_text("path,label\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).symlink_to(outside)
    with pytest.raises(SourceError, match="leads out"):
        open_source(tmp_path / "data")
