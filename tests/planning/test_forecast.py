"""``understudy plan --forecast``: the planned method on public drawings, and words beforehand."""

import json
import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.cli.processes import Commands
from tests.run.samples import class_folders, embeddings, tree, with_manifest
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.core.errors import ConfigError
from understudy.core.types import Release, SyntheticBatch, UnitCounts
from understudy.data.encoded_images import RecordSource
from understudy.methods.base import Context, Expectation, Materials
from understudy.methods.clustering.capacity import LEAST_DECODED, Carried, mixture_expectations
from understudy.methods.clustering.params import ClusteringParams
from understudy.methods.clustering.samplers.tied_gaussian import TiedGaussianSampler
from understudy.planning import forecast, public_drawings, recommendation
from understudy.planning.check import check_source
from understudy.planning.forecast import forecast_of
from understudy.planning.public_drawings import drawn_records, public_kinds
from understudy.planning.recommendation import MIXTURE_UNITS, recommended_run
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.config import make_config
from understudy.run.prepare import Prepared, prepare
from understudy.run.progress import SilentEvents

pytestmark = pytest.mark.slow

pytest.importorskip("torch")

SIZES = {"cat": 40, "dog": 24}


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    return class_folders(tmp_path / "scans", SIZES, (16, 16, 1))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def shapes(*args: Any) -> Any:
        return {"shapes": public_kinds(*args)["shapes"]}

    monkeypatch.setattr(forecast, "public_kinds", shapes)


def prepared_run(source: Path, **options: Any) -> Prepared:
    given = {"encoder": "embedded:energies", "ledger": str(source.parent / "ledger.db")}
    config = {"source": str(source), "out": "out", "epsilon": 8.0} | given
    return prepare(make_config(config | options))


def left_behind(temporary: Path) -> list[Path]:
    return list(temporary.glob("understudy-*"))


def rows_of(ledger: Path) -> list[object]:
    with Ledger(ledger) as opened:
        return list(opened.rows())


def planned(source: Path, **options: Any) -> recommendation.Recommendation:
    ledger = str(source.parent / "ledger.db")
    return recommended_run(source, ledger=ledger, progress="none", **{"epsilon": 1.0} | options)


def counted(name: str, looks: Counter[str]) -> Callable[..., Any]:
    """A method of `RecordSource` that counts its calls."""
    own = getattr(RecordSource, name)

    def call(self: RecordSource, *args: Any) -> Any:
        looks[name] += 1
        return own(self, *args)

    return call


# What is run


def test_a_forecast_charges_nothing_and_reads_nothing_private(
    scans: Path, tmp_path: Path, temporary: Path
) -> None:
    prepared = prepared_run(scans)
    shutil.rmtree(scans)
    outcome = forecast_of(prepared, tuple(SIZES.values()), 64, SilentEvents())
    assert [one.kind for one in outcome.kinds] == ["shapes", "textures", "scenes"]
    assert all(one.samples.shape == (10, 16, 16, 1) for one in outcome.kinds)
    assert rows_of(tmp_path / "ledger.db") == []
    assert left_behind(temporary) == []


