"""``understudy report`` and ``understudy compare``: what a release is worth, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.option_values import Progress
from understudy.cli.printing import AsJson, print_json
from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.errors import ConfigError

if TYPE_CHECKING:
    from understudy.report import Comparison

Folder = Annotated[Path, typer.Argument(help="A run's folder.")]
Public = Annotated[
    Path | None, typer.Option(metavar="OUT.html", help="Write what may go with the release.")
]
TableFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the metric values as .csv.")
]


def report_command(
    folder: Folder,
    public: Public = None,
    as_json: AsJson = False,
    table: TableFile = None,
    ledger: Annotated[str | None, typer.Option(help="Where the budget is read.")] = None,
) -> None:
    """Write the owner's report anew, or with --public the part that may be shared."""
    from understudy.run import report as reports

    if public is not None:
        if table is not None or ledger is not None:
            raise ConfigError("--public takes no --table or --ledger: they are private")
        _say_written(reports.write_public_report(folder, public), as_json)
        if as_json:
            print_json(reports.public_as_dict(folder))
        return
    if table is not None:
        reports.require_table(table)
    run_report = reports.load(folder, ledger=ledger)
    _say_written(run_report.write(), as_json)
    if run_report.owner.spending is not None and run_report.owner.budget_from == "run":
        words = "note: the budget is that of the run's end: no run stores the password of a ledger"
        typer.echo(f"{words}. For today's, name the ledger: --ledger LEDGER", err=True)
    if table is not None:
        _say_written(run_report.write_table(table), as_json)
        if run_report.owner.evaluation is None:
            words = "note: it has no row: nothing was measured yet (understudy evaluate)"
            typer.echo(words, err=True)
    if as_json:
        print_json(run_report.as_dict())


def compare_command(
    releases: Annotated[list[Path], typer.Argument(help="Two or more runs or releases.")],
    real: Annotated[
        str | None, typer.Option(help="The private dataset: evaluate every release with it.")
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Real rows that were not in it; else what was held out.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="With --real: train models, too.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a page.")] = None,
    as_json: AsJson = False,
    table: TableFile = None,
    progress: Progress = "auto",
) -> None:
    """Put several releases side by side."""
    from understudy.evaluation.side_by_side import compare
    from understudy.run import report as reports

    if table is not None:
        reports.require_table(table)
    comparison = compare(releases, real=real, test=test, full=full, progress=progress)
    if as_json:
        print_json(comparison.as_dict())
    else:
        _side_by_side(comparison)
    if out is not None:
        _say_written(reports.write_comparison(releases, comparison, out), as_json)
    if table is not None:
        _say_written(reports.write_table(comparison.rows(), table), as_json)


def _say_written(path: Path, quiet: bool) -> None:
    """Say what was written, unless JSON is printed."""
    if not quiet:
        _console.print(f"written: {path}")


def _side_by_side(comparison: Comparison) -> None:
    names = [one.name for one in comparison.releases]
    facts = _table("", *names)
    for name, texts in comparison.facts:
        facts.add_row(name, *texts)
    _console.print(facts)
    if comparison.shared:
        values = _table("metric (owner only, but where marked)", *names)
        for row in comparison.shared:
            kind = "" if row.kind == "owner-only" else f" ({row.kind})"
            measured = f", {row.value.measured}" if row.value.measured else ""
            cells = [f"{one.text}{' *' if one.best else ''}" or "-" for one in row.cells]
            values.add_row(f"{row.value.group}: {row.value.name}{measured}{kind}", *cells)
        _console.print(values)
        _console.print("* the better one")
    for note in comparison.notes:
        _console.print(f"note: {note}")
