"""Images of the same people, where nobody named the column or the field that says so."""

import csv
import io
import json
import shutil
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.run.samples import QUICK, SIZES, pictures, save, with_manifest

import understudy
from understudy.core.phrases import people_of
from understudy.data.units import person_columns

PATIENTS = 18


def rows():
    """(class, image, patient) of 72 images, four of a patient."""
    for number, (name, image) in enumerate(pictures(SIZES, (8, 8, 1), 0)):
        yield name, image, f"p{number % PATIENTS}"


def encoded(image):
    content = io.BytesIO()
    Image.fromarray(image[..., 0]).save(content, format="PNG")
    return content.getvalue()


def as_manifest(folder):
    return with_manifest(folder / "m")


def as_zip(folder):
    with_manifest(folder / "m")
    return shutil.make_archive(str(folder / "z"), "zip", folder / "m")


def as_npz(folder):
    names, images, patients = zip(*rows(), strict=True)
    ages = np.arange(len(names)) % 7
    content = {"images": np.stack(images), "labels": np.array(names), "patient_age": ages}
    np.savez(folder / "d.npz", **content, SubjectID=np.array(patients))
    return folder / "d.npz"


def as_parquet(folder):
    names, images, patients = zip(*rows(), strict=True)
    content = {"image": [encoded(image) for image in images], "label": names, "userId": patients}
    pq.write_table(pa.table(content), folder / "d.parquet")
    return folder / "d.parquet"


