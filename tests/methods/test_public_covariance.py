"""Classes of few images: means along the leading public axes, all else as public images have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.independence.worlds import Notes, Records

from understudy.core.types import Stage
from understudy.engine.local import LocalEngine
from understudy.methods.base import weights_of
from understudy.methods.clustering.public_covariance import (
    PublicMixture,
    joint_noise,
    least_images,
    measured_axes,
    public_mixture,
)
from understudy.privacy.account import Account, Plan
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit
from understudy.privacy.vault import Vault

VARIANCES = 3.0 * np.arange(1, 61) ** -0.5
CLASSES, EACH = 3, 100
MEANS = (Stage("means", 50.0), Stage("covariance", 25.0))
LENGTHS = Stage("cluster covariances", 19.0)

Release = Callable[..., PublicMixture]


def records(length: float = 0.7, seed: int = 0) -> tuple[Records, np.ndarray]:
    """Classes that lie apart along the first axes, and are as long as public records are, or not.

    Returns the true means, too.
    """
    rng = np.random.default_rng(seed)
    means = 0.3 * VARIANCES * rng.normal(size=(CLASSES, len(VARIANCES)))
    labels = np.repeat(np.arange(CLASSES), EACH)
    values = means[labels] + np.sqrt(length * VARIANCES) * rng.normal(size=(len(labels), 60))
    return Records(values.astype(np.float32), labels, ("cat", "dog", "eel")), means


@pytest.fixture
def released(tmp_path: Path) -> Iterator[Release]:
    """A release of records at some epsilon."""
    with Ledger(str(tmp_path / "ledger.db")) as ledger:

        def release(
            source: Records, epsilon: float, notes: list[Notes] | None = None
        ) -> PublicMixture:
            plan = Plan.of(Budget(epsilon), weights_of((*MEANS, LENGTHS)))
            folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            account = Account(ledger, ledger.register(source).id, Unit(), plan, folder / "stages")
            noted = Notes(account, notes[0].answers if notes else {})
            if notes is not None:
                notes.append(noted)
            vault = Vault(source, noted, LocalEngine(1), folder)
            sizes = np.full(CLASSES, EACH + 40.0)
            return public_mixture(vault.embedded(), VARIANCES, sizes, 40.0, MEANS, LENGTHS)

        yield release


def test_means_are_nearer_to_the_true_ones_than_the_public_mean_and_noise_stays_out(
    released: Release,
) -> None:
    source, true = records()
    mixture = released(source, 1.0)
    error = (((mixture.means - true) ** 2) / VARIANCES).sum(axis=1).mean()
    assert error < 0.9 * ((true**2) / VARIANCES).sum(axis=1).mean()
    assert not mixture.means[:, mixture.axes :].any()


def test_with_little_noise_means_sizes_and_lengths_are_the_true_ones(released: Release) -> None:
    source, true = records(length=1.2)
    mixture = released(source, 300.0)
    assert mixture.axes == len(VARIANCES)
    np.testing.assert_allclose(mixture.means, true, atol=0.5)
    np.testing.assert_allclose(mixture.sizes, EACH, atol=2)
    short = released(records(length=0.4)[0], 299.0)
    assert short.roots.max() < 0.8 * mixture.roots.max()


def test_counts_of_the_means_make_sizes_more_certain(released: Release) -> None:
    mixture = released(records()[0], 1.0)
    assert mixture.size_sd < 20
    assert (np.abs(mixture.sizes - EACH) < 5 * mixture.size_sd).all()
    np.testing.assert_allclose(mixture.mixture.weights.sum(), 1.0)


def test_within_classes_nothing_varies_as_much_as_kinds_of_images_do(released: Release) -> None:
    roots = released(records()[0], 1.0).roots
    assert (roots**2 < 1.0).all()
    assert (roots**2 < VARIANCES).all()
    assert (roots > 0).all()


def test_more_images_and_less_noise_measure_more() -> None:
    axes = [measured_axes(VARIANCES, size, 4.0) for size in (10, 100, 1000, 100_000)]
    assert axes == sorted(axes)
    assert axes[0] < axes[1]
    assert axes[-1] == len(VARIANCES)
    assert measured_axes(VARIANCES, 100, 8.0) == measured_axes(VARIANCES, 50, 4.0)
    assert least_images(VARIANCES, 8.0) == pytest.approx(2 * least_images(VARIANCES, 4.0))
    assert joint_noise([4.0, 4.0]) == pytest.approx(4 / np.sqrt(2))


def test_fewer_images_than_a_covariance_takes_have_no_axis_above_the_noise() -> None:
    rng, sigma, dim = np.random.default_rng(0), 7.0, len(VARIANCES)
    least = least_images(VARIANCES, sigma)
    noise = rng.normal(size=(dim, dim))
    noise = (noise + noise.T) / 2  # deviations of 1 on the diagonal, 1 / sqrt(2) off it
    edge = np.linalg.eigvalsh(noise * sigma * VARIANCES.sum() / least)[-1]
    assert edge == pytest.approx(2.5 * VARIANCES[0], rel=0.15)


def test_what_a_record_adds_depends_on_it_alone(released: Release) -> None:
    source, _ = records()
    notes: list[Notes] = []
    for part in (source, source.without(7), source.only([7])):
        released(part, 1.0, notes)
    whole, less, alone = notes
    assert whole.asked == less.asked == alone.asked
    assert set(whole.sums) == {"means", "covariance", "cluster covariances"}
    for stage, total in whole.sums.items():
        np.testing.assert_array_equal(total - less.sums[stage], alone.sums[stage])
