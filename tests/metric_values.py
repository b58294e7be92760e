"""Values of metrics that no package declares, for tests of what is done with values."""

from typing import Any

from understudy.core.results import Better, Group, Metric, MetricUnit, MetricValue, ValueKind


def metric_value(
    group: Group,
    name: str,
    value: float,
    kind: ValueKind = "owner-only",
    low: float | None = None,
    high: float | None = None,
    *,
    better: Better = "",
    unit: MetricUnit = "",
    **more: Any,
) -> MetricValue:
    """A value of a metric of that name; the same metric for the same declaration."""
    key = name.lower().replace(" ", "_")
    metric = Metric(key, group, name, f"What {name} says.", better=better, unit=unit)
    return MetricValue(metric, value, kind, low, high, **more)
