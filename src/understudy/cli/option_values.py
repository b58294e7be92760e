"""Options of commands: those of a run are made from its configuration, where each is declared."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.core.errors import ConfigError
from understudy.core.option import kinds_of, option_of
from understudy.run.config import run_options
from understudy.run.progress import ProgressMode

Command = Callable[..., None]

Settings = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE, a setting of the method.")
]
"""The settings of a run's method, as a command takes them."""

Progress = Annotated[
    ProgressMode,
    typer.Option(help="How progress is shown, on standard error; auto: bars on a terminal."),
]
"""``--progress`` of every long command."""


Yes = Annotated[
    bool, typer.Option("--yes", help="Do not ask before the charge; for scripts on a terminal.")
]
"""``--yes`` of every command that charges."""


def options_of_a_run(*names: str) -> Callable[[Command], Command]:
    """Give a command some options of a run, which it receives as ``**given``.

    An option that was not given is left out of ``given``, so that a file or a default can say it.
    They are listed after the command's own parameters.

    Args:
        names: The options, as `understudy.run.config.run_options` names them.
    """
    return options_of_fields(run_options(), *names)


def options_of_fields(known: Mapping[str, Any], *names: str) -> Callable[[Command], Command]:
    """As `options_of_a_run`, of options that are declared elsewhere.

    Args:
        known: The annotation of each option.
        names: Those that the command takes.
    """
    parameters = [_parameter(name, known[name]) for name in names]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters.values()
        whole = [one for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD] + parameters

        @functools.wraps(command)
        def called(**values: Any) -> None:
            left_out = {name for name in names if values[name] is None}
            command(**{name: value for name, value in values.items() if name not in left_out})

        signature = inspect.Signature(whole)
        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in whole}
        return called

    return decorate


def _parameter(name: str, hint: Any) -> inspect.Parameter:
    """An option of a run as a command's parameter; None: not given."""
    declared, kind = option_of(hint), _kind_of(hint)
    flags = ["--" + name.replace("_", "-")] if kind is bool else []  # and no --no- beside it
    shown = typer.Option(*flags, help=declared.help, metavar=declared.metavar)
    annotation: Any = Annotated[kind | None, shown]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _kind_of(hint: Any) -> Any:
    """The type that the command line reads; whatever is not a plain one is read as text."""
    kind, *others = (one for one in kinds_of(hint) if one is not type(None))
    return str if others or kind not in (bool, int, float, Path) else kind


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """``NAME=VALUE`` texts as a mapping.

    Raises:
        ConfigError: A text without ``=``.
    """
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set takes NAME=VALUE, found {pair!r}")
        settings[name.strip()] = value.strip()
    return settings