def test_a_plan_reads_the_private_records_as_often_with_a_forecast_as_without(
    scans: Path, tmp_path: Path, one_kind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: Counter[str] = Counter()
    for name in ("batches", "digests", "_looks", "_pixels"):
        monkeypatch.setattr(RecordSource, name, counted(name, looks))
    planned(scans)
    without = Counter(looks)
    looks.clear()
    before = tree(scans)
    assert planned(scans, forecast=tmp_path / "sheet.png").forecast is not None
    assert looks == without
    assert tree(scans) == before
    assert rows_of(tmp_path / "ledger.db") == []


@pytest.mark.parametrize("options", [{}, {"encoder": "embedded:dct", "decoder": "embedded:dct"}])
def test_the_method_that_is_run_is_the_planned_one(
    scans: Path, one_kind: None, options: dict[str, str]
) -> None:
    prepared = prepared_run(scans, **options)
    calls: list[tuple[Materials, Any, list[int]]] = []

    def another(materials: Materials, params: Any) -> Release:
        source = materials.vault._inside.source
        labels = np.concatenate([batch.labels for batch in source.batches(50)])
        calls.append((materials, params, np.bincount(labels).tolist()))
        account = materials.vault._inside.account
        assert account.plan is prepared.plan
        assert account.unit == prepared.config.privacy.privacy_unit
        batch = SyntheticBatch(
            np.repeat([0, 1], 5), images=np.full((10, 16, 16, 1), 77, dtype=np.uint8)
        )
        return Release("another", materials.classes, 10, lambda: iter([batch]))

    planted = replace(prepared, method=replace(prepared.method, run=another))
    (kind,) = forecast_of(planted, (40, 24), 64, SilentEvents()).kinds
    ((materials, params, sizes),) = calls
    assert (kind.samples == 77).all()
    assert materials.context is prepared.context
    assert params is prepared.params
    assert (materials.seed, sizes) == (prepared.config.output.seed, [40, 24])
    own = forecast_of(prepared, (40, 24), 64, SilentEvents()).kinds[0]
    assert not (own.samples == 77).all()


def test_records_are_as_many_as_the_private_ones_and_in_as_many_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = public_kinds((16, 16, 3), 3)["shapes"]
    records = drawn_records("shapes", draw, (30, 0, 10), 10, ("a", "b", "c"))
    batches = list(records.batches(7))
    labels = np.concatenate([batch.labels for batch in batches])
    assert np.bincount(labels, minlength=3).tolist() == [30, 0, 10]
    assert len(set(np.concatenate([batch.units for batch in batches]).tolist())) == 10
    assert len(np.unique(np.concatenate([b.values for b in batches]), axis=0)) == 40
    monkeypatch.setattr(public_drawings, "MOST_DRAWINGS", 20)
    again = drawn_records("shapes", draw, (30, 0, 10), 40, ("a", "b", "c"))
    assert (len(again), len(again.images), again.units) == (40, 20, None)
    assert len(set(again.digests(bytes(32)))) == 20


def test_units_of_several_classes_are_so_among_drawings() -> None:
    """Each was of one class, so a class had fewer units, and fewer numbers were measured of it."""
    draw = public_kinds((16, 16, 3), 3)["shapes"]
    records = drawn_records("shapes", draw, (30, 20, 9), 12, ("a", "b", "c"), (12, 10, 9))
    units, labels = records.units, records.labels
    assert units is not None
    assert [len(set(units[labels == label])) for label in range(3)] == [12, 10, 9]
    assert len(set(units.tolist())) == 12


def test_a_plan_forecasts_with_the_units_of_each_class(
    tmp_path: Path, one_kind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    def watched(*words: Any) -> Any:
        calls.append(words)
        return drawn_records(*words)

    monkeypatch.setattr(forecast, "drawn_records", watched)
    people = with_manifest(tmp_path / "people")
    planned(people, forecast=tmp_path / "sheet.png", unit="patient")
    ((_, _, sizes, units, _, class_units),) = calls
    assert (tuple(sizes), units) == ((24, 24, 24), 18)
    assert tuple(class_units) == (18, 18, 18)


def test_a_drawing_is_embedded_once_and_as_it_would_be() -> None:
    seen: list[int] = []

    def encode(images: np.ndarray) -> np.ndarray:
        seen.append(len(images))
        return images.reshape(len(images), -1).astype(np.float32)

    images = np.arange(64, dtype=np.uint8).reshape(4, 4, 4, 1)
    memory: dict[bytes, Any] = {}
    for _ in range(3):
        assert (forecast._embedded_once(encode, memory, images) == encode(images)).all()
    assert len(seen) == 4


@pytest.mark.parametrize("shape", [(16, 16, 1), (24, 32, 3)])
def test_public_images_of_a_class_are_the_same_each_time_and_classes_differ(
    shape: tuple[int, int, int],
) -> None:
    for draw in public_kinds(shape, 40).values():
        image = draw(3, 5)
        assert (image.shape, image.dtype) == (shape, np.uint8)
        others = [draw(3, 5), draw(3, 6), draw(4, 5), draw(35, 5)]
        assert [bool((image == other).all()) for other in others] == [True, False, False, False]
        mixed = public_kinds(shape, 1)
        assert len(mixed) == 3


# The sheet


def test_the_sheet_is_a_picture_and_nothing_else_is_left(
    scans: Path, tmp_path: Path, one_kind: None, temporary: Path
) -> None:
    outcome = planned(scans, forecast=tmp_path / "sheet.png", epsilon=50.0).forecast
    assert outcome is not None
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert (sheet == outcome.sheet()).all()
    assert sheet.shape[1] >= 10 * 64
    assert outcome.figures()["classes"] == 2
    assert 0.5 < outcome.figures()["accuracy"]["shapes"] <= 1.0
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["sheet.png"]
    assert left_behind(temporary) == []


def test_a_class_of_which_nothing_comes_back_is_grey(scans: Path, one_kind: None) -> None:
    prepared = prepared_run(scans)

    def one_class(materials: Materials, _: Any) -> Release:
        batch = SyntheticBatch(np.zeros(5, np.int64), images=np.zeros((5, 16, 16, 1), np.uint8))
        return Release("one", materials.classes, 5, lambda: iter([batch]))

    planted = replace(prepared, method=replace(prepared.method, run=one_class))
    (kind,) = forecast_of(planted, (40, 24), 64, SilentEvents()).kinds
    assert [int(image.max()) for image in kind.samples] == [0] * 5 + [128] * 5
    assert kind.accuracy is None


def test_a_sheet_is_a_png_outside_of_the_private_dataset(scans: Path, tmp_path: Path) -> None:
    for name, words in (
        ("sheet.jpg", "is a PNG"),
        ("none/sheet.png", "no folder"),
        ("scans/sheet.png", "inside the private dataset"),
    ):
        with pytest.raises(ConfigError, match=words):
            planned(scans, forecast=tmp_path / name)
    assert not list(tmp_path.rglob("sheet*"))


def test_embeddings_have_no_forecast_and_say_so(tmp_path: Path) -> None:
    vectors = embeddings(tmp_path / "vectors.npz")
    result = planned(vectors, forecast=tmp_path / "sheet.png")
    assert result.forecast is None
    assert [note for note in result.notes if "there is no forecast" in note]
    assert not (tmp_path / "sheet.png").exists()


def test_a_forecast_that_is_ended_leaves_nothing(
    scans: Path, tmp_path: Path, temporary: Path, one_kind: None, with_energies: Commands
) -> None:
    words = ["plan", scans, "--epsilon", 1, "--ledger", tmp_path / "ledger.db"]
    words += ["--forecast", tmp_path / "sheet.png", "--progress", "none"]
    fault = ("understudy.privacy.account:Account._store", 2, "after", "SIGTERM")
    ended = with_energies.run(*words, fault=fault, env={"TMPDIR": str(temporary)})
    assert ended.code == 143, ended.err
    assert not left_behind(temporary)
    assert not list(tmp_path.glob("*sheet*"))
    assert rows_of(tmp_path / "ledger.db") == []


# The words


def context(mu: float, classes: int, decoder: object = object()) -> Context:
    names = tuple(map(str, range(classes)))
    return Context((64, 64, 3), public=True, mu=mu, classes=names, decoder=decoder)  # type: ignore[arg-type]


def tied_rules(mu: float, classes: int, noise: float, units: float) -> tuple[Expectation, ...]:
    models: Any = None  # what to expect depends on neither
    sampler = TiedGaussianSampler(ClusteringParams(), context(mu, classes), models, models)
    return sampler.expected(lambda stage: noise, UnitCounts(units * classes, units))


def tied_words(mu: float, units: float, classes: int = 10) -> dict[str, str]:
    return {rule.rule: rule.words for rule in tied_rules(mu, classes, 1 / (0.76 * mu), units)}


def test_few_units_are_said_first_and_with_what_serves_better() -> None:
    below, above = LEAST_DECODED - 1, LEAST_DECODED + 1
    first, *_ = tied_rules(1.0, 10, 1.3, below)
    assert (first.rule, first.instead) == ("few units", ("classifier",))
    first, *_ = tied_rules(1.0, 1, 1.3, below)
    assert first.instead == ("embeddings",)
    assert "few units" not in tied_words(1.0, above)
    assert "few units" in tied_words(0.5, above)
    carried = Carried(below, 1.0, own_mean=True, clusters=1, directions=0)
    (first, *_) = mixture_expectations(context(1.0, 10), carried)
    assert first.instead == ("embeddings",)
    assert mixture_expectations(context(1.0, 10, None), carried) == ()


@pytest.mark.parametrize(
    ("mu", "units", "classes", "expected"),
    [
        (0.268, 164, 10, "blobs"),  # 67 numbers
        (1.666, 200, 3, "textures"),  # 119
        (1.666, 164, 10, "shapes"),  # 233
    ],
)
def test_what_is_expected_follows_the_numbers_that_the_budget_pays_for(
    mu: float, units: float, classes: int, expected: str
) -> None:
    assert tied_words(mu, units, classes)["numbers"].startswith(f"expect {expected}")


def test_persons_of_several_classes_count_in_each(tmp_path: Path) -> None:
    """A class was taken to have as many as if each were of one, and fewer numbers were expected."""
    people = str(with_manifest(tmp_path / "people"))
    config = make_config({"source": people, "out": "out", "epsilon": 1.0, "unit": "patient"})
    counts = check_source(config).unit_counts
    assert counts.total == 18
    patients = np.zeros((18, 3))  # the images that each of them has of each class
    np.add.at(patients, (np.arange(72) % 18, np.repeat(np.arange(3), 24)), 1)
    norms = np.linalg.norm(patients, axis=1, keepdims=True)
    assert counts.of_class == pytest.approx((patients / norms).sum() / 3)
    assert counts.of_class < 18 / 3**0.5  # what it would be of as many images of each class
    assert "pays for 24 of" in tied_words(0.5, 40)["numbers"]
    models: Any = None
    sampler = TiedGaussianSampler(ClusteringParams(), context(0.5, 10), models, models)
    rules = sampler.expected(lambda stage: 1.0, UnitCounts(400, 400 / 10**0.5))
    assert any("pays for 52 of" in rule.words for rule in rules)


def test_class_means_are_held_against_what_classes_differ_by() -> None:
    assert "much alike" in tied_words(1.0, 15)["class means"]
    assert "where they differ more" in tied_words(1.0, 50)["class means"]
    assert tied_words(1.0, 400)["class means"].endswith(
        "so classes that differ as much will differ in samples"
    )


@pytest.mark.parametrize(
    ("own_mean", "clusters", "expected"),
    [(False, 1, "alike in all classes"), (True, 2, "less than three"), (True, 3, "3 clusters")],
)
def test_a_mixture_is_as_varied_as_its_clusters(
    own_mean: bool, clusters: int, expected: str
) -> None:
    (rule,) = mixture_expectations(context(1.0, 2), Carried(150, 1.0, own_mean, clusters, 0))
    assert expected in rule.words


@pytest.mark.parametrize("few", [True, False])
def test_small_grey_images_get_energies_where_they_are_few(scans: Path, few: bool) -> None:
    config = make_config({"source": str(scans), "out": "out", "epsilon": 8.0})
    check = check_source(config)
    mu = recommendation.run_mu_of(config.privacy.budget)
    units = MIXTURE_UNITS / mu * (0.99 if few else 1.01)
    check = replace(check, unit_counts=UnitCounts(check.units, units))
    result, _ = recommendation._recommended(config, check)
    encoder = "embedded:energies" if few else "embedded:dct"
    assert f"--encoder {encoder}" in [choice.option for choice in result.choices]
    assert f"--encoder {encoder}" in (result.command or "")
    named, _ = recommendation._recommended(config.changed(roles={"encoder": "embedded:dct"}), check)
    assert "embedded:energies" not in (named.command or "")


def test_the_command_says_first_what_serves_better(scans: Path, tmp_path: Path) -> None:
    words = ["plan", str(scans), "--ledger", str(tmp_path / "ledger.db"), "--progress", "none"]
    shown = CliRunner().invoke(app, [*words, "--epsilon", "4"])
    assert shown.exit_code == 0, shown.output
    output = shown.output
    assert output.index("first: images of these classes") < output.index("recommended:")
    assert "understudy train out/ --from statistics --export model.onnx" in output
    assert re.search(r"^  expect blobs", output, re.MULTILINE)
    assert "--decoder none" not in output
    mixture = (
        CliRunner().invoke(app, [*words, "--epsilon", "4", "--encoder", "embedded:dct"]).output
    )
    assert "train out/ --from statistics" not in mixture
    (instead,) = re.findall(r"^  (understudy .*--decoder none.*)$", mixture, re.MULTILINE)
    out = [*shlex.split(instead)[1:-1], str(tmp_path / "out"), "--dry-run"]
    ended = CliRunner().invoke(app, out)
    assert ended.exit_code == 0, ended.output
    richer = CliRunner().invoke(app, [*words, "--epsilon", "90"]).output
    assert "first: images" not in richer
    content = json.loads(CliRunner().invoke(app, [*words, "--epsilon", "4", "--json"]).stdout)
    assert content["plan"]["expectations"][0]["rule"] == "few units"
    assert "expectations" not in content
    assert content["forecast"] is None


def test_where_no_mean_stands_out_nothing_is_called_better(scans: Path) -> None:
    """The classifier was, of classes whose means have twice the noise of what they differ by."""
    for encoder in ("embedded:energies", "embedded:dct"):
        content = planned(scans, encoder=encoder)
        assert content.instead == ()
        assert content.notes[0] == recommendation.NOTHING_SERVES
    assert [one.reason[:14] for one in planned(scans, epsilon=4.0).instead] == ["the classifier"]
    words = ["plan", str(scans), "--ledger", str(scans.parent / "ledger.db"), "--epsilon", "1"]
    shown = CliRunner().invoke(app, words).output
    assert "(rule: few units). Nothing else serves either." in shown
    assert "Better:" not in shown


def test_a_run_says_before_its_charge_that_its_samples_will_serve_little(
    scans: Path, tmp_path: Path
) -> None:
    words = [str(scans), "--size", "16", "--channels", "1", "--classes", "cat,dog"]
    words += ["--ledger", str(tmp_path / "ledger.db"), "--progress", "none"]
    out = ["--out", str(tmp_path / "out"), "--yes"]
    poor = "note: images of these classes serve little: a class of 32 at mu 0.27 comes to 9"
    ended = CliRunner().invoke(app, ["synthesize", *words, *out, "--count", "4", "--epsilon", "1"])
    assert ended.exit_code == 0, ended.output
    assert ended.output.index(poor) < ended.output.index("charged:")
    dry = [*words, *out[:1], str(tmp_path / "other"), "--dry-run"]
    shown = CliRunner().invoke(app, ["synthesize", *dry, "--epsilon", "1"]).output
    assert poor in shown
    assert "a class of about" not in shown  # a table that says the same of every size
    assert (
        "serve little"
        not in CliRunner().invoke(app, ["synthesize", *dry, "--epsilon", "90"]).output
    )
    plan = CliRunner().invoke(app, ["plan", *words, "--epsilon", "1"]).output
    assert plan.count("serve little") == 1


def test_the_command_writes_a_sheet(scans: Path, tmp_path: Path, one_kind: None) -> None:
    words = ["plan", str(scans), "--ledger", str(tmp_path / "ledger.db"), "--progress", "none"]
    words += ["--epsilon", "8", "--forecast", str(tmp_path / "sheet.png")]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "sheet.png").is_file()
    assert re.search(r"shapes: the classifier that is released tells \d+% ", shown.output)
    content = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert content["forecast"]["records"] == sum(SIZES.values())
