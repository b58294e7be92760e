"""Which samples are released: filters by votes, images chosen by quality, and decoders' noise.

Runs of the methods on small clouds, with a decoder that draws nothing but the noise of its seeds
where the noise is what matters.
"""

import dataclasses

import numpy as np
import pytest
from benchmarks.benches import ready
from tests.run.samples import class_folders, embeddings, quick_run

from understudy.audit.bench import Bench, NullLedger
from understudy.core.errors import ConfigError
from understudy.data import open_source
from understudy.engine.local import LocalEngine
from understudy.methods.base import Materials, memory_store
from understudy.privacy.account import Account
from understudy.privacy.vault import PrivateVault
from understudy.run.config import make_config
from understudy.run.prepare import prepare
from understudy.steps.quality import ROUNDS, QualityFilter

MUCH = 400.0  # an epsilon at which noise hardly matters
SHAPE = (8, 8, 3)


class Noise:
    """A stochastic decoder whose images are the noise of their seeds and nothing else."""

    name, licence, shape, stochastic = "test:noise", "none", SHAPE, True

    def __init__(self, dim):
        self.dim = dim

    def decode(self, embeddings, *, seeds):
        assert len(seeds) == len(embeddings)
        rngs = (np.random.default_rng(int(seed)) for seed in seeds)
        return np.stack([rng.integers(0, 256, SHAPE, dtype=np.uint8) for rng in rngs])


class Looking:
    """An encoder that remembers the images it was given."""

    def __init__(self, encoder):
        self.encoder, self.images = encoder, set()
        for name in ("name", "dim", "norm_bound", "ordered", "licence"):
            setattr(self, name, getattr(encoder, name))

    def encode(self, images):
        self.images |= {image.tobytes() for image in images}
        return self.encoder.encode(images)


def run_of(bench, source, folder, **changes):
    """A release of a bench, without a ledger."""
    cache = folder / "cache"
    cache.mkdir(parents=True)
    account = Account(NullLedger(), "test", bench.unit, bench.plan, folder / "stages")
    materials = Materials(
        context=bench.context,
        vault=PrivateVault(source, account, LocalEngine(1), cache),
        public=bench.public,
        seed=bench.seed,
        progress=lambda *_: lambda _: None,
        base=bench.base,
        keep=memory_store(),
    )
    return bench.method.run(dataclasses.replace(materials, **changes), bench.params)


def images_of(release):
    return np.concatenate([batch.images for batch in release.batches()])


def labels_of(release):
    return np.concatenate([batch.labels for batch in release.batches()])


def noisy_bench(method, folder, count, seed=0):
    """A method on clouds whose embeddings are drawn as noise."""
    folder.mkdir()
    found = ready(method, folder, count=count, epsilon=MUCH, accept_epsilon=True)
    context = dataclasses.replace(found.bench.context, decoder=Noise(4))
    return dataclasses.replace(found.bench, context=context, seed=seed), found.rows


@pytest.mark.parametrize(("method", "count"), [("clustering", 1100), ("alignment", 200)])
def test_no_two_images_of_a_release_start_from_the_same_noise(method, count, tmp_path):
    runs = []
    for name, seed in (("one", 0), ("again", 0), ("other", 1)):
        bench, rows = noisy_bench(method, tmp_path / name, count, seed)
        runs.append(images_of(run_of(bench, rows, tmp_path / f"run-{name}")))
    one, again, other = ({image.tobytes() for image in images} for images in runs)
    assert len(runs[0]) == count == len(one)  # blocks of 512, and of 64: none repeats another
    np.testing.assert_array_equal(runs[0], runs[1])
    assert one == again
    assert not one & other


# Filters by votes


@pytest.fixture
def unbalanced(tmp_path):
    """Classes of 90, 8 and 2 %; the first has two lumps, which a single Gaussian fills between.

    So few of its candidates are voted for, and nearly all of the others are.
    """
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), [1800, 160, 40])
    values = np.where(labels[:, None] == 0, 0.3, 1.0) * rng.normal(size=(2000, 4))
    values[:, 0] += 8.0 * labels
    values[labels == 0, 1] += np.where(rng.random(1800) < 0.5, 3.0, -3.0)
    path = tmp_path / "unbalanced.npz"
    np.savez(path, embeddings=values.astype(np.float32), labels=labels)
    return path


@pytest.mark.parametrize(
    ("epsilon", "settings"),
    [(1.0, {"oversample": 4}), (8.0, {"oversample": 4}), (MUCH, {})],
)
def test_a_filter_keeps_the_count_and_the_class_shares(unbalanced, tmp_path, epsilon, settings):
    settings = {"filter": "embeddings", "normalise": False, **settings}
    options = {"epsilon": epsilon, "accept_epsilon": True, "count": 600, "settings": settings}
    result = quick_run(unbalanced, tmp_path, **options)
    labels = np.concatenate([b.labels for b in open_source(result.release).batches(100)])
    assert result.facts["rows"] == len(labels) == 600
    shares = np.bincount(labels, minlength=3) / 600
    # The mixture's weights are noisy counts themselves: 20 records of 2,000 at epsilon 1.
    np.testing.assert_allclose(shares, [0.9, 0.08, 0.02], atol=0.02 if epsilon > 1 else 0.05)


