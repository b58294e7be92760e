"""Neighbours in blocks, against plain numpy on every pair."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from understudy.core.errors import InputError
from understudy.metrics import nearest_neighbours
from understudy.metrics.nearest_neighbours import clouds, coverage, kth_squares, nearest_rows


@pytest.fixture(params=[7, 64, 2048], ids=lambda size: f"blocks of {size}")
def block(request, monkeypatch):
    monkeypatch.setattr(nearest_neighbours, "_BLOCK", request.param)


def two_sets(n=90, m=70, dim=5, apart=0.7):
    rng = np.random.default_rng(0)
    # Far from the origin, where float32 without a centre would lose the differences.
    return rng.normal(size=(n, dim)) + 1000, rng.normal(size=(m, dim)) * 0.8 + 1000 + apart


def published(real, synthetic, k):
    """As the package ``prdc`` writes it (Naeem et al. 2020)."""

    def reach(x):
        return np.partition(cdist(x, x), k, axis=1)[:, k]

    between, r, s = cdist(real, synthetic), reach(real), reach(synthetic)
    return (
        (between < r[:, None]).any(axis=0).mean(),
        (between < s[None]).any(axis=1).mean(),
        (between < r[:, None]).sum(axis=0).mean() / k,
        (between.min(axis=1) < r).mean(),
    )


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.usefixtures("block")
def test_precision_recall_density_and_coverage_are_the_published_ones(k):
    real, synthetic = two_sets()
    found = coverage(real, synthetic, k=k)
    expected = published(real, synthetic, k)
    assert (found.precision, found.recall, found.density, found.coverage) == pytest.approx(
        expected, abs=1e-6
    )
    assert 0.1 < found.precision < 1  # neither of the easy ends


@pytest.mark.usefixtures("block")
def test_a_copy_has_everything_and_a_stranger_nothing():
    real, _ = two_sets()
    same = coverage(real, real)
    assert (same.precision, same.recall, same.coverage) == (1, 1, 1)
    assert same.density >= 1
    far = coverage(real, real + 50)
    assert (far.precision, far.recall, far.density, far.coverage) == (0, 0, 0, 0)


@pytest.mark.usefixtures("block")
def test_the_nearest_row_and_how_far_it_is():
    rows, queries = two_sets()
    every = cdist(queries, rows)
    for count in (1, 3):
        found, distance = nearest_rows(*reversed(clouds(rows, queries)), count)
        assert found.tolist() == every.argsort(axis=1)[:, :count].tolist()
        assert distance == pytest.approx(np.sort(every, axis=1)[:, :count], rel=1e-4)
    with pytest.raises(InputError, match="91 nearest rows were asked for and there are 90"):
        nearest_rows(*reversed(clouds(rows, queries)), 91)


@pytest.mark.usefixtures("block")
def test_a_copy_is_at_no_distance_and_no_row_is_its_own_neighbour():
    rows, queries = two_sets()
    _, distance = nearest_rows(*clouds(np.concatenate([rows[:10], queries]), rows))
    assert (distance[:10] == 0).all()
    assert (distance[10:] > 0).all()
    twice = np.concatenate([rows, rows[:10]])
    one, _ = clouds(twice, twice)
    reach = kth_squares(one, 1)
    assert reach[:10] == pytest.approx(0, abs=1e-4)
    assert reach[10:90].min() > 1e-3
