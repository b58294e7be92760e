"""How much noise an epsilon costs: here, in the papers, and whether dp_accounting agrees."""

from __future__ import annotations

import math

from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from benchmarks.tables import Table
from understudy.privacy.accounting import epsilon_of
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan

DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0)
STAGES = 5


def ours(epsilon: float, stages: int) -> float:
    """Noise multiplier (sigma / sensitivity) of each of several equal stages."""
    plan = Plan.of(Budget(epsilon, DELTA), {f"stage {i}": 1.0 for i in range(stages)})
    return 1 / plan.stage_mu("stage 0")


def pasda(epsilon: float) -> float:
    """PASDA, corollary 1, with the square root that its algorithm 2 lacks."""
    # Its minimum over alpha: rho + 2 sqrt(rho ln(1/delta)) = epsilon with rho = 1/(2 sigma^2).
    root = math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA))
    return 1 / (math.sqrt(2) * root)


def agreement(epsilon: float, stages: int) -> float:
    """Our epsilon over dp_accounting's, minus 1, for a plan of equal stages."""
    plan = Plan.of(Budget(epsilon, DELTA), {f"stage {i}": 1.0 for i in range(stages)})
    mine = epsilon_of([plan.event(stage) for stage in plan.shares], DELTA)
    interval = min(1e-4, epsilon / 1000)
    accountant = PLDAccountant(value_discretization_interval=interval)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(1 / plan.stage_mu("stage 0")), stages))
    return mine / float(accountant.get_epsilon(DELTA)) - 1


def main() -> None:
    """Print both tables."""
    table = Table(
        f"Noise multiplier (sigma / sensitivity), delta {DELTA:g}; {STAGES} equal stages",
        ("epsilon", "1 stage", "PASDA", "5 stages", "paper", "too much there"),
        first=10,
    )
    for epsilon in EPSILONS:
        split = analytic(epsilon / STAGES, DELTA / STAGES)
        five = ours(epsilon, STAGES)
        table.row(f"{epsilon:g}", ours(epsilon, 1), pasda(epsilon), five, split, split / five)
    table = Table(
        "Our epsilon over dp_accounting's (PLD), difference in %",
        ("epsilon", *(f"{n} stages" for n in (1, 5, 20, 100))),
        first=10,
    )
    for epsilon in (0.01, 0.1, 1.0, 10.0):
        found = (100 * agreement(epsilon, stages) for stages in (1, 5, 20, 100))
        table.row(f"{epsilon:g}", *(f"{value:.4f}" for value in found))


def analytic(epsilon: float, delta: float) -> float:
    """One stage with the exact Gaussian curve, as the paper splits its budget."""
    return 1 / Plan.of(Budget(epsilon, delta), {"stage": 1.0}).mu


if __name__ == "__main__":
    main()