def test_samples_that_private_records_vote_for_are_taken(unbalanced, tmp_path):
    between = {}
    for kind in ("none", "embeddings"):
        settings = {"filter": kind, "normalise": False, "clusters": 1, "oversample": 6}
        options = {"epsilon": MUCH, "accept_epsilon": True, "count": 300, "settings": settings}
        result = quick_run(unbalanced, tmp_path, out=tmp_path / kind, **options)
        values = np.concatenate([b.values for b in open_source(result.release).batches(100)])
        labels = np.concatenate([b.labels for b in open_source(result.release).batches(100)])
        between[kind] = (np.abs(values[labels == 0, 1]) < 1.5).mean()
    assert between["embeddings"] < 0.6 * between["none"]


def test_the_owner_is_told_where_votes_choose_nearly_at_random(tmp_path):
    source = embeddings(tmp_path / "vectors.npz", per_class=20)
    result = quick_run(source, tmp_path, count=2000, settings={"filter": "embeddings"})
    assert result.facts["rows"] == 2000
    assert any("chose nearly at random" in warning for warning in result.warnings)


def test_images_are_not_voted_on_where_none_are_made(tmp_path):
    source = embeddings(tmp_path / "vectors.npz")
    with pytest.raises(ConfigError, match="a filter of images needs a decoder"):
        quick_run(source, tmp_path, settings={"filter": "images"})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("models", "kind"),
    [("embedded:dct", "both"), pytest.param("studio", "images", marks=pytest.mark.slow)],
)
def test_a_filter_of_images_releases_images_that_were_judged(models, kind, tmp_path, request):
    # Distances to the centre of the sphere are drawn with each decoding.
    size, settings = (16, 16, 1), {"normalise": True}
    if models == "studio":
        folder = request.getfixturevalue("tiny_studio")
        models, size, settings = f"embedded:studio?folder={folder}", (24, 24, 3), {}
    sizes = {"cat": 30, "dog": 12}
    source = class_folders(tmp_path / "scans", sizes, size)
    settings |= {"filter": kind, "clusters": 1, "covariance": "diagonal"}
    config = make_config(
        {
            "source": str(source),
            "out": tmp_path / "out",
            "encoder": models,
            "decoder": f"{models}&steps=2" if "studio" in models else models,
            "count": 30,
            "public": "none",
            "epsilon": 20.0,
            "settings": settings,
        }
    )
    prepared = prepare(config)
    looking = Looking(prepared.context.encoder)
    bench = Bench.of(prepared)
    bench = dataclasses.replace(bench, context=dataclasses.replace(bench.context, encoder=looking))
    release = run_of(bench, prepared.source, tmp_path / "run")
    private = {image.tobytes() for b in prepared.source.batches(64) for image in b.values}
    judged = looking.images - private
    images = images_of(release)
    assert len(images) == release.count == 30
    assert {image.tobytes() for image in images} <= judged
    np.testing.assert_array_equal(images_of(release), images)
    np.testing.assert_allclose(np.bincount(labels_of(release)), [21, 9], atol=5)  # a noisy count


# Images chosen by their quality


def brightness(images):
    return images.reshape(len(images), -1).mean(axis=1)


def filtered_by(**settings):
    return QualityFilter("brightness", brightness, **settings)


@pytest.mark.parametrize("method", ["clustering", "alignment", "evolution"])
def test_every_method_chooses_the_better_image_and_keeps_count_and_classes(method, tmp_path):
    if method == "evolution":
        found = ready("evolution", tmp_path, epsilon=MUCH)
        bench, rows = found.bench, found.rows
    else:
        bench, rows = noisy_bench(method, tmp_path / "bench", 60)
    plain = run_of(bench, rows, tmp_path / "plain")
    quality = filtered_by(images_per_embedding=4)
    chosen = run_of(bench, rows, tmp_path / "chosen", quality=quality)
    assert plain.count == chosen.count
    sizes = [np.bincount(labels_of(release)) for release in (plain, chosen)]
    np.testing.assert_allclose(*sizes, atol=1)  # counted anew, with little noise
    quality.draws = quality.unmet = 0
    assert brightness(images_of(chosen)).mean() < brightness(images_of(plain)).mean()
    assert quality.draws == 4 * chosen.count

    threshold = float(np.median(brightness(images_of(plain))))
    strict = filtered_by(threshold=threshold, images_per_embedding=4)
    images = images_of(run_of(bench, rows, tmp_path / "strict", quality=strict))
    assert len(images) == chosen.count
    assert (brightness(images) >= threshold).sum() == strict.unmet < 0.2 * len(images)
    assert strict.worst[0][0] >= threshold


def test_what_no_image_reaches_leaves_the_best_of_them():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (ROUNDS, 3, 10, *SHAPE), dtype=np.uint8)
    images[:, :, 9] = 0  # and one whose first image is good enough
    quality = filtered_by(threshold=1.0, images_per_embedding=3)
    best = quality(10, lambda rows, number, image: images[number, image, rows])
    np.testing.assert_array_equal(
        brightness(best)[:9], brightness(images.reshape(-1, 8, 8, 3)).reshape(-1, 10).min(0)[:9]
    )
    assert quality.unmet == 9
    assert quality.draws == 3 * 10 + (ROUNDS - 1) * 3 * 9
    losses = [score for score, _ in quality.worst]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 64
