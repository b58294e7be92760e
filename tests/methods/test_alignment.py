"""Alignment end to end: a base set comes closer to private records that nobody saw."""

import dataclasses

import numpy as np
import pytest
from tests.run.samples import class_folders, quick_run, save, with_manifest

from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.errors import ConfigError
from understudy.data import open_source
from understudy.engine.local import LocalEngine
from understudy.methods.alignment.algorithm import METHOD, AlignmentParams, alignment
from understudy.methods.base import Context, Materials, Resampling, memory_store, weights_of
from understudy.metrics.fidelity import frechet_distance
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault

MUCH = 400.0  # an epsilon at which noise hardly matters
SHAPE = (8, 8, 1)


# Embeddings


def clouds(path, per_class, seed, gap, spread=1.0):
    """Two classes of two modes each in 16 numbers; ``gap`` moves each mode its own way."""
    world, rng = np.random.default_rng(1), np.random.default_rng(seed)
    middles = 3 * world.normal(size=(2, 2, 16))
    away = world.normal(size=(2, 1, 16)) + 0.6 * world.normal(size=(2, 2, 16))
    labels = np.repeat(np.arange(2), per_class)
    mode = rng.integers(0, 2, len(labels))
    values = middles[labels, mode] + gap * away[labels, mode]
    values = (values + spread * rng.normal(size=values.shape)).astype(np.float32)
    np.savez(path, embeddings=values, labels=np.array(["cat", "dog"])[labels])
    return path, values, labels


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clouds")
    private = clouds(folder / "private.npz", 600, 0, gap=1.0, spread=1.3)
    return private, clouds(folder / "base.npz", 300, 5, gap=0.0)


def distance(rows, found, values, labels):
    """Mean over the classes of the Frechet distance."""
    return np.mean(
        [frechet_distance(values[labels == c], rows[found == c]) for c in np.unique(labels)]
    )


def released(source, base, tmp_path, epsilon=MUCH, options=None, **settings):
    given = {"method": "alignment", "base": str(base), "settings": settings, "count": None}
    given |= {"epsilon": epsilon, "accept_epsilon": True} | (options or {})
    made = quick_run(source, tmp_path, **given)
    (batch,) = open_source(made.release).batches(5000)
    return batch.values, batch.labels, made


def stages(made):
    return [stage.stage for stage in made.receipt.stages]


@pytest.mark.parametrize(("partition", "clusters"), [("public", 1), ("matched", 2)])
def test_the_domain_gap_closes(sets, tmp_path, partition, clusters):
    (source, values, labels), (base, before, own) = sets
    rows, found, _ = released(source, base, tmp_path, partition=partition, clusters=clusters)
    left = distance(rows, found, values, labels) / distance(before, own, values, labels)
    assert left < (0.35 if clusters == 1 else 0.2)
    for label in range(2):
        mean, true = rows[found == label].mean(axis=0), values[labels == label].mean(axis=0)
        np.testing.assert_allclose(mean, true, atol=0.45)


def test_it_closes_at_epsilon_one_too(sets, tmp_path):
    (source, values, labels), (base, before, own) = sets
    rows, found, made = released(source, base, tmp_path, epsilon=1.0)
    assert stages(made) == ["clip radius", "gap"]
    assert distance(rows, found, values, labels) < 0.6 * distance(before, own, values, labels)


def test_variances_are_aligned_where_asked(sets, tmp_path):
    (source, values, labels), (base, _, _) = sets
    total = {}
    for asked in (False, True):
        folder = tmp_path / str(asked)
        rows, found, made = released(source, base, folder, clusters=1, second_moment=asked)
        assert ("spread" in stages(made)) == asked
        total[asked] = [rows[found == c].var(axis=0).sum() for c in range(2)]
    true = [values[labels == c].var(axis=0).sum() for c in range(2)]
    for label in range(2):
        assert total[False][label] < 0.93 * true[label]
        assert total[True][label] == pytest.approx(true[label], rel=0.04)


