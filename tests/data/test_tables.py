"""Manifests as spreadsheets write them."""

import zipfile
from datetime import datetime
from pathlib import Path

import pytest
from tests.data.samples import claiming, encode, picture, units_of

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.data.table_files import Table
from understudy.testing.source_suite import read_all, sound_rows

ROWS = [["path", "label", "patient"], ["b.png", "dög", "p1"], ["a.png", "cat", "p2"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, name in enumerate(["a.png", "b.png"]):
        (tmp_path / name).write_bytes(encode(picture(seed)))
    return tmp_path


def lines(delimiter: str = ",", rows: list[list[str]] = ROWS, end: str = "\n") -> str:
    return end.join(delimiter.join(row) for row in rows) + end


def workbook(path: Path, rows: list[list[object]], sheet: str = "Tabelle1") -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = sheet
    for row in rows:
        book.active.append(row)
    book.save(path)
    book.close()
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_as_spreadsheets_write_it(
    folder: Path, delimiter: str, encoding: str, end: str
) -> None:
    (folder / "manifest.csv").write_bytes(lines(delimiter, end=end).encode(encoding))
    source = open_source(folder, unit="patient")
    _, labels, _ = sound_rows(source)
    assert source.classes == ("cat", "dög")
    assert labels.tolist() == [1, 0]
    assert units_of(source) == ["p1", "p2"]


def test_latin_1_is_offered_and_read(folder: Path) -> None:
    (folder / "manifest.csv").write_bytes(lines(";").encode("latin-1"))
    with pytest.raises(SourceError) as caught:
        open_source(folder)
    message = str(caught.value)
    assert "line 2 has the byte 0xF6, which is 'ö' in Latin-1" in message
    assert "'?encoding=latin-1' after the name" in message
    assert open_source(f"{folder}?encoding=latin-1").classes == ("cat", "dög")
    assert open_source(f"{folder}/manifest.csv?encoding=cp1252").classes == ("cat", "dög")


def test_paths_of_windows(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "a.png").rename(folder / "sub" / "a.png")
    (folder / "manifest.csv").write_text(lines().replace("a.png", "sub\\a.png"))
    assert len(open_source(folder)) == 2


def test_a_column_that_comes_twice_is_refused(folder: Path) -> None:
    (folder / "manifest.csv").write_text("path,label,label\na.png,x,y\nb.png,z,y\n")
    with pytest.raises(SourceError, match="column 'label' twice"):
        open_source(folder)


def test_an_excel_workbook(folder: Path) -> None:
    rows: list[list[object]] = [["path", "label", "patient"], ["b.png", 2.0, 17], [None] * 3]
    workbook(folder / "list.xlsx", [*rows, ["a.png", 1, 18.0]])
    source = open_source(folder, unit="patient")
    assert source.classes == ("1", "2")
    _, labels, _ = read_all(source)
    assert labels.tolist() == [1, 0]
    assert units_of(source) == ["17", "18"]
    assert len(open_source(folder / "list.xlsx")) == 2


def test_a_date_of_a_workbook_is_the_class_that_a_csv_has(folder: Path) -> None:
    """It was 2024-01-01 00:00:00: a workbook stores a day as its midnight."""
    days: list[list[object]] = [["path", "label"], ["a.png", datetime(2024, 1, 1)]]
    workbook(folder / "list.xlsx", [*days, ["b.png", datetime(2024, 3, 1, 12, 30)]])
    classes = open_source(folder / "list.xlsx").classes
    assert classes == ("2024-01-01", "2024-03-01 12:30:00")


def test_a_stray_cell_at_the_far_end_of_a_workbook_makes_no_row_longer(folder: Path) -> None:
    """With a thousand columns about a row of two, a million rows would take hours."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in ROWS:
        book.active.append(row)
    book.active["XFD5"] = "x"
    book.save(folder / "manifest.xlsx")
    assert open_source(folder).classes == ("cat", "dög")
    with Table(folder / "manifest.xlsx")._lines() as rows:
        assert {len(row) for row in rows} == {3}


def test_what_is_no_workbook(folder: Path) -> None:
    (folder / "manifest.xlsx").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(SourceError, match=r"manifest\.xlsx: is no zip archive"):
        open_source(folder)
    with zipfile.ZipFile(folder / "manifest.xlsx", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(SourceError, match=r"cannot be read as an Excel workbook"):
        open_source(folder)
    path = folder / "manifest.xlsx"
    path.write_bytes(claiming(path.read_bytes(), unpacked=1 << 29))
    with pytest.raises(SourceError, match="zip bomb"):
        open_source(folder)
