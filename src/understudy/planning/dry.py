"""``--dry-run``: what a run would do and spend, without doing it.

Spends nothing. Private images are read to recognise the dataset, and nothing else.

It says about how long a run takes, too, by what whole runs on public drawings took
(run_times.json): `python -m benchmarks run_times` prints its lines, processor seconds of the
command with default settings, as many samples as records, one thread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import scipy.optimize

from understudy.core.roles import MODEL_ROLES, RoleNames
from understudy.core.types import UnitCounts
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Adjacency
from understudy.release.outputs import require_free
from understudy.run.config import ReadingOptions, RunConfig, make_config, source_name
from understudy.run.early_stop import require_otherwise
from understudy.run.prepare import Prepared, prepare, require_room_of
from understudy.run.progress import duration
from understudy.run.run_plan import ExpectedTime, RunPlan, plan_of
from understudy.run.session import require_own_cluster
from understudy.run.shared_records import require_no_shared_records, require_unseen_test
from understudy.run.tuning import alternatives_of


def dry_run(config: RunConfig, *, out: bool = True) -> RunPlan:
    """Check everything that can be checked and say what would be charged.

    Args:
        config: What was asked.
        out: Whether its folder is one that a run is to be written to.

    Raises:
        InputError: What would be refused in the real run too.
    """
    if out:
        require_free(config.output.out, resume=config.output.resume)
    require_own_cluster(config.output)
    prepared = prepare(config)
    require_otherwise(prepared)
    alternatives_of(prepared)
    require_room_of(prepared)
    with Ledger(prepared.config.privacy.ledger, make=False) as ledger:
        require_no_shared_records(prepared.compared, prepared.source, ledger)
        if prepared.test is not None:
            require_unseen_test(prepared.test, prepared.source)
        return timed_plan(prepared, ledger)


def timed_plan(prepared: Prepared, ledger: Ledger, units: UnitCounts | None = None) -> RunPlan:
    """What a run would charge, and about how long it would take; ``units`` as `plan_of`."""
    plan = plan_of(prepared, ledger, *ledger.look_up(prepared.source), units)
    return replace(plan, time=expected_time(prepared))


class RecommendationOptions(RoleNames, ReadingOptions, total=False):
    """What a recommendation goes by: options of a run that do not depend on its method."""

    accept_epsilon: bool
    adjacency: Adjacency
    ledger: str | None
    allow_remote_private: str | None
    max_calls: int | None
    max_cost: float | None


class PlanOptions(RecommendationOptions, total=False):
    """The options of a run that its plan depends on, as `understudy.synthesize` takes them."""

    method: str
    settings: Mapping[str, Any] | None
    count: int | None
    hold_out: float | str | None
    quality_share: float | str | None
    otherwise: str | None
    candidates_public: bool


def planned_run(
    source: str | PathLike[str], *, epsilon: float | str, **options: Unpack[PlanOptions]
) -> RunPlan:
    """What `understudy.synthesize` would do with these options, and what it would spend.

    Nothing is spent and nothing is written, so a loop over settings costs nothing.

    Args:
        source: The private dataset.
        epsilon: As for `understudy.synthesize`.
        options: Others of its options, by their names.

    Raises:
        InputError: What would be refused in the run too, but for its budget (`RunPlan.refused`).
    """
    values = {**options, "settings": dict(options.get("settings") or {})}
    name = source_name("source", source)
    config = make_config({**values, "source": name, "out": "out", "epsilon": epsilon})
    return dry_run(config, out=False)


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
    lines = json.loads(Path(__file__).with_name("run_times.json").read_text(encoding="utf-8"))
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
