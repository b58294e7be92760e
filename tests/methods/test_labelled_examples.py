"""Public examples with a DP classifier's labels: where samples are drawn from them, or are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.backends.registry import load_decoder, load_encoder
from understudy.cli import show
from understudy.core.errors import ConfigError
from understudy.core.ports import Source
from understudy.core.public_examples import Described, ExampleGenerator, PublicExamples
from understudy.core.types import Embeddings, Images, Labels, Release, Seeds, Shape, Stage
from understudy.data import open_source
from understudy.engine.local import LocalEngine
from understudy.methods.base import Context, Materials, Resampling, weights_of
from understudy.methods.clustering.algorithm import METHOD, ClusteringParams, clustering
from understudy.methods.clustering.clustering_plan import clustering_stages
from understudy.methods.clustering.embedding_space import public_batches
from understudy.methods.clustering.example_images import examples_for
from understudy.methods.clustering.labelled_examples import LabelledExamples, Whitened
from understudy.methods.clustering.near_records import kinds_of_classes
from understudy.privacy.account import Account, Plan
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.paid import PaidAnswers, PaidVault
from understudy.privacy.unit import Unit
from understudy.privacy.vault import Vault
from understudy.steps.quality import QualityFilter

SHAPE: Shape = (8, 8, 3)
CLASSES = ("blue", "green", "red")
COLOURS = np.array([[60, 60, 200], [60, 200, 60], [200, 60, 60], [200, 200, 60], [10, 10, 10]])
"""Of the examples: three that are those of the private classes, one like them, one unlike them."""
EACH = 300


def features_of(images: Images) -> Embeddings:
    """The mean colours of the four quarters: (n, 12)."""
    blocks = images.reshape(len(images), 2, 4, 2, 4, 3).astype(np.float32)
    return blocks.mean(axis=(2, 4)).reshape(len(images), 12)


class Examples:
    """Tiles; others like them have the colour of their first quarter."""

    how = "drawn like public examples"

    def __init__(
        self,
        kind_names: tuple[str, ...],
        features: Embeddings,
        kinds: NDArray[np.int64],
        clusters: NDArray[np.int64] | None = None,
    ) -> None:
        self.kind_names, self.features, self.kinds = kind_names, features, kinds
        self.clusters = np.zeros(len(features), dtype=np.int64) if clusters is None else clusters
        self.radii = np.full(len(kinds), 40.0, dtype=np.float32)
        self.drawn: list[Seeds] = []

    @classmethod
    def of_colours(cls) -> Examples:
        """A hundred tiles of each colour; a cluster is a colour, the last is of another kind."""
        clusters = np.repeat(np.arange(len(COLOURS)), 100)
        tiles = painted(COLOURS[clusters], np.random.default_rng(1))
        kinds = np.array([0, 0, 0, 0, 1])
        return cls(("bright tiles", "others"), features_of(tiles), kinds, clusters)

    def encode(self, images: Images, /) -> Embeddings:
        return features_of(images)

    def draw(self, rows: Labels, /, *, seeds: Seeds) -> Images:
        self.drawn.append(seeds)
        return painted_quarters(np.tile(self.features[rows, :3], (1, 4)))


def painted_quarters(colours: NDArray[Any]) -> Images:
    """Images with these colours (n, 12) in their quarters."""
    quarters = np.clip(colours, 0, 255).astype(np.uint8).reshape(-1, 2, 1, 2, 1, 3)
    return np.broadcast_to(quarters, (len(quarters), 2, 4, 2, 4, 3)).reshape(-1, *SHAPE)


class Album:
    """A generator of examples that it has, or has not."""

    name, licence = "album", "none"

    def __init__(self, examples: Examples | None) -> None:
        self.examples = examples

    def known(self, shape: Shape, /) -> PublicExamples | None:
        return self.examples

    def describes(self, shape: Shape, /) -> None:
        return None

    def like(self, images: Images, described: Described | None, /) -> PublicExamples:
        clusters = np.zeros(len(images), dtype=np.int64)
        return Examples(("given",), features_of(images), np.array([0]), clusters)


class Blocks:
    """The same numbers as an encoder's."""

    name, licence, dim, shape = "quarters", "none", 12, SHAPE
    ordered, norm_bound = False, None

    def encode(self, images: Images) -> Embeddings:
        return features_of(images)


