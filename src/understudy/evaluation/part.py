"""What one part of an evaluation found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from understudy.core.results import Curve, Figure, Group
from understudy.metrics.roc import Interval


def with_ends(group: Group, name: str, found: Interval, **options: Any) -> Figure:
    """A figure and its interval; ``options`` are further fields of `Figure`."""
    return Figure(group, name, found.value, low=found.low, high=found.high, **options)


@dataclass(slots=True)
class Part:
    """Some figures and curves, how they came about, and what could not be measured.

    Attributes:
        figures: The numbers.
        curves: For plots.
        settings: What is told once, beside the figures. JSON values.
        left_out: What was not measured, and why.
    """

    figures: list[Figure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, other: Part) -> Self:
        """Both."""
        self.figures += other.figures
        self.curves += other.curves
        self.settings |= other.settings
        self.left_out += other.left_out
        return self
