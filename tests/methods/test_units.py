"""Units with records of several classes: statistics are those of the records, all the same.

Without noise, what methods make of sums over units is held against what they make of the records
by themselves: sums of classes and sums over all records have different weights of units, and each
has to be divided by a count with its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.methods.exact_vault import ExactVault
from tests.methods.test_tied_gaussian import Blocks, clouds

from understudy.core.types import Stage
from understudy.methods import dp_estimators
from understudy.methods.base import Context
from understudy.methods.clustering.samplers.tied_gaussian import TiedGaussianStages, measured
from understudy.methods.selection.reference import MomentStages, moment_reference

UNITS = Stage("units", 1.0)


def mixed_units(labels: Any, rng: np.random.Generator) -> Any:
    """Records in an order, (n,), and the unit of each: of one to nine records, of any class."""
    sizes = rng.integers(1, 10, len(labels))
    units = np.repeat(np.arange(len(labels)), sizes)[: len(labels)]
    return rng.permutation(len(labels)), units


@pytest.fixture(scope="module")
def vaults() -> tuple[ExactVault, ExactVault]:
    """The same records, alone and as units."""
    records, _, _ = clouds(6000)
    order, units = mixed_units(records.labels, np.random.default_rng(1))
    values, labels = records.values[order], records.labels[order]
    return ExactVault(values, labels), ExactVault(values, labels, units)


def test_each_record_of_a_unit_is_counted_in_every_class(
    vaults: tuple[ExactVault, ExactVault],
) -> None:
    alone, units = vaults
    sizes, _ = dp_estimators.class_sizes(units, 3, 30, Stage("sizes", 1.0))
    number = dp_estimators.units(units, sizes, 30, UNITS)
    assert number == pytest.approx(len(np.unique(units.units)), rel=1e-4)
    # Of three classes a unit counts up to sqrt(3) times in all.
    assert 1.2 * number < sizes.sum() < 3**0.5 * number
    np.testing.assert_allclose(
        sizes / sizes.sum(), np.bincount(alone.labels) / len(alone.labels), atol=0.02
    )


def test_the_number_of_units_lies_between_what_classes_allow() -> None:
    labels = np.array([0, 0, 1, 1])
    vault = ExactVault(np.zeros((4, 2)), labels, np.zeros(4, dtype=np.int64))
    assert dp_estimators.units(vault, np.array([90.0, 10.0]), 2, UNITS) == pytest.approx(
        100 / 2**0.5
    )
    assert dp_estimators.units(vault, np.array([0.3, 0.3]), 2, UNITS) == pytest.approx(0.6)


def test_a_stage_counts_units_only_where_they_may_be_of_several_classes() -> None:
    context = Context((30,), public=False, mu=1.0, classes=("a", "b"))
    assert dp_estimators.units_stage(context, 2, 1.0) is None
    assert dp_estimators.units_stage(replace(context, several=True), 1, 1.0) is None
    assert dp_estimators.units_stage(replace(context, several=True), 2, 1.0) == UNITS


def test_the_tied_gaussian(vaults: tuple[ExactVault, ExactVault]) -> None:
    alone, units = (
        measured(vault, Blocks(), 3, 1.0, TiedGaussianStages(units=stage))  # type: ignore[arg-type]
        for vault, stage in zip(vaults, (None, UNITS), strict=True)
    )
    np.testing.assert_allclose(units.means, alone.means, atol=0.05)
    np.testing.assert_allclose(units.block_sizes, alone.block_sizes, rtol=0.05)
    np.testing.assert_allclose(units.widths, alone.widths, rtol=0.05)
    np.testing.assert_allclose(
        np.diag(units.covariance), np.diag(alone.covariance), rtol=0.15, atol=0.002
    )


def test_the_reference_of_a_selection(vaults: tuple[ExactVault, ExactVault]) -> None:
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(3), 200)
    candidates = rng.normal(0, 2.0, (600, 30)).astype(np.float32)
    alone, units = (
        moment_reference(
            vault,  # type: ignore[arg-type]
            candidates,
            labels,
            3,
            MomentStages(Stage("means", 1.0), stage, Stage("covariance", 1.0)),
            np.random.default_rng(0),
        )
        for vault, stage in zip(vaults, (None, UNITS), strict=True)
    )
    np.testing.assert_allclose(units.weights, alone.weights, rtol=0.05)
    spreads = [one.features[one.labels == 0].std(axis=0).mean() for one in (alone, units)]
    assert spreads[1] == pytest.approx(spreads[0], rel=0.05)


def test_many_small_classes_hold_no_more_together_than_was_counted() -> None:
    """Each noisy size is 1 or more, and yet they come to the total that is known far better."""
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 3, 150) + rng.normal(0, 3.0, 150)
    sizes = dp_estimators.likely_sizes(counts, 3.0)
    assert sizes.min() == 1.0
    assert sizes.sum() == pytest.approx(counts.sum())
    large = 100 + counts
    np.testing.assert_allclose(dp_estimators.likely_sizes(large, 3.0), large)
    # A total that its noise hides is none to divide by.
    assert dp_estimators.likely_sizes(-counts, 30.0).sum() == pytest.approx(30.0 * 150**0.5)


def test_the_tied_gaussian_of_classes_of_two_records() -> None:
    values = np.random.default_rng(5).normal(0.5, 0.5, (200, 30)).astype(np.float32)
    vault = ExactVault(values, np.repeat(np.arange(100), 2))
    gaussian = measured(vault, Blocks(), 100, 1.0, TiedGaussianStages())  # type: ignore[arg-type]
    assert gaussian.units == pytest.approx(200)
    np.testing.assert_allclose(gaussian.sizes, 2, rtol=1e-5)
    assert gaussian.means.mean() == pytest.approx(0.5, abs=0.02)
