"""What every query must do: integer sums, in any order, that no unit moves beyond the bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Vector
from understudy.privacy.queries import Query

SCALES = (0.0, 1e-30, 1e-6, 0.5, 1.0, 30.0, 1e6)
"""Lengths of the adversarial records, from nothing to far beyond any clipping radius."""


class QuerySuite:
    """What every query must do.

    A subclass overrides the fixture ``query`` and states ``dim`` and ``classes``.

    Attributes:
        dim: Length of the records that the query is asked about.
        classes: Number of classes.
    """

    dim: ClassVar[int] = 5
    classes: ClassVar[int] = 3

    @pytest.fixture
    def query(self) -> Query:
        """The query under test."""
        raise NotImplementedError("override the fixture `query` with the query under test")

    @pytest.fixture
    def grid(self, query: Query) -> float:
        """A grid step as for noise of five times the bound."""
        return query.grid(query.bound * 5)

    def units(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Adversarial units, each (values, labels): axes, random directions, copies, opposites."""
        rng = np.random.default_rng(2)
        for scale in SCALES:
            for direction in (np.eye(self.dim)[0], -np.eye(self.dim)[-1], np.ones(self.dim)):
                row = (scale * direction).astype(np.float32)
                for count in (1, 2, 9):
                    yield np.tile(row, (count, 1)), np.zeros(count, dtype=np.int64)
                    spread = np.arange(count, dtype=np.int64) % self.classes
                    yield np.tile(row, (count, 1)), spread
            values = (scale * rng.normal(size=(12, self.dim))).astype(np.float32)
            yield values, rng.integers(0, self.classes, 12)
            yield np.concatenate([values, -values]), rng.integers(0, self.classes, 24)

    def contribution(
        self, query: Query, values: NDArray[Any], labels: NDArray[np.int64], grid: float
    ) -> NDArray[np.int64]:
        """What one unit of these records adds, in grid steps."""
        return query.integer_sum(values, labels, np.zeros(len(values), dtype=np.int64), grid)

    def length(self, query: Query, steps: NDArray[np.int64], grid: float) -> float:
        """The L2 norm that the bound is on."""
        weights: Vector | float = 1.0 if query.weights is None else query.weights
        return float(np.linalg.norm(steps * grid * weights))

    def records(self, count: int = 60) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Records of all scales, each a unit of its own."""
        rng = np.random.default_rng(1)
        scales = rng.choice(SCALES, (count, 1))
        values = (scales * rng.normal(size=(count, self.dim))).astype(np.float32)
        return values, rng.integers(0, self.classes, count)

    def test_it_states_what_it_asks(self, query: Query) -> None:
        assert query.description
        assert query.slots > 0
        assert query.width > 0
        assert query.size == query.slots * query.width
        assert 0 < query.bound < np.inf
        assert query.records_at_once > 0

    def test_sums_are_integers(self, query: Query, grid: float) -> None:
        values, labels = self.records()
        total = query.integer_sum(values, labels, None, grid)
        assert total.shape == (query.slots, query.width)
        assert total.dtype == np.int64
        assert total.any()

    def test_nothing_adds_nothing(self, query: Query, grid: float) -> None:
        values, labels = self.records()
        assert not query.integer_sum(values[:0], labels[:0], None, grid).any()

    def test_any_order_gives_the_same_sum(self, query: Query, grid: float) -> None:
        values, labels = self.records()
        total = query.integer_sum(values, labels, None, grid)
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(len(values))
            np.testing.assert_array_equal(
                query.integer_sum(values[order], labels[order], None, grid), total
            )

    def test_any_batches_give_the_same_sum(self, query: Query, grid: float) -> None:
        values, labels = self.records()
        total = query.integer_sum(values, labels, None, grid)
        for size in (1, 7, 59):
            parts = [
                query.integer_sum(values[i : i + size], labels[i : i + size], None, grid)
                for i in range(0, len(values), size)
            ]
            np.testing.assert_array_equal(np.sum(parts, axis=0), total)

    def test_a_unit_adds_the_same_among_others_as_alone(self, query: Query, grid: float) -> None:
        units = list(self.units())
        values, labels = (np.concatenate(parts) for parts in zip(*units, strict=True))
        groups = np.repeat(np.arange(len(units)), [len(part) for part, _ in units])
        together = query.integer_sum(values, labels, groups, grid)
        alone = [self.contribution(query, *unit, grid) for unit in units]
        np.testing.assert_array_equal(together, np.sum(alone, axis=0))

    def test_no_unit_adds_more_than_the_bound(self, query: Query, grid: float) -> None:
        for unit in self.units():
            length = self.length(query, self.contribution(query, *unit, grid), grid)
            assert length <= query.bound * (1 + 1e-9)

    def test_adjacent_datasets_differ_by_no_more_than_the_sensitivity(
        self, query: Query, grid: float
    ) -> None:
        contributions = [self.contribution(query, *unit, grid) for unit in self.units()]
        assert query.sensitivity("add-remove") >= max(
            self.length(query, one, grid) for one in contributions
        ) * (1 - 1e-9)
        replaced = query.sensitivity("replace-one") * (1 + 1e-9)
        for one in contributions[::3]:
            for other in contributions[::4]:
                assert self.length(query, one - other, grid) <= replaced

    def test_numbers_that_are_not_finite_are_refused(self, query: Query, grid: float) -> None:
        values, labels = self.records()
        for bad in (np.nan, np.inf):
            values[3, 0] = bad
            with np.errstate(invalid="ignore"), pytest.raises(InputError, match="finite"):
                query.integer_sum(values, labels, None, grid)

    def test_its_fingerprint_is_of_its_public_parameters(self, query: Query) -> None:
        before = query.fingerprint()
        query.integer_sum(*self.records(), None, query.grid(query.bound))
        assert query.fingerprint() == before
