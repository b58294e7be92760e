"""Utility on real data: classes by name, both sides trained alike, all of it owner-only."""

import numpy as np
import pytest

from understudy.core.errors import InputError
from understudy.metrics.networks.classifier import Classifier
from understudy.metrics.utility import (
    Labelled,
    UtilityResult,
    fit,
    mean_and_spread,
    score,
    utility_report,
)

NAMES = ("cat", "dog", "eel")


def cloud(n: int, seed: int, names: tuple[str, ...] = NAMES, spread: float = 1.0) -> Labelled:
    """Embeddings around one corner for each *name*, whatever its index."""
    corners = {
        name: np.random.default_rng(50 + i).choice([-2.0, 2.0], 10)
        for i, name in enumerate((*NAMES, "fox"))
    }
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(names), n)
    x = np.array([corners[names[i]] for i in y]) + spread * rng.normal(size=(n, 10))
    return Labelled(x.astype(np.float32), y, names)


def trained_score(train: Labelled, test: Labelled) -> UtilityResult:
    model = fit(train, network="two-layer")
    return score(model, test, train.classes, n_train=len(train.labels))


def test_learned_and_scored_by_the_names_of_classes_and_not_by_their_index() -> None:
    test = cloud(600, 2, ("eel", "cat", "dog"))
    result = trained_score(cloud(1000, 1), test)
    assert result.accuracy > 0.95
    assert result.kind == "owner-only"
    assert (result.n_train, result.network) == (1000, "two-layer")
    assert set(result.per_class) == set(NAMES)
    assert result.balanced == pytest.approx(np.mean([v for v in result.per_class.values() if v]))


def test_a_class_that_the_release_lacks_is_named() -> None:
    with pytest.raises(InputError, match="does not have: eel, fox"):
        trained_score(cloud(50, 1, ("cat", "dog")), cloud(50, 2, ("cat", "eel", "dog", "fox")))


def test_a_class_without_test_rows_has_no_score() -> None:
    result = trained_score(cloud(1000, 1), cloud(300, 2, ("dog", "eel")))
    assert result.per_class["cat"] is None
    assert result.accuracy > 0.95
    assert result.balanced > 0.95


def test_balanced_accuracy_weighs_classes_alike() -> None:
    test = cloud(2000, 2)
    few = np.flatnonzero(test.labels == 2)[:5]
    keep = np.concatenate([np.flatnonzero(test.labels == 0), few])
    # All eels are called cats: nearly all rows are right, but only one class in two.
    train = cloud(600, 1, ("cat", "dog"))
    train = Labelled(train.values, train.labels, NAMES)
    test = Labelled(test.values[keep], test.labels[keep], NAMES)
    result = trained_score(train, test)
    assert result.accuracy > 0.9
    assert result.per_class["eel"] == 0
    assert result.balanced == pytest.approx(0.5, abs=0.05)


def test_training_on_both_and_keeping_the_classifiers() -> None:
    kept: list[tuple[str, int, Classifier]] = []
    told: list[tuple[int, int]] = []
    release, real, test = (
        cloud(900, 1, ("eel", "dog", "cat"), spread=4),
        cloud(300, 2),
        cloud(90, 3),
    )
    options = {"network": "two-layer", "seeds": (4, 5), "epochs": 3}
    report = utility_report(
        release,
        real,
        test,
        **options,
        both=True,
        keep=lambda *one: kept.append(one),
        progress=lambda *now: told.append(now),
    )
    assert [(side, seed) for side, seed, _ in kept] == [
        (side, seed) for seed in (4, 5) for side in ("synthetic", "real", "both")
    ]
    assert told == [(i, 18) for i in range(1, 19)]
    one, two, both = (np.asarray(model.mean) for _, _, model in kept[:3])
    assert both == pytest.approx((one + two) / 2, abs=1e-5)  # as many rows of each
    alone = utility_report(release, real, test, **options)
    assert (alone.synthetic, alone.real, alone.both) == (report.synthetic, report.real, ())
    assert [r.n_train for r in report.both] == [600, 600]
    assert {r.n_train for r in (*report.synthetic, *report.real)} == {300}
    again = score(kept[1][2], test, release.classes, n_train=300)
    assert again == report.real[0]


def test_scores_beyond_accuracy() -> None:
    test = cloud(400, 2)
    classifier = fit(cloud(1000, 1, spread=2), network="two-layer", epochs=5)
    result = score(classifier, test, NAMES)
    table = np.array(result.confusion)
    assert table.sum() == 400
    assert result.accuracy == pytest.approx(np.trace(table) / 400)
    assert table.sum(axis=1).tolist() == np.bincount(test.labels).tolist()
    assert 0 < result.ece < 1
    assert mean_and_spread([result, result], "ece") == (pytest.approx(result.ece), 0)


def test_mean_and_spread() -> None:
    def results(*values: float) -> list[UtilityResult]:
        return [UtilityResult(v, {}, v, "cnn") for v in values]

    assert mean_and_spread(results(0.5)) == (0.5, 0.0)
    mean, spread = mean_and_spread(results(0.2, 0.4, 0.9))
    assert (mean, spread) == pytest.approx((0.5, 0.36055512754639896))  # statistics.stdev
