"""The commands of the program, each imported when it is named.

Help of the program is made from the table alone. A command's module is imported for the command and
for its own help, so that no start pays for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

COMMAND_TABLE: Mapping[str, tuple[str, str]] = {
    "synthesize": (
        "synthesize_command:synthesize_command",
        "Make a synthetic release of a private dataset.",
    ),
    "select": (
        "synthesize_command:select_command",
        "Keep the candidates that train well and leak little.",
    ),
    "recipe": (
        "recipe_command:recipe_command",
        "Run several commands from one file: generate, select, evaluate, report.",
    ),
    "resample": (
        "release_command:resample_command",
        "Draw more samples from what a run has paid for. Reads nothing private and spends nothing.",
    ),
    "verify": (
        "release_command:verify_command",
        "Check a release: every file by its hash, the guarantee by its own numbers.",
    ),
    "sign": (
        "release_command:sign_command",
        "Sign a release: the list of its files and their hashes, by an Ed25519 key.",
    ),
    "train": (
        "release_command:train_command",
        "Write a classifier of a release as ONNX or LiteRT.",
    ),
    "evaluate": (
        "evaluate_command:evaluate_command",
        "Measure a release against real data. What it prints is for the owner alone.",
    ),
    "report": (
        "report_command:report_command",
        "Write the owner's report anew, or with --public the part that may be shared.",
    ),
    "evidence": (
        "evidence_command:evidence_command",
        "Write evidence for a reviewer, shared/, and for the owner, owner/. Spends nothing.",
    ),
    "compare": ("report_command:compare_command", "Put several releases side by side."),
    "audit": (
        "audit_command:audit_command",
        "Try to refute a method's epsilon on data of your own. Releases nothing; owner only.",
    ),
    "check": (
        "check_command:check_command",
        "Read a dataset once and list all that is wrong with it. Spends nothing; owner only.",
    ),
    "plan": (
        "plan_command:plan_command",
        "Recommend a method and settings for a dataset, with the reasons. Spends nothing.",
    ),
    "runs": (
        "list_command:runs_command",
        "List the runs in a folder and below it, finished or not. Reads no dataset.",
    ),
    "sample": (
        "sample_command:sample_command",
        "Draw pictures of a sentence, or a base set. Reads nothing private and spends nothing.",
    ),
    "methods": ("list_command:methods_command", "List the methods and their settings."),
    "backends": ("list_command:backends_command", "List the model backends and what each needs."),
    "doctor": (
        "list_command:doctor_command",
        "Check this machine: packages, threads, the ledger, the noise.",
    ),
    "demo": (
        "synthesize_command:demo_command",
        "Make a release of Fashion-MNIST, and say where the pictures are.",
    ),
    "ledger": ("ledger_command:ledger_app", "What was spent on which dataset."),
    "studio": ("studio_command:studio_app", "Train small models on public pictures."),
    "device": (
        "device_command:device_app",
        "A small model for your own camera: see exactly what would leave, and send only that.",
    ),
    "web": (
        "web_command:web_command",
        "Open the studio: the same as these commands, as pages on this machine alone.",
    ),
    "serve": (
        "serve_command:serve_app",
        "Serve jobs of devices: sanitised references in, a small model out.",
    ),
}
"""Where each command is, and the first sentences of its help, in the order they are listed in.

A command is ``module:function``, or ``module:app`` for one with commands of its own.
"""


class _Sparing:
    """A command that does not check the options that are not given, ``--help`` among them.

    Typer would import a checker of types for them, which takes longer than a listing.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class beside
        for one in parameters:
            if "process_value" not in vars(one):
                one.process_value = partial(_processed, one, one.process_value)
        return parameters


def _processed(parameter: Any, process: Callable[..., Any], ctx: Any, value: Any) -> Any:
    """What a parameter makes of what was given; of nothing it makes None, and calls itself back."""
    several = getattr(parameter, "multiple", False) or parameter.nargs != 1
    if value is not None or parameter.required or several:
        return _at_home(process(ctx, value))
    return None if parameter.callback is None else parameter.callback(ctx, parameter, None)


def _at_home(value: Any) -> Any:
    """Paths with the home folder for a ``~``, which a shell leaves in ``--out=~/result``."""
    if isinstance(value, Path):
        from understudy.core.files import home_path

        return home_path(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_at_home, value))
    return value


ADVANCED = "Advanced"
"""How the panels of options begin that ``--help`` leaves to ``--help-all``."""

_PANELS = ("Data", "Privacy", "Models", "Output", "Options")


class _Command(_Sparing, TyperCommand):
    """One command, whose options are listed in panels; those of advanced ones by ``--help-all``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """A section for each panel, the common ones first."""
        parameters = self.get_params(ctx)
        two_screens = any(one.name == "help_all" for one in parameters)
        panels: dict[str, list[Any]] = {}
        for one in parameters:
            if (record := one.get_help_record(ctx)) is not None:
                name = _panel(one) if two_screens else _panel(one).removeprefix(f"{ADVANCED}: ")
                panels.setdefault(name, []).append(record)
        names = [name for name in _PANELS if name in panels]
        if ctx.meta.get(ADVANCED):
            names += sorted(name for name in panels if name.startswith(ADVANCED))
        for name in (*(name for name in panels if name == "Arguments"), *names):
            with formatter.section(name):
                formatter.write_dl(panels[name])


def _panel(parameter: Any) -> str:
    """The panel that a parameter is listed in."""
    usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
    return str(getattr(parameter, "rich_help_panel", None) or usual)


class CommandGroup(_Sparing, TyperGroup):
    """A command with commands of its own."""


class Program(CommandGroup):
    """The commands of the table."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _LoadedCommands()  # type: ignore[assignment]  # nobody adds one to them

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands by the table."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, sentences) for name, (_, sentences) in COMMAND_TABLE.items()]
            )


class _LoadedCommands(Mapping[str, Any]):
    """The commands by name, imported one by one."""

    def __getitem__(self, name: str) -> Any:
        address, _ = COMMAND_TABLE[name]
        return _load(name, address)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMAND_TABLE)

    def __len__(self) -> int:
        return len(COMMAND_TABLE)


@cache
def _load(name: str, address: str) -> Any:
    """A command as Typer makes it from its function, or from its own app."""
    module, _, attribute = address.partition(":")
    definition = getattr(import_module(f"understudy.cli.{module}"), attribute)
    shell = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(definition, typer.Typer):
        for inner in definition.registered_commands:
            inner.cls = _Command
        shell.add_typer(definition, name=name, cls=CommandGroup)
    else:
        shell.command(name, cls=_Command)(definition)
    return get_group(shell).commands[name]
