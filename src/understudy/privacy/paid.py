"""The answers of a run that is over: read back for more samples, without records or a ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import RunError
from understudy.core.types import Vector
from understudy.privacy.account import Account, Plan
from understudy.privacy.queries import Query
from understudy.privacy.unit import Unit
from understudy.privacy.vault import Transform, Vault


class PaidAnswers(Account):
    """The stored answers of a run, which was charged for them. Nothing else is answered or charged.

    Args:
        unit: The run's unit of protection.
        plan: The run's budget and shares.
        folder: Where its releases are stored.
    """

    def __init__(self, unit: Unit, plan: Plan, folder: Path) -> None:
        self.unit, self.plan, self._folder = unit, plan, folder
        self._stages, self._size = {}, 0

    def reserve(self) -> None:
        """Refuse: there is no ledger that could be charged."""
        raise RunError("nothing is paid for more samples: only answers that are stored are given")

    def release(
        self, query: Query, stage: str, total: Callable[[float], NDArray[np.int64]] | None = None
    ) -> Vector:
        """The stored answer to a query.

        Raises:
            RunError: It is not there, or it was stored for another query.
        """
        path = self._folder / f"{stage}.npz"
        if not path.exists():
            raise RunError(f"{path}: is missing: more samples need every answer of the run")
        return super().release(query, stage, _no_sum)

    def _record(self, stage: str, attempt: int, noisy: NDArray[np.int64]) -> None:
        """The ledger has it from the run."""


def _no_sum(grid: float) -> NDArray[np.int64]:
    raise RunError("there are no records to add up: only answers that are stored are given")


class PaidVault(Vault):
    """A vault without records, which gives the answers that a run has paid for.

    A method that is handed it asks what it asked then, by the same seed, and fits the same model.

    Args:
        answers: The answers.
    """

    __slots__ = ("_answers",)

    def __init__(self, answers: PaidAnswers) -> None:
        self._answers = answers

    @property
    def _account(self) -> Account:
        return self._answers

    def close(self) -> None:
        """Nothing private is held."""

    def map(self, encode: Callable[[NDArray[Any]], Any], **options: Any) -> Vault:
        """The same answers: no record is encoded."""
        return self

    def embedded(self) -> Vault:
        """The same answers."""
        return self

    def view(self, transform: Transform) -> Vault:
        """The same answers."""
        return self

    def unconditional(self) -> Vault:
        """The same answers."""
        return self
