"""What the parts of data selection share: settings, the port of a reference, scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np

from understudy.core.option import Option, check_options
from understudy.core.types import Vector
from understudy.methods.selection.arithmetic import ClassBudgets

Utility = Literal["area", "final"]
"""What is to be small: the reference loss summed over the training, or at its end."""

_TAIL = 0.1  # the last part of the training, of which little may be expected
_MOST_IN_TAIL = 0.02  # of the whole fall of the loss


@dataclass(frozen=True)
class ProxySettings:
    """How a proxy is trained: plain gradient descent, so that its costates are exact.

    Attributes:
        steps: T.
        learning_rate: eta.
        weight_decay: Part of the loss and of its Hessian.
        utility: The reference loss summed over theta_1 to theta_T (Eq. 22), or at theta_T alone.
    """

    steps: int = 80
    learning_rate: float = 3.0
    weight_decay: float = 0.03
    utility: Utility = "final"


@dataclass(frozen=True)
class SelectionSettings:
    """What every selection can be told, with differential privacy or without.

    Raises:
        WrongValue: A value out of range.
    """

    keep: Annotated[
        float,
        Option("how many candidates are selected: a share, or a number; --count first", above=0),
    ] = 0.2
    budgets: Annotated[
        ClassBudgets, Option("of each class: proportional to its candidates, or balanced")
    ] = "proportional"
    utility: Annotated[
        Utility,
        Option(
            "what is to be small: the reference loss at the end of training (final), or summed "
            "over it (area; not by gradients under differential privacy)"
        ),
    ] = "final"
    rounds: Annotated[
        int,
        Option(
            "passes over the candidates (R); under differential privacy they share the budget",
            least=1,
            most=10_000,
        ),
    ] = 8
    step_size: Annotated[
        float,
        Option(
            "how far weights move in the first round, in deviations of the scores",
            above=0,
            most=100,
        ),
    ] = 0.25
    steps: Annotated[int, Option("gradient steps of the proxy (T)", least=2, most=100_000)] = 80
    learning_rate: Annotated[float, Option("of the proxy (eta)", above=0, most=100)] = 3.0
    weight_decay: Annotated[
        float,
        Option("of the proxy; noise does less harm where there is more of it", least=0, most=100),
    ] = 0.03
    axes: Annotated[
        int, Option("leading axes of the whitened embeddings that the proxy sees", least=1)
    ] = 64
    reconstruction: Annotated[
        float | None,
        Option(
            "weight of the penalty for closeness to a private image; default 1, where there are "
            "private images and no epsilon",
            least=0,
            most=10**6,
        ),
    ] = None
    membership: Annotated[
        float,
        Option(
            "weight of the penalty for what a model of the private images knows better",
            least=0,
            most=10**6,
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def proxy(self) -> ProxySettings:
        """How the proxy is trained."""
        return ProxySettings(self.steps, self.learning_rate, self.weight_decay, self.utility)

    @property
    def by_distance(self) -> bool:
        """Whether a penalty takes distances to private records."""
        return bool(self.reconstruction)

    @property
    def penalised(self) -> bool:
        """Whether what is near to private records is penalised."""
        return self.by_distance or self.membership > 0


@dataclass(frozen=True)
class SteeredSettings(SelectionSettings):
    """Settings of a selection without differential privacy."""

    balanced: Annotated[bool, Option("whether classes of the reference count the same")] = False


class Reference(Protocol):
    """The reference set, as far as a linear proxy asks for it.

    ``private``, held out, a DP release, or private answers under DP (`reference`).
    """

    def gradient(self, state: Vector) -> Vector:
        """Gradient of the reference loss at a proxy's weights: (d + 1, C) to (d + 1, C) float64.

        The last row is the intercept's.
        """
        ...


@dataclass(frozen=True)
class RoundScores:
    """What one pass of states and costates gives.

    Attributes:
        scores: (M,) float64; a higher one lowers the reference loss more.
        converged: Whether the proxy's training loss had stopped falling.
    """

    scores: Vector
    converged: bool


def converged(losses: Vector) -> bool:
    """Whether the last tenth of a training lowered its loss by no more than 2 % of the whole fall.

    Args:
        losses: (T,) training loss at each step.
    """
    if len(losses) < 2:
        return False
    first = max(0, len(losses) - 1 - max(1, round(_TAIL * len(losses))))
    fall = float(losses[0] - losses[-1])
    left = float(losses[first] - losses[-1])
    return bool(np.isfinite(losses).all()) and left <= _MOST_IN_TAIL * abs(fall)