def test_hardly_any_budget_leaves_the_base_set_where_it_was(sets, tmp_path):
    """The middle of three runs: one in twenty keeps more than 0.4, and is run again."""
    (source, *_), (base, *_) = sets
    parts = {True: [], False: []}
    for shrink, run in ((True, 0), (True, 1), (True, 2), (False, 0)):
        place = tmp_path / f"{shrink}-{run}"
        rows, _, made = released(source, base, place, epsilon=0.003, shrink=shrink)
        assert np.isfinite(rows).all()
        parts[shrink].append(made.facts["gap"] / made.facts["noise_in_a_gap"])
    assert np.median(parts[True]) < 0.4
    assert np.median(parts[False]) > 0.7


def test_the_papers_clipping_is_there(sets, tmp_path):
    (source, values, labels), (base, before, own) = sets
    rows, found, made = released(source, base, tmp_path, clip_norm=30.0, clusters=1)
    assert stages(made) == ["gap"]
    assert distance(rows, found, values, labels) < 0.4 * distance(before, own, values, labels)
    tight, _, _ = released(source, base, tmp_path / "tight", clip_norm=1.0, clusters=1)
    assert np.linalg.norm(tight.mean(axis=0)) < 2


def modes(path, dim, each, gap, seed, spread=1.0):
    """Two classes of two modes, 6 from the origin; rows lie about ``spread`` from their mode.

    Every class has a gap of 2, and each of its modes one of its own besides, of length ``gap``.
    """
    world, rng = np.random.default_rng(2), np.random.default_rng(seed)
    middles = np.linalg.qr(world.normal(size=(dim, 4)))[0].T.reshape(2, 2, dim)
    common, own = (
        x / np.linalg.norm(x, axis=2, keepdims=True)
        for x in (world.normal(size=(2, count, dim)) for count in (1, 2))
    )
    labels, mode = np.repeat(np.arange(2), each), np.tile(np.arange(2), each)
    values = 6 * middles[labels, mode] + (gap > 0) * (2 * common + gap * own)[labels, mode]
    values = values + spread * rng.normal(size=values.shape) / np.sqrt(dim)
    np.savez(path, embeddings=values.astype(np.float32), labels=np.array(["cat", "dog"])[labels])
    return path, values, labels, mode


