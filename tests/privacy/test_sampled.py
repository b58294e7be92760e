"""DP-SGD at the boundary: what steps on Poisson samples cost, and that each is paid for once."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
import scipy
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from tests.independence.worlds import source_of

from understudy.core.errors import BackendError, BudgetRefused, ConfigError, LedgerError, RunError
from understudy.core.types import Sampling
from understudy.engine.local import LocalEngine
from understudy.privacy import accounting
from understudy.privacy.account import Account
from understudy.privacy.accounting import (
    Gaussian,
    SampledGaussian,
    epsilon_of,
    event_from_json,
    event_to_json,
    sampled_gaussian,
)
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan, composed
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.network_gradients import NetworkGradients
from understudy.privacy.rows import poisson_sample
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault

DELTA = 1e-5
SETTINGS = [
    # rate, noise multiplier, steps
    (0.001, 0.8, 1000),
    (0.001, 1.0, 200),
    (0.004, 0.7, 500),
    (0.01, 0.8, 100),
    (0.01, 1.0, 1000),
    (0.01, 5.0, 100),
    (0.02, 1.0, 400),
    (0.02, 2.0, 50),
    (0.05, 0.9, 200),
    (0.05, 2.0, 200),
    (0.05, 10.0, 2000),
    (0.1, 0.9, 30),
    (0.1, 1.2, 300),
    (0.1, 3.0, 300),
    (0.1, 20.0, 100),
    (0.2, 1.5, 100),
    (0.3, 2.0, 20),
    (0.5, 4.0, 200),
    (0.9, 8.0, 40),
    (1.0, 6.0, 60),
]


def steps_of(rate: float, noise: float, steps: int) -> Any:
    sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    return dp_accounting.SelfComposedDpEvent(sampled, steps)


@pytest.mark.parametrize(
    ("rate", "noise", "steps"),
    [pytest.param(*one, marks=[pytest.mark.slow] * bool(i % 4)) for i, one in enumerate(SETTINGS)],
)
def test_epsilon_is_that_of_dp_accounting_to_one_percent_and_from_the_safe_side(rate, noise, steps):
    epsilon = epsilon_of([SampledGaussian(rate, 1 / noise, steps)], DELTA)
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(steps_of(rate, noise, steps))
    least = privacy_loss_distribution.from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        pessimistic_estimate=False,
        value_discretization_interval=1e-3 if noise < 4 else 1e-4,
        use_connect_dots=False,
    ).self_compose(steps)
    assert least.get_epsilon_for_delta(DELTA) <= epsilon
    assert epsilon <= 1.01 * accountant.get_epsilon(DELTA)


def test_it_composes_with_gaussian_releases_as_dp_accounting_does():
    event = SampledGaussian(0.05, 1 / 1.5, 100)
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(steps_of(0.05, 1.5, 100))
    accountant.compose(dp_accounting.GaussianDpEvent(1 / 0.5))
    expected = accountant.get_epsilon(DELTA)
    together = epsilon_of([Gaussian(0.3), event, Gaussian(0.4)], DELTA)
    assert expected * (1 - 1e-3) <= together <= expected * 1.01
    apart = epsilon_of([Gaussian(0.5)], DELTA) + epsilon_of([event], DELTA)
    assert max(epsilon_of([event], DELTA), epsilon_of([Gaussian(0.5)], DELTA)) < together < apart


def test_opacus_finds_no_less_by_renyi_divergences():
    analysis = pytest.importorskip("opacus.accountants.analysis.rdp")
    orders = [*np.arange(1.5, 20, 0.5).tolist(), *range(20, 64, 4)]
    divergences = analysis.compute_rdp(q=0.05, noise_multiplier=1.2, steps=200, orders=orders)
    most, _ = analysis.get_privacy_spent(orders=orders, rdp=divergences, delta=DELTA)
    ours = epsilon_of([SampledGaussian(0.05, 1 / 1.2, 200)], DELTA)
    assert 0.75 * most < ours <= most


def test_a_rate_of_one_is_no_sampling():
    assert epsilon_of([SampledGaussian(1.0, 0.1, 25)], DELTA) == pytest.approx(
        epsilon_of([Gaussian(0.5)], DELTA), rel=2e-3
    )


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0])
def test_noise_is_solved_for_what_other_releases_leave(epsilon):
    others = Gaussian(0.1 * min(epsilon, 5.0), 1e-8)
    event = sampled_gaussian(epsilon, DELTA, others, 0.1, 50, 1e-8)
    reached = epsilon_of([others, event], DELTA)
    assert 0.998 * epsilon < reached <= epsilon


def test_few_steps_on_small_samples_are_composed_on_no_more_losses_than_need_be(monkeypatch):
    """Their losses go 2,000 times as far as they are large; 2.4 million took half a minute."""
    intervals, composed_on = [], accounting._pld
    monkeypatch.setattr(
        accounting, "_pld", lambda event, step: intervals.append(step) or composed_on(event, step)
    )
    event = SampledGaussian(1e-3, 1.4826, 1, 0.0)
    epsilon = accounting.pld_epsilon(0.0, [event], DELTA)
    assert 0.0499603 <= epsilon <= 0.0499603 * 1.0005  # of losses in steps of 3.8e-6
    assert min(intervals) > 5e-5


def test_steps_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="do not fit"):
        sampled_gaussian(1.0, DELTA, Gaussian(10.0), 0.1, 50, 0.0)


def test_a_ledger_row_holds_the_event_and_refuses_what_it_cannot_be():
    event = SampledGaussian(0.1, 0.8, 40, 1e-9)
    row = event_to_json(event)
    assert event_from_json(row) == event
    for change in ({"rate": 1.1}, {"rate": 0.0}, {"steps": 2.5}, {"steps": 0}, {"mu": -1.0}):
        with pytest.raises(LedgerError):
            event_from_json({**row, **change})


# Who is in a sample


def block(count: int, groups: Any = None) -> Any:
    values = np.arange(count, dtype=np.float32)[:, None]
    return values, np.zeros(count, dtype=np.int64), groups


def test_units_are_sampled_with_their_rate_independently_of_one_another():
    # The probability of a miss is about 1e-9 in each of the two.
    inside = np.zeros(20_000)
    for _ in range(4):
        values, _, _ = poisson_sample(block(20_000), 0.3)
        inside[values[:, 0].astype(int)] += 1
    low, high = scipy.stats.binom.ppf([5e-10, 1 - 5e-10], 80_000, 0.3)
    assert low <= inside.sum() <= high
    assert abs(inside.var() - 4 * 0.3 * 0.7) < 6 * np.sqrt(2 / 20_000)


def test_no_seed_decides_who_is_in_a_sample():
    samples = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        samples.append(poisson_sample(block(500), 0.5)[0].ravel().tolist())
    assert samples[0] != samples[1]


def test_a_unit_is_in_with_all_its_records_or_with_none():
    groups = np.repeat(np.arange(300), 3)
    _, _, inside = poisson_sample(block(900, groups), 0.4)
    counts = np.bincount(inside, minlength=300)
    assert set(counts) == {0, 3}


def test_everybody_is_in_a_sample_at_rate_one_and_an_empty_block_gives_none():
    assert len(poisson_sample(block(50), 1.0)[0]) == 50
    assert len(poisson_sample(block(0), 0.5)[0]) == 0
    assert len(poisson_sample(block(0, np.zeros(0, np.int64)), 0.5)[0]) == 0


# Steps through a vault


class Shift:
    """A loss whose gradient is the record: what a sum of gradients is can be told."""

    fingerprint, size = "shift", 3

    def gradients(self, values: Any, labels: Any) -> Any:
        return np.asarray(values, dtype=np.float32)


class Site:
    """Records, a ledger and a run's folder; `vault` opens them again, as a resumed run does."""

    def __init__(self, folder: Path, budget: float | None = 5.0, **plan: Any) -> None:
        self.folder, self.unit = folder, plan.pop("unit", Unit())
        values = np.tile(np.float32([[3.0, 0.0, 4.0]]), (40, 1))
        self.records = source_of(values, np.zeros(40, np.int64), ("all",))
        self.ledger = Ledger(str(folder / "ledger.db"))
        self.dataset = self.ledger.register(self.records).id
        if budget is not None:
            self.ledger.set_budget(self.dataset, Budget(budget))
        sampling = plan.pop("sampling", Sampling(0.25, 4))
        shares = {"counts": 0.2, "training": 0.8}
        self.plan = Plan(Budget(5.0), shares, {"training": sampling})

    def account(self, run: str = "run") -> Account:
        place = self.folder / run
        return Account(self.ledger, self.dataset, self.unit, self.plan, place, run)

    def vault(self, run: str = "run", probe: bool = False) -> PrivateVault:
        account = self.account(run)
        return PrivateVault(self.records, account, LocalEngine(1), self.folder, probe=probe)

    def step(self, vault: PrivateVault, step: int, loss: Any = None) -> Any:
        query = NetworkGradients(loss or Shift(), 1, 3, 2.5)
        return vault.sample(query, stage="training", step=step)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_all_steps_are_one_charge_and_a_resumed_run_reads_them_back(site):
    vault = site.vault()
    first = [site.step(vault, step) for step in (1, 2)]
    again = site.vault()  # as if killed after the second step
    for step, answer in enumerate(first, 1):
        np.testing.assert_array_equal(site.step(again, step), answer)
    rest = [site.step(again, step) for step in (3, 4)]
    assert len({float(answer[0, 0]) for answer in first + rest}) == 4
    rows = list(site.ledger.rows())
    charged = [row.data["event"]["kind"] for row in rows if row.kind == "charge"]
    assert sorted(charged) == ["gaussian", "sampled gaussian"]
    assert [row.data["step"] for row in rows if row.kind == "release"] == [1, 2, 3, 4]
    assert site.ledger.spent(site.dataset).epsilon == pytest.approx(5.0, rel=2e-3)
    assert site.ledger.spent(site.dataset).epsilon <= 5.0
    (receipt,) = again.receipt().stages
    assert (receipt.steps, receipt.rate, receipt.size) == (4, 0.25, 12)


