"""What the proxies of data selection share: their settings, the reference's port, the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from understudy.core.types import Vector

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
    weight_decay: float = 1e-3
    utility: Utility = "final"


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
