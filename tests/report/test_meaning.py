import math
from dataclasses import replace

import pytest

from understudy.core.types import Receipt
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan, Sampling
from understudy.report import meaning


def test_mu_composes_by_squares(receipt: Receipt) -> None:
    assert meaning.composed_mu(receipt) == pytest.approx(0.2680511, rel=1e-12)


def test_the_bound_of_a_gaussian_release(receipt: Receipt) -> None:
    # Phi(0.2680511 / 2), from a table of the normal distribution.
    assert meaning.guess_bound(receipt) == pytest.approx(0.553309, abs=2e-6)


def test_the_bound_of_epsilon_and_delta_alone(receipt: Receipt) -> None:
    bare = replace(receipt, stages=(), epsilon=math.log(3), delta=0.0)
    assert meaning.guess_bound(bare) == pytest.approx(0.75)
    # A group of two has twice the epsilon: 9 / 10.
    assert meaning.guess_bound(bare, 2) == pytest.approx(0.9)


def test_steps_on_samples_of_the_units_are_said_once() -> None:
    plan = Plan.of(Budget(8.0, 1e-5), {"training": 1.0}, {"training": Sampling(0.25, 4)})
    said = meaning.released(plan.stage_receipt("training", "sums", 1.0, 3))
    assert said.count("4 steps") == said.count("0.25") == 1


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0, 1e4])
def test_the_bound_grows_with_the_group_and_never_passes_certainty(
    receipt: Receipt, epsilon: float
) -> None:
    receipt = replace(receipt, epsilon=epsilon, stages=())
    bounds = [meaning.guess_bound(receipt, units) for units in (1, 2, 5, 1000)]
    assert bounds == sorted(bounds)
    assert bounds[0] >= 0.5
    assert bounds[-1] <= 1.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((1.0, "1"), (0.99999931, "1"), (1.00001, "1.001"), (1e-5, "1e-5"), (2.3e-7, "2.3e-7")),
        *((0.0, "0"), (12.0, "12"), (0.01, "0.01")),
    ],
)
def test_a_stated_bound_is_never_less_than_the_number(value: float, text: str) -> None:
    assert meaning.stated(value) == text
    assert float(text) >= value


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        *((0.5533, "55.4 %"), (0.9, "90.0 %"), (1.0, "100.0 %")),
        *((0.99966, "99.97 %"), (0.999999, "99.9999 %"), (0.9999999, "100.0 %")),
    ],
)
def test_less_than_certainty_reads_as_less(bound: float, text: str) -> None:
    assert meaning.percent(bound) == text
    assert float(text.removesuffix(" %")) >= 100 * bound
