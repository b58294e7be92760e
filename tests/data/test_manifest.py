from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.samples import check_source, encode, picture, units_of

from understudy.core.errors import SourceError
from understudy.data import open_source

ROWS = "path,label,patient\nb.png,dog,p1\na.png,cat,p2\nsub/c.png,dog,p1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "scans"
    (place / "sub").mkdir(parents=True)
    for seed, name in enumerate(["a.png", "b.png", "sub/c.png", "unlisted.png"]):
        (place / name).write_bytes(encode(picture(seed)))
    return place


def test_csv_in_its_own_order(folder: Path) -> None:
    (folder / "manifest.csv").write_text(ROWS)
    source = open_source(folder, unit="patient")
    values, labels, _ = check_source(source)
    assert source.classes == ("cat", "dog")
    assert labels.tolist() == [1, 0, 1]
    assert units_of(source) == ["p1", "p2", "p1"]
    np.testing.assert_array_equal(values, np.stack([picture(1), picture(0), picture(2)]))
    assert not open_source(folder).has_units


@pytest.mark.parametrize("name", ["manifest.parquet", "rows.parquet"])
def test_parquet(folder: Path, name: str) -> None:
    table = pa.table(
        {"path": ["b.png", "a.png", "sub/c.png"], "label": [10, 9, 10], "patient": [7.0, 8.0, 7.0]}
    )
    pq.write_table(table, folder / name)
    source = open_source(folder, unit="patient")
    _, labels, _ = check_source(source)
    assert source.classes == ("9", "10")
    assert labels.tolist() == [1, 0, 1]
    assert units_of(source) == ["7", "8", "7"]


def test_an_unknown_unit_lists_the_columns(folder: Path) -> None:
    (folder / "manifest.csv").write_text(ROWS)
    with pytest.raises(SourceError, match=r"unit column 'person'.*path, label, patient"):
        open_source(folder, unit="person")


def test_missing_columns_are_listed(folder: Path) -> None:
    (folder / "manifest.csv").write_text("file,label\na.png,x\n")
    with pytest.raises(SourceError, match=r"column 'path'.*file, label"):
        open_source(folder)
    (folder / "manifest.csv").write_text("path,labels\na.png,x\n")
    with pytest.raises(SourceError, match=r"no column 'label'.*path, labels"):
        open_source(folder)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("../out.png,cat,p", "leads out"),
        ("/etc/hostname,cat,p", "leads out"),
        ("gone.png,cat,p", "does not exist"),
        ("a.png,dog,p", "listed twice"),
        ("./sub/../a.png,dog,p", "listed twice"),
        ("sub,cat,p", "regular file"),
        ("unlisted.png,,p", "no label"),
        ("unlisted.png,cat,", "no value in the unit column 'patient'"),
        ("unlisted.png", "no label"),
        (",cat,p", "no path"),
        ('"x\x01\x7f?.png",cat,p', "does not exist"),
    ],
)
def test_bad_rows(folder: Path, line: str, reason: str) -> None:
    (folder.parent / "out.png").write_bytes(encode(picture(0)))
    (folder / "manifest.csv").write_text(ROWS + line + "\n")
    with pytest.raises(SourceError, match=reason):
        open_source(folder, unit="patient")
    source = open_source(folder, unit="patient", skip_bad=True)
    check_source(source)
    assert (len(source), source.skipped) == (3, 1)


def test_captions_are_no_classes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.data.encoded_images.MAX_CLASSES", 1)
    (folder / "manifest.csv").write_text(ROWS)
    with pytest.raises(SourceError, match="Class names are public"):
        open_source(folder)
