"""About how long a run takes, by what whole runs on public drawings took: run_times.json.

`python -m benchmarks run_times` prints its lines: processor seconds of the command with default
settings, as many samples as records, one thread.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.roles import MODEL_ROLES
from understudy.run.prepare import Prepared
from understudy.run.progress import duration
from understudy.run.run_plan import ExpectedTime


@dataclass(frozen=True, slots=True)
class RunTime:
    """A run that was measured.

    Attributes:
        models: Their names by their roles.
        numbers: Of a record: height x width x channels, or dimensions.
        seconds: Of one processor.
    """

    method: str
    models: dict[str, str]
    records: int
    numbers: int
    seconds: float
    date: str


@cache
def run_times() -> tuple[RunTime, ...]:
    """Every run that was measured."""
    lines = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tuple(RunTime(**line) for line in lines)


def model_names(prepared: Prepared) -> dict[str, str]:
    """The models of a run by their roles."""
    models: dict[str, Any] = dict(prepared.context.models)
    return {role: models[role].name for role in MODEL_ROLES if role in models}


def expected_time(prepared: Prepared) -> ExpectedTime:
    """About how long a run takes, where its method and models were measured at two sizes.

    A line through the measured runs, over records times the numbers of each. It knows neither
    settings nor another count of samples, and every machine is of its own speed.
    """
    names, method = model_names(prepared), prepared.method.name
    alike = [one for one in run_times() if (one.method, one.models) == (method, names)]
    work = np.array([one.records * one.numbers for one in alike], dtype=float)
    if len(set(work)) < 2:
        return ExpectedTime()
    seconds = np.array([one.seconds for one in alike])
    slope = max(0.0, float(np.polyfit(work, seconds, 1)[0]))
    start = max(0.0, float(seconds.mean() - slope * work.mean()))
    each = slope * math.prod(prepared.context.shape)
    more = f"{1000 * each:.2g} s" if each < 0.01 else duration(1000 * each)
    counts = " and ".join(f"{count:,}" for count in sorted({one.records for one in alike}))
    words = (
        f"about {duration(max(1.0, start))} of one processor, and {more} for each "
        f"1,000 records (an estimate, from runs of {counts} public records with default settings, "
        f"{max(one.date for one in alike)})"
    )
    return ExpectedTime(start, each, words)
