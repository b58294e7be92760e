"""Labelling: what passes for public images of the kind, what stops a run, and what that costs."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.colour_world import Painter
from tests.methods.shapes_world import (
    CLASSES,
    SHAPE,
    file_of_stripes,
    folder_of_frames,
    folder_of_shapes,
    frames,
    shapes,
)

from understudy.backends.registry import load_encoder
from understudy.core.errors import ConfigError, MethodStopped, RunError
from understudy.core.types import UnitCounts
from understudy.data import open_source
from understudy.methods.base import Context, Materials, weights_of
from understudy.methods.labelling.algorithm import METHOD, LabellingParams
from understudy.methods.labelling.image_labels import (
    LabelledImages,
    LabelledSampler,
    Recalls,
    fitted_classifier,
)
from understudy.methods.labelling.likeness import (
    ClassCounts,
    Likeness,
    PublicKind,
    half_space_depth,
    scrambled,
)
from understudy.planning.dry import dry_run
from understudy.privacy.accounting import Gaussian, epsilon_of, mu_of, run_event
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.config import make_config
from understudy.run.resample import resample
from understudy.run.run_result import Result
from understudy.run.synthesize import synthesize

ENCODER = "embedded:dct?coefficients=80"


# The depth


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
def test_a_part_of_the_points_is_at_least_half_as_deep_as_it_is_large(share: float) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20_000, 6))
    part = slice(0, round(share * len(points)))
    points[part] += 4.0  # a heap of its own
    depth = half_space_depth(points, points[part].mean(axis=0), 0.0)
    assert share / 2 * 0.9 < depth <= 0.55


def test_a_heap_where_no_point_is_has_no_depth_however_near_the_points_spread() -> None:
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 4_000)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(2.6, 3, (4_000, 1))
    assert half_space_depth(ring, np.array([0.0, 3.2]), 0.0) < 0.01
    assert half_space_depth(ring, np.zeros(2), 0.0) > 0.4


def test_noise_is_taken_off_the_length_and_a_mean_of_noise_alone_is_deep() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(5_000, 16))
    depths = [half_space_depth(points, rng.normal(0, 0.5, 16), 0.5) for _ in range(50)]
    assert np.mean(depths) > 0.35
    assert np.mean([half_space_depth(points, rng.normal(0, 0.5, 16), 0.0) for _ in range(50)]) < 0.1


def test_scrambled_images_keep_mean_and_spectrum_and_lose_their_shapes() -> None:
    images, _ = shapes((20, 20), 0, (16, 16, 3))
    images = (images // 2 + 60).astype(np.uint8)  # so that nothing is cut off
    other = scrambled(images, np.random.default_rng(0))
    assert np.allclose(other.mean(axis=(1, 2)), images.mean(axis=(1, 2)), atol=1.5)
    spectra = [abs(np.fft.fft2(x.astype(float), axes=(1, 2))).sum(axis=0) for x in (images, other)]
    assert np.corrcoef(spectra[0].ravel(), spectra[1].ravel())[0, 1] > 0.99
    assert (
        np.mean(
            [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(images, other, strict=True)]
        )
        < 0.3
    )


# What the tests conclude


def likeness(**more: Any) -> Likeness:
    told: dict[str, Any] = {
        "counts": ClassCounts(np.array([200.0, 100.0]), 5.0),
        "taken": np.array([180.0, 90.0]),
        "taken_sd": 5.0,
        "held_out": 0.95,
        "depth": 0.4,
        "mean_sd": 0.1,
    }
    return Likeness(CLASSES, **{**told, **more})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"depth": 0.04},
            "in their mean: 4% .* beyond .* where its order is not random",
        ),
        ({"taken": np.array([90.0, 60.0])}, r"the public kind: 50% of them \(DP count\) are"),
        ({"taken": np.array([199.0, 20.0])}, r"without likeness.*disc \(20%\)"),
        ({"mean_sd": 1.1}, "about 300 private images .* are too few to tell"),
    ],
)
def test_each_test_alone_stops_a_run(changed: dict[str, Any], words: str) -> None:
    assert re.search(words, str(likeness(**changed).difference))


def test_what_noise_explains_stops_nothing() -> None:
    assert likeness(taken=np.array([199.0, 20.0]), taken_sd=30.0).difference is None
    scarce = ClassCounts(np.array([295.0, 5.0]), 5.0)  # too few to be judged by itself
    assert likeness(counts=scarce, taken=np.array([290.0, -9.0])).difference is None


def test_two_counts_are_one_with_less_noise() -> None:
    counts = ClassCounts(np.array([10.0, 20.0]), 3.0).combined(np.array([16.0, 20.0]), 6.0)
    assert counts.values == pytest.approx([11.2, 20.0])
    assert counts.sd == pytest.approx((1 / 9 + 1 / 36) ** -0.5)


def test_a_classifier_that_is_no_better_than_chance_fails() -> None:
    counts, shares = ClassCounts(np.array([100.0, 100.0]), 2.0), np.array([0.5, 0.5])
    assert Recalls(counts, np.array([80.0, 70.0]), 4.0, shares).failure is None
    chance = Recalls(counts, np.array([56.0, 50.0]), 4.0, shares).failure
    assert "53% of them right" in str(chance)
    assert "chance (50%)" in str(chance)
    # All for one class is right for it, and says nothing.
    one = Recalls(counts, np.array([100.0, 3.0]), 4.0, np.array([1.0, 0.0]))
    assert one.failure is not None


# Inputs and samples


def test_logits_are_adjusted_to_classes_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is frequent among private images alone is no evidence of a public image's class."""
    flat = "understudy.methods.labelling.image_labels.descend_on_records"
    monkeypatch.setattr(flat, lambda *_: np.zeros((5, 3)))
    counts = ClassCounts(np.array([60.0, 30.0, 10.0]), 1.0)
    theta = fitted_classifier(None, None, np.ones((8, 4)), counts, ())  # type: ignore[arg-type]
    assert theta[-1] == pytest.approx(-np.log([0.6, 0.3, 0.1]))


