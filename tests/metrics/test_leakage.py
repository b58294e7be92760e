"""Copies are found, strangers are not, and the held-out records say what "near" means."""

import numpy as np
import pytest
from tests.metrics.test_fingerprints import pictures

from understudy.core.errors import InputError
from understudy.metrics.leakage import closeness, mutual_information, regional_mutual_information


def rows(seed, count=300, dim=6):
    return np.random.default_rng(seed).normal(size=(count, dim))


PRIVATE, HELD_OUT, FRESH = rows(0), rows(1), rows(2)


def test_fresh_rows_come_as_near_as_held_out_ones():
    found = closeness(PRIVATE, FRESH, HELD_OUT)
    assert found.closer <= 0.03
    assert found.median_ratio == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("blur", [0.0, 0.02])
def test_a_few_copies_are_found_and_named(blur):
    release = FRESH.copy()
    release[[7, 70, 170]] = PRIVATE[[11, 12, 13]] + blur * rows(3, 3)
    found = closeness(PRIVATE, release, HELD_OUT)
    assert sorted(np.argsort(found.distances)[:3].tolist()) == [7, 70, 170]
    assert found.nearest[[7, 70, 170]].tolist() == [11, 12, 13]
    assert (found.ratios[[7, 70, 170]] < 0.2).all()
    assert found.ratios.max() <= 1
    if not blur:
        assert (found.distances[[7, 70, 170]] == 0).all()


def test_a_release_that_is_the_private_data_is_all_copies():
    found = closeness(PRIVATE, PRIVATE, HELD_OUT)
    assert (found.closer, found.median_ratio) == (1, 0)


def test_mutual_information_is_the_entropy_of_a_copy_and_nothing_of_a_stranger():
    half = np.zeros((1, 32, 32, 1), np.uint8)
    half[:, :16] = 255
    side = np.ascontiguousarray(half.swapaxes(1, 2))
    assert mutual_information(half, half) == pytest.approx([1.0])
    assert mutual_information(half, 255 - half) == pytest.approx([1.0])
    assert mutual_information(half, side) == pytest.approx([0.0], abs=1e-12)
    drawn = pictures(0, shape=(48, 40, 1))
    others = mutual_information(drawn, np.roll(drawn, 1, axis=0))
    assert (mutual_information(drawn, drawn) > others + 0.5).all()
    with pytest.raises(InputError, match="one shape"):
        mutual_information(half, half[:, :8])


def test_regional_mutual_information_looks_at_each_part():
    rng = np.random.default_rng(3)
    left = rng.integers(0, 256, (1, 32, 32, 1), dtype=np.uint8)
    right = left.copy()
    right[:, :, 16:] = rng.integers(0, 256, (1, 32, 16, 1))
    same = regional_mutual_information(left, left)[0]
    assert regional_mutual_information(left, right)[0] < 0.85 * same
    with pytest.raises(InputError, match="no 4 x 4 parts"):
        regional_mutual_information(left[:, :3], left[:, :3])
