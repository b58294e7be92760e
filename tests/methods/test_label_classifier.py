"""Labels by a DP classifier: samples of a mixture that end where a class of real records ends."""

import json

import numpy as np
import pytest
from tests.methods.test_clustering import MUCH, clouds, planned, released  # noqa: F401
from tests.run.samples import embeddings, quick_run

from understudy import resample
from understudy.core.errors import ConfigError
from understudy.data import open_source
from understudy.methods.clustering.embedding_space import EmbeddingSpace, SpaceSettings
from understudy.methods.clustering.samplers import label_classifier
from understudy.methods.clustering.samplers.label_classifier import LabelClassifier, samples_of
from understudy.methods.dp_descent import Descent
from understudy.privacy.queries import ClippedGradients
from understudy.steps.gaussians import Mixture
from understudy.steps.space import Leading

CLASSIFIER = {"labels": "classifier"}


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Two classes that the sign of the first number tells apart; their Gaussians overlap."""
    rng = np.random.default_rng(0)
    near, far = rng.uniform(0, 1, 1000), rng.uniform(9, 10, 200)
    values = rng.normal(size=(2400, 4))
    values[:, 0] = np.concatenate([rng.uniform(-2, 0, 1200), near, far])
    path = tmp_path_factory.mktemp("sides") / "sides.npz"
    labels = np.repeat(["left", "right"], 1200)
    np.savez(path, embeddings=values.astype(np.float32), labels=labels)
    return path


@pytest.fixture
def few_steps(monkeypatch):
    """What does not depend on how good a classifier is takes a tenth of the time."""
    monkeypatch.setattr(label_classifier, "_MANY_STEPS", Descent(8, 0.2, 48.0))


def astray(rows, labels):
    """The part of a release on the wrong side."""
    return float(((rows[:, 0] > 0) != (labels == 1)).mean())


@pytest.mark.slow
def test_samples_end_where_private_records_say_that_a_class_ends(sides, tmp_path):
    plain, plain_labels, _ = released(sides, tmp_path / "plain", normalise=False)
    rows, labels, _ = released(sides, tmp_path / "by", normalise=False, **CLASSIFIER)
    assert astray(plain, plain_labels) > 0.1
    assert astray(rows, labels) < 0.04


def test_classes_keep_their_shares_and_none_vanishes(few_steps, tmp_path):
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), [1000, 180, 20])
    values = np.array([[0.0, 0], [6, 0], [0.5, 0]])[labels] + rng.normal(size=(1200, 2))
    np.savez(tmp_path / "rare.npz", embeddings=values.astype(np.float32), labels=labels)
    _, chosen, _ = released(tmp_path / "rare.npz", tmp_path / "run", count=600, **CLASSIFIER)
    assert np.bincount(chosen) == pytest.approx([500, 90, 10], abs=2)  # sizes are noisy


def test_a_class_that_is_never_predicted_is_drawn_from_the_mixture():
    means, each = np.array([[-3.0], [3.0]]), np.arange(2)
    mixture = Mixture(each, np.array([0.5, 0.5]), means, np.ones((1, 1, 1)), np.zeros_like(each))
    settings = SpaceSettings(1, 1, whiten=False, bound=None, images=False)
    space = EmbeddingSpace(None, settings, 2, 1.0, Leading(1, 1), np.zeros(1))
    always_the_first = np.array([[0.0, 0.0], [1.0, 0.0]])
    samples = samples_of(space, mixture)
    classifier = LabelClassifier(always_the_first, samples)
    chosen = np.repeat([0, 1], 400)
    drawn = classifier.embeddings(chosen, np.random.default_rng(0))
    assert drawn[chosen == 1].mean() == pytest.approx(3.0, abs=0.2)
    assert drawn[chosen == 1].std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
def test_what_is_planned_is_released_and_more_samples_are_free(tmp_path, monkeypatch):
    source = embeddings(tmp_path / "small.npz")
    rows, _, made = released(source, tmp_path / "run", epsilon=4.0, **CLASSIFIER)
    assert planned(source, CLASSIFIER) == {stage.stage for stage in made.receipt.stages}
    statement = json.loads((made.release / "privacy.json").read_text())
    steps = [one for one in statement["stages"] if one["stage"].startswith("label gradient")]
    assert len(steps) == 80
    assert {one["query"] for one in steps} == {ClippedGradients.description}
    assert sum(one["share"] for one in statement["stages"]) == pytest.approx(1.0)
    monkeypatch.setattr(label_classifier, "_RIDGE", 3e-5)  # other weights, were they not stored
    more = resample(tmp_path / "run" / "out", count=50, seed=9)
    batch = next(iter(open_source(more.release).batches(100)))
    assert len(batch.labels) == 50
    assert not np.isin(batch.values, rows).all()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"conditional": False}, "one class"),
        ({"filter": "embeddings"}, "filter=embeddings"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_spent(tmp_path, settings, problem):
    source = embeddings(tmp_path / "small.npz")
    with pytest.raises(ConfigError, match=problem):
        quick_run(source, tmp_path, settings=CLASSIFIER | settings)
    assert not (tmp_path / "out").exists()