def as_tar(folder):
    with tarfile.open(folder / "d.tar", "w") as tar:
        for number, (name, image, patient) in enumerate(rows()):
            fields = json.dumps({"label": name, "participant": patient}).encode()
            for suffix, content in (("png", encoded(image)), ("json", fields)):
                member = tarfile.TarInfo(f"{number:04d}.{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return folder / "d.tar"


FORMATS = {
    "manifest": (as_manifest, "patient", "patients"),
    "zip": (as_zip, "patient", "patients"),
    "npz": (as_npz, "SubjectID", "subjects"),
    "parquet": (as_parquet, "userId", "users"),
    "tar": (as_tar, "participant", "participants"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_check_and_plan_say_how_many_people_there_are(kind, tmp_path):
    make, column, people = FORMATS[kind]
    source, ledger = str(make(tmp_path)), str(tmp_path / "ledger.db")
    label = {} if kind != "tar" else {"label": "label"}
    words = f"72 images of {PATIENTS} {people}: add --unit {column}"
    checked = understudy.check(source, progress="none", **label)
    assert next(one.message for one in checked.problems if one.kind == "units").startswith(words)
    assert f"--unit {column} " in checked.command
    assert (checked.units, checked.people) == (PATIENTS, people)
    plan = understudy.plan(source, epsilon=1.0, ledger=ledger, progress="none", **label)
    assert any(note.startswith(words) for note in plan.notes)
    assert f"--unit {column} " in plan.command
    assert plan.plan.unit == f"rows sharing '{column}'"
    # Who says so is told how many there are, and asked no more.
    said = understudy.check(source, progress="none", unit=column, **label)
    assert not [one for one in said.problems if one.kind == "units"]
    assert (said.units, said.people, said.class_units) == (PATIENTS, people, checked.class_units)
    assert max(said.class_units.values()) <= PATIENTS < max(said.classes.values())
    plan = understudy.plan(
        source, epsilon=1.0, ledger=ledger, progress="none", unit=column, **label
    )
    facts = {fact.name: fact.value for fact in plan.facts}
    assert facts[people] == str(PATIENTS)
    assert facts["class sizes"].endswith(people)


def as_many_of_few(folder):
    """600 images of ten patients, five in each class."""
    (folder / "scans").mkdir()
    with (folder / "scans" / "manifest.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "patient"])
        rng = np.random.default_rng(0)
        for number in range(600):
            image = rng.integers(0, 256, (4, 4, 1), dtype=np.uint8)
            save(image, folder / "scans" / f"{number}.png")
            table.writerow([f"{number}.png", "ab"[number % 2], f"p{number % 10}"])
    return folder / "scans"


def few_arrays(folder):
    """As `as_many_of_few`, as arrays."""
    images = np.random.default_rng(0).integers(0, 256, (600, 4, 4, 1), dtype=np.uint8)
    patients, labels = np.arange(600) % 10, np.tile(["a", "b"], 300)
    np.savez(folder / "d.npz", images=images, labels=labels, patient=patients)
    return folder / "d.npz"


@pytest.mark.slow
def test_what_a_class_carries_goes_by_people_and_not_by_images(tmp_path):
    """600 images of ten patients carry no mean of their own."""
    scans = as_many_of_few(tmp_path)
    checked = understudy.check(scans, progress="none", unit="patient")
    assert checked.class_units == {"a": 5, "b": 5}
    assert {carried.size for carried in checked.carried[1.0].values()} == {5}
    alone = understudy.check(scans, progress="none", unit_from="file")
    assert {carried.size for carried in alone.carried[1.0].values()} == {300}


def test_a_run_says_before_its_charge_that_patients_are_not_protected(tmp_path):
    scans = with_manifest(tmp_path / "m")
    options = {"epsilon": 20.0, "settings": QUICK, "ledger": str(tmp_path / "l.db")}
    plan = understudy.dry_run(scans, out=tmp_path / "out", **options)
    assert plan.notes[0].startswith("the column 'patient' may say whose an image is")
    options["unit"] = "patient"
    plan = understudy.dry_run(scans, out=tmp_path / "out", **options)
    assert not any("whose an image is" in note for note in plan.notes)


@pytest.mark.parametrize("make", [as_many_of_few, few_arrays])
def test_a_run_counts_persons_before_its_charge(make, tmp_path):
    """600 images of ten patients: what serves little is said of persons, as `plan` says it."""
    options = {"epsilon": 8.0, "ledger": str(tmp_path / "l.db"), "size": 16, "unit": "patient"}
    source = make(tmp_path)
    dry = understudy.dry_run(source, out=tmp_path / "out", **options)
    plan = understudy.plan(source, progress="none", **options).plan
    assert dry.expectations == plan.expectations
    assert any(note.startswith("images of these classes serve little") for note in dry.notes)
    alone = understudy.dry_run(source, out=tmp_path / "out", **options | {"unit": None})
    assert not any("serve little" in note for note in alone.notes)
    options |= {"epsilon": 1.0, "hold_out": "50%", "delta": 1e-3}
    dry = understudy.dry_run(source, out=tmp_path / "out", **options)
    assert any("known of a, b at" in note and "20 patients" in note for note in dry.notes)
    assert "a class of 2 at" in next(note for note in dry.notes if "serve little" in note)
    # of a delta, too, there are ten and not 600
    assert not any(note.startswith("delta") for note in dry.notes)


def test_no_repeats_no_values_no_persons(tmp_path):
    """A column of different values, an empty one and the class itself say nothing."""
    names, images, _ = zip(*rows(), strict=True)
    content = {"images": np.stack(images), "labels": np.array(names)}
    np.savez(tmp_path / "d.npz", **content, patient=np.arange(72))
    checked = understudy.check(tmp_path / "d.npz", progress="none")
    assert not [one for one in checked.problems if one.kind == "units"]
    assert checked.people is None
    content["person"] = content.pop("labels")
    np.savez(tmp_path / "e.npz", **content)
    checked = understudy.check(tmp_path / "e.npz", label="person", progress="none")
    assert not [one for one in checked.problems if one.kind == "units"]


def test_images_without_a_patient_are_counted_and_no_command_leaves_them_out(tmp_path):
    scans = with_manifest(tmp_path / "m")
    lines = (scans / "manifest.csv").read_text().splitlines()
    lines[1] = lines[1].rpartition(",")[0] + ","
    (scans / "manifest.csv").write_text("\n".join(lines) + "\n")
    checked = understudy.check(scans, progress="none")
    (problem,) = (one for one in checked.problems if one.kind == "units")
    assert problem.message.startswith("71 images of 18 patients: add --unit patient")
    assert "1 image has no patient" in problem.message
    assert "--unit" not in checked.command


@pytest.mark.slow
def test_dicom_files_are_of_patients(tmp_path):
    pytest.importorskip("pydicom")
    from tests.data.dicom_files import hospital

    scans = hospital(tmp_path / "h", patients=6, images=4)
    shutil.rmtree(scans / "us")
    images = len([path for path in scans.rglob("*") if path.is_file()])
    words = f"{images} images of 6 patients: add --unit PatientID"
    checked = understudy.check(scans, progress="none", channels=1, size=8)
    assert next(one.message for one in checked.problems if one.kind == "units").startswith(words)
    assert "--unit PatientID " in checked.command
    assert "--unit-from" not in checked.command
    options = {"progress": "none", "channels": 1, "size": 8, "ledger": str(tmp_path / "l.db")}
    plan = understudy.plan(scans, epsilon=1.0, **options)
    assert "--unit PatientID " in plan.command
    assert plan.plan.unit == "rows sharing 'PatientID'"
    # Of the same files in a manifest, too.
    listed = ["path,label", *(f"{p.relative_to(scans)},x" for p in scans.rglob("*") if p.is_file())]
    listed[1] = listed[1][:-1] + "y"
    (scans / "manifest.csv").write_text("\n".join(listed) + "\n")
    checked = understudy.check(scans, progress="none", channels=1, size=8)
    assert next(one.message for one in checked.problems if one.kind == "units").startswith(words)
    # A column of the manifest hides the field of that name.
    listed = ["path,label,PatientID", *(f"{row},p{at}" for at, row in enumerate(listed[1:]))]
    (scans / "manifest.csv").write_text("\n".join(listed) + "\n")
    checked = understudy.check(scans, progress="none", channels=1, size=8, unit="PatientID")
    problem = next(one for one in checked.problems if one.kind == "hidden field")
    assert problem.message.startswith("--unit PatientID is the column of that name: rename it")


def test_the_card_says_that_a_noisy_number_counts_patients(tmp_path):
    scans = with_manifest(tmp_path / "m")
    options = {"epsilon": 100.0, "ledger": str(tmp_path / "l.db"), "settings": QUICK}
    made = understudy.synthesize(
        scans, out=tmp_path / "a", unit="patient", progress="none", **options
    )
    card = (made.release / "README.md").read_text()
    number = made.facts["noisy_rows"]
    assert f"| Made from | about {number} patients, counted with noise:" in card
    assert f"| private units (DP count) | {number} |" in card
    options["ledger"] = str(tmp_path / "other.db")
    alone = understudy.synthesize(scans, out=tmp_path / "b", progress="none", **options)
    assert "Made from" not in (alone.release / "README.md").read_text()


def test_names_of_columns():
    ids = ["PatientID", "patient", "subject_id", "userid", "Patient Name", "patientId", "mrn"]
    others = ["patient_age", "Patient Sex", "label", "path", "paid", "user_agent", "name", "id"]
    assert set(person_columns(ids + others)) == set(ids)
    assert person_columns(["user", "patient"]) == ("patient", "user")
    assert people_of("PERSON") == "people"
    assert people_of("household") == "units (household)"


def test_a_patient_of_two_classes_counts_for_less_in_each(tmp_path):
    """As sums count: with an image of each, one over the root of two."""
    count, sizes = 100, {}
    for name in ("both", "own"):
        folder = tmp_path / name
        folder.mkdir()
        rows = [["path", "label", "patient"]]
        for number in range(2 * count):
            label = "ab"[number % 2]
            save(np.full((4, 4, 1), number, np.uint8), folder / f"{number}.png")
            patient = f"p{number // 2}" if name == "both" else f"{label}p{number // 2}"
            rows.append([f"{number}.png", label, patient])
        (folder / "manifest.csv").write_text("".join(",".join(row) + "\n" for row in rows))
        result = understudy.check(folder, progress="none", unit="patient")
        sizes[name] = [carried.size for carried in result.carried[1.0].values()]
        assert result.class_units == {"a": count, "b": count}
    assert sizes["both"] == pytest.approx([count / 2**0.5] * 2)
    assert sizes["own"] == [count] * 2


def in_folders(place, start, seed):
    """``place/<class>/<person>/<image>``, three persons of a class and more."""
    for number, (name, image) in enumerate(pictures(SIZES, (16, 16, 1), seed)):
        folder = place / name / f"p{start + number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        save(image, folder / f"{number}.png")
    return place


def test_a_test_set_may_have_folders_of_persons_where_the_private_one_may(tmp_path):
    """It was refused, with the advice to say ``--unit-from folder``, which the run had said."""
    real, test = (in_folders(tmp_path / name, *at) for name, at in (("r", (0, 0)), ("t", (9, 5))))
    flat = tmp_path / "flat"
    for image in test.rglob("*.png"):  # as before, a test set needs none
        (flat / image.parts[-3]).mkdir(parents=True, exist_ok=True)
        shutil.copy(image, flat / image.parts[-3])
    said = {"ledger": str(tmp_path / "ledger.db"), "unit_from": "folder"}
    plan = understudy.dry_run(real, epsilon=8.0, settings=QUICK, test=test, **said)
    assert plan.refused is None
    run = {"epsilon": 8.0, "settings": QUICK, "count": 30, "progress": "none"}
    understudy.synthesize(real, out=tmp_path / "out", **run, **said)
    for place in (test, flat):
        result = understudy.evaluate(
            tmp_path / "out", real=real, test=place, attacks=False, progress="none"
        )
        assert result.settings["rows"]["held_out"] == sum(SIZES.values())
