"""DP-SGD audited by canaries (Steinke, Nasr and Jagielski 2023), and faults planted in it.

Each canary's gradient lies along an axis of its own, so a step tells of each by itself. It is in
a training with probability a half. Its score is the log likelihood ratio of all steps: with it, a
step is the mixture (1 - q) N(0, 1) + q N(mu, 1). Who is not in a sample leaves no trace, so the
highest scores are guessed "in" and all others passed over. Each canary is in question in one
training, so several trainings are one mechanism that is as private as one of them.

What canaries prove of a Gaussian's epsilon is a quarter of it at this size, so half the noise is
not refuted that way (1.3 of a stated 2, measured). It shows in the axes of absent canaries, which
hold noise alone; and steps that share their sample show in the sums over steps of present ones.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.independence.worlds import source_of

from understudy.audit.bench import NullLedger, SerialEngine
from understudy.core.types import Sampling
from understudy.metrics.privacy_bounds import epsilon_from_one_run
from understudy.privacy import noise, vault
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.network_gradients import NetworkGradients
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault

EPSILON, DELTA, CANARIES, CONFIDENCE = 2.0, 1e-8, 2_000, 0.999
DEVIATIONS = 6.0  # from what is expected, that are a finding: by chance once in 1e8
PARTS = (0.002, 0.005, 0.01, 0.02, 0.05)  # of the canaries, that are guessed "in"
SAMPLING = Sampling(0.2, 10)
PLAN = Plan(Budget(EPSILON, DELTA), {"training": 1.0}, {"training": SAMPLING})


class Axes:
    """A loss of records that are their own numbers: a gradient along the axis of each."""

    fingerprint, size = "axes", CANARIES

    def gradients(self, values: Any, labels: Any) -> Any:
        rows = np.zeros((len(values), self.size), np.float32)
        rows[np.arange(len(values)), values[:, 0].astype(int)] = 10.0
        return rows


def training(folder: Path) -> tuple[Any, Any]:
    """The answers of a training, (steps, canaries) in deviations of the noise; and who was in."""
    inside = np.random.default_rng().random(CANARIES) < 0.5
    values = np.flatnonzero(inside).astype(np.float32)[:, None]
    records = source_of(values, np.zeros(len(values), np.int64), ("all",))
    account = Account(NullLedger(), "audit", Unit(), PLAN, folder / "stages")
    query = NetworkGradients(Axes(), 1, 1, 1.0)
    records_vault = PrivateVault(records, account, SerialEngine(), folder, probe=False)
    steps = range(1, SAMPLING.steps + 1)
    answers = [records_vault.sample(query, stage="training", step=step)[0] for step in steps]
    return PLAN.stage_mu("training") * np.stack(answers), inside


def findings(folder: Path, trainings: int) -> set[str]:
    """What is other than stated of some trainings."""
    runs = [training(folder / str(number)) for number in range(trainings)]
    answers = np.concatenate([one for one, _ in runs], axis=1)
    inside = np.concatenate([one for _, one in runs])
    q, k, mu = SAMPLING.rate, SAMPLING.steps, PLAN.stage_mu("training")
    absent, present = answers[:, ~inside].ravel(), answers[:, inside].sum(axis=0)
    variance = k * (1 + q * (1 - q) * mu * mu)
    looks = {
        "epsilon": proven(answers, inside) > EPSILON,
        "noise": differs(np.square(absent).mean(), 1.0, np.sqrt(2 / absent.size)),
        "sampling": differs(present.mean(), k * q * mu, np.sqrt(variance / present.size))
        or differs(present.var(), variance, variance * np.sqrt(2.5 / present.size)),
    }
    return {name for name, finding in looks.items() if finding}


def differs(value: float, expected: float, deviation: float) -> bool:
    return abs(value - expected) > DEVIATIONS * deviation


def proven(answers: Any, inside: Any) -> float:
    """The epsilon that canaries prove."""
    mu = PLAN.stage_mu("training")
    ratios = np.minimum(mu * answers - mu * mu / 2, 50.0)
    scores = np.log1p(SAMPLING.rate * np.expm1(ratios)).sum(axis=0)
    order, bounds = np.argsort(scores)[::-1], []
    confidence = 1 - (1 - CONFIDENCE) / len(PARTS)
    for part in PARTS:
        guesses = int(part * len(order))
        right = int(inside[order[:guesses]].sum())
        bounds.append(
            epsilon_from_one_run(right, guesses, len(order), delta=DELTA, confidence=confidence)
        )
    return max(bounds)


def gradients_unclipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(query: Any, values: Any, labels: Any, groups: Any, grid: float) -> Any:
        _, gradients = query.contributions(values, labels)
        return np.trunc(gradients / grid).astype(np.int64).sum(axis=0)[None]

    monkeypatch.setattr(NetworkGradients, "integer_sum", unclipped)


def noise_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = noise.add_discrete_gaussian
    monkeypatch.setattr(
        noise, "add_discrete_gaussian", lambda sums, scale: sums + (honest(sums, scale) - sums) // 2
    )


def all_of_them_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "poisson_sample", lambda block, rate: block)


def the_same_sample_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, samples = vault.poisson_sample, {}

    def repeated(block: Any, rate: float) -> Any:
        key = block[0].tobytes()  # of a training
        if key not in samples:
            samples[key] = honest(block, rate)
        return samples[key]

    monkeypatch.setattr(vault, "poisson_sample", repeated)


FAULTS = {
    gradients_unclipped: "epsilon",
    noise_halved: "noise",
    all_of_them_in_each_step: "sampling",
    the_same_sample_in_each_step: "sampling",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fault(monkeypatch)
    assert FAULTS[fault] in findings(tmp_path, 4 if fault is the_same_sample_in_each_step else 1)


@pytest.mark.slow
def test_canaries_alone_refute_steps_that_everybody_is_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    all_of_them_in_each_step(monkeypatch)
    assert "epsilon" in findings(tmp_path, 10)


@pytest.mark.slow
def test_nothing_is_found_in_the_code_as_it_is(tmp_path: Path) -> None:
    assert findings(tmp_path, 2) == set()


@pytest.mark.slow
def test_something_is_proven_of_the_code_as_it_is_and_nothing_refuted(tmp_path: Path) -> None:
    runs = [training(tmp_path / str(number)) for number in range(20)]
    answers, inside = np.concatenate([one for one, _ in runs], axis=1), [one for _, one in runs]
    assert 0.2 < proven(answers, np.concatenate(inside)) <= EPSILON
    assert findings(tmp_path / "more", 10) == set()
