"""Frechet distances, against what is known of Gaussians."""

import numpy as np
import pytest

from understudy.core.errors import InputError
from understudy.metrics.fidelity import (
    clip_score,
    frechet_distance,
    inception_score,
    kernel_distance,
)


def gaussian(rows, dim, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, dim)) @ rng.normal(size=(dim, dim)) + shift


def test_a_shift_costs_its_square_and_a_set_is_at_no_distance_from_itself():
    a = gaussian(500, 4, 2)
    assert frechet_distance(a, a) == pytest.approx(0.0, abs=1e-9)
    assert frechet_distance(a, a + np.array([3.0, 0.0, 4.0, 0.0])) == pytest.approx(25.0)


def test_a_kernel_distance_of_like_sets_is_nothing_within_its_error():
    rng = np.random.default_rng(7)
    like = kernel_distance(rng.normal(size=(900, 6)), rng.normal(size=(900, 6)), size=300)
    assert abs(like.value) < 0.02
    other = kernel_distance(rng.normal(size=(900, 6)), rng.normal(size=(900, 6)) + 0.5, size=300)
    assert other.value > 10 * other.error > 0


def test_the_error_of_a_kernel_distance_is_what_other_rows_move_it_by():
    rng = np.random.default_rng(11)
    estimates = [
        kernel_distance(rng.normal(size=(60, 6)), rng.normal(0.5, 1, (70, 6)), subsets=20)
        for _ in range(60)
    ]
    spread = np.std([estimate.value for estimate in estimates], ddof=1)
    errors = np.mean([estimate.error for estimate in estimates])
    assert 0.8 * spread < errors < 2 * spread


def test_an_inception_score_counts_classes_that_are_sure_and_balanced():
    sure = np.repeat(np.eye(4), 500, axis=0)  # as they are read from folders of classes
    assert inception_score(sure, splits=5).value == pytest.approx(4, rel=0.02)
    unsure = np.full((200, 4), 0.25)
    assert inception_score(unsure).value == pytest.approx(1)
    one_class = np.tile([1.0, 0, 0, 0], (200, 1))
    assert inception_score(one_class).value == pytest.approx(1)
    with pytest.raises(InputError, match="sum to 1"):
        inception_score(sure * 2)


def test_a_clip_score_is_the_mean_cosine_of_pairs():
    images = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    texts = np.array([[3.0, 0.0], [1.0, 1.0], [-1.0, 0.0]])
    found = clip_score(images, texts)
    assert found.value == pytest.approx(100 * (1 + np.sqrt(0.5) + 0) / 3)
    assert found.error == pytest.approx(np.std([100, 100 * np.sqrt(0.5), 0], ddof=1) / np.sqrt(3))
    assert clip_score(images, -images).value == 0
    assert clip_score(images, 3 * images).value == pytest.approx(100)
    whole = np.array([[200, 100], [0, 7]], np.uint8)  # whose squares do not fit in their type
    assert clip_score(whole, whole).value == pytest.approx(100)
    with pytest.raises(InputError, match="pairs"):
        clip_score(images, texts[:2])
    with pytest.raises(InputError, match="pairs"):
        clip_score(images[:0], texts[:0])
