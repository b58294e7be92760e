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
import scipy.optimize

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

    By least squares through the measured runs: a start, and for each record something of its own
    and something for each of its numbers (the last alone where one shape was measured). It knows
    neither settings nor another count of samples, and every machine is of its own speed.
    """
    names, method = model_names(prepared), prepared.method.name
    alike = [one for one in run_times() if (one.method, one.models) == (method, names)]
    numbers = np.array([one.numbers for one in alike], dtype=float)
    records = np.array([one.records for one in alike], dtype=float)
    if len(set(records * numbers)) < 2:
        return ExpectedTime()
    columns = [np.ones(len(alike)), records * numbers, records][: 3 if np.ptp(numbers) else 2]
    terms, _ = scipy.optimize.nnls(np.stack(columns, axis=1), [one.seconds for one in alike])
    start, each_number, each_record = [*terms.tolist(), 0.0][:3]
    each = each_record + each_number * math.prod(prepared.context.shape)
    more = f"{1000 * each:.2g} s" if each < 0.01 else duration(1000 * each)
    counts = " and ".join(f"{count:,}" for count in sorted({one.records for one in alike}))
    words = (
        f"about {duration(max(1.0, start))} of one processor, and {more} for each "
        f"1,000 records (an estimate, from runs of {counts} public records with default settings, "
        f"{max(one.date for one in alike)})"
    )
    return ExpectedTime(start, each, words)
