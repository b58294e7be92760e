"""One Gaussian a class with a shared covariance: what is released is what the records are like."""

from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tests.independence.worlds import source_of

pytest.importorskip("torch")

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.matching import Layout
from understudy.data import open_source
from understudy.engine.local import LocalEngine
from understudy.methods.base import Context, Materials, stages_of, weights_of
from understudy.methods.clustering.algorithm import METHOD, ClusteringParams
from understudy.methods.clustering.samplers.tied_gaussian import (
    LEAST_DIM,
    MOST_DIM,
    TiedGaussianSampler,
    TiedGaussianStages,
    dimensions,
    measured,
)
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault
from understudy.run.run_plan import SIZES
from understudy.steps.quality import QualityFilter

MUCH = 200.0  # an epsilon at which noise hardly matters
SHAPE = (32, 32, 3)


class Blocks:
    """An encoder of embeddings that are numbers in three blocks, as they come."""

    name, dim, norm_bound, ordered, licence = "blocks", 30, None, False, "none"

    def encode(self, images: Any) -> Any:
        return images

    def layout(self, dim: int, *, colour: bool = True) -> Layout:
        if not colour:
            rest = np.r_[0:10, 20:30]
            return Layout(rest, (slice(0, 10), slice(10, 20)))
        return Layout(np.arange(30), (slice(0, 10), slice(10, 20), slice(20, 30)), colours=1)


@contextmanager
def vault_of(records: InMemorySource, folder: Any, epsilon: float, unit: Unit | None = None) -> Any:
    unit = unit or Unit()
    plan = Plan.of(Budget(epsilon), weights_of(stages_of(TiedGaussianStages())))
    (folder / "cache").mkdir()
    with Ledger(str(folder / "ledger.db")) as ledger:
        dataset = ledger.register(records).id
        account = Account(ledger, dataset, unit, plan, folder / "stages")
        yield PrivateVault(records, account, LocalEngine(1), folder / "cache"), plan.mu


