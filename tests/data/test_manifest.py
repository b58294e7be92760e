import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.samples import class_folders, encode, picture, units_of

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.testing.source_suite import sound_rows

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
    values, labels, _ = sound_rows(source)
    assert source.classes == ("cat", "dog")
    assert labels.tolist() == [1, 0, 1]
    assert units_of(source) == ["p1", "p2", "p1"]
    np.testing.assert_array_equal(values, np.stack([picture(1), picture(0), picture(2)]))
    assert not open_source(folder).has_units


def test_spaces_about_a_cell_are_none_of_it(folder: Path) -> None:
    rows = 'path, label, patient\nb.png, "dog", p1\na.png , cat,p2\nsub/c.png, dog ,p1 \n'
    (folder / "manifest.csv").write_text(rows)
    source = open_source(folder, unit="patient")
    assert source.classes == ("cat", "dog")
    assert units_of(source) == ["p1", "p2", "p1"]  # of which one more would be another person


@pytest.mark.parametrize("name", ["manifest.parquet", "rows.parquet"])
def test_parquet(folder: Path, name: str) -> None:
    table = pa.table(
        {"path": ["b.png", "a.png", "sub/c.png"], "label": [10, 9, 10], "patient": [7.0, 8.0, 7.0]}
    )
    pq.write_table(table, folder / name)
    source = open_source(folder, unit="patient")
    _, labels, _ = sound_rows(source)
    assert source.classes == ("9", "10")
    assert labels.tolist() == [1, 0, 1]
    assert units_of(source) == ["7", "8", "7"]


def test_an_unknown_unit_lists_the_columns(folder: Path) -> None:
    (folder / "manifest.csv").write_text(ROWS)
    with pytest.raises(SourceError, match=r"unit column 'person'.*path, label, patient"):
        open_source(folder, unit="person")


def test_missing_columns_are_listed(folder: Path) -> None:
    (folder / "manifest.csv").write_text("note,label\nhello,x\n")
    with pytest.raises(SourceError, match=r"column 'path'.*note, label"):
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
        ("unlisted.png,cat,nan", "no value in the unit column 'patient'"),
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
    sound_rows(source)
    assert (len(source), source.skipped) == (3, 1)


@pytest.mark.parametrize("kind", ["the table", "its folder", "an archive"])
@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("path", ["images/0.png", "images/1.png", "images/more/2.png"]),
        ("file_name", ["0.png", "1.png", "more/2.png"]),  # below the folder beside the table
        ("image_id", ["0", "1", "2"]),  # without their endings
        ("Image Index", ["images/0", "1", "more/2"]),  # in a column of any name
    ],
)
def test_a_table_beside_one_folder_names_its_images(
    tmp_path: Path, kind: str, column: str, names: list[str]
) -> None:
    folder = tmp_path / "scans"
    images = [folder / "images" / "0.png", folder / "images" / "1.png"]
    images.append(folder / "images" / "more" / "2.png")
    images[-1].parent.mkdir(parents=True)
    for seed, path in enumerate(images):
        path.write_bytes(encode(picture(seed)))
    rows = zip(names, ["ill", "well", "ill"], "001", strict=True)  # "0" and "1" are images, too
    table = "\n".join([f"{column},label,patient", *(",".join(row) for row in rows)])
    (folder / "train.csv").write_text(table)
    place = {"the table": folder / "train.csv", "its folder": folder}.get(kind)
    if place is None:
        place = Path(shutil.make_archive(str(tmp_path / "scans"), "zip", folder))
    source = open_source(place, unit="patient")
    values, labels, _ = sound_rows(source)
    assert source.classes == ("ill", "well")
    assert labels.tolist() == [0, 1, 0]
    assert units_of(source) == ["0", "0", "1"]
    np.testing.assert_array_equal(values, np.stack([picture(seed) for seed in range(3)]))


def test_a_name_of_two_images_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    for seed, place in enumerate("ab"):
        (folder / place).mkdir(parents=True)
        (folder / place / "x.png").write_bytes(encode(picture(seed)))
    (folder / "manifest.csv").write_text("path,label\nx.png,cat\nb/x.png,dog\n")
    for place in (folder, Path(shutil.make_archive(str(tmp_path / "scans"), "zip", folder))):
        with pytest.raises(SourceError, match=r"x\.png.* is the name of 2 images.*a/x\.png"):
            open_source(place)


def test_a_table_beside_class_folders_is_no_manifest(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "scans")
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.png")]
    (folder / "notes.csv").write_text("\n".join(["scan,label", *(f"{name},x" for name in names)]))
    assert open_source(folder).classes == ("cat", "dog")


def test_captions_are_no_classes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.data.encoded_images.MAX_CLASSES", 1)
    (folder / "manifest.csv").write_text(ROWS)
    with pytest.raises(SourceError, match="Class names are public"):
        open_source(folder)
