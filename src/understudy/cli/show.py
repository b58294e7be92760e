"""What a ledger holds, as text on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.errors import count_words, escaped

if TYPE_CHECKING:  # importing it takes a second, which every command would pay
    from understudy.run.books import DatasetAccount


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
        _console.print("disclosures: what left without noise, which no epsilon covers")


def dataset_charges(entry: DatasetAccount) -> None:
    """One dataset with every row."""
    datasets([entry])
    if entry.next_run:
        _console.print(f"the largest next run: epsilon {entry.next_run:g} more, as one run")
        _console.print("(--epsilon rest; runs compose to less than the sum of their epsilons)")
    if entry.concerned:
        names = ", ".join(f"{other.name} ({other.id})" for other in entry.concerned)
        _console.print(f"shares records with, so that a run on it is charged to them too: {names}")
    table = _table("row", "time", "by", "what", "run", "stage", "event")
    for row in entry.rows:
        event = row.data.get("event") or {
            k: row.data[k] for k in ("epsilon", "delta") if k in row.data
        }
        words = " ".join(f"{k}={v:.4g}" for k, v in event.items() if isinstance(v, float | int))
        words = words or str(row.data.get("what", "")) or _measured(row.data.get("details", {}))
        table.add_row(
            str(row.seq),
            row.time,
            escaped(row.by),
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
    if count := len(entry.spent.disclosures):
        words = count_words(count, "disclosure")
        _console.print(f"and {words} that no epsilon covers")


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


def ledger_findings(findings: Sequence[str]) -> None:
    """What is wrong with a ledger."""
    for finding in findings:
        _console.print(finding)
    if not findings:
        _console.print("every row is as it was written")
