"""``understudy ledger``: what was spent on which dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.option_values import options_of_a_run
from understudy.cli.printing import AsJson, print_json
from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.errors import count_words, escaped

if TYPE_CHECKING:  # importing it takes a second, which every command would pay
    from understudy.run.books import DatasetAccount

ledger_app = typer.Typer(help="What was spent on which dataset.", no_args_is_help=True)

_Source = Annotated[str, typer.Argument(help="The dataset, by its files; or its name or id.")]
Url = Annotated[str | None, typer.Option("--ledger", help="Path or URL of the ledger.")]


@ledger_app.command("list")
def list_command(ledger: Url = None, as_json: AsJson = False) -> None:
    """List the datasets with their budgets and what was spent."""
    from understudy.run import books

    books.require_ledger(ledger)
    accounts = books.overview(ledger)
    if as_json:
        print_json([account.as_dict() for account in accounts])
    else:
        _print_datasets(accounts)


@ledger_app.command("show")
@options_of_a_run("skip_bad")
def show_command(
    source: _Source, ledger: Url = None, as_json: AsJson = False, **given: Any
) -> None:
    """Show one dataset: budget, spending, every charge."""
    from understudy.run import books

    books.require_ledger(ledger)
    account = books.dataset_account(source, ledger, **given)
    if as_json:
        print_json(account.as_dict())
    else:
        _print_charges(account)


@ledger_app.command("set-budget")
@options_of_a_run("skip_bad")
def set_budget_command(
    source: _Source,
    epsilon: Annotated[float, typer.Option(help="Total for everything ever released.")],
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-5,
    ledger: Url = None,
    **given: Any,
) -> None:
    """Set the total that all runs on a dataset may spend."""
    from understudy.run import books
    from understudy.run.config import LARGE_DELTA, LARGE_EPSILON

    _print_budget(books.set_dataset_budget(source, epsilon, delta, ledger, **given))
    if delta > LARGE_DELTA:
        _console.print(
            f"note: delta {delta:g} allows that a record is exposed outright with that "
            "probability, and beside it runs count for little: 1e-5 is usual"
        )
    if epsilon > LARGE_EPSILON:
        _console.print(f"note: epsilon {epsilon:g} protects next to nothing: 1 to 10 is usual")


@ledger_app.command("verify")
def verify_command(ledger: Url = None, as_json: AsJson = False) -> None:
    """Check that no row was changed, removed or moved."""
    from understudy.run import books

    books.require_ledger(ledger)
    findings = books.verify_ledger(ledger)
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            _console.print(finding)
        if not findings:
            _console.print("every row is as it was written")
    if findings:
        raise typer.Exit(2)


@ledger_app.command("export")
def export_command(ledger: Url = None) -> None:
    """Print every row as a line of JSON. No key and no private value is among them."""
    from understudy.run import books

    books.require_ledger(ledger)
    for row in books.ledger_rows(ledger):
        typer.echo(json.dumps(row, ensure_ascii=False))


def _total(entry: DatasetAccount) -> str:
    budget = entry.dataset.budget
    return "none set" if budget is None else f"{budget.epsilon:g}"


def _next_run(entry: DatasetAccount) -> str:
    """The largest run that the ledger would accept now."""
    if entry.next_run is None:
        return "any: no budget is set"
    return f"{entry.next_run:g}" if entry.next_run else "none: used up"


def _print_datasets(entries: Sequence[DatasetAccount]) -> None:
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


def _print_charges(entry: DatasetAccount) -> None:
    """One dataset with every row."""
    _print_datasets([entry])
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


def _print_budget(entry: DatasetAccount) -> None:
    """A new total."""
    _console.print(
        f"{entry.dataset.name}: total epsilon {_total(entry)} at delta {entry.spent.delta:g}, "
        f"spent {entry.spent.epsilon:.4f} ({entry.ledger})"
    )
    if former := entry.former:
        _console.print(f"it replaces epsilon {former.epsilon:g} at delta {former.delta:g}")
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