def test_a_step_whose_answer_is_gone_is_never_drawn_again(site):
    vault = site.vault()
    for step in (1, 2):
        site.step(vault, step)
    (site.folder / "run" / "training.2.npz").unlink()
    again = site.vault()
    site.step(again, 1)
    with pytest.raises(RunError, match="is missing, and was released"):
        site.step(again, 2)


def test_a_step_that_was_written_whole_is_taken_up(site):
    answer = site.step(site.vault(), 1)
    path = site.folder / "run" / "training.1.npz"
    path.rename(path.with_suffix(".part"))
    np.testing.assert_array_equal(site.step(site.vault(), 1), answer)


def test_steps_come_in_order_and_once(site):
    vault = site.vault()
    site.step(vault, 1)
    for step in (1, 3, 5, 0):
        with pytest.raises(RunError):
            site.step(vault, step)
    with pytest.raises(RunError):
        vault.release(NetworkGradients(Shift(), 1, 3, 2.5), stage="training")
    with pytest.raises(RunError):
        vault.sample(NetworkGradients(Shift(), 1, 3, 2.5), stage="counts", step=1)


def test_another_loss_gets_no_stored_step(site):
    site.step(site.vault(), 1)
    other = Shift()
    other.fingerprint = "other"
    with pytest.raises(RunError, match="another query"):
        site.step(site.vault(), 1, other)


