"""An evaluation that somebody wants to be wrong: test sets that are not apart, copies, claims."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial.distance import cdist
from tests.first_warning import FirstWarning, Warned
from tests.run.blobs import blobs, folder_of
from tests.run.samples import embeddings, quick_run

import understudy
from understudy.core.errors import ConfigError, RunError
from understudy.core.results import Evaluation, Verdict
from understudy.data import open_source
from understudy.data.holdout import PartSource
from understudy.evaluation.embedding_pass import embed_dataset, load_features, rows_of
from understudy.evaluation.inputs import EvaluationOptions, Inputs
from understudy.evaluation.time_estimate import estimated_seconds
from understudy.evaluation.utility_adapter import _values
from understudy.metrics.utility import UtilityReport, UtilityResult

FEATURES = "embedded:dct?coefficients=60"
Rows = list[tuple[str, NDArray[np.uint8]]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Private images, a test set, an honest release and one that is half private images."""
    place = tmp_path_factory.mktemp("holes")
    private, others = list(blobs(0, 200)), list(blobs(1, 120))
    folder_of(place / "real", private)
    folder_of(place / "test", blobs(2, 120))
    folder_of(place / "honest", others, release=True)
    folder_of(place / "half", [*private[:86], *others[:114]], release=True)
    return place


def evaluate(world: Path, name: str | Path, **options: Any) -> Evaluation:
    usual = {"real": world / "real", "test": world / "test", "features": FEATURES}
    return understudy.evaluate(world / name, **{**usual, "progress": "none", **options})


def verdict(evaluation: Evaluation, group: str) -> Verdict:
    return {one.group: one for one in evaluation.verdicts}[group]


# Copies bound the grade of attacks


@pytest.mark.slow
def test_an_attack_is_not_good_beside_many_copies(world: Path) -> None:
    for options in ({}, {"attacks": False}):
        attack = verdict(evaluate(world, "half", **options), "attack")
        assert attack.grade == "poor"
        assert "86 of 200 synthetic images (43.00%) are exact copies" in attack.sentence
    assert verdict(evaluate(world, "honest"), "attack").grade == "good"


def test_an_interval_over_two_seeds_is_students() -> None:
    results = tuple(
        UtilityResult(accuracy, {"cat": accuracy}, accuracy, "cnn", ece=0.1)
        for accuracy in (0.50, 0.51)
    )
    balanced, *_ = _values(UtilityReport(results, results), "a network", ())
    half = 12.706 * np.std([0.50, 0.51], ddof=1) / np.sqrt(2)
    assert (balanced.low, balanced.high) == pytest.approx((0.505 - half, 0.505 + half), abs=1e-5)


def test_attacks_that_were_left_out_are_not_said_to_have_had_too_few_records(world: Path) -> None:
    attack = verdict(evaluate(world, "honest", attacks=False), "attack")
    assert attack.grade == "unknown"
    assert attack.sentence == "You left the attacks out (--no-attacks)."


# A test set that is not apart


def stored_anew(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """An image after JPEG."""
    file = io.BytesIO()
    Image.fromarray(image[..., 0]).save(file, "JPEG", quality=80)
    return np.asarray(Image.open(file))[..., None]


def mixed(world: Path, tmp_path: Path, shared: Rows, count: int) -> Path:
    """A test set with some rows that are not its own."""
    return folder_of(tmp_path / "mixed", [*shared, *list(blobs(3, count))])


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["private records", "rows of the release"])
@pytest.mark.parametrize("shared", [3, 120])
def test_a_test_set_that_overlaps_is_refused(
    world: Path, tmp_path: Path, origin: str, shared: int
) -> None:
    rows = list(blobs(0 if origin == "private records" else 1, 120))[:shared]
    test = mixed(world, tmp_path, rows, 120 - shared if shared < 120 else 1)
    with pytest.raises(
        ConfigError, match=rf"{shared:,} of 12\d rows of the test set .* {origin}"
    ) as caught:
        evaluate(world, "honest", test=test)
    assert f"(the first: {test}/" in str(caught.value)