class Painter:
    """Paints the quarters of an image."""

    name, licence, dim, shape, stochastic = "painter", "none", 12, SHAPE, False

    def decode(self, embeddings: Embeddings, *, seeds: Seeds | None = None) -> Images:
        return painted_quarters(embeddings)


def painted(colours: NDArray[np.int64], rng: np.random.Generator) -> Images:
    """A tile of each colour (n, 3), brighter or darker, and noisy."""
    tone = rng.normal(0, 6, (len(colours), 1, 1, 1))
    noise = rng.normal(0, 4, (len(colours), *SHAPE))
    return np.clip(colours[:, None, None, :] + tone + noise, 0, 255).astype(np.uint8)


class Site:
    """Private tiles, a ledger and a run folder on disk."""

    def __init__(
        self,
        folder: Path,
        colours: NDArray[np.int64],
        each: int = EACH,
        part: float | None = None,
    ) -> None:
        self.folder = folder
        labels = np.repeat(np.arange(len(CLASSES)), each)
        tiles = painted(colours[labels], np.random.default_rng(0))
        np.savez(folder / "tiles.npz", images=tiles, labels=np.array(CLASSES)[labels])
        self.source = open_source(folder / "tiles.npz")
        self.ledger = Ledger(folder / "ledger.db")
        self.examples = Examples.of_colours()
        self.context = Context(
            SHAPE,
            public=False,
            mu=1.0,
            classes=CLASSES,
            encoder=Blocks(),
            decoder=Painter(),
            examples=Album(self.examples),
        )
        self.params = METHOD.settle(ClusteringParams(examples_part=part), self.context)

    def run(self, epsilon: float = 4.0, **changes: Any) -> Release:
        """A release, and what it was paid with in `charged`."""
        stages = METHOD.stages(self.params, self.context)
        self.plan = Plan.of(Budget(epsilon), weights_of(stages))
        dataset = self.ledger.register(self.source).id
        account = Account(self.ledger, dataset, Unit(), self.plan, self.folder / "stages", "run")
        cache = self.folder / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        vault = Vault(self.source, account, LocalEngine(1), cache)
        release = self.made(vault, **changes)
        self.released = {stage.stage for stage in vault.receipt().stages}
        vault.close()
        return release

    def made(self, vault: Vault, **changes: Any) -> Release:
        materials = Materials(
            context=self.context,
            vault=vault,
            public=None,
            seed=0,
            progress=lambda words, total: lambda done: None,
        )
        return clustering(replace(materials, **changes), self.params)

    def again(self, **changes: Any) -> Release:
        """From the answers of `run`, without a record."""
        answers = PaidAnswers(Unit(), self.plan, self.folder / "stages")
        return self.made(PaidVault(answers), **changes)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, COLOURS[:3])
    with made.ledger:
        yield made


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Site]:
    """Three of ten samples are like examples."""
    (tmp_path / "both").mkdir()
    made = Site(tmp_path / "both", COLOURS[:3], part=0.3)
    with made.ledger:
        yield made


def rows_of(release: Release) -> tuple[Images, NDArray[np.int64]]:
    batches = list(release.batches())
    images = [batch.images for batch in batches if batch.images is not None]
    return np.concatenate(images), np.concatenate([batch.labels for batch in batches])


