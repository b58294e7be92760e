"""A vault without noise, of records that may share units."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from understudy.privacy.queries import Query

GRID = 2.0**-20  # of every sum


@dataclass(frozen=True)
class ExactVault:
    """What a vault would answer without noise, and what it was asked."""

    values: Any  # (n, d)
    labels: Any  # (n,)
    units: Any = None  # (n,) non-decreasing; None: each record is one
    asked: list[tuple[str, Query]] = field(default_factory=list)

    def view(self, transform: Any) -> ExactVault:
        return replace(self, values=transform(self.values))

    def unconditional(self) -> ExactVault:
        return replace(self, labels=np.zeros_like(self.labels))

    def release(self, query: Query, *, stage: str) -> Any:
        self.asked.append((stage, query))
        return query.integer_sum(self.values, self.labels, self.units, GRID) * GRID

    def noise_sd(self, query: Query, *, stage: str) -> float:
        return 1e-9
