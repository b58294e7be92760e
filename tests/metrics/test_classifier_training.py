"""Training learns what can be learned, nothing else, and leaves the rest of the process alone."""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from understudy.core.types import Embeddings, Images, Labels
from understudy.metrics.attacks import Shadows
from understudy.metrics.networks import classifier_training, recipes
from understudy.metrics.networks.classifier import Classifier, accuracy
from understudy.metrics.networks.classifier_training import train_on_embeddings, train_on_images


def points(n: int, seed: int, *, d: int = 12, classes: int = 4) -> tuple[Embeddings, Labels]:
    """A Gaussian cloud around one corner of a cube for each class."""
    corners = np.random.default_rng(99).choice([-2.0, 2.0], (classes, d))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return (corners[y] + rng.normal(size=(n, d))).astype(np.float32), y


def pictures(n: int, seed: int, shape: tuple[int, int, int] = (16, 16, 1)) -> tuple[Images, Labels]:
    """Noise with a bright patch: top left (0), top right (1), or nowhere (2)."""
    rng = np.random.default_rng(seed)
    height, width, _ = shape
    y = rng.integers(0, 3, n)
    x = rng.integers(0, 90, (n, *shape))
    x[y == 0, 2 : height // 2, 2 : width // 2] += 120
    x[y == 1, 2 : height // 2, width // 2 : -2] += 120
    return x.astype(np.uint8), y


def weights(classifier: Classifier) -> NDArray[np.float32]:
    parts = [v.double().flatten() for v in classifier.model.state_dict().values()]
    return torch.cat(parts).numpy()


def train_points(n: int = 300, seed: int = 0, **options: Any) -> Classifier:
    return train_on_embeddings(*points(n, 1), classes=4, seed=seed, **options)


def train_pictures(n: int = 200, seed: int = 0, **options: Any) -> Classifier:
    return train_on_images(*pictures(n, 1), classes=3, seed=seed, flip=True, **options)


def test_embeddings_are_learned() -> None:
    classifier = train_points(2000, epochs=15)
    assert accuracy(classifier, *points(1000, 2)) > 0.95


# Not 8 channels for WRN: torch 2.13 corrupts its memory there (backward of a batch of 24 on two
# threads, within oneDNN; with one thread, without oneDNN or at the real 16 it does not).
NARROW = {"cnn": {}, "wrn40-4": {"depth": 10, "factor": 1}, "convnet": {"width": 16}}
LONG = {"resnet50": 6, "mobilenetv2": 20}
"""Networks that take too long to be trained by every run of the tests, and their epochs."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name in recipes.IMAGES
    ],
)
def test_images_are_learned(
    network: classifier_training.ImageNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, recipe = recipes.IMAGES[network]
    narrow = functools.partial(build, **NARROW.get(network, {"width": 8}))
    epochs = LONG.get(network, 6)
    monkeypatch.setitem(recipes.IMAGES, network, (narrow, replace(recipe, batch=32)))
    classifier = train_on_images(*pictures(600, 1), classes=3, network=network, epochs=epochs)
    assert accuracy(classifier, *pictures(300, 2)) > 0.95


def test_probabilities_agree_with_what_is_predicted() -> None:
    classifier = train_points(300, epochs=3)
    x, _ = points(700, 2)
    p = classifier.probabilities(x)
    assert p.shape == (700, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert np.array_equal(p.argmax(axis=1), classifier.predict(x))
    # The same numbers by hand: standardised, through the network, softmax.
    with torch.inference_mode():
        scores = classifier.model(classifier.prepare(torch.from_numpy(x))).double().numpy()
    by_hand = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, by_hand, atol=1e-6)


def test_a_trainer_trains_shadow_models() -> None:
    x, y = points(60, 1)
    rng = np.random.default_rng(0)
    noisy = rng.integers(0, 4, 60)  # nothing but the rows themselves tells their labels
    shadows = Shadows.train(
        classifier_training.trainer("two-layer", 4, epochs=60), x, noisy, models=8
    )
    assert shadows.confidences.shape == (8, 60)
    assert shadows.attack().auc.low > 0.55
    first = classifier_training.trainer("two-layer", 4, epochs=2)(x, y, 5)(x)
    assert np.array_equal(
        first, train_on_embeddings(x, y, classes=4, seed=5, epochs=2).probabilities(x)
    )


def test_shuffled_labels_stay_at_chance() -> None:
    x, y = points(2000, 1)
    np.random.default_rng(3).shuffle(y)
    classifier = train_on_embeddings(x, y, classes=4, epochs=20)
    # Four corners of random classes: a corner's best guess is right for a quarter of it.
    assert accuracy(classifier, *points(2000, 2)) < 0.5
    xt, yt = points(2000, 2)
    np.random.default_rng(4).shuffle(yt)
    assert accuracy(classifier, xt, yt) == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("train", [train_points, train_pictures])
def test_the_seed_decides_everything(train: Callable[..., Classifier]) -> None:
    first = weights(train(seed=5, epochs=2))
    torch.manual_seed(1234)
    np.random.seed(1234)
    assert np.array_equal(first, weights(train(seed=5, epochs=2)))
    assert not np.array_equal(first, weights(train(seed=6, epochs=2)))


def test_trainings_side_by_side_are_those_one_after_the_other() -> None:
    x, y = points(200, 0)

    def trained(seed: int) -> NDArray[np.float32]:
        return weights(train_on_embeddings(x, y, classes=4, seed=seed, epochs=10))

    with ThreadPoolExecutor(2) as pool:
        side_by_side = list(pool.map(trained, (0, 1)))
    assert np.array_equal(side_by_side, [trained(0), trained(1)])


def test_constant_features_are_left_out() -> None:
    x, y = points(600, 1)
    x[:, 3] = 7.0
    classifier = train_on_embeddings(x, y, classes=4)
    xt, yt = points(400, 2)
    xt[:, 3] = 1e6
    assert accuracy(classifier, xt, yt) > 0.95


def test_scale_and_offset_do_not_matter() -> None:
    x, y = points(600, 1)
    xt, yt = points(400, 2)
    scale = np.logspace(-4, 4, x.shape[1]).astype(np.float32)
    classifier = train_on_embeddings(x * scale + 3 * scale, y, classes=4)
    assert accuracy(classifier, xt * scale + 3 * scale, yt) > 0.95


X, Y = points(10, 0)
BOTH_INFINITIES = X.copy()
BOTH_INFINITIES[:2, 0] = np.inf, -np.inf
