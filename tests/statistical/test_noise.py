"""Two-sided noise tests: the right scale is accepted, 30 % less and 30 % more are rejected."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from understudy.core.errors import ConfigError
from understudy.privacy import noise, sums

DRAWS = 3000
CHUNK = noise._CHUNK
SCALE = noise.MIN_SCALE * 1.5


def spread_is_plausible(values, scale, level=1e-9):
    """Chi-squared test of the variance, two-sided, at a level that fails once in a billion runs."""
    statistic = np.sum((values / scale) ** 2)
    low, high = stats.chi2.ppf([level / 2, 1 - level / 2], len(values))
    return low < statistic < high


@pytest.fixture(scope="module")
def drawn():
    return noise.add_discrete_gaussian(np.zeros(DRAWS, dtype=np.int64), SCALE).astype(float)


def test_the_right_scale_is_accepted(drawn):
    assert spread_is_plausible(drawn, SCALE)


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_thirty_percent_less_or_more_is_rejected(factor):
    wrong = noise.add_discrete_gaussian(
        np.zeros(DRAWS, dtype=np.int64), max(SCALE * factor, noise.MIN_SCALE)
    )
    assert not spread_is_plausible(wrong.astype(float), SCALE)


def test_the_noise_is_gaussian_and_independent(drawn):
    assert stats.kstest(drawn / SCALE, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 6 / np.sqrt(DRAWS)


LONG = 3 * CHUNK + 1000  # numbers: more than three chunks of the sampler
FINE = 2.0**40  # a scale at which 50,000 draws are all different, but for once in 2,000 times


def draw_twice():
    """Two releases of more than three chunks each, as two stages of a run draw them."""
    return [noise.add_discrete_gaussian(np.zeros(LONG, dtype=np.int64), FINE) for _ in range(2)]


def is_independent(first, second):
    """No number twice, and no correlation at any lag that a chunk could bring, or of the two.

    Each correlation fails by chance once in 10^8 times, at 5.73 standard errors.
    """
    both = np.concatenate([first, second])
    if len(np.unique(both)) < len(both):
        return False
    z = both / FINE
    lags = [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK, LONG - 1, LONG, LONG + 1]
    pairs = [(z[:-lag], z[lag:]) for lag in lags]
    return all(abs(np.dot(a, b)) < 5.73 * math.sqrt(len(a)) for a, b in pairs)


def test_noise_over_more_than_three_chunks_and_over_stages_is_independent():
    first, second = draw_twice()
    assert spread_is_plausible(first, FINE)
    assert spread_is_plausible(second, FINE)
    assert is_independent(first, second)


def test_no_seed_makes_the_noise_repeat():
    # Defect 3 of the field: noise from a generator that something else seeds.
    def draw():
        random.seed(0)
        np.random.seed(0)
        try:
            import torch

            torch.manual_seed(0)
        except ImportError:
            pass
        return noise.add_discrete_gaussian(np.zeros(64, dtype=np.int64), SCALE)

    first, second = draw(), draw()
    assert (first != second).all()


def test_the_exact_sum_is_kept_in_the_middle():
    total = np.array([0, 5, -(2**50), 2**50], dtype=np.int64)
    noisy = noise.add_discrete_gaussian(total, SCALE)
    assert noisy.dtype == np.int64
    assert np.abs(noisy - total).max() < 12 * SCALE


@pytest.mark.parametrize(
    "scale", [0.0, -1.0, 1.0, noise.MIN_SCALE - 1.0, float("nan"), float("inf")]
)
def test_a_scale_for_which_the_accounting_would_not_hold_is_refused(scale):
    with pytest.raises(ConfigError, match="noise scale"):
        noise.add_discrete_gaussian(np.zeros(1, dtype=np.int64), scale)


def test_the_grid_is_exact_at_powers_of_two():
    """A logarithm is rounded: just below 2^k it says k, and the scale falls below the least."""
    for exponent in (-900, -60, -1, 0, 1, 29, 52, 900):
        power = 2.0**exponent
        for sigma in (np.nextafter(power, 0), power, np.nextafter(power, np.inf)):
            grid = sums.grid_step(sigma)
            assert np.frexp(grid)[0] == 0.5  # a power of two
            assert noise.MIN_SCALE <= sigma / grid < 2 * noise.MIN_SCALE


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 1e-320, 1e-301])
def test_a_sigma_without_a_grid_is_refused(sigma):
    with pytest.raises(ConfigError, match="standard deviation"):
        sums.grid_step(sigma)


def test_nothing_to_noise_gives_nothing():
    assert noise.add_discrete_gaussian(np.zeros(0, dtype=np.int64), SCALE).shape == (0,)
