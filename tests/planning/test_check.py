"""A check reads a dataset once, spends nothing and says everything at once."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.run.samples import class_folders, embeddings, quick_run, save, tree, with_manifest
from typer.testing import CliRunner

import understudy
from understudy.cli.main import app
from understudy.core.errors import ConfigError, SourceError
from understudy.data import encoded_images, open_source
from understudy.planning.check import SourceCheck, check_source
from understudy.planning.dry import dry_run
from understudy.planning.recommendation import recommended_run
from understudy.run.config import make_config
from understudy.run.run_record import ONE_CLASS


def checked(source: Path | str, **options: Any) -> SourceCheck:
    return check_source(
        make_config({"source": str(source), "out": "out", "epsilon": 1.0, **options})
    )


def kinds(result: SourceCheck) -> dict[str, int]:
    return {problem.kind: problem.count for problem in result.problems}


def messy(folder: Path) -> Path:
    """Everything that may be wrong with class folders, at once."""
    class_folders(folder, {"cat": 130, "dog": 20}, (8, 8, 1))
    (folder / "cat" / "empty.png").write_bytes(b"")
    (folder / "cat" / "cut.png").write_bytes((folder / "cat" / "scan-0.png").read_bytes()[:60])
    (folder / "cat" / "words.heic").write_text("hello")
    (folder / "dog" / "patient").mkdir()
    save(np.zeros((8, 8, 1), np.uint8), folder / "dog" / "patient" / "x.png")
    shutil.copy(folder / "cat" / "scan-1.png", folder / "cat" / "copy.png")
    shutil.copy(folder / "cat" / "scan-2.png", folder / "dog" / "copy.png")
    save(np.zeros((9, 12, 1), np.uint8), folder / "dog" / "large.png")
    save(np.full((8, 8, 3), (200, 20, 20), np.uint8), folder / "dog" / "colour.png")
    (folder / "dog" / "notes.txt").write_text("hello")
    (folder / "Thumbs.db").write_text("hello")
    return folder


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    folder = messy(tmp_path / "scans")
    before = tree(folder)
    result = checked(folder)
    assert kinds(result) == {
        "bad files": 4,
        "mixed sizes": 154,
        "mixed colours": 153,
        "equal files": 1,
        "contradicting labels": 1,
        "stray files": 2,
    }
    assert [problem.kind for problem in result.problems if problem.blocking] == [
        "bad files",
        "mixed sizes",
    ]
    assert not result.ready
    assert dict(result.classes) == {"cat": 131, "dog": 23}
    (bad,) = (one for one in result.problems if one.kind == "bad files")
    assert any("patient: is a folder inside a class folder, of 1 image." in e for e in bad.examples)
    assert tree(folder) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scans"]


def test_the_command_that_it_suggests_is_one_that_runs(tmp_path: Path) -> None:
    """A dataset whose check finds what blocks a run, and a run that passes after it."""
    result = checked(messy(tmp_path / "scans"))
    assert result.command is not None
    words = result.command.split()
    assert words[:3] == ["understudy", "synthesize", str(tmp_path / "scans")]
    assert "--skip-bad --epsilon 1 --out out/" in result.command
    flags = dict(zip(words[3:-5:2], words[4:-5:2], strict=True))
    assert flags == {"--classes": "cat,dog", "--channels": "3", "--size": "16", "--fit": "pad"}
    with pytest.raises(SourceError):
        dry_run(make_config({"source": words[2], "out": tmp_path / "out", "epsilon": 1.0}))
    options = {name.removeprefix("--"): value for name, value in flags.items()}
    plan = make_config(
        {"source": words[2], "out": tmp_path / "out", "ledger": str(tmp_path / "l.db")}
        | {**options, "epsilon": 1.0, "skip_bad": True}
    )
    assert any("4 bad files were passed over" in note for note in dry_run(plan).notes)
    assert check_source(plan).ready


def test_the_column_of_the_classes_is_declared_with_them(tmp_path: Path) -> None:
    """The command that was to declare all left the guarantee conditional on it."""
    scans = with_manifest(tmp_path / "scans")
    command = checked(scans).command
    assert command is not None
    assert "--label label" in command
    assert "label" not in checked(scans, label="label").options


@pytest.mark.parametrize("packed", [False, True])
def test_the_parts_that_are_not_read_are_named(tmp_path: Path, packed: bool) -> None:
    """Of train, test and val a run took the first, and nobody said so."""
    source = tmp_path / "data"
    for half in ("train", "test", "val"):
        class_folders(source / half, {"cat": 20, "dog": 20}, (8, 8, 1))
    if packed:
        source = Path(shutil.make_archive(str(source), "zip", source))
    (problem,) = (one for one in checked(source).problems if one.kind == "parts")
    assert "nothing reads val: a run reads train" in problem.message
    assert not problem.blocking
    plan = make_config({"source": str(source), "out": tmp_path / "out", "epsilon": 1.0})
    assert problem.message in dry_run(plan).notes
    assert "parts" not in kinds(checked(tmp_path / "data" / "train"))
    shutil.rmtree(tmp_path / "data" / "val")  # train and test alone are as usual
    assert "parts" not in kinds(checked(tmp_path / "data"))


def test_images_of_16_bits_are_mended_by_a_window_and_not_passed_over(tmp_path: Path) -> None:
    """The same three lines came ten times, and the command then left out the class."""
    folder = class_folders(tmp_path / "scans", {"cat": 20, "dog": 20, "owl": 20}, (8, 8, 1))
    for path in folder.glob("cat/*"):
        Image.fromarray(np.asarray(Image.open(path)).astype(np.uint16) * 257).save(path)
    result = checked(folder)
    (deep,) = (one for one in result.problems if one.blocking)
    assert deep.count == 20
    assert deep.message.startswith("20 files have grey values of 16 bits or more: say which are ")
    assert all("?window" not in line and ", in this image from " in line for line in deep.examples)
    assert result.command is None
    plan = recommended_run(folder, epsilon=1.0, progress="none")
    assert plan.problems == (deep,)
    assert plan.command is None
    assert checked(f"{folder}?window=32768,65536").ready
    assert checked(folder, skip_bad=True).command is not None
    for path in (*folder.glob("dog/*"), *folder.glob("owl/*")):
        Image.fromarray(np.asarray(Image.open(path)).astype(np.uint16) * 257).save(path)
    assert "window" not in kinds(checked(f"{folder}?window=32768,65536"))
    white = checked(f"{folder}?window=-1000,400")  # ready, and every sample would be white
    (problem,) = (one for one in white.problems if one.kind == "window")
    assert problem.message.startswith(
        "60 of 60 images are black, white or of one grey nearly all over"
    )
    run = make_config({"source": f"{folder}?window=-1000,400", "out": tmp_path / "o", "epsilon": 1})
    assert (
        sum("black, white or of one grey nearly all over" in note for note in dry_run(run).notes)
        == 1
    )
    nothing = checked(folder, size=8, channels=1)  # was a traceback
    assert [one.kind for one in nothing.problems] == ["cannot be opened"]
    assert nothing.losses == {}


def test_a_window_that_spoils_the_images_of_one_class_is_said(tmp_path: Path) -> None:
    """Of two classes that are one of three images each, nothing was said of the black one."""
    folder = class_folders(tmp_path / "scans", {"cat": 20, "dog": 20, "owl": 20}, (8, 8, 1))
    for path in folder.rglob("*.png"):
        scale = 1 if path.parent.name == "cat" else 257
        Image.fromarray(np.asarray(Image.open(path)).astype(np.uint16) * scale).save(path)
    (problem,) = (one for one in checked(f"{folder}?window=32768,65536").problems)
    assert (problem.kind, problem.blocking, problem.count) == ("window", False, 20)
    assert problem.message.startswith("20 of 60 images are black")


def test_the_windows_of_the_files_are_named_to_choose_one_of(tmp_path: Path) -> None:
    """A run said that a window is to be declared, and nothing said which."""
    pytest.importorskip("pydicom")
    from tests.data.dicom_files import dicom, saved

    rng = np.random.default_rng(0)
    for at in range(12):
        window = {"WindowCenter": [40, -600], "WindowWidth": [400, 1500]}
        if at % 3 == 0:
            window = {"WindowCenter": 50, "WindowWidth": 350}
        image = dicom(rng.integers(0, 200, (16, 16), dtype=np.uint16), **window)
        saved(image, tmp_path / "scans" / f"class {at % 2}" / f"{at}.dcm")
    (problem,) = (one for one in checked(tmp_path / "scans").problems if one.kind == "window")
    assert (problem.blocking, problem.count) == (False, 12)
    said = "2 windows of their own, most often 40,400 (8 of 12)"
    assert said in problem.message
    assert "'?window=40,400'" in problem.message
    assert "window" not in kinds(checked(f"{tmp_path / 'scans'}?window=40,400"))


@pytest.mark.parametrize("lowest", [0, 30_000])
def test_a_window_that_is_far_too_wide_is_said(tmp_path: Path, lowest: int) -> None:
    """Scans of 12 bits by the window of 16 were nearly black, or of one grey, and unsaid."""
    folder = class_folders(tmp_path / "scans", {"cat": 20, "dog": 20}, (8, 8, 1))
    for path in folder.glob("*/*"):
        values = np.asarray(Image.open(path)).astype(np.uint16) * 16 + lowest
        Image.fromarray(values).save(path)
    wide = checked(f"{folder}?window=32768,65536")
    (problem,) = (one for one in wide.problems if one.kind == "window")
    assert problem.message.startswith("40 of 40 images are black, white or of one grey nearly all")
    assert "window" not in kinds(checked(f"{folder}?window={lowest + 2048},4096"))


@pytest.mark.parametrize("flat", [False, True])
def test_photos_of_a_format_that_is_not_read_are_to_be_converted(
    tmp_path: Path, flat: bool
) -> None:
    """Ten were "12 bad", and nobody said what to do; beside other photos they were no images."""
    for number in range(10):
        folder = tmp_path / "x" / ("" if flat else ("cat", "dog")[number % 2])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (problem,) = checked(tmp_path / "x").problems
    assert "is HEIC, a format that is not read: convert such files to" in problem.message
    assert flat or "none of its images can be used (10 bad)" in problem.message
    if flat:
        packed = shutil.make_archive(str(tmp_path / "x"), "zip", tmp_path / "x")
        assert "10 files. 0.heic is HEIC, a format" in checked(packed).problems[0].message
        save(np.zeros((8, 8, 1), np.uint8), tmp_path / "x" / "1.png")
        with pytest.raises(SourceError, match="is HEIC, a format that is not read"):
            open_source(tmp_path / "x")
        assert open_source(tmp_path / "x", skip_bad=True).skipped == 10


@pytest.mark.parametrize(
    ("shape", "delta"),
    [((8, 8, 1), 1e-5), ((28, 28, 1), 1e-2)],  # of the latter epsilon 3 is worth other stages
)
def test_what_a_class_can_carry_is_that_of_the_plan(
    tmp_path: Path, shape: tuple[int, ...], delta: float
) -> None:
    folder = class_folders(tmp_path / "x", {"cat": 100, "dog": 300}, shape)
    result = checked(folder, delta=delta, accept_epsilon=True)
    assert result.ready
    for epsilon in (1.0, 3.0):
        plan = make_config(
            {"source": str(folder), "out": tmp_path / "out", "epsilon": epsilon}
            | {"ledger": str(tmp_path / "l.db"), "delta": delta, "accept_epsilon": True}
        )
        (of_100, of_300, *_) = dry_run(plan).carried
        assert (of_100.size, of_300.size) == (100, 300)
        assert result.carried[epsilon] == {"cat": of_100, "dog": of_300}


@pytest.mark.parametrize("encoder", ["embedded:dct", "embedded:energies"])
def test_check_and_plan_say_that_images_serve_little_by_one_rule(
    tmp_path: Path, encoder: str
) -> None:
    """A class of 250 counted as one of 100: a check said so of it, and a plan did not."""
    for size, little in ((250, False), (200, True), (90, True)):
        folder = class_folders(tmp_path / str(size), {"cat": size, "dog": size}, (16, 16, 1))
        words: dict[str, Any] = {"epsilon": 1.0, "ledger": str(tmp_path / "l.db")}
        words["encoder"] = encoder
        config = make_config({**words, "source": str(folder), "out": "out"})
        said = {one.summary for one in check_source(config).carried[1.0].values()}
        assert ("images serve little" in said) is little
        plan = recommended_run(folder, **words, progress="none").plan
        assert plan is not None
        assert ("few units" in [rule.rule for rule in plan.expectations]) is little


@pytest.mark.parametrize(("hold_out", "little"), [(None, False), ("20%", True)])
def test_a_plan_counts_no_record_that_is_held_out(
    tmp_path: Path, hold_out: str | None, little: bool
) -> None:
    """A class of 250 of which a fifth is held out is one of 200, of which little is to be had."""
    folder = class_folders(tmp_path / "x", {"cat": 250, "dog": 250}, (16, 16, 1))
    words = {"source": str(folder), "ledger": str(tmp_path / "l.db"), "epsilon": 1.0, "out": "o"}
    words |= {"adjacency": "replace-one", "encoder": "embedded:dct", "hold_out": hold_out}
    plan = dry_run(make_config(words))
    assert ("few units" in [rule.rule for rule in plan.expectations]) is little


def test_drawn_homes_are_checked_by_the_options_of_their_name() -> None:
    result = checked("playhouse:pet-status?homes=2&per_home=6&size=16", epsilon=3.0)
    assert (result.images, result.shape) == (12, (16, 16, 3))
    assert "'playhouse:pet-status?homes=2&per_home=6&size=16'" in str(result.command)
    with pytest.raises(ConfigError, match="unknown option 'homes'"):
        checked("scans?homes=2")


def test_units_that_nobody_asked_for_are_not_what_a_class_carries() -> None:
    """Homes of drawn rooms: a class of 250 images counted as one of the 23 homes it was in."""
    name = "playhouse:pet-status?homes=2&per_home=6&size=16"
    plain, by_home = checked(name), checked(name, unit="home")
    assert (plain.units, plain.class_units) == (12, plain.classes)
    assert (by_home.units, by_home.people) == (2, "units (home)")


def in_cases(folder: Path) -> None:
    """Class folders of images whose names say whose they are, three of each."""
    for label in ("a", "b"):
        (folder / label).mkdir()
        for number in range(12):
            image = np.full((8, 8, 1), number + 99 * (label == "b"), np.uint8)
            save(image, folder / label / f"case_{number // 3:04d}_{number % 3}.png")


@pytest.mark.parametrize("named", [True, False])
def test_grouped_names_are_told(tmp_path: Path, named: bool) -> None:
    in_cases(tmp_path)
    options = {"unit_from_name": r"case_(\d+)"} if named else {}
    result = checked(tmp_path, **options)
    assert ("grouped names" in kinds(result)) is not named
    assert "--unit-from-name 'case_(\\d+)'" in str(result.command)


def test_a_pattern_that_misses_files_is_told_and_not_proposed(tmp_path: Path) -> None:
    in_cases(tmp_path)
    for grey, label in enumerate(("a", "b")):
        save(np.full((8, 8, 1), 50 + grey, np.uint8), tmp_path / label / "plain.png")
    result = checked(tmp_path)
    warning = {problem.kind: problem.message for problem in result.problems}["grouped names"]
    assert "--unit-from-name 'case_(\\d+)', once names give a unit to 2 more files" in warning
    assert result.ready
    assert "--unit-from-name" not in str(result.command)


def test_classes_that_look_like_people_are_told(tmp_path: Path) -> None:
    for patient in range(30):
        (tmp_path / f"p{patient}").mkdir()
        save(np.full((8, 8, 1), patient, np.uint8), tmp_path / f"p{patient}" / "x.png")
    (problem,) = (one for one in checked(tmp_path).problems if one.kind == "class names")
    assert "--label none --unit-from folder" in problem.message
    assert "class names" not in kinds(checked(tmp_path, label="none", unit_from="folder"))


def test_many_kinds_of_few_images_are_not_said_to_look_like_people(tmp_path: Path) -> None:
    """25 kinds of cats were; whether they are people is asked all the same."""
    class_folders(tmp_path, {f"cat_{kind:03}": 12 for kind in range(25)})
    (problem,) = (one for one in checked(tmp_path).problems if one.kind == "class names")
    assert "look as if they named people" not in problem.message
    assert "If they are people or cases" in problem.message
    assert "--label none --unit-from folder" in problem.message


def test_images_without_classes_are_told_until_that_is_declared(tmp_path: Path) -> None:
    class_folders(tmp_path, {"cat": 30})
    for image in (tmp_path / "cat").iterdir():
        image.rename(tmp_path / image.name)
    (tmp_path / "cat").rmdir()
    (problem,) = checked(tmp_path).problems
    assert (problem.kind, problem.message) == ("no classes", ONE_CLASS)
    assert checked(tmp_path).options["label"] == "none"
    assert checked(tmp_path, label="none").problems == ()


def test_arrays_are_checked_too(tmp_path: Path) -> None:
    path = embeddings(tmp_path / "x.npz")
    with np.load(path) as arrays:
        changed = dict(arrays)
    changed["embeddings"] = changed["embeddings"].copy()
    changed["embeddings"][1] = changed["embeddings"][0]
    np.savez(path, **changed)
    result = checked(path)
    assert result.ready
    assert kinds(result) == {"equal files": 1}
    assert sum(result.classes.values()) == result.images > 100
    printed = CliRunner().invoke(app, ["check", str(path)]).output
    assert "180 embeddings, 6 numbers each" in printed
    assert " images " not in printed


def test_a_check_and_a_plan_print_as_a_line(tmp_path: Path) -> None:
    result = checked(class_folders(tmp_path / "x", {"many": 6, "single": 1}))
    assert repr(result).startswith(f"<SourceCheck {tmp_path / 'x'}: 7 images. the class single has")
    plan = understudy.plan(tmp_path / "x", epsilon=1.0, ledger=tmp_path / "l.db", progress="none")
    assert repr(plan) == f"<Recommendation: {plan.obstacle}>"
    assert "the class single has one image" in repr(plan)
    class_folders(tmp_path / "y", {"cat": 30, "dog": 30})
    plan = understudy.plan(tmp_path / "y", epsilon=1.0, ledger=tmp_path / "l.db", progress="none")
    assert repr(plan) == f"<Recommendation: {plan.command}>"


def test_every_image_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = class_folders(tmp_path / "x", {"cat": 20, "dog": 20})
    decoded: list[str] = []
    pixels = encoded_images.image_pixels

    def counted(record: Any, *args: Any, **options: Any) -> Any:
        decoded.append(record.location)
        return pixels(record, *args, **options)

    monkeypatch.setattr(encoded_images, "image_pixels", counted)
    checked(folder)
    assert len(decoded) == len(set(decoded)) == 40


def test_a_dataset_of_bad_files_alone_is_told_why(tmp_path: Path) -> None:
    for patient in ("p1", "p2"):
        for label in ("ill", "well"):
            (tmp_path / "scans" / label / patient).mkdir(parents=True)
            save(np.zeros((8, 8, 1), np.uint8), tmp_path / "scans" / label / patient / "x.png")
    negative = np.full((6, 8, 8, 1), -1, np.float32)
    np.savez(tmp_path / "x.npz", images=negative, labels=np.arange(6) % 2)
    told = {"scans": r"\(4 bad\).*p1 is a folder inside a class folder.*--unit-from folder"}
    told["x.npz"] = r"\(6 bad\).*row 0 is an image of real numbers that are not all from 0 to 1"
    for name, reason in told.items():
        (problem,) = checked(tmp_path / name).problems
        assert problem.kind == "cannot be opened"
        assert re.search(reason, problem.message)


def test_of_what_cannot_be_opened_no_count_is_said(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "x", {"cat": 2, "dog": 2})
    lines = [f"{path.relative_to(folder)},1,2" for path in folder.rglob("*.png")]
    (folder / "manifest.csv").write_text("\n".join(["path,finding,grade", *lines]))
    for command in ("check", "plan"):
        epsilon = ["--epsilon", "1"] if command == "plan" else []
        printed = CliRunner().invoke(app, [command, str(folder), *epsilon]).stdout
        assert "2 columns could hold the class" in printed
        assert not re.search(r"\b0 images|images +0", printed)


def test_folders_of_people_that_hold_classes_are_told(tmp_path: Path) -> None:
    for outer, inner in [("people", "class{1}"), ("classes", "p{0}-{1}")]:
        for one in range(5):
            for other in range(2):
                place = tmp_path / outer / f"p{one}" / inner.format(one, other)
                place.mkdir(parents=True)
                save(np.full((8, 8, 1), 10 * one + other, np.uint8), place / "x.png")
    assert kinds(checked(tmp_path / "people", unit_from="folder"))["folders"] == 2
    assert "folders" not in kinds(checked(tmp_path / "classes", unit_from="folder"))


@pytest.mark.parametrize("column", ["owner", "patient"])  # the second is proposed as the unit
def test_a_class_of_one_person_is_refused_as_one_of_one_image(tmp_path: Path, column: str) -> None:
    table = with_manifest(tmp_path / "scans") / "manifest.csv"
    rows = re.sub(r"eel,p\d+", "eel,p1", table.read_text().replace("patient", column))
    table.write_text(rows)
    proposed = checked(tmp_path / "scans", label="label")
    assert (proposed.command is None) == (column == "patient")
    named = checked(tmp_path / "scans", label="label", unit=column)
    assert kinds(named)["one-image class"] == 1
    with pytest.raises(SourceError, match="the class eel has images of one unit, which alone"):
        quick_run(tmp_path / "scans", tmp_path, unit=column, label="label")
    assert not (tmp_path / "out").exists()


def test_class_names_with_commas_are_quoted_in_the_command(tmp_path: Path) -> None:
    names = ('7" wide', "cat, tabby", "dog")
    result = checked(class_folders(tmp_path, dict.fromkeys(names, 4)))
    words = shlex.split(str(result.command))
    declared = words[words.index("--classes") + 1]
    assert make_config(
        {"source": "x", "out": "out", "epsilon": 1.0, "classes": declared}
    ).data.classes == tuple(names)
    assert checked(tmp_path, classes=declared).ready


def test_the_command_prints_it_and_exits_by_it(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "x", {"cat": 120, "dog": 50}, (8, 8, 1))
    good = CliRunner().invoke(app, ["check", str(folder)])
    assert good.exit_code == 0
    assert "nothing would refuse a run" in good.output
    assert "images serve little" in good.output
    bad = CliRunner().invoke(app, ["check", str(messy(tmp_path / "y")), "--json"])
    assert bad.exit_code == 1
    content = json.loads(bad.stdout)
    assert content["kind"] == "owner-only"
    assert content["classes"] == {"cat": 131, "dog": 23}
    assert {problem["kind"] for problem in content["problems"]} >= {"bad files", "mixed sizes"}


def test_a_class_of_which_no_image_can_be_used_is_named(tmp_path: Path) -> None:
    """A class in 16 bits: the command that was proposed passed over it as a whole."""
    folder = class_folders(tmp_path / "scans", {"cat": 12, "dog": 12}, (8, 8, 1))
    (folder / "deep").mkdir()
    for number in range(11):
        image = Image.fromarray(np.full((8, 8), number * 300, np.uint16))
        image.save(folder / "deep" / f"{number:02d}.png")
    (lost,) = (problem for problem in checked(folder).problems if problem.kind == "lost classes")
    assert lost.message.startswith("no image of the class deep can be used")
    plan = make_config(
        {"source": str(folder), "out": str(tmp_path / "out"), "epsilon": 1.0, "skip_bad": True}
    )
    assert any("class deep" in note for note in dry_run(plan).notes)


@pytest.mark.parametrize("name", ["patients.csv", "metadata.jsonl"])
def test_a_table_beside_class_folders_is_named_as_not_read(tmp_path: Path, name: str) -> None:
    """It may say whose the images are, and was one of the files of packers."""
    folder = class_folders(tmp_path / "scans", {"cat": 12, "dog": 12}, (8, 8, 1))
    (folder / name).write_text("image,patient\n0,ann\n")
    (folder / "notes.txt").write_text("hello")
    result = checked(folder)
    (stray,) = (problem for problem in result.problems if problem.kind == "stray files")
    assert stray.count == 2
    assert f"{name} is a table" in stray.message
    plan = make_config({"source": str(folder), "out": str(tmp_path / "out"), "epsilon": 1.0})
    assert any(name in note for note in dry_run(plan).notes)


def test_a_person_in_two_spellings_is_a_problem(tmp_path: Path) -> None:
    who = np.array(["P1", "p1", "P2", "P3"] * 10)
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    np.savez(tmp_path / "a.npz", embeddings=rows, labels=np.arange(40) // 20, who=who)
    problems = {one.kind: one for one in checked(tmp_path / "a.npz", unit="who").problems}
    assert "'P1' and 'p1' (1 pair like this)" in problems["alike units"].message
    assert not problems["alike units"].blocking