def clouds(count: int = 4000) -> tuple[InMemorySource, Any, Any]:
    """Records of three classes; the second block varies little, and the first two numbers go
    together."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, count)
    means = rng.normal(0, 0.4, (3, 30))
    means[:, 10:20] *= 0.3
    root = np.diag(np.repeat([0.6, 0.15, 0.6], 10))
    root[1, 0] = 0.55
    values = 0.3 + means[labels] + rng.normal(size=(count, 30)) @ root.T
    return source_of(values.astype(np.float32), labels, ("a", "b", "c")), means + 0.3, root @ root.T


def test_means_sizes_and_covariance_are_those_of_the_records(tmp_path: Any) -> None:
    records, means, covariance = clouds()
    with vault_of(records, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    np.testing.assert_allclose(gaussian.sizes, np.bincount(records.labels), atol=5)
    # Clipping at three quarters of the usual length shortens the tails a little.
    np.testing.assert_allclose(gaussian.means, means, atol=0.12)
    ratio = np.diag(gaussian.covariance) / np.diag(covariance)
    assert ratio.min() > 0.6
    assert ratio.max() < 1.6
    assert gaussian.covariance[0, 1] > 0.6 * covariance[0, 1]
    assert gaussian.block_sizes[1] < 0.5 * gaussian.block_sizes[0]


def test_the_discriminant_knows_the_classes_and_whole_embeddings(tmp_path: Any) -> None:
    records, means, covariance = clouds()
    with vault_of(records, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    exact = np.linalg.solve(covariance, means.T)
    ideal = (records.values @ exact - 0.5 * (means * exact.T).sum(axis=1)).argmax(axis=1)
    best = (ideal == records.labels).mean()
    predicted = gaussian.classifier(30).predict(records.values)
    assert (predicted == records.labels).mean() > best - 0.03
    np.testing.assert_array_equal(predicted, gaussian.labels_of(records.values))


def test_samples_vary_as_the_records_of_their_class_do(tmp_path: Any) -> None:
    """One class is wider than another, more in some blocks, and is not drawn to the centre."""
    records, means, _ = clouds()
    widths = np.array([[0.5, 0.5, 0.5], [1.0, 1.0, 1.0], [1.5, 0.5, 1.0]])
    residuals = records.values - means[records.labels]
    means[2] += 0.6
    values = means[records.labels] + np.repeat(widths, 10, axis=1)[records.labels] * residuals
    wide = source_of(values.astype(np.float32), records.labels, ("a", "b", "c"))
    with vault_of(wide, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    np.testing.assert_allclose(gaussian.widths / gaussian.widths[1], widths, rtol=0.1)
    np.testing.assert_allclose(gaussian.means, means, atol=0.12)
    points, _ = gaussian.draw(records.labels, np.random.default_rng(1))
    for label in range(3):
        mine = records.labels == label
        ratios = (points[mine].std(axis=0) / values[mine].std(axis=0)).reshape(3, 10)
        assert np.median(ratios, axis=1) == pytest.approx(np.ones(3), abs=0.15)


def test_samples_vary_in_the_directions_in_which_their_class_does(tmp_path: Any) -> None:
    """Two numbers go together in one class, against each other in another; many records tell."""
    records, means, _ = clouds()
    signs = np.array([1, -1, 1])[records.labels]
    values = records.values.copy()
    values[:, 1] = means[records.labels, 1] + signs * (values[:, 1] - means[records.labels, 1])
    crossed = source_of(values, records.labels, ("a", "b", "c"))
    with vault_of(crossed, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    points, _ = gaussian.draw(records.labels, np.random.default_rng(1))
    for label, sign in enumerate((1, -1, 1)):
        mine = records.labels == label
        assert sign * np.corrcoef(points[mine, :2].T)[0, 1] > 0.4


def test_of_few_records_the_covariance_is_measured_twice_instead(tmp_path: Any) -> None:
    """No class has one of its own then, and the budget of that is not lost."""
    records, *_ = clouds(300)
    with vault_of(records, tmp_path, 4.0) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    assert gaussian.shapes.turns.shape == (3, 0, 0)
    first, second = (
        np.load(tmp_path / "stages" / f"{stage}.npz")["noisy"]
        for stage in ("covariance", "covariances of classes")
    )
    assert first.shape == second.shape == (1, 30 * 31 // 2)
    assert 0.5 < np.corrcoef(first[0], second[0])[0, 1] < 0.999  # two draws of noise


def test_samples_lie_as_unevenly_far_from_their_mean_as_the_records(tmp_path: Any) -> None:
    """Records of two classes have widths of their own, as flat and rich photos do; one has not."""
    records, means, _ = clouds()
    spreads = np.array([0.6, 0.3, 0.0])
    own = np.exp(
        spreads[records.labels] * np.random.default_rng(1).normal(size=len(records.labels))
    )
    records.values[:] = means[records.labels] + own[:, None] * (
        records.values - means[records.labels]
    )
    with vault_of(records, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    np.testing.assert_allclose(gaussian.spreads, spreads, atol=0.15)
    points, widths = gaussian.draw(records.labels, np.random.default_rng(1))
    for label in range(3):
        mine = records.labels == label
        lengths = [
            np.log(np.linalg.norm(values[mine] - means[label], axis=1)).std()
            for values in (points, records.values)
        ]
        assert lengths[0] == pytest.approx(lengths[1], abs=0.1)
        assert np.log(widths[mine]).std() == pytest.approx(gaussian.spreads[label], abs=0.05)


@pytest.mark.slow
def test_noise_in_widths_is_not_drawn(tmp_path: Any) -> None:
    """Where the noise is as large as a width, samples have the usual one: nearly always."""
    records, _, _ = clouds(400)
    wild = 0
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        with vault_of(records, folder, 1.0) as (vault, mu):
            gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
        of_classes = np.log(gaussian.widths).std(axis=0).max()
        wild += max(gaussian.spreads.max(), of_classes) > 0.5
    assert wild <= 4


def test_samples_are_of_the_class_that_the_discriminant_gives_them(tmp_path: Any) -> None:
    records, _, _ = clouds()
    with vault_of(records, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    labels = np.arange(600) % 3
    points, _ = gaussian.draw(labels, np.random.default_rng(1))
    assert (gaussian.labels_of(points) == labels).all()
    for label in range(3):
        middle = points[labels == label].mean(axis=0)
        nearest = np.square(gaussian.means - middle).sum(axis=1).argmin()
        assert nearest == label


def test_a_number_that_hardly_varies_may_be_missed_a_little(tmp_path: Any) -> None:
    """Else a search attends to what is the same in all images, and to nothing else."""
    records, _, _ = clouds()
    with vault_of(records, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    deviations = np.sqrt(np.diag(gaussian.covariance))
    assert deviations[10:20].max() < 0.2
    misses = np.linalg.norm(gaussian.metric, axis=0)  # the distance of a miss of 1
    assert misses.max() < 1 / 0.3
    np.testing.assert_allclose(1 / misses[20:], np.hypot(deviations[20:], 0.3), rtol=0.1)


def test_numbers_of_colour_are_left_out_where_there_is_none(tmp_path: Any) -> None:
    records, _, _ = clouds()
    records.values[:, 10:20] = 0.0
    with vault_of(records, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    assert gaussian.layout.columns.tolist() == [*range(10), *range(20, 30)]
    assert (gaussian.classifier(30).weights[10:20] == 0).all()
    assert gaussian.covariance.shape == (20, 20)


@pytest.mark.parametrize("deviation", [0.0, 0.08])
def test_faint_colour_is_distinguished_from_none_at_a_small_epsilon(
    tmp_path: Any, deviation: float
) -> None:
    """Each record says by itself whether it has colour, which noise in a mean can hide."""
    records, _, _ = clouds(900)
    records.values[:, 10:20] *= deviation / 0.15
    for attempt in range(5):
        (folder := tmp_path / str(attempt)).mkdir()
        with vault_of(records, folder, 1.0) as (vault, mu):
            gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
        assert (gaussian.layout.colours is None) == (deviation == 0.0)


def test_classes_whose_sizes_do_not_stand_out_keep_what_was_counted(tmp_path: Any) -> None:
    records, _, _ = clouds(60)
    sizes = []
    for attempt in range(5):
        (folder := tmp_path / str(attempt)).mkdir()
        with vault_of(records, folder, 0.3) as (vault, mu):
            sizes.append(measured(vault, Blocks(), 3, mu, TiedGaussianStages()).sizes)
    assert np.max(sizes) > 8


def test_without_the_block_sizes_small_blocks_would_drown(tmp_path: Any) -> None:
    """The second block's means are a third of the others', and still stand out of the noise."""
    records, means, _ = clouds()
    with vault_of(records, tmp_path, 4.0) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    wanted = means[:, 10:20] - means[:, 10:20].mean(axis=0)
    own = gaussian.means[:, 10:20] - gaussian.means[:, 10:20].mean(axis=0)
    assert np.corrcoef(wanted.ravel(), own.ravel())[0, 1] > 0.9


def test_more_budget_and_more_records_pay_for_more_numbers() -> None:
    assert dimensions(0.01, 10, 5) == LEAST_DIM
    assert dimensions(2.0, 100_000, 50_000) == MOST_DIM
    grid = [dimensions(mu, 2000, 200) for mu in (0.1, 0.3, 1.0, 2.0)]
    assert grid == sorted(grid)
    assert dimensions(0.3, 2000, 200) > dimensions(0.3, 2000, 50)


def test_what_classes_carry_grows_with_their_size() -> None:
    classes = context(classes=tuple("abcde"))
    capacity = METHOD.explain(ClusteringParams(), classes, lambda _: 10.0, None).capacity
    table = [*map(capacity, SIZES)]
    assert [row.clusters for row in table] == [1] * len(table)
    own = [row.own_mean for row in table]
    assert own == sorted(own)
    assert own[-1]
    assert [row.summary for row in table[:2]] == ["images serve little", "a mean of its own"]


def context(**more: Any) -> Context:
    encoder = load_encoder("embedded:energies", shape=SHAPE)
    decoder = load_decoder("embedded:energies", shape=SHAPE, encoder=encoder)
    facts = {"public": False, "mu": 0.3, "classes": ("cat", "dog"), "count": 12}
    return Context(SHAPE, encoder=encoder, decoder=decoder, **facts | more)


class Painter:
    """A decoder of one pixel: the first number that it is to match, and the seed."""

    at_once = 64
    name, shape, dim, licence, stochastic = "painter", (1, 1, 3), 30, "none", False

    def match(self, targets: Any, *_: Any, seeds: Any) -> Any:
        first = (100 + 40 * targets[:, 0]).clip(0, 255)
        return np.stack([first, seeds % 251, seeds % 241], axis=1).astype(np.uint8)[:, None, None]


def test_samples_are_finished_a_few_at_a_time_and_are_the_same(tmp_path: Any) -> None:
    """A bar that moves: 512 images take minutes, and a run of 700 showed nothing until its end."""
    records, _, _ = clouds()
    with vault_of(records, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    facts = context(classes=("a", "b", "c"), count=700)
    painter = Painter()
    sampler = TiedGaussianSampler(ClusteringParams(), facts, Blocks(), painter)
    materials = Materials(facts, None, None, 3, lambda *_: lambda _: None)  # type: ignore[arg-type]
    drawn = {}
    for size in (64, 512):
        painter.at_once = size
        drawn[size] = list(sampler.draw(materials, gaussian).batches())
        assert max(len(batch.labels) for batch in drawn[size]) == size
    for part in ("labels", "images"):
        few, many = (np.concatenate([getattr(b, part) for b in drawn[size]]) for size in drawn)
        np.testing.assert_array_equal(few, many)


class Crowded(Painter):
    """A decoder whose image tells how many it was searched for with."""

    def match(self, targets: Any, *values: Any, seeds: Any) -> Any:
        images = super().match(targets, *values, seeds=seeds)
        images[..., 2] = len(seeds) // 4
        return images


def test_what_a_filter_draws_again_is_the_same_on_any_number_of_processors(tmp_path: Any) -> None:
    """It was searched for with the others of a part, and parts were of 64 images a processor."""
    records, _, _ = clouds()
    with vault_of(records, tmp_path, MUCH) as (vault, mu):
        gaussian = measured(vault, Blocks(), 3, mu, TiedGaussianStages())
    facts = context(classes=("a", "b", "c"), count=700)
    drawn = []
    for size in (64, 512):
        painter = Crowded()
        painter.at_once = size
        sampler = TiedGaussianSampler(ClusteringParams(), facts, Blocks(), painter)
        materials = Materials(
            facts,
            None,  # type: ignore[arg-type]
            None,
            3,
            lambda *_: lambda _: None,
            quality=QualityFilter("green", lambda images: images[:, 0, 0, 1].astype(float), 100.0),
        )
        batches = sampler.draw(materials, gaussian).batches()
        drawn.append(np.concatenate([batch.images for batch in batches]))
    np.testing.assert_array_equal(*drawn)


def test_a_setting_of_a_mixture_names_the_codec_of_mixtures() -> None:
    roles = METHOD.roles(ClusteringParams(clusters=3), frozenset())
    assert roles["encoder"] == "embedded:dct"
    assert METHOD.roles(ClusteringParams(), frozenset())["encoder"] == "auto"


def test_its_stages_are_those_of_the_default_for_images() -> None:
    assert METHOD.stages(ClusteringParams(), context()) == stages_of(TiedGaussianStages())


def test_the_mean_of_the_numbers_that_are_not_measured_is_released(tmp_path: Any) -> None:
    encoder = load_encoder("embedded:energies", shape=(32, 32, 1))
    drawn = next(open_source("procedural:scenes?count=400&channels=1", size=32).batches(400))
    values = encoder.encode(drawn.values)
    for epsilon in (MUCH, 0.5):
        folder = tmp_path / str(epsilon)
        folder.mkdir()
        records = source_of(values, np.arange(400) % 2, ("a", "b"))
        with vault_of(records, folder, epsilon) as (vault, mu):
            gaussian = measured(vault, encoder, 2, mu, TiedGaussianStages())
        columns = gaussian.others.columns
        assert len(columns) == len(gaussian.common)
        if epsilon < MUCH:  # an image is not asked for what is mostly noise
            assert len(columns) < 0.2 * encoder.dim
            continue
        assert not np.isin(columns, gaussian.layout.columns).any()
        assert 0.8 * encoder.dim < gaussian.layout.dim + len(columns) <= encoder.dim
        exact = values[:, columns].mean(axis=0)
        assert np.linalg.norm(gaussian.common - exact) < 0.3 * np.linalg.norm(exact)