def test_samples_of_a_class_are_drawn_from_examples_that_look_like_it(site: Site) -> None:
    assert isinstance(site.context.examples, ExampleGenerator)
    assert isinstance(site.examples, PublicExamples)
    release = site.run()
    images, labels = rows_of(release)
    assert release.count == len(labels) == pytest.approx(3 * EACH, abs=60)
    for label in range(3):
        mean = images[labels == label].reshape(-1, 3).mean(axis=0)
        np.testing.assert_allclose(mean, COLOURS[label], atol=12)
    again, _ = rows_of(release)
    np.testing.assert_array_equal(again, images)
    counts = release.facts["examples_per_class"]
    assert all(90 <= counts[name] <= 110 for name in CLASSES)  # none that nobody voted for
    assert any("bright tiles" in note and "others" not in note for note in release.facts["notes"])


def test_every_planned_stage_is_released_either_way(tmp_path: Path, site: Site) -> None:
    site.run()
    assert site.released == set(site.plan.shares)
    (tmp_path / "other").mkdir()
    far = Site(tmp_path / "other", 255 - COLOURS[:3] // 2)
    with far.ledger:
        release = far.run()
        assert far.released == set(far.plan.shares)
    assert "clusters_per_class" in release.facts
    assert any("not drawn from public examples" in note for note in release.facts["notes"])
    images, labels = rows_of(release)
    for label in range(3):
        mean = images[labels == label].reshape(-1, 3).mean(axis=0)
        np.testing.assert_allclose(mean, 255 - COLOURS[label] // 2, atol=25)


def alike(images: Images) -> NDArray[np.bool_]:
    """Which of them are of one colour, as those that are drawn like examples: (n,)."""
    return np.asarray((images == images[:, :1, :1]).all(axis=(1, 2, 3)))


@pytest.mark.parametrize(
    ("near", "noise", "expected"),
    [
        ([[100, 6], [80, 7]], 1.0, [180, 0]),  # a few of every class look like what they are not
        ([[100, 6], [3, 20]], 1.0, [103, 26]),  # the second class is of the other kind
        ([[100, 6], [3, 20]], 15.0, [103, 0]),  # noise may say so, too
        ([[4, 6], [3, 2]], 15.0, [0, 0]),
    ],
)
def test_a_kind_of_examples_is_what_some_class_mostly_looks_like(
    near: list[list[int]], noise: float, expected: list[int]
) -> None:
    assert kinds_of_classes(np.array(near, dtype=np.float64), noise).tolist() == expected


def test_samples_of_both_kinds_come_in_a_random_order(both: Site) -> None:
    release = both.run()
    assert both.released == set(both.plan.shares)
    images, labels = rows_of(release)
    assert release.count == len(labels) == pytest.approx(3 * EACH, abs=60)
    like = alike(images)
    assert like.sum() == release.facts["example_samples"] == round(0.3 * release.count)
    for label in range(3):
        assert like[labels == label].mean() == pytest.approx(0.3, abs=0.01)
        for mine in (like, ~like):
            mean = images[mine & (labels == label)].reshape(-1, 3).mean(axis=0)
            np.testing.assert_allclose(mean, COLOURS[label], atol=15)
    for part in np.array_split(like, 6):  # whoever takes the first n gets both
        assert part.mean() == pytest.approx(0.3, abs=0.13)
    for part in np.array_split(labels, 3):
        assert np.bincount(part, minlength=3).min() > len(part) / 5
    again, _ = rows_of(release)
    np.testing.assert_array_equal(again, images)


def test_a_release_of_both_kinds_says_so(both: Site) -> None:
    release = both.run(context=replace(both.context, count=200))
    assert release.count == 200
    facts = release.facts
    assert facts["example_samples"] == 60
    assert set(facts["class_sizes"]) == set(facts["clusters_per_class"]) == set(CLASSES)
    assert all(90 <= facts["examples_per_class"][name] <= 110 for name in CLASSES)
    words = "30% of the samples are drawn like public examples (bright tiles), the others from a"
    assert facts["notes"][0].startswith(words)
    assert release.how.startswith("30% of the samples drawn like public examples, which a DP class")
    assert "; the others of a Gaussian mixture per class" in release.how
    assert release.public_source == "bright tiles"


def test_both_tables_of_classes_are_shown(both: Site, capsys: pytest.CaptureFixture[str]) -> None:
    show.class_shares(both.run().facts)
    shown = " ".join(capsys.readouterr().out.split())
    assert "examples of its label" in shown
    assert "covariance of its own" in shown


def test_more_samples_of_both_kinds_follow_from_the_paid_answers(both: Site) -> None:
    images, labels = rows_of(both.run())
    same, as_before = rows_of(both.again())
    np.testing.assert_array_equal(same, images)
    np.testing.assert_array_equal(as_before, labels)
    anew = Resampling(1, 600, 200, lambda name, make: make())
    more, classes = rows_of(both.again(resampling=anew))
    assert np.bincount(classes).tolist() == [200, 200, 200]
    assert np.bincount(classes[alike(more)]).tolist() == [60, 60, 60]
    assert (alike(more)[:100] != alike(images)[:100]).any()
    one = Resampling(1, 1, None, lambda name, make: make())
    assert len(rows_of(both.again(resampling=one))[1]) == 1


def test_where_images_are_like_no_example_both_budgets_make_a_mixture(tmp_path: Path) -> None:
    with (far := Site(tmp_path, 255 - COLOURS[:3] // 2, part=0.3)).ledger:
        release = far.run()
        again, _ = rows_of(far.again())
    assert far.released == set(far.plan.shares)
    assert "not drawn from public examples" in release.facts["notes"][0]
    assert "example_samples" not in release.facts
    images, labels = rows_of(release)
    np.testing.assert_array_equal(again, images)
    assert not alike(images).any()
    for label in range(3):
        mean = images[labels == label].reshape(-1, 3).mean(axis=0)
        np.testing.assert_allclose(mean, 255 - COLOURS[label] // 2, atol=25)


def test_one_class_unlike_every_example_makes_a_mixture_of_all(tmp_path: Path) -> None:
    colours = COLOURS[:3].copy()
    colours[2] = 255
    with (other := Site(tmp_path, colours)).ledger:
        facts = other.run().facts
    assert "clusters_per_class" in facts
    assert "of a class only" in facts["notes"][0]


def test_images_that_drown_in_the_noise_make_a_mixture(tmp_path: Path) -> None:
    with (few := Site(tmp_path, COLOURS[:3], each=40)).ledger:
        facts = few.run(epsilon=0.5).facts
    assert "clusters_per_class" in facts
    assert "too few for this noise" in facts["notes"][0]


def test_other_samples_are_drawn_of_other_examples_where_the_quality_refuses(site: Site) -> None:
    seen: list[int] = []

    def refuses_the_first(images: Images) -> NDArray[np.float64]:
        seen.append(len(images))
        return np.full(len(images), 9.0 if len(seen) == 1 else 0.0)

    quality = QualityFilter("first", refuses_the_first, 5.0)
    context = replace(site.context, count=60)
    images, _ = rows_of(site.run(context=context, quality=quality))
    assert seen == [60, 60]
    assert len(images) == 60
    first, second = site.examples.drawn[:2]
    assert not set(first.tolist()) & set(second.tolist())


def test_a_class_of_few_examples_gets_the_next_best_besides() -> None:
    logits = np.column_stack([np.full(50, 2.0), np.arange(50) / 50])
    labelled = LabelledExamples.of(logits, np.arange(100, 150), np.full(2, 300.0))
    np.testing.assert_array_equal(labelled.rows[0], np.arange(100, 150))
    np.testing.assert_array_equal(labelled.rows[1], np.arange(130, 150))


def test_a_class_that_is_rare_among_records_may_be_frequent_among_examples() -> None:
    logits = np.column_stack([np.zeros(200), np.linspace(-4.0, 0.0, 200)])
    even = LabelledExamples.of(logits, np.arange(200), np.full(2, 500.0))
    assert len(even.rows[1]) == 20  # the fewest
    rare = LabelledExamples.of(logits, np.arange(200), np.array([1000 * np.exp(2.0), 1000.0]))
    np.testing.assert_array_equal(rare.rows[1], np.arange(100, 200))
    np.testing.assert_array_equal(rare.rows[0], np.arange(100))


def test_the_steps_pay_for_the_mixture_by_the_weights_of_its_stages(site: Site) -> None:
    plan = clustering_stages(site.params, site.context)
    assert plan.examples is not None
    pools = plan.pools
    assert list(pools) == [stage.name for stage in plan.mixture]
    names = [name for part in pools.values() for name in part]
    assert sorted(names) == sorted(
        stage.name for stage in (*plan.examples.steps, plan.examples.votes)
    )
    total, weights = len(names), weights_of(plan.mixture)
    for name, part in pools.items():
        assert len(part) / total == pytest.approx(weights[name] / sum(weights.values()), abs=0.05)


def test_a_plan_reckons_with_the_steps_that_pay_for_a_mixture(site: Site) -> None:
    assert METHOD.carried is not None
    alone = replace(site.context, examples=None)
    tables = []
    for context in (site.context, alone):
        params = METHOD.settle(ClusteringParams(), context)
        weights = weights_of(METHOD.stages(params, context))
        total = sum(weights.values())
        table = METHOD.carried(
            params, context, lambda stage, w=weights, t=total: (t / w[stage.name]) ** 0.5, None
        )
        tables.append([one.size_sd for one in table])
        assert table
    assert tables[0][0] == pytest.approx(tables[1][0], rel=0.1)


def test_examples_beside_a_mixture_have_a_tenth_of_the_budget(both: Site, site: Site) -> None:
    weights = weights_of(METHOD.stages(both.params, both.context))
    steps = [weight for name, weight in weights.items() if name.startswith("fit ")]
    own = weights["nearness"] + weights["example votes"] + sum(steps)
    assert own / sum(weights.values()) == pytest.approx(0.1)
    assert weights["nearness"] == weights["example votes"] == pytest.approx(own / 20)
    mixture = clustering_stages(both.params, replace(both.context, examples=None)).planned
    assert {stage.name: stage.weight for stage in mixture}.items() <= weights.items()
    assert len(weights) == len(mixture) + 42
    alone = weights_of(METHOD.stages(site.params, site.context))
    assert set(alone) == set(weights) - {stage.name for stage in mixture} | {"class sizes"}


def test_covariances_of_many_clusters_are_asked_for_once() -> None:
    encoder = load_encoder("embedded:dct", shape=SHAPE)
    context = Context(
        SHAPE,
        public=False,
        mu=2.0,
        classes=CLASSES,
        encoder=encoder,
        decoder=load_decoder("embedded:dct", shape=SHAPE, encoder=encoder),
        examples=Album(Examples.of_colours()),
    )
    params = METHOD.settle(ClusteringParams(examples_part=0.3), context)
    plan = clustering_stages(params, context)
    assert plan.examples is not None
    weights, pools = weights_of(plan.planned), plan.pools
    assert set(pools) == {stage.name for stage in plan.mixture} - {"cluster covariances"}
    payers = [payer for pool in pools.values() for payer in pool]
    spent = {"class sizes", "nearness", "cluster covariances"}
    assert sorted(payers) == sorted(set(weights) - spent)
    paid = {name: sum(weights[payer] for payer in pool) for name, pool in pools.items()}
    more = sum(paid.values()) / sum(weights[name] for name in pools)
    for name, weight in paid.items():
        assert name in pools[name]
        assert weight / weights[name] == pytest.approx(more, rel=0.1)


def test_a_plan_of_both_kinds_reckons_with_the_mixtures_own_stages(both: Site) -> None:
    assert METHOD.carried is not None
    asked = []

    def noise(stage: Stage) -> float:
        asked.append(stage.name)
        return 1.0

    assert METHOD.carried(both.params, both.context, noise, None)
    mixture = clustering_stages(both.params, replace(both.context, examples=None)).planned
    assert set(asked) <= {stage.name for stage in mixture}


@pytest.mark.parametrize(
    ("settings", "changes", "words"),
    [
        ({"conditional": False}, {}, "one class"),
        ({"filter": "embeddings"}, {}, "filter=embeddings"),
        ({"filter": "images", "examples_part": 0.5}, {}, "filter=images"),
        ({}, {"decoder": None}, "--decoder none"),
        ({"examples_part": 0.5}, {"examples": None}, "examples_part is for runs"),
    ],
)
def test_examples_that_cannot_be_used_are_refused(
    site: Site, settings: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    context = replace(site.context, **changes)
    params = METHOD.settle(ClusteringParams(**settings), context)
    with pytest.raises(ConfigError, match=words):
        METHOD.stages(params, context)


def test_by_default_there_are_none_beside_other_settings() -> None:
    none = frozenset[str]()
    assert METHOD.roles(ClusteringParams(), none)["examples"] == "auto"
    assert METHOD.roles(ClusteringParams(examples_part=0.5), none)["examples"] == "auto"
    assert METHOD.roles(ClusteringParams(clusters=2), none)["examples"] is None


@pytest.mark.parametrize("own", [True, False])
def test_public_images_that_are_given_are_the_examples(
    site: Site, tmp_path: Path, own: bool
) -> None:
    tiles = painted(np.repeat(COLOURS[:3], 40, axis=0), np.random.default_rng(2))
    np.savez(tmp_path / "public.npz", images=tiles)
    public = open_source(tmp_path / "public.npz")
    album = Album(site.examples if own else None)
    site.context = replace(site.context, public=True, examples=album)
    release = site.run(public=public)
    assert sum(release.facts["examples_per_class"].values()) == pytest.approx(120, abs=10)
    assert any("given" in note for note in release.facts["notes"])


def public_materials(site: Site, public: Source | None = None) -> Materials:
    """Of a run that never reaches its private records."""
    return Materials(
        context=site.context,
        vault=None,  # type: ignore[arg-type]
        public=public,
        seed=0,
        progress=lambda words, total: lambda done: None,
    )


def test_images_that_the_program_draws_are_no_examples(site: Site) -> None:
    leaves = open_source("procedural:leaves?count=100", size=8)
    materials = public_materials(site, leaves)
    album = Album(site.examples)
    assert examples_for(materials, album) is site.examples
    with pytest.raises(ConfigError, match="too few"):
        examples_for(materials, Album(None))


def test_whitening_does_not_depend_on_how_equal_variances_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    corners = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 3], [0, 0, -3]])
    records = rng.normal(size=(50, 3))
    one = Whitened.of(corners)(records)
    turned = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    other = corners.copy()
    other[:4, :2] = other[:4, :2] @ turned  # of the same covariance
    np.testing.assert_allclose(Whitened.of(other)(records), one, atol=1e-5)
    assert np.abs(one[:, 2]).mean() < 10 * np.abs(records[:, 2]).mean()
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 10.0)


@pytest.mark.parametrize(("most", "rows"), [(100, 100), (1000, 300), (300, 300)])
def test_of_many_public_images_some_of_every_class_are_taken(
    site: Site, tmp_path: Path, most: int, rows: int
) -> None:
    tones = np.arange(300) // 50  # class by class
    tiles = np.broadcast_to(tones.astype(np.uint8)[:, None, None, None], (300, *SHAPE))
    np.savez(tmp_path / "ordered.npz", images=tiles)
    public = open_source(tmp_path / "ordered.npz")
    taken = np.concatenate(list(public_batches(public_materials(site), public, "reading", most)))
    assert len(taken) == rows
    counts = np.bincount(taken[:, 0, 0, 0])
    assert counts.max() - counts.min() <= 1
