"""``understudy runs``, ``methods``, ``backends`` and ``doctor``: what there is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import show
from understudy.cli.printing import AsJson, print_json


def runs_command(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder and below it, finished or not. Reads no dataset."""
    from understudy.release.runs import list_runs

    runs = list_runs(folder)
    if as_json:
        print_json([run.as_dict() for run in runs])
    else:
        show.run_list(runs)


def methods_command(as_json: AsJson = False) -> None:
    """List the methods and their settings."""
    from understudy.run.methods import method_as_dict
    from understudy.run.methods import methods as known

    if as_json:
        print_json([method_as_dict(method) for method in known().values()])
    else:
        show.method_table(known())


def backends_command(as_json: AsJson = False) -> None:
    """List the model backends and what each needs."""
    from understudy.backends.registry import backends as known

    if as_json:
        print_json([asdict(info) for info in known()])
    else:
        show.backend_table(known())


def doctor_command(as_json: AsJson = False) -> None:
    """Check this machine: packages, threads, the ledger, the noise."""
    from understudy.planning.doctor import check_up

    checks = check_up()
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        show.checks(checks)
    if not all(check.good for check in checks):
        raise typer.Exit(1)