def test_a_training_that_began_is_spent_whole(site):
    account = site.account()
    account.settle()
    assert site.ledger.spent(site.dataset).epsilon == 0
    begun = Site(site.folder / "run", budget=None)
    begun.step(begun.vault(), 1)
    account = begun.account()
    account.settle()
    expected = epsilon_of([begun.plan.event("training")], DELTA)
    assert begun.ledger.spent(begun.dataset).epsilon == pytest.approx(expected)


def test_no_step_is_drawn_over_the_budget(tmp_path):
    site = Site(tmp_path, budget=4.9)
    with pytest.raises(BudgetRefused):
        site.step(site.vault(), 1)
    assert not list(tmp_path.rglob("*.npz"))


def test_units_that_are_replaced_are_refused_before_anything_is_spent(tmp_path):
    site = Site(tmp_path, unit=Unit(adjacency="replace-one"))
    with pytest.raises(ConfigError, match="added or removed"):
        site.vault()


def test_a_plan_has_one_stage_of_samples(site):
    with pytest.raises(ConfigError, match="one stage"):
        Plan(Budget(1.0), {"a": 0.5}, {"b": Sampling(0.1, 3)})


def test_what_a_step_releases_is_the_clipped_sum_of_a_sample(tmp_path):
    """Each unit adds the same to all numbers, so their mean says how many were in the sample."""
    site = Site(tmp_path, budget=None)
    site.plan = Plan(Budget(200.0), {"training": 1.0}, {"training": Sampling(0.5, 6)})

    class Flat(Shift):
        size = 4_000

        def gradients(self, values: Any, labels: Any) -> Any:
            return np.full((len(values), self.size), 7.0, np.float32)

    vault, each = site.vault(), 2.5 / np.sqrt(Flat.size)
    counts = [site.step(vault, step, Flat()).mean() / each for step in range(1, 7)]
    noise = 1 / site.plan.stage_mu("training")  # of a mean over all numbers, in units
    assert noise < 0.5
    # Of 40 units at rate 1/2: 6 deviations of their mean, and of no two steps the same ones.
    assert abs(np.mean(counts) - 20) < 6 * np.sqrt((10 + noise**2) / 6)
    assert np.std(counts) > 2 * noise / np.sqrt(6)


