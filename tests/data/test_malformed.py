"""Files and folders that are not what they should be: each gives a message, none a traceback."""

import contextlib
import gzip
import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file
from tests.data.samples import class_folders, encode, picture

from understudy.backends.yaml_files import read_yaml
from understudy.core.errors import ConfigError, InputError
from understudy.data import open_source
from understudy.testing.source_suite import read_all

Break = Callable[[Path], str | Path | None]
"""Makes a dataset of two classes in a folder bad; gives its name, if that is another one."""


def content(name: str, data: bytes | Callable[[bytes], bytes]) -> Break:
    """One file of a class with these bytes, or with those of a good one, changed."""

    def broken(folder: Path) -> None:
        good = (folder / "cat" / "0.png").read_bytes()
        (folder / "cat" / name).write_bytes(data if isinstance(data, bytes) else data(good))

    return broken


def manifest(text: str | bytes, name: str = "manifest.csv", query: str = "") -> Break:
    def broken(folder: Path) -> str:
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name).write_bytes(data)
        return f"{folder}{query}"

    return broken


def archive(*members: tuple[str, bytes], damage: Callable[[bytes], bytes] = bytes) -> Break:
    def broken(folder: Path) -> Path:
        path = folder / "data.zip"
        with zipfile.ZipFile(path, "w") as file:
            for name, data in members:
                file.writestr(name, data)
        path.write_bytes(damage(path.read_bytes()))
        return path

    return broken


def query(text: str, name: str = "", data: bytes = b"") -> Break:
    def broken(folder: Path) -> str:
        if name:
            (folder / "cat" / name).write_bytes(data)
        return f"{folder}{text}"

    return broken


def dicom_bytes(**elements: Any) -> bytes:
    from tests.data.dicom_files import dicom

    file = io.BytesIO()
    values = np.arange(30, dtype=np.uint16).reshape(6, 5)
    dicom(values, **elements).save_as(file, enforce_file_format=True)
    return file.getvalue()


def dicom_file(
    change: Callable[[bytes], bytes] = bytes, name: str = "x.dcm", **elements: Any
) -> Break:
    def broken(folder: Path) -> None:
        pytest.importorskip("pydicom")
        (folder / "cat" / name).write_bytes(change(dicom_bytes(**elements)))

    return broken


def endless_frames(folder: Path) -> str:
    """A DICOM file of 30 pixels that says it has as many frames as would take years."""
    dicom_file(NumberOfFrames=2_000_000_000)(folder)
    return f"{folder}?frames=all"


def endless_tar(folder: Path) -> Path:
    """A tar that says its one member has a petabyte."""
    member = tarfile.TarInfo("a.png")
    member.size = 10**15
    (folder / "x.tar").write_bytes(member.tobuf())
    return folder / "x.tar"


def noted_names(names: Any) -> Break:
    """A Parquet file that notes these as the names of its classes."""

    def broken(folder: Path) -> Path:
        kinds = {"label": {"_type": "ClassLabel", "names": names}}
        table = pa.table({"image": [PNG] * 2, "label": [0, 1]})
        noted = {"huggingface": json.dumps({"info": {"features": kinds}})}
        pq.write_table(table.replace_schema_metadata(noted), folder / "x.parquet")
        return folder / "x.parquet"

    return broken


def volume(change: Callable[[bytes], bytes] = bytes, text: str = "?axis=2&window=1,2") -> Break:
    def broken(folder: Path) -> str:
        nibabel = pytest.importorskip("nibabel")
        image = nibabel.Nifti1Image(np.zeros((5, 6, 4), np.int16), np.eye(4))
        (folder / "cat" / "x.nii").write_bytes(change(image.to_bytes()))
        return f"{folder}{text}"

    return broken


def png_chunks(*chunks: tuple[bytes, bytes]) -> bytes:
    data = b"\x89PNG\r\n\x1a\n"
    for kind, body in chunks:
        crc = struct.pack(">I", zlib.crc32(kind + body))
        data += struct.pack(">I", len(body)) + kind + body + crc
    return data


PNG = encode(picture(0))
HEAD = struct.pack(">2I5B", 5, 6, 8, 2, 0, 0, 0)
NO_SIZE = struct.pack(">2I5B", 0, 0, 8, 2, 0, 0, 0)
END = (b"IEND", b"")
PLAIN = b"1.2.840.10008.1.2.1\0"  # the transfer syntax that the files of the test have
PATHS = "path,label\ncat/0.png,a\ndog/0.png,b\n"

