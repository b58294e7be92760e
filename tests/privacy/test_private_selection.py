"""Private selection: what the best of a secret number of runs costs, and that it costs no less."""

import math
import secrets
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from understudy.core.errors import ConfigError, LedgerError
from understudy.core.types import Sampling
from understudy.privacy.account import best_of
from understudy.privacy.accounting import (
    Gaussian,
    SampledGaussian,
    Selected,
    delta_of,
    epsilon_of,
    epsilon_of_mu,
    event_from_json,
    event_to_json,
    mu_of,
    rdp_epsilon,
    selected_mu,
    selection_parameter,
)
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan

DELTA, RUNS = 1e-5, 10.0
G = selection_parameter(RUNS)


def of_equation_2(mu, delta):
    """Epsilon of the docstring's equation on a grid of its own, by the basic conversion and ours.

    Canonne, Kamath and Steinke 2020, Proposition 12: e(a) + log(1 - 1/a) - log(delta a) / (a - 1).
    """
    a = np.geomspace(1.001, 1e7, 400_001)
    constant = ((1 - 1 / a) * a * mu * mu / 2 + math.log(1 / G) / a).min()
    rdp = a * mu * mu / 2 + constant + math.log(RUNS) / (a - 1)
    return (rdp + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)).min()


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 3.0, 10.0])
def test_the_cost_is_that_of_the_theorem_from_the_safe_side(epsilon):
    mu = mu_of(epsilon, DELTA)
    cost = epsilon_of([Selected(mu, RUNS)], DELTA)
    assert of_equation_2(mu, DELTA) <= cost * (1 + 1e-9)
    assert cost <= of_equation_2(mu, DELTA) * 1.01
    assert epsilon_of([Selected(selected_mu(epsilon, DELTA, RUNS), RUNS)], DELTA) <= epsilon


def test_ten_runs_cost_half_of_what_they_compose_to():
    mu = mu_of(1.0, DELTA)
    assert epsilon_of([Selected(mu, RUNS)], DELTA) == pytest.approx(1.917, abs=0.003)
    assert epsilon_of_mu(mu * math.sqrt(RUNS), DELTA) == pytest.approx(3.62, abs=0.01)


def test_a_selection_composes_with_everything_else():
    selected, gaussian = Selected(0.2, RUNS), Gaussian(0.3, 1e-9)
    parts = [[selected], [gaussian]]
    whole = epsilon_of([selected, gaussian], DELTA)
    assert max(epsilon_of(part, DELTA) for part in parts) < whole
    assert whole < sum(epsilon_of(part, DELTA) for part in parts)


def test_a_ledger_row_gives_the_event_back_and_refuses_others():
    event = Selected(0.2, RUNS)
    assert event_from_json(event_to_json(event)) == event
    for runs in (1.0, 0.5, math.inf, "many"):
        with pytest.raises(LedgerError, match="malformed"):
            event_from_json({"kind": "selected", "mu": 0.2, "runs": runs})
    with pytest.raises(ConfigError, match="too small to choose settings"):
        selected_mu(1e-6, 1e-11, RUNS)


def numbers_of_runs(count, runs):
    numbers = []
    for _ in range(count):
        made = []
        best_of(runs, lambda made=made: made.append(0), lambda _: 0.0)
        numbers.append(len(made))
    return np.array(numbers)


@pytest.mark.parametrize("runs", [2.0, RUNS])
def test_the_number_of_runs_has_the_logarithmic_distribution(runs):
    g, count = selection_parameter(runs), 6000
    numbers = numbers_of_runs(count, runs)
    most = 12
    expected = np.array([(1 - g) ** k / (k * math.log(1 / g)) for k in range(1, most)])
    observed = np.bincount(np.minimum(numbers, most), minlength=most + 1)[1:]
    test = stats.chisquare(observed, count * np.append(expected, 1 - expected.sum()))
    assert test.pvalue > 1e-4
    k = np.arange(1, 20_000)
    assert ((1 - g) ** k / math.log(1 / g)).sum() == pytest.approx(runs, rel=1e-6)


def chosen_scores(count, value, mu):
    """Settings 0 and 1, of which 1 scores by the secret value and 0 does not: (setting, score)."""
    rng = np.random.default_rng(secrets.randbits(64))
    noise, settings = iter(rng.normal(size=1 << 20)), iter(rng.integers(0, 2, 1 << 20))

    def run():
        setting = next(settings)
        return setting, next(noise) + mu * value * setting

    return np.array([best_of(RUNS, run, lambda outcome: outcome[1]) for _ in range(count)])


