"""``--dry-run``: what a run would do and spend, without doing it.

Spends nothing. Private images are read to recognise the dataset, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Unpack

from understudy.core.roles import RoleNames
from understudy.core.types import Fit
from understudy.planning.run_times import expected_time
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Adjacency
from understudy.release.outputs import require_free
from understudy.run.config import ReadingOptions, RunConfig, make_config, source_name
from understudy.run.early_stop import require_otherwise
from understudy.run.model_fit import words_fit
from understudy.run.prepare import Prepared, prepare, require_room_of
from understudy.run.run_plan import RunPlan, plan_of
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
    prepared = prepare(config)
    require_otherwise(prepared)
    alternatives_of(prepared)
    require_room_of(prepared)
    fit = words_fit(prepared)
    with Ledger(prepared.config.privacy.ledger) as ledger:
        require_no_shared_records(prepared.compared, prepared.source, ledger)
        if prepared.test is not None:
            require_unseen_test(prepared.test, prepared.source)
        return timed_plan(prepared, ledger, () if fit is None else (fit,))


def timed_plan(prepared: Prepared, ledger: Ledger, fits: Sequence[Fit] = ()) -> RunPlan:
    """What a run would charge, and about how long it would take."""
    plan = plan_of(prepared, ledger, *ledger.look_up(prepared.source), fits)
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
    given = {**options, "settings": dict(options.get("settings") or {})}
    name = source_name("source", source)
    config = make_config({**given, "source": name, "out": "out", "epsilon": epsilon})
    return dry_run(config, out=False)