@pytest.mark.parametrize("mirror", [False, True])
def test_private_images_stored_anew_are_no_test_set(
    world: Path, tmp_path: Path, mirror: bool
) -> None:
    rows = [(name, stored_anew(image)) for name, image in list(blobs(0, 60))]
    if mirror:
        rows = [(name, image[:, ::-1]) for name, image in rows]
    with pytest.raises(ConfigError, match=r"stored anew \(the first: .*mixed/"):
        evaluate(world, "honest", test=mixed(world, tmp_path, rows, 60))


def test_private_embeddings_are_no_test_set(tmp_path: Path) -> None:
    source = embeddings(tmp_path / "private.npz")
    quick_run(source, tmp_path)
    with pytest.raises(ConfigError, match=r"180 of 180 rows .* records \(the first: row 0,"):
        understudy.evaluate(tmp_path / "out", real=source, test=source, progress="none")


def test_a_duplicate_or_so_is_left_out_and_said(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = mixed(world, tmp_path, list(blobs(0, 120))[:1], 150)
    evaluation = evaluate(world, "honest", test=test, progress="plain")
    assert "reading test records" in (printed := capsys.readouterr().err)
    assert "that are apart" not in printed  # they were read
    assert evaluation.settings["rows"]["held_out"] == 150
    assert any("1 of 151 test records" in each for each in evaluation.settings["left_out"])


@pytest.mark.parametrize("classes", [(), ("a", "b")])
def test_rows_of_a_dataset_are_as_if_read_alone(world: Path, classes: tuple[str, ...]) -> None:
    source = open_source(str(world / "test"))
    classes = classes and source.classes
    features = load_features(FEATURES, source.shape)
    rows = np.arange(len(source)) % 7 > 0
    part = PartSource(source, rows)
    whole, alone = (
        embed_dataset(each, features, classes, None, lambda count: None) for each in (source, part)
    )
    found = rows_of(whole, part, rows, classes)
    assert (found.source, found.count) == (part, alone.count)
    for name in ("indices", "labels", "features", "small", "digests", "hashes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
    np.testing.assert_array_equal(found.looks.frequencies, alone.looks.frequencies)
    assert found.sums.keys() == alone.sums.keys()
    moments, expected = (one.all_sums().moments() for one in (found, alone))
    np.testing.assert_allclose(moments.covariance, expected.covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moments.mean, expected.mean, rtol=1e-9)


# Attacks below a half


@pytest.mark.slow
def test_an_attack_below_a_half_is_asked_the_other_way_round(world: Path, tmp_path: Path) -> None:
    """A release from which everything near to a private image was taken away."""
    private = np.stack([image for _, image in blobs(0, 200)]).reshape(200, -1).astype(float)
    pool = list(blobs(5, 1500))
    flat = np.stack([image for _, image in pool]).reshape(len(pool), -1).astype(float)
    others = np.stack([image for _, image in blobs(2, 120)]).reshape(120, -1).astype(float)
    to_private, to_others = (cdist(flat, rows).min(axis=1) for rows in (private, others))
    farthest = np.argsort(to_private / to_others)[-250:]
    folder_of(tmp_path / "far", [pool[row] for row in farthest], release=True)
    evaluation = evaluate(world, tmp_path / "far")
    areas = [one.value for one in evaluation.values if one.metric.key.endswith("distance_auc")]
    assert all(area >= 0.5 for area in areas if area != areas[-1])
    attack = verdict(evaluation, "attack")
    assert attack.grade != "good"
    assert "farther from the release than non-members" in attack.sentence


# What a selection without a guarantee set aside


def test_what_a_selection_set_aside_is_no_test_set(tmp_path: Path) -> None:
    for seed, name in enumerate(("private", "candidates", "test")):
        embeddings(tmp_path / f"{name}.npz", seed=seed)
    understudy.select(
        tmp_path / "candidates.npz",
        private=tmp_path / "private.npz",
        keep="50%",
        no_guarantee=True,
        out=tmp_path / "out",
        ledger=str(tmp_path / "ledger.db"),
        progress="none",
    )
    with pytest.raises(ConfigError, match="may have had a part in its candidates"):
        understudy.evaluate(tmp_path / "out", real=tmp_path / "private.npz")
    sides = (str(tmp_path / f"{name}.npz") for name in ("private", "test"))
    inputs = Inputs.open(tmp_path / "out" / "release", *sides, EvaluationOptions())
    assert not inputs.protected  # what is computed from it alone is covered by no guarantee
    evaluation = understudy.evaluate(
        tmp_path / "out", real=tmp_path / "private.npz", test=tmp_path / "test.npz"
    )
    assert evaluation.settings["rows"]["private"] == 180  # all of them are members
    assert evaluation.settings["non_members"].startswith("the test set")


# Sets of somebody else's


@pytest.mark.slow
def test_a_set_without_a_statement_is_measured_and_its_claim_is_unverified(
    world: Path, tmp_path: Path
) -> None:
    for kind in ("folder", "file"):
        rows = list(blobs(0, 200))[:40] + list(blobs(1, 80))
        place = tmp_path / kind
        if kind == "folder":
            folder_of(place, rows)
        else:
            labels = np.array([name for name, _ in rows])
            np.savez(place, images=np.stack([image for _, image in rows]), labels=labels)
            place = tmp_path / "file.npz"
        evaluation = evaluate(world, place)
        assert "unverified" in evaluation.settings["claim"]
        assert verdict(evaluation, "leakage").grade == "poor"
        assert "40 of 120" in verdict(evaluation, "leakage").sentence
    assert not list(tmp_path.rglob("privacy.json"))


@pytest.mark.slow
def test_a_statement_that_does_not_add_up_is_said_to_be_unverified(
    world: Path, tmp_path: Path
) -> None:
    assert "unverified" in evaluate(world, "honest").settings["claim"]
    source = embeddings(tmp_path / "private.npz")
    test = embeddings(tmp_path / "test.npz", seed=4)
    out = quick_run(source, tmp_path, epsilon=1.0).folder
    sound = understudy.evaluate(out, real=source, test=test, progress="none").settings["claim"]
    assert "epsilon 1" in sound
    assert "unverified" not in sound
    path = out / "release" / "privacy.json"
    content = json.loads(path.read_text())
    content["guarantee"]["epsilon"] = 0.01
    path.write_text(json.dumps(content))
    claim = understudy.evaluate(out, real=source, test=test, progress="none").settings["claim"]
    assert "epsilon 0.01, unverified" in claim


def test_an_unfinished_run_and_a_missing_folder_are_not_evaluated(
    world: Path, tmp_path: Path
) -> None:
    folder_of(tmp_path / "out" / "release", blobs(1, 20))
    (tmp_path / "out" / "owner").mkdir()
    (tmp_path / "out" / "owner" / "start.json").write_text("{}")
    for place in (tmp_path / "out", tmp_path / "out" / "release", tmp_path / "none"):
        with pytest.raises(RunError, match=r"no release|no such file or folder"):
            evaluate(world, place)


def test_what_takes_longer_than_a_minute_is_announced_before_it_begins(world: Path) -> None:
    pytest.importorskip("torch")
    long = {"networks": ["cnn"], "epochs": 10_000}
    with pytest.raises(Warned, match=r"takes about \d+ (min|h) .*training"):
        evaluate(world, "honest", progress=FirstWarning(), **long)
    evaluate(world, "honest", progress=FirstWarning(), attacks=False)


def test_an_estimate_grows_with_the_work(world: Path) -> None:
    pytest.importorskip("torch")
    seconds = {}
    for epochs in (20, 2_000):
        options = EvaluationOptions(features=FEATURES, networks=["cnn"], epochs=epochs)
        inputs = Inputs.open(
            world / "honest" / "release", str(world / "real"), str(world / "test"), options
        )
        seconds[epochs] = estimated_seconds(inputs, options)["training"]
    assert seconds[2_000] > 5 * seconds[20] > 0
