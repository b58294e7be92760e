"""``understudy runs``, ``methods``, ``backends`` and ``doctor``: what there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.printing import AsJson, print_json
from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.option import declared_options, option_of
from understudy.core.roles import flag_of

if TYPE_CHECKING:  # importing them takes a second, which every command would pay
    from understudy.methods.base import Method
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
    from understudy.run.methods import method_as_dict
    from understudy.run.methods import methods as known

    if as_json:
        print_json([method_as_dict(method) for method in known().values()])
    else:
        _show_methods(known())


def backends_command(as_json: AsJson = False) -> None:
    """List the model backends and what each needs."""
    from understudy.backends.registry import backends as known

    if as_json:
        print_json([asdict(info) for info in known()])
    else:
        table = _table("name", "makes", "needs", "what")
        for info in known():
            needs = "ready" if info.available else f"pip install 'understudy[{info.extra}]'"
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


def _show_methods(methods: Mapping[str, Method]) -> None:
    """The methods with their settings."""
    from understudy.methods.base import AUTO
    from understudy.run.codec_rules import AUTO_IN_WORDS

    for method in methods.values():
        _console.print(f"{method.name}: {method.summary} ({method.source})")
        roles = method.roles(method.params(), frozenset())
        flags = (f"{flag_of(role)} ({default or 'none'})" for role, default in roles.items())
        _console.print(f"  takes, and by default works with: {', '.join(flags)}")
        if AUTO in roles.values():
            _console.print(f"  {AUTO}: {AUTO_IN_WORDS}")
        table = _table("  --set", "default", "meaning")
        declared = declared_options(method.params)
        for field in dataclasses.fields(method.params):
            default = "" if field.default is dataclasses.MISSING else str(field.default)
            table.add_row(f"  {field.name}", default, option_of(declared[field.name]).help)
        _console.print(table)
