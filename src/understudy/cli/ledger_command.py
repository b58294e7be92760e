"""``understudy ledger``: what was spent on which dataset."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from understudy.cli import show
from understudy.cli.option_values import options_of_a_run
from understudy.cli.printing import AsJson, print_json

ledger_app = typer.Typer(help="What was spent on which dataset.", no_args_is_help=True)

_Source = Annotated[str, typer.Argument(help="The dataset, by its files; or its name or id.")]
Url = Annotated[str | None, typer.Option("--ledger", help="Path or URL of the ledger.")]

_READING = ("size", "fit", "skip_bad")
"""The options of a run by which a dataset can be opened; the ledger knows it whatever they are."""


@ledger_app.command("list")
def list_command(ledger: Url = None, as_json: AsJson = False) -> None:
    """List the datasets with their budgets and what was spent."""
    from understudy.run import books

    accounts = books.overview(ledger)
    if as_json:
        print_json([account.as_dict() for account in accounts])
    else:
        show.datasets(accounts)


@ledger_app.command("show")
@options_of_a_run(*_READING)
def show_command(
    source: _Source, ledger: Url = None, as_json: AsJson = False, **given: Any
) -> None:
    """Show one dataset: budget, spending, every charge."""
    from understudy.run import books

    account = books.dataset_account(source, ledger, **given)
    if as_json:
        print_json(account.as_dict())
    else:
        show.dataset_charges(account)


@ledger_app.command("set-budget")
@options_of_a_run(*_READING)
def set_budget_command(
    source: _Source,
    epsilon: Annotated[float, typer.Option(help="Total for everything ever released.")],
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-5,
    ledger: Url = None,
    **given: Any,
) -> None:
    """Set the total that all runs on a dataset may spend."""
    from understudy.run import books

    account = books.set_dataset_budget(source, epsilon, delta, ledger, **given)
    show.budget_set(account)


@ledger_app.command("verify")
def verify_command(ledger: Url = None, as_json: AsJson = False) -> None:
    """Check that no row was changed, removed or moved."""
    from understudy.run import books

    findings = books.verify_ledger(ledger)
    if as_json:
        print_json(findings)
    else:
        show.ledger_findings(findings)
    if findings:
        raise typer.Exit(2)


@ledger_app.command("export")
def export_command(ledger: Url = None) -> None:
    """Print every row as a line of JSON. No key and no private value is among them."""
    from understudy.run import books

    for row in books.ledger_rows(ledger):
        typer.echo(json.dumps(row, ensure_ascii=False))