def errors_of_gaps(tmp_path, dim, spread, own_gap=1.0, **settings):
    """Of each class and then of its clusters, as parts of their gap, at epsilon 1e5: (6,)."""
    tmp_path.mkdir(exist_ok=True)
    source, values, labels, mode = modes(tmp_path / "private.npz", dim, 400, own_gap, 3, spread)
    base, before, own, base_mode = modes(tmp_path / "base.npz", dim, 200, 0.0, 4)
    settings = {"shrink": False, "clusters": 2, "sphere": False, **settings}
    # As many rows as the base set has: each of them is released once, and means are exact.
    rows, found, _ = released(source, base, tmp_path, 1e5, {"count": len(before)}, **settings)
    middles = np.stack([before[(own == i // 2) & (base_mode == i % 2)].mean(0) for i in range(4)])
    nearest = np.linalg.norm(rows[:, None] - middles, axis=2)
    errors = []
    for label in range(2):
        pairs = [(found == label, labels == label, own == label)]
        closer = nearest[:, 2 * label] < nearest[:, 2 * label + 1]
        for index, mine in enumerate((closer, ~closer)):
            pairs.append(
                tuple(
                    here & there
                    for here, there in zip(
                        pairs[0], (mine, mode == index, base_mode == index), strict=True
                    )
                )
            )
        for release, private, base_rows in pairs:
            true = values[private].mean(0) - before[base_rows].mean(0)
            gap = rows[release].mean(0) - before[base_rows].mean(0)
            errors.append(np.linalg.norm(gap - true) / np.linalg.norm(true))
    return np.array(errors)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "spread"), [(4, 1.0), (400, 1.5)])
def test_gaps_are_right_to_two_percent_where_the_norm_is_unknown(tmp_path, dim, spread):
    """Private rows vary less than the base set, as much or more: their distances are measured."""
    classes = errors_of_gaps(tmp_path / "classes", dim, spread, clusters=1)[[0, 3]]
    clusters = errors_of_gaps(tmp_path / "clusters", dim, spread)
    assert classes.max() < 0.02
    assert clusters.max() < 0.02


def test_what_clipping_cuts_off_a_cluster_gap_is_found_again(tmp_path):
    """At 0.45 usual distances, differences to a cluster's expected mean are clipped by a sixth."""
    assert errors_of_gaps(tmp_path, 400, 1.0, own_gap=3.0, clip_radius=0.45).max() < 0.03


def test_a_clipping_radius_that_is_asked_for_is_used(sets, tmp_path):
    """Four times the radius, four times the noise, and no budget for measuring one."""
    (source, *_), (base, *_) = sets
    noise = {}
    for radius in (1.0, 4.0):
        folder = tmp_path / str(radius)
        _, _, made = released(source, base, folder, 1.0, clusters=1, clip_radius=radius)
        assert stages(made) == ["gap"]
        noise[radius] = made.facts["noise_in_a_gap"]
    assert noise[4.0] > 2 * noise[1.0]


def test_without_classes_there_is_one_gap(sets, tmp_path):
    (source, values, _), (base, before, _) = sets
    rows, found, made = released(source, base, tmp_path, conditional=False, clusters=1)
    assert not found.any()
    assert made.facts["rows_per_class"] == {"all": len(before)}
    np.testing.assert_allclose(rows.mean(axis=0), values.mean(axis=0), atol=0.3)


def test_classes_are_as_large_as_noisy_counts_say(sets, tmp_path):
    (_, values, labels), (base, _, _) = sets
    few = np.concatenate([np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)[:200]])
    np.savez(
        tmp_path / "some.npz", embeddings=values[few], labels=np.array(["cat", "dog"])[labels[few]]
    )
    _, found, made = released(tmp_path / "some.npz", base, tmp_path, options={"count": 1000})
    assert len(found) == 1000
    assert (found == 0).sum() == pytest.approx(750, abs=10)
    assert made.facts["noisy_rows"] == pytest.approx(800, abs=10)


def test_clusters_are_as_large_as_noisy_counts_say(tmp_path):
    """Nine in ten private records are of the first mode, half of the base set is."""
    rng = np.random.default_rng(0)
    for name, part, count in (("private", 0.9, 1000), ("base", 0.5, 400)):
        mode = (rng.random(count) > part) * 1.0
        rows = 8 * mode[:, None] * np.eye(6)[0] + rng.normal(size=(count, 6))
        np.savez(tmp_path / f"{name}.npz", embeddings=rows.astype(np.float32))
    rows, _, _ = released(
        tmp_path / "private.npz", tmp_path / "base.npz", tmp_path, clusters=2, template="a photo"
    )
    assert (rows[:, 0] < 4).mean() == pytest.approx(0.9, abs=0.03)


# Images


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Private scans, and a darker base set."""
    folder = tmp_path_factory.mktemp("scans")
    private = class_folders(folder / "private", {"cat": 150, "dog": 150}, SHAPE)
    (batch,) = open_source(private).batches(1000)
    for name, rows in (("cat", batch.values[:50]), ("dog", batch.values[150:200])):
        (folder / "base" / name).mkdir(parents=True)
        for number, image in enumerate(rows):
            save((image * 0.7).astype(np.uint8), folder / "base" / name / f"{number}.png")
    return private, folder / "base"


DCT = {"encoder": "embedded:dct", "decoder": "embedded:dct"}


def brightness(source):
    (batch,) = open_source(source).batches(5000)
    return [batch.values[batch.labels == label].mean() for label in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_images_come_out_as_bright_as_the_private_ones(scans, tmp_path, adjacency):
    source, base = scans
    options = {**DCT, "adjacency": adjacency}
    images, _, made = released(source, base, tmp_path, 8.0, options, clusters=1)
    assert images.shape == (100, *SHAPE)
    assert stages(made) == ["gap"]
    np.testing.assert_allclose(brightness(made.release), brightness(source), atol=12)
    assert np.abs(np.subtract(brightness(base), brightness(source))).max() > 40


@pytest.mark.slow
def test_a_partition_of_its_own_encoder(scans, tmp_path):
    source, base = scans
    options = {**DCT, "cluster_encoder": "embedded:dct?coefficients=9"}
    images, _, made = released(source, base, tmp_path, MUCH, options, clusters=2)
    assert images.shape[1:] == SHAPE
    assert stages(made) == ["gap", "cluster gaps"]
    np.testing.assert_allclose(brightness(made.release), brightness(source), atol=12)


def test_units_of_several_images(tmp_path):
    source = with_manifest(tmp_path / "scans")
    base = class_folders(tmp_path / "base", {"cat": 40, "dog": 40, "eel": 40}, seed=3)
    options = {**DCT, "unit": "patient"}
    _, found, made = released(source / "manifest.csv", base, tmp_path, 8.0, options)
    assert made.receipt.unit != "image"
    assert set(found) <= {0, 1, 2}


# A generator, and a decoder that is told what to draw


class Greys:
    """Draws grey pictures: how light, the words say; how light exactly, chance."""

    name, licence, shape, tasks = "test:greys", "none", (12, 10, 3), frozenset({"text"})

    def __init__(self):
        self.asked = []

    def generate(self, prompts, *, seed=0):
        self.asked += prompts
        rng = np.random.default_rng(seed)
        light = [60 if "cat" in prompt else 120 for prompt in prompts]
        noise = rng.normal(0, 25, (len(prompts), *self.shape))
        return np.clip(np.array(light)[:, None, None, None] + noise, 0, 255).astype(np.uint8)


class Cued:
    """A decoder with a cue: the first pixel is black for a cat and white for a dog."""

    def __init__(self, plain):
        self.plain, self.name, self.licence = plain, "test:cued", "none"
        self.dim, self.shape, self.stochastic = plain.dim, plain.shape, plain.stochastic

    def decode(self, embeddings, *, seeds):
        return self.plain.decode(embeddings, seeds=seeds)

    def decode_prompted(self, embeddings, prompts, *, seeds, noise_level=0):
        images = self.decode(embeddings, seeds=seeds)
        images[:, 0, 0] = [[0] if "cat" in prompt else [255] for prompt in prompts]
        return images


class Site:
    """A private folder of two classes, a ledger, and a run that can be asked again."""

    def __init__(self, folder, source):
        self.folder, self.source = folder, open_source(source)
        self.ledger = Ledger(folder / "ledger.db")
        self.dataset = self.ledger.register(self.source).id
        self.generator, self.keep = Greys(), memory_store()
        encoder = load_encoder("embedded:dct", shape=SHAPE)
        self.context = Context(
            SHAPE,
            encoder=encoder,
            decoder=Cued(load_decoder("embedded:dct", shape=SHAPE, encoder=encoder)),
            public=False,
            mu=2.0,
            classes=("cat", "dog"),
            phrases=("cat sleeping", "dog barking"),
            generator=self.generator,
        )

    def materials(self, params, epsilon=8.0, **changes):
        plan = Plan.of(Budget(epsilon), weights_of(METHOD.stages(params, self.context)))
        account = Account(
            self.ledger, self.dataset, Unit(), plan, self.folder / "stages", "the run"
        )
        cache = self.folder / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        made = Materials(
            context=self.context,
            vault=PrivateVault(self.source, account, LocalEngine(1), cache),
            public=None,
            seed=0,
            progress=lambda words, total: lambda done: None,
            fit=lambda images: images[:, :8, :8, :1],
            keep=self.keep,
        )
        return dataclasses.replace(made, **changes)

    def charges(self):
        return [row.data["stage"] for row in self.ledger.rows() if row.kind == "charge"]


@pytest.fixture
def site(scans, tmp_path):
    made = Site(tmp_path, scans[0])
    with made.ledger:
        yield made


def rows_of(release):
    batches = list(release.batches())
    return (np.concatenate([getattr(b, name) for b in batches]) for name in ("images", "labels"))


def test_a_base_set_is_drawn_from_the_template_and_decoded_with_the_cue(site):
    params = AlignmentParams(first=80, clusters=1, multiple=2.0, sensor_noise=False)
    release = alignment(site.materials(params), params)
    assert set(site.generator.asked) == {"a photo of a cat sleeping", "a photo of a dog barking"}
    images, labels = rows_of(release)
    assert release.count == len(labels) == pytest.approx(600, abs=60)
    # What the first pictures lacked was drawn later, and no more.
    assert len(site.generator.asked) == pytest.approx(600, abs=60)
    np.testing.assert_array_equal(images[:, 0, 0, 0], np.where(labels == 0, 0, 255))
    light = [images[labels == label].mean() for label in (0, 1)]
    np.testing.assert_allclose(light, [85, 170], atol=12)
    again = next(iter(release.batches()))
    np.testing.assert_array_equal(again.images, images[: len(again.labels)])


@pytest.mark.parametrize(
    ("phrases", "warns"), [(("cat sleeping", "dog barking"), False), (("fox", "dog"), True)]
)
def test_the_run_says_whether_classes_are_drawn_apart_before_anything_is_paid(site, phrases, warns):
    params, said = AlignmentParams(first=20, clusters=1), []
    site.context = dataclasses.replace(site.context, count=20, phrases=phrases)

    def report(fit):
        said.append((fit, site.charges()))

    alignment(site.materials(params, report_fit=report), params)
    ((fit, charges),) = said
    assert charges == []
    assert (fit.warning is not None) == warns
    assert fit.value < 0.75 if warns else fit.value > 0.9
    if warns:
        assert "fox" in fit.warning
        assert "--method clustering" in fit.warning


def test_a_killed_run_draws_and_pays_nothing_twice(site):
    params = AlignmentParams(first=30, clusters=2, partition="matched")

    class Killed(Exception):
        pass

    def dying(name, make):
        if name == "clusters":  # after the gaps of the classes were paid for
            raise Killed
        return site.keep(name, make)

    with pytest.raises(Killed):
        alignment(site.materials(params, keep=dying), params)
    drawn, paid = len(site.generator.asked), site.charges()
    assert paid == list(weights_of(METHOD.stages(params, site.context)))
    stored = {path.name: path.read_bytes() for path in (site.folder / "stages").iterdir()}
    assert set(stored) == {"gap.npz"}
    release = alignment(site.materials(params), params)
    assert len(site.generator.asked) == drawn
    assert site.charges() == paid
    for name, content in stored.items():
        assert (site.folder / "stages" / name).read_bytes() == content
    once = list(rows_of(release))
    again = list(rows_of(alignment(site.materials(params), params)))
    np.testing.assert_array_equal(once[0], again[0])
    assert site.charges() == paid


def test_few_samples_that_are_drawn_anew_keep_their_classes(site):
    params = AlignmentParams(first=30, clusters=5, sensor_noise=False)
    alignment(site.materials(params), params)
    resampling = Resampling(seed=3, count=6, per_class=3, keep=memory_store())
    images, labels = rows_of(alignment(site.materials(params, resampling=resampling), params))
    assert sorted(labels) == [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(images[:, 0, 0, 0], np.where(labels == 0, 0, 255))


def test_what_the_decoder_refuses_costs_nothing(site):
    site.context = dataclasses.replace(
        site.context, decoder=Cued(load_decoder("embedded:dct?coefficients=9", shape=SHAPE))
    )
    with pytest.raises(ConfigError, match="decodes embeddings of 9 numbers"):
        METHOD.stages(AlignmentParams(), site.context)

    class Refuses(Cued):
        def decode_prompted(self, embeddings, prompts, *, seeds, noise_level=0):
            raise ConfigError("no such embeddings here")

    plain = load_decoder("embedded:dct", shape=SHAPE)
    site.context = dataclasses.replace(site.context, decoder=Refuses(plain))
    params = AlignmentParams(first=8, clusters=1)
    with pytest.raises(ConfigError, match="no such embeddings"):
        alignment(site.materials(params), params)
    assert site.charges() == []


def nothing_was_charged(folder):
    with Ledger(folder / "ledger.db") as ledger:
        return not [row for row in ledger.rows() if row.kind == "charge"]


# The plan


def known(mu=0.27, **roles):
    """A run whose encoder's norm is known."""
    encoder = load_encoder("embedded:dct", shape=SHAPE)
    decoder = load_decoder("embedded:dct", shape=SHAPE, encoder=encoder)
    return Context(
        SHAPE,
        encoder=encoder,
        decoder=decoder,
        public=False,
        mu=mu,
        classes=("cat", "dog"),
        **{"base": True, **roles},
    )


def test_the_default_plan_is_one_release_with_less_noise_than_the_papers():
    """The paper's corollary: 4.90 times the sensitivity at (1, 1e-5)."""
    plan = Plan.of(Budget(1.0, 1e-5), weights_of(METHOD.stages(AlignmentParams(), known())))
    assert list(plan.shares) == ["gap"]
    assert 3.72 < 1 / plan.stage_mu("gap") <= 3.74


def test_a_norm_that_nobody_knows_is_asked_for():
    embeddings = Context((16,), public=False, mu=0.27, classes=("cat", "dog"), base=True)
    assert list(weights_of(METHOD.stages(AlignmentParams(), embeddings))) == ["clip radius", "gap"]
    assert list(weights_of(METHOD.stages(AlignmentParams(clip_norm=3.0), embeddings))) == ["gap"]
    assert list(weights_of(METHOD.stages(AlignmentParams(clip_radius=3.0), embeddings))) == ["gap"]
    assert METHOD.settle(AlignmentParams(), embeddings).clip_radius is None
    assert METHOD.settle(AlignmentParams(clip_radius=2.0), embeddings).clip_radius == 2.0
    assert METHOD.settle(AlignmentParams(), known()).clip_radius == 1.5


def test_a_clip_norm_above_what_embeddings_can_have_is_refused():
    bound = known().encoder.norm_bound
    with pytest.raises(ConfigError, match=f"clip_norm=.* is above {bound:g}.* embedded:dct"):
        METHOD.stages(AlignmentParams(clip_norm=1.01 * bound), known())
    METHOD.stages(AlignmentParams(clip_norm=bound), known())


def test_the_papers_partition_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match=r"not differentially private.*partition=public"):
        AlignmentParams(partition="paper")


