"""Whole runs with a label column, declared classes and channels, and a held-out part."""

import csv
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.samples import QUICK, SIZES, class_folders, embeddings, killed_at, pictures, save

import understudy
from understudy.core.errors import ConfigError, SourceError
from understudy.data import open_source
from understudy.data.holdout import split
from understudy.planning.dry import dry_run
from understudy.privacy.ledger.ledger import Ledger
from understudy.report.statement import COVERED
from understudy.run.books import dataset_account, set_dataset_budget
from understudy.run.config import make_config
from understudy.run.held_out import FILE, read_hold_out
from understudy.run.run_record import declaring_options

EXACT = 1e5  # an epsilon whose noise a count does not show


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As CelebA: a manifest with forty columns of -1 and 1."""
    folder = tmp_path_factory.mktemp("faces")
    with (folder / "manifest.csv").open("w", newline="") as file:
        table = csv.writer(file)
        others = [f"Attribute_{index}" for index in range(38)]
        table.writerow(["image_id", "Smiling", "Male", *others])
        for number, (_, image) in enumerate(pictures(SIZES, (8, 8, 1), 0)):
            save(image, folder / f"{number}.png")
            signs = [1 - 2 * (number % every > 0) for every in range(2, 42)]
            table.writerow([f"{number}.png", *signs])
    return folder


def run(source: Path, out: Path, ledger: str, **options: Any) -> understudy.Result:
    options = {"epsilon": 1.0, "settings": QUICK, "count": 12, "decoder": "none", **options}
    return understudy.synthesize(source, out=out, ledger=ledger, **options)


def facts_of(result: understudy.Result) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((result.release / "privacy.json").read_text())
    return facts


def origins(premises: list[dict[str, Any]]) -> dict[str, tuple[Any, str]]:
    return {one["name"]: (one["value"], one["origin"]) for one in premises}


def test_two_labels_of_one_dataset_draw_on_one_budget(
    faces: Path, tmp_path: Path, ledger: str
) -> None:
    with pytest.raises(SourceError, match="40 columns could hold the class: Smiling, Male"):
        run(faces, tmp_path / "a", ledger)
    first = run(faces, tmp_path / "a", ledger, label="Smiling")
    assert facts_of(first)["data"]["classes"] == ["-1", "1"]
    run(faces, tmp_path / "b", ledger, label="Male")
    with Ledger(ledger) as book:
        (dataset,) = book.datasets()
        assert len(book.spent(dataset.id).runs) == 2
        assert book.spent(dataset.id).epsilon > 1.3
    # The ledger's own commands know it by its records, and ask for no label.
    assert dataset_account(str(faces), ledger).dataset.id == dataset.id
    set_dataset_budget(str(faces), 1.0, 1e-5, ledger)
    with pytest.raises(understudy.BudgetRefused):
        run(faces, tmp_path / "c", ledger, label="Smiling")


def test_what_is_inferred_is_listed_and_what_is_declared_too(
    faces: Path, tmp_path: Path, ledger: str
) -> None:
    inferred = run(class_folders(tmp_path / "scans"), tmp_path / "a", ledger, count=9)
    assert origins(facts_of(inferred)["premises"]) == {
        "class names": (["cat", "dog", "eel"], "inferred"),
        "image size": ([8, 8], "inferred"),
        "colour channels": (1, "inferred"),
    }
    text = (inferred.release / "PRIVACY.md").read_text()
    line = "inferred from the private records: class names (cat, dog, eel), image size (8, 8)"
    assert line in text
    declared = {"label": "Male", "classes": "1,-1", "channels": 3, "size": 9, "hold_out": "20%"}
    made = run(faces, tmp_path / "b", ledger, **declared)
    expected = {
        "class names": (["1", "-1"], "declared"),
        "label column": ("Male", "declared"),
        "image size": ([9, 9], "declared"),
        "colour channels": (3, "declared"),
    }
    assert origins(facts_of(made)["premises"]) == expected
    owner = json.loads((made.owner / "run.json").read_text())
    assert origins(owner["premises"]) == expected
    assert owner["settings"]["classes"] == ["1", "-1"]
    assert "inferred from the private records: nothing" in (made.release / "PRIVACY.md").read_text()


@pytest.mark.slow
def test_a_class_of_one_image_is_said_to_be_outside_of_the_guarantee(
    tmp_path: Path, ledger: str
) -> None:
    """One image in a new folder puts its class name into the release: the papers say so."""
    scans = class_folders(tmp_path / "scans", {"cat": 20, "dog": 20, "ann-smith": 2}, (8, 8, 3))
    made = run(scans, tmp_path / "a", ledger, decoder=None, settings={}, count=6)
    facts = facts_of(made)
    inferred = ["class names", "image size", "colour channels", "encoder and decoder by size"]
    assert "ann-smith" in facts["data"]["classes"]
    assert facts["guarantee"]["conditional_on"] == inferred
    assert all(name in facts["covered"][0] for name in inferred)
    assert facts["covered"][0] != COVERED[0]
    assert facts["not_covered"][0].startswith("What was inferred from the private records")
    for name in ("PRIVACY.md", "README.md"):
        text = " ".join((made.release / name).read_text().split())
        assert "conditional on what was inferred from the private images" in text
        assert ", ".join(inferred) in text
    report = " ".join((made.owner / "report.html").read_text().split())
    assert f"outside of the guarantee: {', '.join(inferred)}" in report
    # The line of the plan declares all of it.
    options = {"source": str(scans), "out": tmp_path / "b", "ledger": ledger, "epsilon": 1.0}
    line = declaring_options(dry_run(make_config(options)).premises)
    assert line == ["--classes ann-smith,cat,dog", "--size 8", "--channels 3"]
    declared = {"classes": "ann-smith,cat,dog", "size": 8, "channels": 3}
    plan = dry_run(make_config({**options, **declared}))
    assert {premise.origin for premise in plan.premises} == {"declared"}
    assert declaring_options(plan.premises) == []
    made = run(scans, tmp_path / "b", ledger, decoder=None, settings={}, count=6, **declared)
    facts = facts_of(made)
    assert facts["guarantee"]["conditional_on"] == []
    assert facts["covered"] == list(COVERED)
    assert "conditional" not in (made.release / "PRIVACY.md").read_text()


def test_an_epsilon_of_the_ledger_is_listed_as_such(tmp_path: Path, ledger: str) -> None:
    asked, scans = "rest", class_folders(tmp_path / "scans")
    set_dataset_budget(str(scans), 3.0, 1e-5, ledger)
    made = run(scans, tmp_path / "a", ledger, epsilon=asked)
    facts = facts_of(made)
    (premise,) = (one for one in facts["premises"] if one["name"] == "epsilon")
    assert premise["origin"] == "inferred"
    assert premise["value"] == f"{asked} of the budget that the owner's ledger had left"
    assert "epsilon" in facts["guarantee"]["conditional_on"]


def test_a_plan_says_what_it_infers_and_spends_nothing(
    faces: Path, tmp_path: Path, ledger: str
) -> None:
    options = {"source": str(faces), "out": tmp_path / "a", "settings": QUICK, "ledger": ledger}
    options["epsilon"] = 1.0
    plan = dry_run(make_config({**options, "label": "none", "hold_out": "5%"}))
    found = {one.name: one.origin for one in plan.premises}
    assert (found["class names"], found["image size"]) == ("declared", "inferred")
    assert plan.held_out == "5%"
    little, budget, undeclared = plan.notes[:3]  # the order is the plan's, wherever it is shown
    assert "serve little" in little
    assert "no total budget" in budget
    assert undeclared == "not covered unless it is declared: --size 8 --channels 1"
    assert not (tmp_path / "a").exists()
    vectors = embeddings(tmp_path / "vectors.npz", per_class=20)
    with np.load(vectors) as arrays:
        np.savez(vectors, embeddings=arrays["embeddings"])
    plan = dry_run(make_config({**options, "source": str(vectors)}))
    assert {one.name: one.origin for one in plan.premises}["embedding length"] == "inferred"
    assert any("one class, 'all'" in note for note in plan.notes)
    made = run(vectors, tmp_path / "b", ledger)
    assert any("one class, 'all'" in warning for warning in made.warnings)


def test_a_small_class_is_named_before_the_charge(tmp_path: Path, ledger: str) -> None:
    scans = class_folders(tmp_path / "scans", {"cat": 60, "dog": 60, "rare": 3}, (8, 8, 1))
    options = {"source": str(scans), "out": tmp_path / "a", "settings": QUICK, "ledger": ledger}
    plan = dry_run(make_config({**options, "epsilon": 3.0}))
    (note,) = (note for note in plan.notes if "little can be known" in note)
    assert "of rare at epsilon 3 (owner only): less than 7 images" in note
    recommended = understudy.plan(str(scans), epsilon=3.0, ledger=ledger).notes
    (note,) = (note for note in recommended if "little can be known" in note)
    assert "of rare at epsilon 3 (owner only): less than 26 images" in note


def test_an_undeclared_class_is_refused_before_anything_is_charged(
    tmp_path: Path, ledger: str
) -> None:
    scans = class_folders(tmp_path / "scans")
    with pytest.raises(SourceError, match=r"does not declare: eel .*Nothing was spent"):
        run(scans, tmp_path / "a", ledger, classes=["cat", "dog"])
    assert not (tmp_path / "a").exists()
    assert not Path(ledger).exists()


def test_an_empty_class_is_a_class(tmp_path: Path, ledger: str) -> None:
    scans = class_folders(tmp_path / "scans")
    made = run(
        scans, tmp_path / "a", ledger, classes="owl,eel,dog,cat", epsilon=EXACT,
        accept_epsilon=True, delta=1e-5, count=None, decoder=None,
    )  # fmt: skip
    data = facts_of(made)["data"]
    assert data["classes"] == ["owl", "eel", "dog", "cat"]
    rows = data["facts"]["rows_per_class"]
    assert rows["owl"] <= 2
    assert all(abs(rows[name] - 24) <= 2 for name in ("cat", "dog", "eel"))
    # A release is evaluated with what its owner declared.
    found = understudy.evaluate(
        tmp_path / "a",
        real=scans,
        test=class_folders(tmp_path / "test", seed=1),
        features="embedded:dct?coefficients=12",
        attacks=False,
    )
    assert any(one.group == "fidelity" for one in found.values)


def test_a_colour_image_does_not_steer_a_run_with_declared_channels(
    tmp_path: Path, ledger: str
) -> None:
    scans = class_folders(tmp_path / "scans")
    options = {"source": str(scans), "out": tmp_path / "a", "settings": QUICK, "ledger": ledger}
    options["epsilon"] = 1.0
    before = [dry_run(make_config({**options, **more})) for more in ({}, {"channels": 1})]
    save(np.full((8, 8, 3), (200, 20, 20), np.uint8), scans / "cat" / "red.png")
    after = [dry_run(make_config({**options, **more})) for more in ({}, {"channels": 1})]
    assert before[0] != after[0]  # what --channels is for
    assert before[1] == after[1]


# A held-out part


def test_a_held_out_part_is_no_part_of_the_run(tmp_path: Path, ledger: str) -> None:
    vectors = embeddings(tmp_path / "vectors.npz", per_class=200)
    options = {"epsilon": EXACT, "accept_epsilon": True, "hold_out": "20%", "count": None}
    made = run(vectors, tmp_path / "a", ledger, **options)
    hold_out = read_hold_out(made.owner)
    assert hold_out is not None
    members, held_out = split(open_source(vectors), hold_out)
    assert len(members) + len(held_out) == 600
    assert 60 < len(held_out) < 180
    labels = np.concatenate([batch.labels for batch in members.batches(64)])
    rows = facts_of(made)["data"]["facts"]["rows_per_class"]
    for index, name in enumerate(members.classes):
        assert abs(rows[name] - np.count_nonzero(labels == index)) <= 2
    owner = json.loads((made.owner / "run.json").read_text())
    assert (owner["rows"], owner["rows_held_out"]) == (len(members), len(held_out))
    with Ledger(ledger) as book:  # it is the whole dataset that was charged
        assert book.look_up(open_source(vectors))[0] is not None
        assert len(book.datasets()) == 1


def test_who_was_held_out_is_with_the_owner_alone(tmp_path: Path, ledger: str) -> None:
    scans = class_folders(tmp_path / "scans")
    made = run(scans, tmp_path / "a", ledger, hold_out=0.2, decoder=None)
    hold_out = read_hold_out(made.owner)
    assert hold_out is not None
    assert stat.S_IMODE((made.owner / FILE).stat().st_mode) == 0o600
    secret = hold_out.key.hex().encode()
    for path in made.release.rglob("*"):
        assert path.is_dir() or secret not in path.read_bytes()
        assert FILE not in path.name
    found = understudy.evaluate(
        tmp_path / "a", real=scans, features="embedded:dct?coefficients=12", attacks=False
    )
    parts = split(open_source(scans), hold_out)
    assert found.settings["rows"]["private"] == len(parts.members)
    assert found.settings["rows"]["held_out"] == len(parts.held_out)


def test_without_a_test_set_and_a_held_out_part_there_is_nothing_to_compare_with(
    tmp_path: Path, ledger: str
) -> None:
    scans = class_folders(tmp_path / "scans")
    run(scans, tmp_path / "a", ledger, decoder=None)
    with pytest.raises(ConfigError, match=r"say --test.*--hold-out 5%"):
        understudy.evaluate(tmp_path / "a", real=scans)


def test_a_resumed_run_holds_out_the_same(tmp_path: Path, ledger: str) -> None:
    vectors = embeddings(tmp_path / "vectors.npz")
    killed = killed_at("understudy.run.session.write_release", KeyboardInterrupt())
    with killed, pytest.raises(KeyboardInterrupt):
        run(vectors, tmp_path / "a", ledger, hold_out="20%")
    before = (tmp_path / "a" / "owner" / FILE).read_bytes()
    made = run(vectors, tmp_path / "a", ledger, hold_out="20%", resume=True)
    assert (made.owner / FILE).read_bytes() == before
    with Ledger(ledger) as book:
        (dataset,) = book.datasets()
        assert book.spent(dataset.id).epsilon == pytest.approx(1.0, abs=1e-3)


def test_small_classes_and_large_norms_of_arrays_are_said_before_the_charge(
    tmp_path: Path, ledger: str
) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [60, 3])
    options = {"source": str(tmp_path / "x.npz"), "out": tmp_path / "a", "ledger": ledger}
    for scale in (1.0, 1e7):
        np.savez(tmp_path / "x.npz", embeddings=scale * rng.normal(size=(63, 16)), labels=labels)
        notes = dry_run(make_config({**options, "epsilon": 1.0})).notes
        (small,) = (note for note in notes if "little can be known" in note)
        assert "of 1 at epsilon 1 (owner only): less than 20 embeddings" in small
        assert any("have norms of about 4e+07 (owner only)" in note for note in notes) == (
            scale > 1
        )
