"""``understudy audit``: does the implementation keep its guarantee? Owner-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

from understudy.audit import audit_verdict
from understudy.audit.adjacent_datasets import InMemorySource
from understudy.audit.bench import Bench
from understudy.audit.mechanisms import audit_mechanism, mechanisms, one_stage
from understudy.audit.pairs import audit_by_canaries, audit_by_pairs
from understudy.audit.shadow_runs import audit_by_lira
from understudy.core.errors import ConfigError
from understudy.core.ports import Events
from understudy.core.results import Evaluation
from understudy.core.roles import RoleNames
from understudy.metrics.noise_checks import shared_confidence
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.unit import Adjacency
from understudy.run.config import ReadingOptions, make_config, require_known, source_name
from understudy.run.prepare import prepare
from understudy.run.progress import ProgressMode, reporting

AuditKind = Literal["pairs", "canaries", "lira"]

USUAL_RECORDS = 200
"""Records of the source that an audit runs on by default."""

DRAWS = 100_000
"""Draws of each mechanism by default."""

_USUAL = {"pairs": 400, "canaries": 4000, "lira": 16}
_LEAST = {"pairs": 40, "canaries": 20, "lira": 4}
_COUNT = 64  # samples of a run: sampling is post-processing


class AuditOptions(RoleNames, ReadingOptions, total=False):
    """The options of a run that an audit takes, as `understudy.synthesize` does."""

    method: str
    settings: Mapping[str, Any] | None
    count: int | None
    seed: int
    adjacency: Adjacency


def audit(
    source: str | Path,
    *,
    how: AuditKind = "pairs",
    runs: int | None = None,
    rows: int = USUAL_RECORDS,
    confidence: float = 0.95,
    epsilon: float = 1.0,
    progress: ProgressMode | Events = "auto",
    **options: Unpack[AuditOptions],
) -> Evaluation:
    """Run a whole method on data that its owner may use for it, and try to refute its epsilon.

    What is spent is on no account and nothing is released: the data must be the auditor's own to
    look at. What comes back was measured on it without noise, so it is for the owner alone.

    ``how`` is ``"pairs"`` of runs with and without one record; ``"canaries"``, many in each run;
    or ``"lira"``, membership inference against networks trained on releases. ``runs`` are runs in
    all, of canaries how many there are, of LiRA how many shadow models. At most ``rows`` records
    of the source are used, chosen at random, and ``confidence`` is that nothing is refuted that
    holds. A run has 64 samples, for LiRA ``rows``, unless ``count`` says otherwise. All the other
    options are those of `understudy.synthesize`.

    Returns:
        Values of the group ``"audit"`` and a verdict: ``"poor"`` where the guarantee is refuted.

    Raises:
        InputError: What `synthesize` would refuse, or too few runs.
    """
    require_known("audit", [how], _USUAL)
    runs = _USUAL[how] if runs is None else runs
    _check(confidence, runs=(runs, _LEAST[how]), rows=(rows, 1))
    require_known("option", options, AuditOptions.__optional_keys__)
    overrides = {name: value for name, value in options.items() if value is not None}
    usual = {"count": rows if how == "lira" else _COUNT, "out": "audit"}  # nothing is written there
    essentials = {"source": source_name("source", source), "epsilon": epsilon}
    prepared = prepare(make_config({**usual, **overrides, **essentials}))
    bench = Bench.of(prepared)
    records = InMemorySource.of(prepared.source, rows, bench.seed)
    evaluation = audit_bench(bench, records, how, runs, confidence, progress=progress)
    settings = {"audit": how, "method": bench.method.name, "runs": runs, "rows": len(records)}
    return replace(evaluation, settings={**evaluation.settings, **settings})


def audit_bench(
    bench: Bench,
    rows: InMemorySource,
    how: AuditKind,
    runs: int,
    confidence: float = 0.95,
    *,
    progress: ProgressMode | Events = "auto",
) -> Evaluation:
    """As `audit`, of a method with models of one's own on records in memory."""
    budget, what = bench.plan.budget, f"{bench.method.name}, {how}"
    with reporting(progress) as events:
        if how == "lira":
            step = events.step("training networks on releases and on private records", 2 * runs)
            lira_findings = audit_by_lira(bench, rows, runs, confidence=confidence, progress=step)
            return audit_verdict.evaluation_of_lira(lira_findings, budget, what, confidence)
        if how == "canaries":
            step = events.step("running the method with canaries", runs)
            findings = audit_by_canaries(bench, rows, runs, confidence=confidence, progress=step)
        else:
            step = events.step("running the method with and without a record", runs)
            findings = audit_by_pairs(bench, rows, runs, confidence=confidence, progress=step)
    return audit_verdict.evaluation_of_method(findings, budget, what)


def audit_mechanisms(
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    draws: int = DRAWS,
    confidence: float = 0.95,
    progress: ProgressMode | Events = "auto",
) -> Evaluation:
    """Draw every mechanism many times, with a whole budget for one release. Needs no data."""
    _check(confidence, draws=(draws, 4000))
    plan = one_stage(Plan.of(Budget(epsilon, delta), {"one": 1.0}))
    all_mechanisms = mechanisms()
    # Two bounds of each, and the scale of its noise.
    each, miss = shared_confidence(confidence, 3 * len(all_mechanisms), len(all_mechanisms))
    findings = {}
    with reporting(progress) as events:
        for mechanism in all_mechanisms:
            step = events.step(f"drawing {mechanism.name}", draws)
            findings[mechanism.name] = audit_mechanism(
                mechanism, plan, draws, confidence=each, miss=miss, progress=step
            )
    return audit_verdict.evaluation_of_mechanisms(findings, plan.budget, confidence)


def _check(confidence: float, **least: tuple[int, int]) -> None:
    for name, (value, low) in least.items():
        if value < low:
            raise ConfigError(f"{name} must be {low} or more for an audit, found {value}")
    if not 0.5 <= confidence < 1:
        raise ConfigError(f"confidence must lie in [0.5, 1), found {confidence}")
