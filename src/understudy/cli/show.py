"""Results as text on a terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.cli.show_run import guarantee_words
from understudy.core.option import declared_options, option_of
from understudy.core.roles import flag_of

if TYPE_CHECKING:  # importing them takes a second, which every command would pay
    from understudy.backends.registry import BackendInfo
    from understudy.methods.base import Method
    from understudy.planning.doctor import Check
    from understudy.release.runs import RunSummary
    from understudy.release.verify import Verification
    from understudy.run.books import DatasetAccount
    from understudy.run.sample import BaseSet, Samples


def verification(checked: Verification) -> None:
    """What was checked of a release, what is wrong, and what cannot be checked."""
    for fault in checked.faults:
        _console.print(f"WRONG: {fault}")
    record = checked.record
    if checked.sound and record is not None:
        _console.print(f"files:      {checked.files:,}, each as its hash says")
        computed = "" if not record.receipt.stages else ", computed anew from its stages"
        _console.print(f"guarantee:  {guarantee_words(record.receipt)}{computed}")
        _console.print(f"licence:    {record.licence}")
        _console.print(f"contact:    {record.contact or 'not stated'}")
        if record.total is not None:
            total = record.total
            _console.print(
                f"in all:     epsilon {total.epsilon:.4g} at delta {total.delta:g} by "
                f"{total.releases} runs, as the owner states"
            )
        _console.print(f"signed by:  {checked.signed_by or 'nobody'}")
    _console.print("cannot be checked from outside:")
    for line in checked.unverified:
        _console.print(f"- {line}")
    count = len(checked.faults)
    words = f"NOT sound: {count} fault{'' if count == 1 else 's'}" if count else "sound"
    _console.print(f"{checked.release}: {words}")


def run_list(runs: Sequence[RunSummary]) -> None:
    """Runs, one a line, and how to go on with those that are not finished."""
    table = _table("folder", "state", "method", "dataset", "epsilon", "samples", "date")
    for run in runs:
        table.add_row(
            str(run.folder),
            run.state,
            run.method or "",
            run.dataset or "",
            _epsilon(run),
            "" if run.samples is None else f"{run.samples:,}",
            run.date or "",
        )
    if not runs:
        _console.print("no runs here: understudy runs FOLDER")
        return
    _console.print(table)
    for run in runs:
        if run.problem is not None:
            _console.print(f"damaged: {run.problem}")
    if any(run.state == "unfinished" for run in runs):
        _console.print(
            "go on with an unfinished run: the same command with --resume; what it paid for is "
            "not paid again"
        )


def _epsilon(run: RunSummary) -> str:
    """The epsilon of a run, or the kind of its guarantee where it has none."""
    if run.guarantee == "none":
        return "no guarantee"
    if run.guarantee == "no private data":
        return "no private data"
    return "" if run.epsilon is None else f"{run.epsilon:g}"


def method_table(methods: Mapping[str, Method]) -> None:
    """The methods with their settings."""
    from understudy.methods.base import AUTO
    from understudy.run.codec_rules import rules_in_words

    for method in methods.values():
        _console.print(f"{method.name}: {method.summary} ({method.source})")
        roles = method.roles(method.params(), frozenset())
        listed = (f"{flag_of(role)} ({default or 'none'})" for role, default in roles.items())
        _console.print(f"  takes, and by default works with: {', '.join(listed)}")
        if AUTO in roles.values():
            _console.print(f"  {AUTO}: {rules_in_words()}")
        table = _table("  --set", "default", "meaning")
        declared = declared_options(method.params)
        for field in dataclasses.fields(method.params):
            default = "" if field.default is dataclasses.MISSING else str(field.default)
            table.add_row(f"  {field.name}", default, option_of(declared[field.name]).help)
        _console.print(table)


def backend_table(backends: Sequence[BackendInfo]) -> None:
    """The backends."""
    table = _table("name", "makes", "needs", "what")
    for info in backends:
        needs = "ready" if info.available else f"pip install 'understudy[{info.extra}]'"
        table.add_row(info.name, info.kind, needs, info.what)
    _console.print(table)


def checks(findings: Sequence[Check]) -> None:
    """The findings of a check-up."""
    table = _table("", "what", "found")
    for check in findings:
        table.add_row("ok" if check.good else "!!", check.name, check.finding)
    _console.print(table)


def _total(entry: DatasetAccount) -> str:
    budget = entry.dataset.budget
    return "none set" if budget is None else f"{budget.epsilon:g}"


def _next_run(entry: DatasetAccount) -> str:
    """The largest run that the ledger would accept now."""
    if entry.next_run is None:
        return "any: no budget is set"
    return f"{entry.next_run:g}" if entry.next_run else "none: used up"


def datasets(entries: Sequence[DatasetAccount]) -> None:
    """Every dataset of a ledger."""
    disclosed = ["disclosures"] if any(entry.spent.disclosures for entry in entries) else []
    columns = ("id", "dataset", "budget", "spent", "next run at most", "delta", "runs", "unit")
    table = _table(*columns, *disclosed)
    for entry in entries:
        spent = entry.spent
        table.add_row(
            entry.dataset.id,
            entry.dataset.name,
            _total(entry),
            f"{spent.epsilon:.4f}",
            _next_run(entry),
            f"{spent.delta:g}",
            str(len(spent.runs)),
            entry.dataset.unit or "",
            *([str(len(spent.disclosures))] if disclosed else []),
        )
    _console.print(table)
    if disclosed:
        _console.print("disclosures: releases without a guarantee, which no epsilon covers")


def dataset_charges(entry: DatasetAccount) -> None:
    """One dataset with every row."""
    datasets([entry])
    if entry.next_run:
        _console.print(f"the largest next run: epsilon {entry.next_run:g} more, as one run")
        _console.print("(--epsilon rest; runs compose to less than the sum of their epsilons)")
    if entry.concerned:
        names = ", ".join(f"{other.name} ({other.id})" for other in entry.concerned)
        _console.print(f"shares records with, so that a run on it is charged to them too: {names}")
    table = _table("row", "time", "what", "run", "stage", "event")
    for row in entry.rows:
        event = row.data.get("event") or {
            k: row.data[k] for k in ("epsilon", "delta") if k in row.data
        }
        words = " ".join(f"{k}={v:.4g}" for k, v in event.items() if isinstance(v, float))
        words = words or str(row.data.get("what", "")) or _measured(row.data.get("details", {}))
        table.add_row(
            str(row.seq),
            row.time,
            row.kind,
            str(row.data.get("run", ""))[:8],
            str(row.data.get("stage", "")),
            words,
        )
    _console.print(table)


def budget_set(entry: DatasetAccount) -> None:
    """A new total."""
    _console.print(
        f"{entry.dataset.name}: total epsilon {_total(entry)} at delta {entry.spent.delta:g}, "
        f"spent {entry.spent.epsilon:.4f} ({entry.ledger})"
    )
    if entry.dataset.budget and entry.spent.epsilon > entry.dataset.budget.epsilon:
        _console.print("more than that is spent already: every further run will be refused")
    if entry.spent.disclosures:
        _console.print(f"and {_disclosures(len(entry.spent.disclosures))} that no epsilon covers")


def _measured(details: Mapping[str, Any]) -> str:
    """What was measured of a selection, in a few words; empty where nothing was."""
    words = []
    if copies := details.get("copies"):
        words.append(f"copies: {copies['exact']:,} exact, {copies['near']:,} near")
    attacks = details.get("attacks")
    if isinstance(attacks, str):
        words.append(f"leak: {attacks}")
    elif attacks:
        words.append(f"leak: {max(attack['tpr'][0] for attack in attacks):.1%} named")
    return "; ".join(words)


def _disclosures(count: int) -> str:
    return f"{count:,} disclosure{'' if count == 1 else 's'}"


def ledger_findings(findings: Sequence[str]) -> None:
    """What is wrong with a ledger."""
    for finding in findings:
        _console.print(finding)
    if not findings:
        _console.print("every row is as it was written")


def studio(stages: Sequence[str], out: Path) -> None:
    """A studio that was trained."""
    _console.print(f"trained: {', '.join(stages)}")
    _console.print(f"use it:  embedded:studio?folder={out}")


def exported(path: Path) -> None:
    """Something that was written."""
    _console.print(f"written: {path}")


def axes(file: Path, images: int) -> None:
    """Axes of public images that were written."""
    _console.print(f"axes of {images:,} public images: {file}")


def drawn_images(samples: Samples) -> None:
    """Pictures that were drawn."""
    _console.print(f"pictures: {len(samples.image_paths)} in {samples.sheet.parent}")
    _console.print(f"sheet:    {samples.sheet}")


def base_set_summary(base: BaseSet) -> None:
    """A release of a generator alone."""
    _console.print(f"{base.count:,} images, no private data was used")
    _console.print(f"to share:  {base.release}")
    _console.print(f"pictures:  {base.contact_sheet}")
