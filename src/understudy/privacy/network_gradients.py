"""The query of DP-SGD: the sum of a network's per-record gradients, each unit's clipped."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import filled
from understudy.core.types import Labels
from understudy.privacy.cells import Cells
from understudy.privacy.queries import Contributions, Query

RECORDS_PER_GRADIENT = 16
"""Records in every call for gradients, the last one included: they are many numbers each."""

_NUMBERS = 1 << 23  # of gradients that are held at a time


class Loss(Protocol):
    """A loss of one record at public weights."""

    @property
    def fingerprint(self) -> str:
        """A digest of all that the gradients depend on besides the records."""
        ...

    @property
    def size(self) -> int:
        """Parameters of the network, P."""
        ...

    def gradients(self, values: NDArray[np.float32], labels: Labels) -> NDArray[np.float32]:
        """Of each of (n, d) records by itself, to the last bit: (n, P)."""
        ...


class NetworkGradients(Query):
    """The sum of the gradients of a network's loss at public weights, clipped to a norm.

    Proof: a unit's averaged gradients are clipped to an L2 norm of ``clip_norm``, whatever the
    network made of its records, so a unit that is in the sample moves the sum by at most that, and
    one that is not moves nothing. Gradients may point in opposite directions. What a record adds
    depends on it alone as far as the network's gradient does, which is called with
    `RECORDS_PER_GRADIENT` records each time and is probed (`Vault.sample`).

    Args:
        loss: The loss and the weights.
        classes: Number of classes.
        dim: Length of a record.
        clip_norm: L2 norm that a unit's gradient is clipped to.
    """

    description = "sums of clipped gradients of a network at public weights, of sampled units"
    pooled = True

    def __init__(self, loss: Loss, classes: int, dim: int, clip_norm: float) -> None:
        self.cells = Cells(np.zeros((classes, 1, dim)))
        self.slots, self.width, self.bound = 1, loss.size, clip_norm
        self.loss_fingerprint = np.frombuffer(loss.fingerprint.encode(), dtype=np.uint8)
        self._loss = loss

    @property
    def records_at_once(self) -> int:
        """A few calls."""
        calls = max(1, _NUMBERS // self.size // RECORDS_PER_GRADIENT)
        return calls * RECORDS_PER_GRADIENT

    def contributions(self, values: NDArray[np.float32], labels: Labels) -> Contributions:
        """Zeros, for there is one cluster, and the gradients: (n, P)."""
        gradients = self.gradients(values, labels).astype(np.float64)
        return np.zeros(len(labels), dtype=np.int64), gradients

    def gradients(self, values: NDArray[np.float32], labels: Labels) -> NDArray[np.float32]:
        """The gradients as the network gives them, in calls of one shape: (n, P)."""
        rows, gradients = RECORDS_PER_GRADIENT, np.empty((len(labels), self.width), np.float32)
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            of_part = self._loss.gradients(filled(values[part], rows), filled(labels[part], rows))
            gradients[part] = of_part[: len(labels[part])]
        return gradients
