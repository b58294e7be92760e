import json
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from tests.data.samples import class_folders, encode, picture, units_of

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.data.encoded_images import RecordSource
from understudy.data.inspection import stray_words
from understudy.testing.source_suite import KEY, sound_rows

Members = list[tuple[str, bytes]]


def write(path: Path, members: Members) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return path


def samples(kind: str, first: int = 0) -> Members:
    members: Members = []
    for row in range(first, first + 4):
        label = "cat" if row % 2 else "dog"
        members.append((f"train/{row:03d}.png", encode(picture(row))))
        if kind == "cls":
            members.insert(-1, (f"train/{row:03d}.cls", str(9 + row % 2).encode()))
        elif kind == "json":
            fields = {"label": label, "who": row // 2}
            members.append((f"train/{row:03d}.json", json.dumps(fields).encode()))
        elif kind == "txt":
            members.append((f"train/{row:03d}.txt", label.encode() + b"\n"))
    return members


@pytest.mark.parametrize(
    ("kind", "classes"),
    [("cls", ("9", "10")), ("json", ("cat", "dog")), ("", ("all",))],
)
@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_samples(tmp_path: Path, kind: str, classes: tuple[str, ...], suffix: str) -> None:
    source = open_source(write(tmp_path / f"a.{suffix}", samples(kind)))
    values, labels, _ = sound_rows(source)
    assert source.classes == classes
    np.testing.assert_array_equal(values, np.stack([picture(row) for row in range(4)]))
    if kind == "cls":
        assert labels.tolist() == [0, 1, 0, 1]


def test_a_range_of_numbers_names_several_tars(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"a-{number:03d}.tar", samples("cls", 4 * number))
    source = open_source(f"{tmp_path}/a-{{000..002}}.tar")
    values, _, _ = sound_rows(source)
    np.testing.assert_array_equal(values, np.stack([picture(row) for row in range(12)]))
    for numbers, words in (("000..003", "there is no such file"), ("2..1", "no range of names")):
        with pytest.raises(SourceError, match=words):
            open_source(f"{tmp_path}/a-{{{numbers}}}.tar")


def test_captions_are_no_classes_unless_they_are_asked_for(tmp_path: Path) -> None:
    """They became class names, which are published."""
    path = write(tmp_path / "a.tar", samples("txt"))
    with pytest.raises(SourceError, match=r"--label txt.*--label none"):
        open_source(path)
    source = open_source(path, label="txt")
    sound_rows(source)
    assert source.classes == ("cat", "dog")
    assert open_source(path, label="none").classes == ("all",)


def test_folders_in_a_tar_may_be_classes_or_people(tmp_path: Path) -> None:
    members = [
        (f"{name}/{row}.png", encode(picture(int(row)))) for name in ("a", "b") for row in "01"
    ]
    path = write(tmp_path / "a.tar.gz", [(f"./{name}", content) for name, content in members])
    with pytest.raises(SourceError, match="the samples lie in 2 folders, such as b"):
        open_source(path)
    units = units_of(open_source(path, label="none", unit="its folder"))
    assert units[0] == units[1] != units[2] == units[3]


def test_units_come_from_json(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "a.tar", samples("json")), unit="who")
    sound_rows(source)
    assert units_of(source) == ["0", "0", "1", "1"]
    with pytest.raises(SourceError, match="no value in the unit column 'patient'"):
        open_source(tmp_path / "a.tar", unit="patient")


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([("9.png", b""), ("9.cls", b"9")], "zero bytes"),
        ([("9.png", encode(picture(9)))], "no label"),
        ([("9.cls", b"9")], "0 images"),
        ([("9.png", encode(picture(9))), ("9.jpg", b"x"), ("9.cls", b"9")], "2 images"),
        ([("9.png", encode(picture(9))), ("9.json", b"{")], "damaged label"),
        ([("9.png", encode(picture(9))), ("9.json", b"[1]")], "damaged label"),
        ([("9.png", encode(picture(9))), ("9.json", b"[" * 90_000)], "damaged label"),
        ([("9.png", encode(picture(9))), ("9.cls", b"\xff")], "damaged label"),
        ([("9.png", encode(picture(9))), ("9.png", b""), ("9.cls", b"9")], "two members"),
        ([("9.png", encode(picture(9))), ("9.cls", b"9" * 2_000_000)], "2,000,000 bytes"),
    ],
)
def test_bad_samples(tmp_path: Path, members: Members, reason: str) -> None:
    path = write(tmp_path / "a.tar", samples("cls") + members)
    with pytest.raises(SourceError, match=reason):
        open_source(path)
    source = open_source(path, skip_bad=True)
    sound_rows(source)
    assert (len(source), source.skipped) == (4, 1)


def test_links_in_a_tar_are_not_followed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", samples("cls"))
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("9.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    with pytest.raises(SourceError, match="link or a device"):
        open_source(path)


def test_a_tar_cut_short_or_no_tar(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", samples("cls"))
    data = path.read_bytes()
    path.write_bytes(data[:700])
    with pytest.raises(SourceError, match="tar file"):
        open_source(path)
    path.write_bytes(b"hello" * 500)
    with pytest.raises(SourceError, match="tar file"):
        open_source(path)


def test_digests_are_those_of_the_files(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "folder", rows=2)
    packed = open_source(write(tmp_path / "a.tar", samples("cls")))
    assert list(packed.digests(KEY)) == list(open_source(folder).digests(KEY))


@pytest.mark.parametrize("kind", ["json", ""])
def test_images_in_a_hidden_folder_are_named(tmp_path: Path, kind: str) -> None:
    hidden = [(name.replace("train/", ".lynx/"), data) for name, data in samples(kind)]
    litter = [("train/._000.png", b"\0\5\26\7"), ("__MACOSX/000.png", b"\0\5\26\7")]
    source = open_source(write(tmp_path / "a.tar", samples(kind) + hidden + litter))
    assert isinstance(source, RecordSource)
    assert (len(source), source.stray) == (4, 4)
    assert "a.tar, .lynx is a folder of images and hidden" in stray_words(source)
    sound_rows(source)
