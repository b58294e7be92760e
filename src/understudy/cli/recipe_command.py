"""``understudy recipe``: several commands from one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.option_values import Progress, Yes


def recipe_command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="YAML file with the steps.")],
    yes: Yes = False,
    progress: Progress = "auto",
) -> None:
    """Run several commands from one file: generate, select, evaluate, report.

    Every step is checked before the first one runs; one that is done is passed over.
    """
    from understudy.run.recipe import carry_out, read_steps

    commands = context.find_root().command.commands  # type: ignore[attr-defined]  # it is a group
    carry_out(read_steps(file, commands, progress, yes=yes), commands, typer.echo)
