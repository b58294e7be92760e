"""What ``understudy evaluate`` does: open the inputs, embed them once, measure, judge.

`inputs` opens and refuses, `embedding_pass` reads every dataset once, an adapter for each family
of metrics gives a `Part`, and `evaluate` puts the parts together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from understudy.core.results import Curve, MetricValue


@dataclass(slots=True)
class Part:
    """What an adapter measured, how it came about, and what could not be measured.

    Attributes:
        values: The numbers.
        curves: For plots.
        settings: What stands once beside the values. JSON values.
        left_out: What was not measured, and why.
    """

    values: list[MetricValue] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, other: Part) -> Self:
        """Add all of another part to this one."""
        self.values += other.values
        self.curves += other.curves
        self.settings |= other.settings
        self.left_out += other.left_out
        return self