@pytest.mark.parametrize(
    ("settings", "roles", "words"),
    [
        ({}, {"base": False}, "--generator, or --base"),
        ({"clusters": 1}, {"cluster_encoder": True}, "--cluster-encoder makes clusters"),
        ({"template": "a photo"}, {"base": False, "generator": True}, r"\{class\}"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_spent(settings, roles, words):
    made = {
        "cluster_encoder": load_encoder("embedded:dct?coefficients=4", shape=SHAPE),
        "generator": Greys(),
    }
    context = known(**{name: made.get(name, v) if v else v for name, v in roles.items()})
    with pytest.raises(ConfigError, match=words):
        METHOD.stages(AlignmentParams(**settings), context)


def test_a_base_set_with_next_to_nothing_of_a_class_is_refused(scans, tmp_path):
    source, _ = scans
    base = class_folders(tmp_path / "base", {"cat": 20, "dog": 1}, SHAPE, seed=9)
    with pytest.raises(ConfigError, match=r"2 or more samples of each class.*dog \(1\)"):
        released(source, base, tmp_path, 1.0, DCT)
    assert nothing_was_charged(tmp_path)


@pytest.mark.parametrize("settings", [{}, {"clip_norm": 3.0, "clusters": 2}])
def test_a_base_set_that_is_all_alike_is_refused_before_anything_is_paid(tmp_path, settings):
    """By 0, how far its samples differ, private ones were clipped: the budget bought nothing."""
    source = modes(tmp_path / "private.npz", 4, 40, 1.0, 3)[0]
    alike = np.repeat(np.eye(2, 4, dtype=np.float32), 20, axis=0)
    names = np.array(["cat", "dog"]).repeat(20)
    np.savez(tmp_path / "base.npz", embeddings=alike, labels=names)
    with pytest.raises(ConfigError, match="all alike in each class"):
        released(source, tmp_path / "base.npz", tmp_path, 1.0, **settings)
    assert nothing_was_charged(tmp_path)