def test_a_class_that_no_image_looks_like_takes_those_that_come_nearest() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 3)) - np.array([0.0, 0.0, 50.0])
    labelled = LabelledImages.of(np.zeros((200, 4, 4, 1), np.uint8), logits)
    assert labelled.labelled[2] == 0
    assert [len(rows) for rows in labelled.rows][2] == 20
    gaps = logits.max(axis=1) - logits[:, 2]
    assert set(labelled.rows[2]) == set(np.argsort(gaps)[:20])


def test_every_image_of_a_class_is_drawn_before_one_comes_again() -> None:
    images = np.arange(50, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 1), np.uint8)
    logits = np.where(np.arange(50)[:, None] % 2 == np.arange(2), 1.0, 0.0)
    context = Context((4, 4, 1), public=True, mu=1.0, classes=("a", "b"))
    materials = Materials(context, None, None, 3, lambda *_: lambda _: None)  # type: ignore[arg-type]
    labelled = LabelledImages.of(images, logits)
    sampler = LabelledSampler.of(materials, labelled, np.array([25, 30]), None)
    (batch,) = sampler.batches()
    assert batch.images is not None
    shades = batch.images[:, 0, 0, 0]
    assert set(shades % 2 == batch.labels) == {True}
    assert len(set(shades[batch.labels == 0])) == 25
    assert len(set(shades[batch.labels == 1])) == 25
    again = next(sampler.batches())
    assert again.images is not None
    assert np.array_equal(again.images, batch.images)


# Plans


def stages_of(**facts: Any) -> dict[str, float]:
    encoder = load_encoder(ENCODER, shape=SHAPE)
    told: dict[str, Any] = {"public": True, "mu": 0.3, "classes": CLASSES, "encoder": encoder}
    told |= facts
    params = facts.pop("params", LabellingParams())
    told.pop("params", None)
    return weights_of(METHOD.stages(params, Context(told.pop("shape", SHAPE), **told)))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-5), (0.5, 1e-8), (1.0, 1e-3), (8.0, 1e-8), (50.0, 1e-5)]
)
def test_the_tests_cost_a_tenth_of_the_budget_at_most(epsilon: float, delta: float) -> None:
    weights = stages_of()
    first = [weights[name] for name in ("class sizes", "likeness", "depth")]
    assert math.isclose(math.fsum(weights.values()), 1.0)
    assert list(weights)[:3] == ["class sizes", "likeness", "depth"]
    run = run_event(epsilon, delta)
    spent = epsilon_of([Gaussian(run.mu * share**0.5, run.slack * share) for share in first], delta)
    assert sum(first) < 0.1
    assert spent <= 0.1 * epsilon


