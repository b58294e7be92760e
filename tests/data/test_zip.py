import io
import json
import re
import shutil
import stat
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.data.samples import claiming, class_folders, encode, picture

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.data.encoded_images import RecordSource
from understudy.data.inspection import source_notes
from understudy.testing.source_suite import KEY, sound_rows


def packed(folder: Path, name: str = "data.zip", *, inside: str = "") -> Path:
    """Everything below a folder as a zip archive beside it."""
    path = folder.parent / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, inside + file.relative_to(folder).as_posix())
    return path


@pytest.mark.parametrize("inside", ["", "pets/", "a/b/pets/"])
def test_class_folders_in_an_archive_are_those_of_the_folder(tmp_path: Path, inside: str) -> None:
    folder = class_folders(tmp_path / "pets")
    source, same = open_source(packed(folder, inside=inside)), open_source(folder)
    values, labels, _ = sound_rows(source)
    expected, expected_labels, _ = sound_rows(same)
    assert source.classes == same.classes
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(labels, expected_labels)
    assert list(source.digests(KEY)) == list(same.digests(KEY))
    assert {path.name for path in tmp_path.iterdir()} == {"pets", "data.zip"}  # nothing unpacked


@pytest.mark.parametrize("encoding", ["utf-8", "cp437"])
def test_names_of_which_the_archive_does_not_say_that_they_are_utf_8(
    tmp_path: Path, encoding: str
) -> None:
    class_folders(tmp_path / "pets", classes=("chien é", "cat"))
    archive = packed(tmp_path / "pets")
    content = archive.read_bytes().replace("é".encode(), "é".encode(encoding).ljust(2, b"!"))
    for header in (b"PK\3\4\x14\0", b"PK\1\2\x14\3\x14\0"):  # as Info-ZIP and macOS: unmarked
        content = content.replace(header + b"\0\x08", header + b"\0\0")
    archive.write_bytes(content)
    source = open_source(archive)
    assert source.classes == ("cat", "chien é" if encoding == "utf-8" else "chien é!")
    assert len(sound_rows(source)[0]) == 6


def test_what_packers_leave_behind_is_passed_over_and_counted(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "pets")
    litter = ["__MACOSX/pets/cat/._0.png", "cat/.DS_Store", "dog/Thumbs.db", "cat/notes.txt"]
    for name in litter:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\0\5\26\7")
    for source in (open_source(packed(folder)), open_source(folder)):
        assert isinstance(source, RecordSource)
        assert (len(source), source.classes, source.skipped) == (6, ("cat", "dog"), 0)
        assert source.stray == 4


def test_a_class_folder_that_is_hidden_is_named(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "pets")
    (folder / ".git").mkdir()
    shutil.copytree(folder / "cat", folder / ".lynx")
    for source in (open_source(packed(folder)), open_source(folder)):
        assert isinstance(source, RecordSource)
        assert source.classes == ("cat", "dog")
        (note,) = source_notes(source)
        assert re.search(r"passed over: .*\.lynx is a folder of images and hidden", note)
        assert note.endswith("if it is a class, rename it")


def test_units_in_an_archive(tmp_path: Path) -> None:
    for patient in "12":
        class_folders(tmp_path / "x" / "p", rows=2)
        for label in ("cat", "dog"):
            target = tmp_path / "scans" / label / f"p{patient}"
            shutil.copytree(tmp_path / "x" / "p" / label, target)
        shutil.rmtree(tmp_path / "x")
    archive = packed(tmp_path / "scans")
    with pytest.raises(SourceError, match="--unit-from folder"):
        open_source(archive)
    assert open_source(archive, unit="its folder").has_units


def made(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, encode(picture(0)))
    return path


LEADING_OUT = ["../x.png", "/etc/x.png", "a/../../x.png", "C:/x.png", "a\\x.png"]


@pytest.mark.parametrize("name", LEADING_OUT)
def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="leads out of it"):
        open_source(made(tmp_path / "x.zip", "a/1.png", "b/1.png", name))


def test_a_link_is_a_bad_file(tmp_path: Path) -> None:
    path = made(tmp_path / "x.zip", "a/1.png", "b/1.png")
    link = zipfile.ZipInfo("a/2.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(SourceError, match=r"a/2\.png: is a link in an archive"):
        open_source(path)
    assert open_source(path, skip_bad=True).skipped == 1


def encrypted(content: bytes) -> bytes:
    at = content.index(b"PK\1\2") + 8
    return content[:at] + bytes([content[at] | 1]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (partial(claiming, unpacked=1 << 29), "zip bomb"),
        (partial(claiming, packed=10_000_000), "overlap"),  # more than the file has
        (encrypted, "is encrypted"),
        (lambda data: data[:60] + bytes([data[60] ^ 255]) + data[61:], r"a/1\.png: is damaged"),
    ],
)
def test_what_is_no_sound_archive_is_refused(
    tmp_path: Path, changed: Callable[[bytes], bytes], words: str
) -> None:
    path = made(tmp_path / "x.zip", "a/1.png", "b/1.png")
    path.write_bytes(changed(path.read_bytes()))
    with pytest.raises(SourceError, match=words):
        open_source(path)


@pytest.mark.parametrize("folder", ["", "out/release/"])
def test_a_release_in_an_archive_has_the_names_of_its_classes(tmp_path: Path, folder: str) -> None:
    """They were those of the folders, in which letters are replaced that no file name has."""
    rows = [{"name": name, "folder": safe} for name, safe in (("b/c", "b_c"), ("a: d", "a_ d"))]
    image = io.BytesIO()
    Image.new("L", (4, 4)).save(image, "PNG")
    path = tmp_path / "release.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{folder}classes.json", json.dumps({"classes": rows}))
        for row in rows:
            archive.writestr(f"{folder}train/{row['folder']}/0.png", image.getvalue())
    source = open_source(path)
    assert source.classes == ("b/c", "a: d")
    labels = [label for batch in source.batches(9) for label in batch.labels]
    assert [source.classes[label] for label in labels] == ["a: d", "b/c"]  # by their folders


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        (("o/release/privacy.json", "o/release/gen/gen.npz", "o/release/SHA256SUMS"), True),
        (("privacy.json", "gen/gen.npz", "README.md"), True),  # as the studio's page writes it
        (("o/release/privacy.json", "o/release/train/a/1.png", "o/what-this-is.html"), True),
        (("o/release/privacy.json", "o/release/a/1.png", "o/release/b/1.png"), False),
    ],
)
def test_an_archive_of_a_release_that_is_not_read_is_called_one(
    tmp_path: Path, names: tuple[str, ...], refused: bool
) -> None:
    path = made(tmp_path / "x.zip", *names)
    if not refused:
        assert open_source(path).classes == ("a", "b")
        return
    with pytest.raises(SourceError, match=r"archive of a release: unpack it.*privacy\.json"):
        open_source(path)