def test_a_unit_of_several_records_is_sampled_and_clipped_as_one(tmp_path):
    """Twenty people with two records each add as much as twenty records."""
    site = Site(tmp_path, budget=None, unit=Unit("person"))
    site.records.has_units = True
    people = np.array([f"p{number % 20}" for number in range(40)])
    plain = site.records.batches

    def with_units(size: int) -> Any:
        for batch in plain(size):
            yield replace(batch, units=people[: len(batch.labels)])

    site.records.batches = with_units
    vault = site.vault().embedded()
    query = NetworkGradients(Shift(), 1, 3, 2.5)
    grid = query.grid(1.0)
    each = query.integer_sum(site.records.values[:1], np.zeros(1, np.int64), None, grid)
    np.testing.assert_allclose(vault._exact(query, grid), 20 * each, rtol=1e-6)
    for _ in range(20):
        number = vault._exact(query, grid, 0.5)[0, 0] / each[0, 0]
        assert number == pytest.approx(np.rint(number), abs=1e-3)
        assert number <= 20


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.7, False), (1.3, False)])
def test_the_noise_of_a_step_has_its_scale(tmp_path, factor, right):
    site = Site(tmp_path, budget=None)
    site.records.values[:] = 0.0

    class Wide(Shift):
        size = 4000

        def gradients(self, values: Any, labels: Any) -> Any:
            return np.zeros((len(values), self.size), np.float32)

    answer = site.step(site.vault(), 1, Wide())
    sigma = 2.5 / site.plan.stage_mu("training")
    ratio = float(np.square(answer / (factor * sigma)).mean())
    assert (abs(ratio - 1) < 6 * np.sqrt(2 / 4000)) == right


def test_a_network_that_mixes_records_is_refused_before_its_first_step(site):
    class Mixed(Shift):
        def gradients(self, values: Any, labels: Any) -> Any:
            return values - values.mean(axis=0)

    with pytest.raises(BackendError, match="refused"):
        site.step(site.vault(probe=True), 1, Mixed())
    site.step(site.vault(probe=True), 1)


def test_receipts_of_samples_compose(site):
    receipt = site.plan.receipt(Unit())
    other = Plan.of(Budget(1.0), {"one": 1.0}).receipt(Unit())
    both = composed([receipt, other], DELTA)
    assert max(receipt.epsilon, other.epsilon) < both.epsilon < receipt.epsilon + other.epsilon
    assert sum(stage.share for stage in both.stages) == pytest.approx(1)
