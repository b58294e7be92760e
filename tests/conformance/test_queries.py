"""The queries of this package. A new query adds itself to the list."""

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.privacy import block_queries, queries
from understudy.privacy.cells import Cells, ScaledCells, SplitCells
from understudy.privacy.network_gradients import NetworkGradients
from understudy.privacy.queries import Query
from understudy.testing import QuerySuite

CLASSES, CLUSTERS, DIM = 3, 2, 5
SPLIT = 2  # numbers of a record that say which of the `SplitCells` it falls in


def queries_of_this_package() -> list[Query]:
    rng = np.random.default_rng(0)
    cells = Cells(rng.normal(size=(CLASSES, CLUSTERS, DIM)))
    split = SplitCells.of(
        rng.normal(size=(CLASSES, CLUSTERS, SPLIT)),
        rng.normal(size=(CLASSES, CLUSTERS, DIM - SPLIT)),
    )
    scaled = ScaledCells(cells.centres, rng.uniform(0.3, 3.0, (CLASSES * CLUSTERS, DIM)))
    return [
        queries.Counts(cells),
        queries.ClippedSums(cells, 1.3),
        block_queries.BlockSizes(cells, (slice(0, 2), slice(2, DIM)), smallest=0.03, largest=2.0),
        block_queries.BlockSizes(cells, (slice(0, 2), slice(2, DIM)), 0.1, 4.0, common=True),
        queries.ClippedSums(scaled, 1.3),
        queries.FullMoments(scaled, 1.7),
        queries.CountAndSum(cells, 2.0),
        queries.CountAndSum(split, 0.8),
        queries.DiagonalMoments(cells, 1.7),
        queries.DiagonalMoments(split, 1.2),
        queries.FullMoments(cells, 1.7),
        queries.FullMoments(cells, 1.1, np.arange(CLASSES * CLUSTERS)),
        queries.Votes(rng.normal(size=(CLASSES, 7, DIM))),
        queries.Votes(np.repeat(rng.normal(size=(CLASSES, 30, DIM)), 3, axis=1)),  # ties
        queries.NormHistogram(cells, np.array([0.5, 1.0, 2.0])),
        queries.NormHistogram(Cells(cells.centres[:, :1]), np.array([0.5, 1.0, 2.0])),
        queries.RecallCounts(rng.normal(size=(DIM + 1, CLASSES))),
        queries.ClippedGradients(rng.normal(size=(DIM + 1, CLASSES)), 1.3),
        NetworkGradients(Outer(), CLASSES, DIM, 1.3),
    ]


class Outer:
    """A loss whose gradient is a record's products with numbers of its class."""

    fingerprint, size = "outer", 2 * DIM

    def gradients(
        self, values: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        return np.concatenate([values, values * (labels[:, None] - 1)], axis=1, dtype=np.float32)


class TestQueries(QuerySuite):
    classes, dim = CLASSES, DIM

    @pytest.fixture(params=range(len(queries_of_this_package())))
    def query(self, request: pytest.FixtureRequest) -> Query:
        return queries_of_this_package()[request.param]


def test_every_query_of_this_package_is_listed_here() -> None:
    listed = {type(query) for query in queries_of_this_package()}
    assert listed == set(Query.__subclasses__())
