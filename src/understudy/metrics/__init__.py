"""Measures of a release, as pure functions on arrays; each file is one family, and declares it.

A metric is declared once, beside the function that computes it: its key, its name, unit,
direction, baseline, explanation and thresholds stand in one `Metric`. A module that declares
metrics imports without PyTorch; what needs PyTorch is in ``networks``.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from understudy.core.results import Metric


@cache
def declared() -> dict[str, Metric]:
    """All metrics that this package declares, by key.

    A module's metrics are its attributes that are a `Metric`, or a mapping to such.

    Raises:
        ValueError: Two metrics of one key.
    """
    metrics: dict[str, Metric] = {}
    for info in pkgutil.iter_modules(__path__, f"{__name__}."):
        if info.ispkg:
            continue
        for attribute in vars(import_module(info.name)).values():
            values = attribute.values() if isinstance(attribute, dict) else (attribute,)
            for metric in values:
                if not isinstance(metric, Metric):
                    continue
                if metrics.setdefault(metric.key, metric) is not metric:
                    raise ValueError(f"two metrics have the key {metric.key!r}")
    return metrics