CASES: dict[str, Break] = {
    # images
    "one byte": content("x.png", b"\x89"),
    "text": content("x.jpg", b"hello" * 30),
    "html of a portal": content("x.jpg", b"<!doctype html><html>Log in</html>"),
    "zeros": content("x.png", bytes(500)),
    "a header alone": content("x.png", lambda good: good[:33]),
    "half a file": content("x.jpg", encode(picture(1, 40, 40), "JPEG")[:600]),
    "a header of no pixels": content("x.png", png_chunks((b"IHDR", NO_SIZE))),
    "no pixel data": content("x.png", png_chunks((b"IHDR", HEAD), END)),
    "garbage for pixel data": content(
        "x.png", png_chunks((b"IHDR", HEAD), (b"IDAT", b"no zlib"), END)
    ),
    "a cut GIF": content("x.gif", encode(picture(0), "GIF")[:80]),
    "an unknown suffix": content("x.heic", b"\0\0\0\x18ftypheic"),
    "a video": content("x.mp4", b"\0\0\0\x18ftypmp42"),
    "an archive in a class": content("x.zip", b"PK\3\4"),
    # DICOM
    "DICOM by name alone": content("x.dcm", b"hello" * 100),
    "an empty DICOM file": content("x.dcm", b""),
    "a PNG named dcm": content("x.dcm", PNG),
    "a preamble alone": content("scan", bytes(128) + b"DICM"),
    "a preamble and garbage": content("scan", bytes(128) + b"DICM" + bytes(range(256)) * 4),
    "DICOM without pixels": dicom_file(PixelData=None),
    "cut in its header": dicom_file(lambda data: data[:400]),
    "cut in its pixels": dicom_file(lambda data: data[:-30]),
    "no rows": dicom_file(Rows=None),
    "rows of zero": dicom_file(Rows=0),
    "more rows than pixels": dicom_file(Rows=60_000, Columns=60_000),
    "no photometric interpretation": dicom_file(PhotometricInterpretation=None),
    "an unknown photometric interpretation": dicom_file(PhotometricInterpretation="XYZ"),
    "RGB of one sample": dicom_file(PhotometricInterpretation="RGB"),
    "palette without tables": dicom_file(PhotometricInterpretation="PALETTE COLOR"),
    "no bits": dicom_file(BitsStored=None),
    "no representation": dicom_file(PixelRepresentation=None),
    "a window of width zero": dicom_file(WindowCenter=1, WindowWidth=0),
    "many frames in no pixels": dicom_file(NumberOfFrames=90),
    "frames without end": endless_frames,
    "deflated": dicom_file(lambda data: data.replace(PLAIN, PLAIN[:-1] + b".99", 1)),
    "an unknown compression": dicom_file(lambda data: data.replace(PLAIN, PLAIN[:-2] + b"77", 1)),
    "bytes turned over": dicom_file(lambda data: data[:200] + data[200:][::-1]),
    # volumes
    "a cut volume": volume(lambda data: data[:-10]),
    "a cut header of a volume": volume(lambda data: data[:100]),
    "a volume of text": content("x.nii", b"hello" * 100),
    "a packed volume of text": content("x.nii.gz", gzip.compress(b"hello" * 100)),
    "a packed volume that is not": content("x.nii.gz", b"\x1f\x8b hello"),
    # manifests
    "an empty manifest": manifest(""),
    "a manifest of empty lines": manifest("\n\n;;\n"),
    "Latin-1 behind the first lines": manifest((PATHS * 300 + "é").encode("latin-1")),
    "a wrong encoding": manifest("path,label\nx", query="?encoding=utf-16"),
    "half of UTF-16": manifest(PATHS.encode("utf-16")[:-1]),
    "zeros in a manifest": manifest("path,label\n\0\0,a\n"),
    "quotes that never end": manifest('path,label\n"' + "x" * 200_000),
    "a line without end": manifest(b"path,label" + bytes(1 << 22)),
    "class names that are numbers": noted_names([None, 7]),
    "class names that are a number": noted_names(7),
    "a folder for a path": manifest(PATHS + "cat,a\n"),
    "an old workbook": manifest(b"\xd0\xcf\x11\xe0", "list.xls", "/list.xls"),
    "Parquet that is none": manifest(b"PAR1 hello", "manifest.parquet"),
    # archives
    "an archive that is none": archive(damage=lambda _: b"hello"),
    "an empty archive": archive(),
    "half an archive": archive(("a/x.png", PNG), damage=lambda data: data[: len(data) // 2]),
    "a member of a petabyte": endless_tar,
    "notes alone": archive(("readme.txt", b"hello")),
    "an archive in an archive": archive(("a/x.png", PNG), ("b/x.zip", b"PK")),
    "images beside folders": archive(("x.png", PNG), ("a/y.png", PNG)),
    "two manifests": archive(("manifest.csv", b""), ("manifest.xlsx", b""), ("x.png", PNG)),
    "a manifest of other files": archive(("manifest.csv", b"path\nz.png\n"), ("x.png", PNG)),
    # names
    "no such folder with options": query("/nothing?window=1,2"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_malformed_gives_a_message(tmp_path: Path, case: str) -> None:
    folder = class_folders(tmp_path / "pets")
    name = CASES[case](folder) or folder
    with pytest.raises(InputError) as caught:
        read_all(open_source(name))
    message = str(caught.value)
    assert len(message) > 30
    assert "Traceback" not in message
    with contextlib.suppress(InputError):  # what is left without the bad file is read
        source = open_source(name, skip_bad=True)
        read_all(source)
        assert source.skipped == 1


DEEP = "[" * 100_000


def test_json_that_nests_too_deep_is_no_traceback(tmp_path: Path) -> None:
    """Python's reader of it raises what is no ValueError."""
    images = class_folders(tmp_path / "images")
    data = (images / "cat" / "0.png").read_bytes()
    table = pa.table({"image": [data] * 2, "label": ["cat", "dog"]})
    noted = table.replace_schema_metadata({"huggingface": DEEP})
    pq.write_table(noted, tmp_path / "x.parquet")
    assert open_source(tmp_path / "x.parquet").classes == ("cat", "dog")  # nothing was noted

    (images / "classes.json").write_text(DEEP)
    arrays = {"embeddings": np.zeros((2, 3), np.float32), "labels": np.zeros(2, np.int64)}
    save_file(arrays, tmp_path / "x.safetensors", {"classes": DEEP})
    with tarfile.open(tmp_path / "x.tar", "w") as file:
        for name, data in (("a.png", encode(picture(0))), ("a.json", DEEP.encode())):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    (tmp_path / "recipe.yaml").write_text(DEEP)
    for place in (f"{images}?", tmp_path / "x.safetensors", f"{tmp_path}/x.tar"):
        with pytest.raises(InputError):
            read_all(open_source(place, label="label" if "tar" in str(place) else None))
    with pytest.raises(ConfigError, match=r"recipe\.yaml"):
        read_yaml(tmp_path / "recipe.yaml", "recipe")
