from pathlib import Path

import pytest
from tests.data.samples import class_folders, encode, picture, units_of

from understudy.core.errors import ConfigError, SourceError
from understudy.core.ports import Source
from understudy.data import open_source
from understudy.data.encoded_images import RecordSource
from understudy.data.holdout import HoldOut, split
from understudy.data.units import alike_words, grouped_pattern, rule_of, unit_column
from understudy.testing.source_suite import KEY


def nested(folder: Path) -> Path:
    """``folder/<class>/<patient>/...``: patients 1 and 2 of one class, 2 and 3 of the other."""
    seed = 0
    for label, patients in (("ill", "12"), ("well", "23")):
        for patient in patients:
            for place in ("a.png", "deep/b.png"):
                path = folder / label / f"p{patient}" / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(encode(picture(seed)))
                seed += 1
    return folder


def groups(source: Source) -> list[int]:
    """The units of a source's records as numbers, in order of their first appearance."""
    codes: dict[str, int] = {}
    return [codes.setdefault(unit, len(codes)) for unit in units_of(source)]


def test_a_folder_below_the_class_is_a_unit(tmp_path: Path) -> None:
    nested(tmp_path)
    source = open_source(tmp_path, unit="its folder")
    assert source.classes == ("ill", "well")
    assert groups(source) == [0, 0, 1, 1, 1, 1, 2, 2]  # p2 is one person in both classes
    assert groups(open_source(tmp_path, unit="its folder")) == groups(source)
    assert "p1" not in "".join(units_of(source))  # a folder of a patient may be a name


def test_without_classes_the_outermost_folder_is_a_unit(tmp_path: Path) -> None:
    nested(tmp_path)
    source = open_source(tmp_path, label="none", unit="its folder")
    assert source.classes == ("all",)
    assert groups(source) == [0] * 4 + [1] * 4


def test_folders_in_class_folders_are_refused_without_a_unit(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"of 2 images. If it is a person's.*--unit-from folder"):
        open_source(nested(tmp_path))


def test_a_file_without_a_folder_has_no_unit(tmp_path: Path) -> None:
    nested(tmp_path)
    (tmp_path / "ill" / "x.png").write_bytes(encode(picture(0)))
    with pytest.raises(SourceError, match=r"x\.png: lies in no folder, below that of its class"):
        open_source(tmp_path, unit="its folder")
    assert open_source(tmp_path, unit="its folder", skip_bad=True).skipped == 1


@pytest.mark.parametrize(
    ("unit", "columns"), [("person", "path,label,person"), ("path", "path,label")]
)
def test_a_manifest_is_proposed_with_each_column_once(
    tmp_path: Path, unit: str, columns: str
) -> None:
    with pytest.raises(SourceError, match=f"with the columns {columns} in the folder"):
        open_source(nested(tmp_path), unit=unit)


def test_a_name_gives_a_unit(tmp_path: Path) -> None:
    for name in ("case_0017_03", "case_0017_04", "case_18_1"):
        for label in ("a", "b"):
            (tmp_path / label).mkdir(exist_ok=True)
            (tmp_path / label / f"{name}.png").write_bytes(encode(picture(len(name))))
    source = open_source(tmp_path, unit=r"case_(\d+) of its name")
    assert groups(source) == [0, 0, 1, 0, 0, 1]
    assert groups(open_source(tmp_path, unit=r"case_\d+ of its name")) == groups(source)
    (tmp_path / "a" / "other.png").write_bytes(encode(picture(1)))
    with pytest.raises(SourceError, match=r"other.png: has a name that gives no unit \(case_"):
        open_source(tmp_path, unit=r"case_(\d+) of its name")
    with pytest.raises(SourceError, match="every image is of one unit"):
        open_source(tmp_path, unit=r"\.(png) of its name")


def test_a_manifest_gives_units_by_path(tmp_path: Path) -> None:
    nested(tmp_path)
    lines = ["path,label"]
    for path in sorted(tmp_path.rglob("*.png")):
        relative = path.relative_to(tmp_path)
        lines.append(f"{relative},{relative.parts[0]}")
    (tmp_path / "manifest.csv").write_text("\n".join(lines))
    assert groups(open_source(tmp_path, unit=r"/(p\d)/ of its name")) == [0, 0, 1, 1, 1, 1, 2, 2]
    assert groups(open_source(tmp_path, unit="its folder")) == [0] * 4 + [1] * 4


