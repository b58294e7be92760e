"""Options of commands: those of a run are made from its configuration, where each is declared."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.program import ADVANCED
from understudy.core.option import kinds_of, option_of
from understudy.run.config import group_of_options, run_options
from understudy.run.progress import ProgressMode

Command = Callable[..., None]

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the method.",
        rich_help_panel=f"{ADVANCED}: Models",
    ),
]
"""The settings of a run's method, as a command takes them."""

Progress = Annotated[
    ProgressMode, typer.Option(help="How progress is shown: a bar on a terminal, else lines.")
]
"""``--progress`` of every long command."""


AdvancedProgress = Annotated[
    ProgressMode,
    typer.Option(
        help="How progress is shown: a bar on a terminal, else lines.",
        rich_help_panel=f"{ADVANCED}: Output",
    ),
]
"""The same, of a command with advanced options."""

Yes = Annotated[
    bool,
    typer.Option(
        "--yes", help="Do not ask before the charge.", rich_help_panel=f"{ADVANCED}: Output"
    ),
]
"""``--yes`` of every command that charges."""


Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", help="Print every table and every note.", rich_help_panel=f"{ADVANCED}: Output"
    ),
]
"""``--verbose`` of the commands that make a release."""


def _print_whole_help(ctx: typer.Context, value: bool) -> None:
    if value:
        ctx.meta[ADVANCED] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all",
            is_eager=True,
            callback=_print_whole_help,
            help="Show the advanced options too.",
        ),
    ],
)


def options_of_a_run(
    *names: str, annotations: Mapping[str, Any] | None = None, common: Collection[str] | None = None
) -> Callable[[Command], Command]:
    """Give a command some options of a run, which it receives as ``**given``.

    An option that was not given is left out of ``given``, so that a file or a default can say it.
    They are listed in the panels of their groups.

    Args:
        names: The options that the command takes.
        annotations: The annotation of each; None: those of a run.
        common: Those that ``--help`` lists; the others are advanced (``--help-all``). None: all.
    """
    annotations = run_options() if annotations is None else annotations
    parameters = [
        _parameter(name, annotations[name], advanced=common is not None and name not in common)
        for name in names
    ]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters.values()
        whole = [one for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD] + parameters
        whole += [] if common is None else [_HELP_ALL]

        @functools.wraps(command)
        def called(**values: Any) -> None:
            values.pop("help_all", None)
            left_out = {name for name in names if values[name] is None}
            command(**{name: value for name, value in values.items() if name not in left_out})

        signature = inspect.Signature(whole)
        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in whole}
        return called

    return decorate


def _parameter(name: str, hint: Any, *, advanced: bool) -> inspect.Parameter:
    """An option of a run as a command's parameter; None: not given."""
    declared, kind = option_of(hint), _kind_of(hint)
    flags = ["--" + name.replace("_", "-")] if kind is bool else []  # and no --no- beside it
    panel = group_of_options().get(name, "models").capitalize()
    option = typer.Option(
        *flags,
        help=declared.help,
        metavar=declared.metavar,
        rich_help_panel=f"{ADVANCED}: {panel}" if advanced else panel,
    )
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _kind_of(hint: Any) -> Any:
    """The type that the command line reads; whatever is not a plain one is read as text."""
    kind, *others = (one for one in kinds_of(hint) if one is not type(None))
    return str if others or kind not in (bool, int, float, Path) else kind
