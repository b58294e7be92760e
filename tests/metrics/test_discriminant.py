"""Linear discriminants of embeddings: the shrinkage of Ledoit and Wolf, and what is refused."""

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.metrics.discriminant import fit_discriminant, shrunk_covariance
from understudy.metrics.labelled import Labelled
from understudy.metrics.utility import fit, score, utility_report


def clouds(count: int, dim: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Two clouds that differ along one number, among others that are large and correlated."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    common = rng.normal(0, 30, (count, 1))
    values = 3.0 + rng.normal(0, 1, (count, dim)) + common * np.linspace(1, 2, dim)
    values[:, 0] += 3.0 * labels
    return values.astype(np.float32), labels


@pytest.mark.parametrize(("count", "dim"), [(400, 6), (30, 60), (5, 40)])
def test_the_covariance_is_that_of_ledoit_and_wolf(count: int, dim: int) -> None:
    covariance = pytest.importorskip("sklearn.covariance")
    rows = np.random.default_rng(0).normal(size=(count, dim)) * np.linspace(0.5, 3, dim)
    expected = covariance.ledoit_wolf(rows, assume_centered=True)[0]
    np.testing.assert_allclose(shrunk_covariance(rows), expected, rtol=1e-9, atol=1e-12)


def test_a_number_that_never_changes_and_a_class_without_samples_say_nothing() -> None:
    values, labels = clouds(200, 5, 0)
    values[:, 3] = 7.0
    classifier = fit_discriminant(values, labels * 2, 4)
    values[:, 3] = -1e6
    assert set(classifier.predict(values)) == {0, 2}
    assert np.isneginf(classifier.scores(values)[:, [1, 3]]).all()


class MeanEncoder:
    """Embeddings that are the mean of each channel."""

    name, dim, ordered, norm_bound, licence = "means", 3, False, None, "none"

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return images.mean(axis=(1, 2), dtype=np.float32)


def coloured(count: int, seed: int) -> Labelled:
    labels = np.arange(count) % 3
    values = np.random.default_rng(seed).integers(0, 200, (count, 4, 4, 3), dtype=np.uint8)
    values[np.arange(count), :, :, labels] //= 3
    return Labelled(values, labels, ("red", "green", "blue"))


def test_it_is_scored_like_a_network() -> None:
    train, test = coloured(90, 0), coloured(60, 1)
    model = fit(train, network="discriminant", encoder=MeanEncoder())
    result = score(model, test, train.classes)
    assert result.network == "discriminant"
    assert result.balanced > 0.95
    report = utility_report(train, train, test, network="discriminant", encoder=MeanEncoder())
    assert report.synthetic[0].balanced == report.real[0].balanced == result.balanced
    with pytest.raises(InputError, match="needs an encoder"):
        fit(train, network="discriminant")