@pytest.mark.parametrize(("epsilon", "few"), [(0.5, True), (1.0, False)])
def test_few_records_for_the_epsilon_are_said_before_they_are_charged(
    epsilon: float, few: bool
) -> None:
    """439 records are about as few as epsilon 1 can tell anything of (docs/methods/labelling)."""
    mu, weights = mu_of(epsilon, 1e-5), stages_of()
    context = Context(SHAPE, classes=CLASSES, public=True, mu=mu)
    assert METHOD.explain is not None
    explained = METHOD.explain(
        LabellingParams(),
        context,
        lambda stage: 1 / (mu * weights[stage.name] ** 0.5),
        UnitCounts(439, 220),
    )
    assert [("439 units are few" in note) for note in explained.notes] == [True] * few


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"public": False}, "name public images"),
        ({"classes": ("all",)}, "one class"),
        ({"shape": (7,), "encoder": None}, "embeddings"),
        ({"encoder": None}, "--encoder"),
        ({"params": LabellingParams(draw="varied")}, "--generator"),
        (
            {"params": LabellingParams(draw="varied", template="a photo"), "generator": Painter()},
            "draws all 2 classes alike",
        ),
    ],
)
def test_what_cannot_be_labelled_is_refused(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        stages_of(**facts)


# Whole runs


class World:
    """Crosses and discs in a private folder, others in a public one, and a ledger."""

    def __init__(self, images: Path, folder: Path) -> None:
        self.folder, self.ledger = folder, folder / "ledger.db"
        self.private, self.public = images / "private", images / "public"
        self.unlike, self.contrast = images / "unlike", images / "contrast.npz"

    def run(self, out: str = "out", **options: Any) -> Result:
        told: dict[str, Any] = {"public": str(self.public), "contrast": str(self.contrast)}
        told |= {"encoder": ENCODER, "epsilon": 8.0}
        return synthesize(
            self.private,
            out=self.folder / out,
            method="labelling",
            ledger=str(self.ledger),
            progress="none",
            **{**told, **options},
        )

    def set_budget(self, epsilon: float) -> None:
        with Ledger(self.ledger) as ledger:
            dataset = ledger.register(open_source(self.private))
            ledger.set_budget(dataset.id, Budget(epsilon))

    def spent(self) -> float:
        with Ledger(self.ledger) as ledger:
            assert ledger.verify() == []
            datasets = ledger.datasets()
            return ledger.spent(datasets[0].id, 1e-5).epsilon if datasets else 0.0

    def rows(self, kind: str) -> list[str]:
        with Ledger(self.ledger) as ledger:
            return [str(row.data["stage"]) for row in ledger.rows() if row.kind == kind]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    folder_of_shapes(folder / "private", (170, 130), 1)
    folder_of_shapes(folder / "public", (150, 150), 2)
    folder_of_frames(folder / "unlike", 300, 3)
    file_of_stripes(folder / "contrast.npz")
    return folder


@pytest.fixture
def world(images: Path, tmp_path: Path, one_thread: None) -> World:
    return World(images, tmp_path)


@pytest.mark.slow
def test_samples_are_public_images_with_the_private_ones_classes(world: World) -> None:
    result = world.run()
    public, truth = {}, {}
    for batch in open_source(world.public, size=SHAPE[:2]).batches(64):
        for image, label in zip(batch.values, batch.labels, strict=True):
            public[image.tobytes()] = truth[image.tobytes()] = int(label)
    right = total = 0
    for batch in open_source(result.release, size=SHAPE[:2]).batches(64):
        for image, label in zip(batch.values, batch.labels, strict=True):
            assert image.tobytes() in public
            right, total = right + (truth[image.tobytes()] == label), total + 1
    assert right / total > 0.9
    assert abs(total - 300) < 40
    assert result.facts["depth_among_public_images"] > 0.2
    assert "public images of" in result.facts["notes"][0]
    statement = (result.release / "PRIVACY.md").read_text()
    assert "They are images of a public dataset" in statement
    assert "no private image had a part in the public images" in statement
    more = resample(world.folder / "out", per_class=30, seed=5)
    assert len(open_source(more.release)) == 60
    # A release about private images is not public.
    with pytest.raises(ConfigError, match="release about private images"):
        world.run("second", public=str(result.release))


def test_few_records_are_the_first_note_of_a_plan(world: World) -> None:
    """A plan prints two of its notes before the charge."""
    names = {"source": world.private, "public": world.public, "ledger": world.ledger}
    given = {**{name: str(path) for name, path in names.items()}, "encoder": ENCODER}
    out = world.folder / "out"
    plan = dry_run(make_config({**given, "method": "labelling", "epsilon": 0.5, "out": out}))
    assert plan.notes[0].startswith("300 units are few under this noise")


@pytest.mark.slow
def test_unlike_images_stop_the_run_and_cost_a_tenth_at_most(world: World) -> None:
    world.set_budget(8.0)
    with pytest.raises(
        MethodStopped,
        match=r"differ .* in their mean.*Epsilon 0\.\d+ .* was spent",
    ):
        world.run(public=str(world.unlike))
    assert 0 < world.spent() <= 0.8
    assert world.rows("release") == ["class sizes", "likeness", "depth"]
    assert len(world.rows("return")) == 41
    assert not (world.folder / "out" / "release").exists()
    # What is left pays for another run.
    before = world.spent()
    world.run("again", epsilon="rest")
    assert before < world.spent() <= 8.0
    assert world.spent() == pytest.approx(8.0, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_the_rest_goes_to_another_method_and_both_cost_what_one_would(
    engine: str, world: World
) -> None:
    if engine == "ray":
        pytest.importorskip("understudy.engine.ray_engine")
    world.set_budget(8.0)
    options = {"otherwise": "clustering", "epsilon": "rest", "engine": engine}
    result = world.run(public=str(world.unlike), **options)
    assert world.spent() == pytest.approx(8.0, rel=1e-4)
    assert world.spent() <= 8.0
    assert result.receipt.epsilon == pytest.approx(world.spent(), rel=1e-6)
    assert result.facts["instead_of"] == "labelling"
    names = [stage.stage for stage in result.receipt.stages]
    assert names[:3] == ["before: class sizes", "before: likeness", "before: depth"]
    assert len(names) > 4
    statement = json.loads((result.release / "privacy.json").read_text())
    assert statement["data"]["method"] == "clustering"
    assert sum(stage["share"] for stage in statement["stages"]) == pytest.approx(1)
    # What the first method rested on stands beside what the other one does.
    assert "epsilon" in statement["guarantee"]["conditional_on"]
    premises = {premise["name"] for premise in statement["premises"]}
    assert "no private image had a part in the contrast images" in premises
    with pytest.raises(ConfigError, match="no more samples"):
        resample(world.folder / "out", count=10)


def test_too_few_or_equal_public_images_are_refused_before_anything_is_spent(world: World) -> None:
    few = folder_of_shapes(world.folder / "few", (20, 20), 4)
    with pytest.raises(ConfigError, match=r"40 public images are too few.*Nothing was spent"):
        world.run(public=str(few))
    black = world.folder / "black.npz"
    np.savez(black, images=np.zeros((120, 16, 16), np.uint8))
    with pytest.raises(ConfigError, match=r"all alike.*Nothing was spent"):
        world.run(public=str(black))
    assert world.spent() == 0.0
    assert not (world.folder / "out").exists()


@pytest.mark.slow
def test_public_images_like_the_contrast_are_refused_before_anything_is_spent(world: World) -> None:
    with pytest.raises(ConfigError, match=r"look like those.*Nothing was spent.*--contrast"):
        world.run(contrast=str(world.public))
    assert world.spent() == 0.0


@pytest.mark.slow
def test_a_stopped_run_goes_on_from_wherever_it_was_killed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.set_budget(8.0)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"public": str(world.unlike), "otherwise": "clustering"}

    def kill_at(function: str, **more: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(function, killed)
            with pytest.raises(KeyboardInterrupt):
                world.run(**options, **more)

    kill_at("understudy.run.session.write_stop")
    assert world.rows("return") == []
    kill_at("understudy.privacy.account.Account.settle", resume=True)
    assert world.rows("return") == []
    kill_at("understudy.run.session.Session._run_method", resume=True)
    assert len(world.rows("return")) == 41
    kill_at("understudy.run.session.write_release", resume=True)
    result = world.run(**options, resume=True)
    assert len(world.rows("return")) == 41
    assert len(world.rows("charge")) == 44 + len(result.receipt.stages) - 3
    assert world.spent() <= 8.0
    with pytest.raises(RunError, match="complete"):
        world.run(**options, resume=True)


def test_a_classifier_knows_the_named_kind_from_another() -> None:
    encoder = load_encoder(ENCODER, shape=SHAPE)
    public, _ = shapes((60, 60), 2)
    kind = PublicKind.of(
        encoder.encode(public), encoder.encode(frames(100, 1)), np.random.default_rng(0)
    )
    assert kind.held_out > 0.9
    private, _ = shapes((40, 40), 5)
    taken = kind.described(encoder.encode(private))[:, kind.length]
    assert taken.mean() > 0.9
    assert kind.described(encoder.encode(frames(50, 2)))[:, kind.length].mean() < 0.1
