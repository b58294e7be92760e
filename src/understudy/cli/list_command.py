"""``understudy runs``, ``methods``, ``backends`` and ``doctor``: what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.printing import AsJson, print_json
from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.roles import flag_of

if TYPE_CHECKING:  # importing them takes a second, which every command would pay
    from understudy.release.runs import RunSummary


def runs_command(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path(), as_json: AsJson = False
) -> None:
    """List the runs in a folder and below it, finished or not. Reads no dataset."""
    from understudy.release.runs import list_runs

    runs = list_runs(folder)
    if as_json:
        print_json([run.as_dict() for run in runs])
    else:
        _show_runs(runs)


def methods_command(as_json: AsJson = False) -> None:
    """List the methods and their settings."""
    from understudy.run.methods import broken_methods, method_as_dict
    from understudy.run.methods import methods as known

    listed = [method_as_dict(method) for method in known().values()]
    (print_json if as_json else _show_methods)(listed)
    for fault in broken_methods():
        typer.echo(f"left out: {fault}", err=True)


def backends_command(as_json: AsJson = False) -> None:
    """List the model backends and what each needs."""
    from understudy.backends.registry import backends as known

    if as_json:
        print_json([asdict(info) for info in known()])
    else:
        table = _table("name", "makes", "needs", "what")
        for info in known():
            missing = f"pip install 'understudy[{info.extra}]'" if info.extra else "it to be mended"
            needs = "ready" if info.available else missing
            table.add_row(info.name, info.kind, needs, info.what)
        _console.print(table)


def doctor_command(as_json: AsJson = False) -> None:
    """Check this machine: packages, threads, the ledger, the noise."""
    from understudy.planning.doctor import check_up

    checks = check_up()
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        table = _table("", "what", "found")
        for check in checks:
            table.add_row("ok" if check.good else "!!", check.name, check.finding)
        _console.print(table)
    if not all(check.good for check in checks):
        raise typer.Exit(1)


def _show_runs(runs: Sequence[RunSummary]) -> None:
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
            _console.print(f"{run.state}: {run.folder}: {run.problem}")
    if any(run.state == "unfinished" for run in runs):
        _console.print(
            "go on with an unfinished run: the same command with --resume; what it paid for is "
            "not paid again"
        )


def _epsilon(run: RunSummary) -> str:
    """The epsilon of a run, or the kind of its guarantee where it has none."""
    if run.guarantee in ("none", "no private data"):
        return "no guarantee" if run.guarantee == "none" else run.guarantee
    return "" if run.epsilon is None else f"{run.epsilon:g}"


def _show_methods(methods: Sequence[Mapping[str, Any]]) -> None:
    """The methods with their settings, as `method_as_dict` gives them."""
    for method in methods:
        _console.print(f"{method['name']}: {method['summary']} ({method['source']})")
        flags = (f"{flag_of(role)} ({name or 'none'})" for role, name in method["takes"].items())
        _console.print(f"  takes, and by default works with: {', '.join(flags)}")
        if method["auto"] is not None:
            _console.print(f"  auto: {method['auto']}")
        table = _table("  --set", "default", "meaning")
        for one in method["settings"]:
            table.add_row(f"  {one['name']}", str(one["default"]), one["meaning"])
        _console.print(table)
