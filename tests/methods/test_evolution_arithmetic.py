"""What becomes of noisy votes: probabilities, both branches of Algorithm 2, schedules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from understudy.methods.evolution.arithmetic import averaged, probabilities, ranked, resampled

noisy = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 12)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


def test_look_ahead_embeddings_are_averaged_over_the_variations_of_a_candidate():
    each = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert averaged(each).tolist() == [[4, 5, 6, 7], [16, 17, 18, 19]]
    assert averaged(each[:, :1]).tolist() == each[:, 0].tolist()  # K = 0: the candidate itself
    huge = np.full((1, 4, 2), 3e38, dtype=np.float32)
    assert np.isfinite(averaged(huge)).all()


def test_the_threshold_is_taken_off_the_votes():
    votes = np.array([[5.0, 3.0, 1.0, -4.0], [2.0, 2.0, 2.0, 1.0]])
    assert probabilities(votes, 1.0)[0] == pytest.approx([4 / 6, 2 / 6, 0, 0])
    assert probabilities(votes, 0.0)[0] == pytest.approx([5 / 9, 3 / 9, 1 / 9, 0])
    assert probabilities(votes, 1.0)[1] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


@pytest.mark.parametrize("votes", [[-3.0, -1.0], [0.0, 0.0], [1.0, 0.5]])
def test_votes_that_are_all_noise_leave_every_candidate_as_likely(votes):
    # Defect 10 of the field: a crash on negative votes or an empty class.
    found = probabilities(np.array([votes, [9.0, 0.0]]), 1.0)
    assert found.tolist() == [[0.5, 0.5], [1.0, 0.0]]


@given(votes=noisy, count=st.integers(1, 30), seed=st.integers(0, 99))
def test_resampling_draws_each_as_often_as_its_probability_says_rounded(votes, count, seed):
    chances = probabilities(votes, 0.0)
    found = resampled(chances, count, np.random.default_rng(seed))
    assert found.shape == (len(votes), count)
    for chance, places in zip(chances, found, strict=True):
        times = np.bincount(places, minlength=len(chance))
        assert (np.abs(times - count * chance) < 1 + 1e-6).all()
        assert not times[chance == 0].any()


def test_resampling_is_right_on_average_and_classes_are_drawn_independently():
    chances = np.array([[0.15, 0.05, 0.8], [0.15, 0.05, 0.8]])
    rng = np.random.default_rng(0)
    draws = np.stack([resampled(chances, 4, rng) for _ in range(4000)])
    for label in (0, 1):
        shares = np.bincount(draws[:, label].ravel(), minlength=3) / draws[:, label].size
        assert shares == pytest.approx(chances[label], abs=0.01)
    first, second = ((draws[:, label] == 1).any(axis=1) for label in (0, 1))
    assert np.mean(first & second) == pytest.approx(np.mean(first) * np.mean(second), abs=0.02)


def test_the_top_ranks_are_those_with_the_most_votes_negative_ones_too():
    votes = np.array([[1.0, 7.0, -2.0, 3.0], [-5.0, -1.0, -9.0, -2.0]])
    assert ranked(votes, 2).tolist() == [[1, 3], [1, 3]]
    assert ranked(votes, 4).tolist() == [[1, 3, 0, 2], [1, 3, 0, 2]]
