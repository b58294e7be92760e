"""Attribute inference: copies leak what the population does not tell, honest releases do not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.metrics.attribute_inference import difference, infer_attribute

Rows = tuple[NDArray[np.float32], NDArray[np.int64]]


def people(n: int, seed: int, told: float = 1.0) -> Rows:
    """Points whose first number tells a little of the secret: how much is `told`."""
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 6)).astype(np.float32)
    x[:, 0] += told * secret
    return x, secret


PRIVATE, HELD_OUT = people(600, 1), people(600, 2)


def test_a_release_of_the_private_records_gives_their_secrets_away() -> None:
    found = infer_attribute(PRIVATE, PRIVATE, HELD_OUT)
    assert found.private.value == 1.0
    assert 0.5 < found.held_out.value < 0.7
    assert found.leakage.low > 0.25
    assert found.leakage.value == pytest.approx(1 - found.held_out.value)


def test_strangers_give_away_the_population_only() -> None:
    """The interval misses 0 in one release of twenty: of 40, at most 7 but for one in 1,000."""
    missed, right = 0, []
    for at in range(10, 130, 3):
        found = infer_attribute(*(people(300, seed, told=3.0) for seed in range(at, at + 3)))
        missed += not found.leakage.low <= 0 <= found.leakage.high
        right.append(found.held_out.value)
    assert missed <= 7
    assert np.mean(right) > 0.7  # it is not that nothing was learnt


def test_the_neighbours_are_scikit_learns() -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    rng = np.random.default_rng(0)
    sets = [(rng.normal(size=(300, 4)), rng.integers(0, 3, 300)) for _ in range(3)]
    model = neighbors.KNeighborsClassifier(1).fit(*sets[0])
    found = infer_attribute(*sets)
    for side, (rows, truth) in ((found.private, sets[1]), (found.held_out, sets[2])):
        assert side.value == pytest.approx(model.score(rows, truth))


@pytest.mark.parametrize(
    ("one", "two", "low", "high"),
    [  # Newcombe 1998, table II, method 10; the last two from statsmodels 0.15 ("newcomb")
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 20), 0.6791, 1.0000),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((500, 1000), (470, 900), -0.0671, 0.0228),
    ],
)
def test_the_interval_is_newcombes(
    one: tuple[int, int], two: tuple[int, int], low: float, high: float
) -> None:
    found = difference(one, two)
    assert (found.low, found.high) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))
    assert found.value == pytest.approx(one[0] / one[1] - two[0] / two[1])