def test_the_best_setting_of_neighbouring_datasets_is_not_told_apart_beyond_the_claim():
    mu, count, events = 2.0, 12_000, 0
    claim = epsilon_of([Selected(mu, RUNS)], DELTA)
    with_it, without = chosen_scores(count, 1, mu), chosen_scores(count, 0, mu)
    assert with_it[:, 0].mean() > 0.65  # the choice does depend on the record
    for first, second in ((with_it, without), (without, with_it)):
        for level in np.linspace(-2, 5, 15):
            for tell in (
                lambda x, at=level: (x[:, 0] == 1) & (x[:, 1] > at),
                lambda x, at=level: (x[:, 0] == 0) & (x[:, 1] < at),
            ):
                one, two = int(tell(first).sum()), int(tell(second).sum())
                low = stats.beta.ppf(1e-5, one, count - one + 1) if one else 0.0
                high = stats.beta.ppf(1 - 1e-5, two + 1, count - two)
                assert low <= math.exp(claim) * high + DELTA
                events += 1
    assert events == 60


def test_the_exact_curve_of_the_best_score_stays_below_the_claim_and_above_one_run():
    """E[q^K] = log(1 - (1 - g) q) / log(g): how likely the best of K scores is below a level."""

    def below(q):
        return np.log1p(-(1 - G) * q) / math.log(G)

    levels = np.linspace(-8, 12, 4001)
    for mu in (0.2, 1.0, 3.0):
        here, there = below(stats.norm.cdf(levels)), below(stats.norm.cdf(levels - mu))
        claim, single = epsilon_of([Selected(mu, RUNS)], DELTA), epsilon_of_mu(mu, 0.01)
        for one, two in ((here, there), (1 - here, 1 - there), (1 - there, 1 - here)):
            assert (one - math.exp(claim) * two).max() <= DELTA
        # The planted fault: the best of ten charged as a single run would be.
        broken = max(
            (one - math.exp(single) * two).max()
            for one, two in ((here, there), (1 - here, 1 - there), (1 - there, 1 - here))
        )
        assert broken > delta_of(single, mu)


def clipped_mean(data, radius, mu, rng):
    """A DP mean of non-negative numbers: (n,) clipped at a radius, count public."""
    return np.minimum(data, radius).sum() / len(data) + rng.normal() * radius / mu / len(data)


def test_over_200_runs_the_chosen_setting_beats_the_default_where_there_is_a_choice():
    rng = np.random.default_rng(1)
    data = rng.exponential(size=400)
    radii, epsilon, score_share = (0.2, 1.0, 5.0, 50.0), 2.0, 0.1
    whole, each = mu_of(epsilon, DELTA), selected_mu(epsilon, DELTA, RUNS)
    answer, score = (each * math.sqrt(part) for part in (1 - score_share, score_share))

    def run():
        radius = radii[secrets.randbelow(len(radii))]
        mean = clipped_mean(data, radius, answer, rng)
        # A share of 1 - 1/e lies below the mean of such numbers; one of them changes it by 1.
        distance = abs((data < mean).sum() - (1 - 1 / math.e) * len(data))
        return mean, rng.normal() / score - distance

    truth = data.mean()
    default = [abs(clipped_mean(data, radii[-1], whole, rng) - truth) for _ in range(200)]
    tuned = [abs(best_of(RUNS, run, lambda pair: pair[1])[0] - truth) for _ in range(200)]
    nothing = [abs(clipped_mean(data, radii[2], whole, rng) - truth) for _ in range(200)]
    assert np.median(tuned) < np.median(default) / 2
    assert np.median(nothing) < np.median(tuned)  # whoever knows the best setting need not choose


def test_selections_steps_on_samples_and_whole_sums_compose_in_any_order() -> None:
    delta = 1e-5
    whole, best = Gaussian(0.3, 0.0), Selected(0.2, 10.0)
    steps = SampledGaussian(0.05, 0.8, 40, 1e-3)
    together = [epsilon_of(events, delta) for events in permutations([whole, best, steps])]
    assert max(together) - min(together) < 1e-9
    alone = [epsilon_of([one], delta) for one in (whole, best, steps)]
    split = [epsilon_of([one], delta / 3) for one in (whole, best, steps)]
    assert max(alone) < together[0] < sum(split) * 1.1
    # An upper bound, which numerical composition of the same steps and sums does not exceed.
    without = epsilon_of([whole, steps], delta)
    assert without < rdp_epsilon(0.3, (steps,), delta) + 1e-3 < 1.5 * without
    more = epsilon_of([whole, best, SampledGaussian(0.05, 0.8, 80, 2e-3)], delta)
    assert more > together[0]


def test_no_order_of_the_divergences_is_given_up_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A small total beside a few noisy steps on samples: those of a small trial run."""
    epsilon = epsilon_of([SampledGaussian(0.1, 1 / 1.590612, 3), Selected(0.0443, 10.0)], 1e-5)
    assert 0.8 < epsilon < 2
    assert caplog.messages == []


def test_steps_on_samples_are_not_tuned() -> None:
    with pytest.raises(ConfigError, match=r"'training' is steps on samples .* leave out --tune"):
        Plan.of(Budget(1.0, 1e-5), {"training": 1.0}, {"training": Sampling(0.1, 20)}, 10.0)