def test_units_by_rule_are_held_out_whole_and_found_again(tmp_path: Path) -> None:
    for patient in range(20):
        for label in ("a", "b"):
            path = tmp_path / label / f"p{patient}" / "x.png"
            path.parent.mkdir(parents=True)
            path.write_bytes(encode(picture(patient)))
    hold_out = HoldOut(bytes(range(32)), 0.4, "its folder")
    parts = [split(open_source(tmp_path, unit=hold_out.unit), hold_out) for _ in range(2)]
    first, second = (list(part.held_out.digests(KEY)) for part in parts)
    assert first == second
    assert not set(first) & set(parts[0].members.digests(KEY))
    assert len(first) % 2 == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"unit": "p", "unit_from": "folder"}, "say once"),
        ({"unit_from": "folder", "unit_from_name": "x"}, "say once"),
        ({"unit_from": "class"}, "folder or file"),
        ({"unit_from_name": "case_("}, "no regular expression"),
        ({"unit_from_name": "(a)(b)"}, "2 groups"),
    ],
)
def test_a_rule_must_make_sense(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        unit_column(*(options.get(name) for name in ("unit", "unit_from", "unit_from_name")))


def test_a_rule_is_text_and_back() -> None:
    for given in ((None, "folder", None), (None, "file", None), (None, None, r"case_(\d+)")):
        column = unit_column(*given)
        rule = rule_of(column)
        assert rule is not None
        assert rule.column == column
    assert unit_column("patient", None, None) == "patient"
    assert rule_of("patient") is None
    assert rule_of(None) is None


def numbered(pattern: str, count: int = 30, per: int = 3) -> list[str]:
    return [pattern.format(n // per, n % per) for n in range(count)]


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (numbered("case_{:04d}_{:02d}.png"), r"case_(\d+)"),
        (numbered("sub-{}/x_{}.png"), None),  # the numbers of the folder are no part of the name
        (numbered("{:03d}-{}.jpg"), r"([^/]*\d)[^/\d]+\d+(?:\.[^/]*)?$"),
        ([*numbered("a{}_{}.png"), *numbered("b{}_{}.png")], r"([^/]*\d)[^/\d]+\d+(?:\.[^/]*)?$"),
        ([*numbered("case_{}_{}.png"), "readme.png"], r"case_(\d+)"),
        ([f"{n}.png" for n in range(30)], None),
        ([f"IMG_{n:04d}.jpg" for n in range(30)], None),
        ([f"cat {n} of 30.png" for n in range(30)], None),
        (["x.png"] * 5, None),
        ([], None),
    ],
)
def test_names_that_look_grouped(names: list[str], pattern: str | None) -> None:
    assert grouped_pattern(names) == pattern
    if pattern is not None:
        rule = rule_of(f"{pattern} of its name")
        assert rule is not None
        units = [rule.unit_of(name) for name in names if rule.unit_of(name) is not None]
        assert len(units) == 3 * len(set(units))


def test_grouped_names_are_a_sign_only_without_a_unit(tmp_path: Path) -> None:
    for name in numbered("case_{}_{}", 12):
        for label in ("a", "b"):
            (tmp_path / label).mkdir(exist_ok=True)
            (tmp_path / label / f"{name}.png").write_bytes(encode(picture(len(name))))
    source = open_source(tmp_path)
    assert isinstance(source, RecordSource)
    assert source.grouping is not None
    assert "--unit-from-name 'case_(\\d+)'" in source.grouping.warning
    with_unit = open_source(tmp_path, unit=r"case_(\d+) of its name")
    assert isinstance(with_unit, RecordSource)
    assert with_unit.grouping is None


@pytest.mark.parametrize(
    ("one", "other"), [("P1", "p1"), ("1", "01"), ("1", "1.0"), ("\u00e9", "e\u0301")]
)
def test_a_person_in_two_spellings_is_pointed_out(one: str, other: str) -> None:
    words = alike_words([one, other, "P2", "10", "100"], "person")
    assert words is not None
    assert repr(one) in words
    assert repr(other) in words
    assert "(1 pair like this)" in words
    assert alike_words([one, "P2", "10", "100", "p-20"], "person") is None


def test_a_person_in_two_classes_is_pointed_out() -> None:
    names = ["ill/p1", "ill/p2", "well/p1"]
    words = alike_words(names, "(.+)_ of its name")
    assert words is not None
    assert "'ill/p1' and 'well/p1' (1 pair" in words
    assert alike_words(names, "its file") is None


def test_a_misspelt_field_of_dicom_files_is_told_those_that_there_are(tmp_path: Path) -> None:
    """``--unit patientid`` asked for a manifest, and the field was in every file."""
    folder = class_folders(tmp_path / "scans")
    with pytest.raises(
        SourceError, match="--unit of DICOM files: PatientID, StudyInstanceUID, Series"
    ):
        open_source(folder, unit="patientid")
