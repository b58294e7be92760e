"""``understudy``: private images in, a release out."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from understudy.cli import (
    audit_command,
    check_command,
    device_command,
    evaluate_command,
    ledger_command,
    report_command,
    serve_command,
    show,
    studio_command,
)
from understudy.cli.option_values import (
    Progress,
    Settings,
    options_of_a_run,
    options_of_fields,
    parse_settings,
)
from understudy.core.errors import ConfigError, UnderstudyError
from understudy.run.config import make_config, read_config, run_options
from understudy.run.select_config import make_select_config, select_options

app = typer.Typer(
    name="understudy",
    help="Turn a private image dataset into a synthetic one that can be shared.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold private values
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(ledger_command.ledger_app, name="ledger")
app.add_typer(studio_command.studio_app, name="studio")
app.add_typer(device_command.device_app, name="device")
app.add_typer(serve_command.serve_app, name="serve")


_Config = Annotated[Path | None, typer.Option(help="YAML file with any of these options.")]


@app.command()
@options_of_a_run(*(name for name in run_options() if name not in ("source", "settings")))
def synthesize(
    source: Annotated[str | None, typer.Argument(help="The private dataset.")] = None,
    config: _Config = None,
    set_: Settings = None,
    progress: Progress = "auto",
    **given: Any,
) -> None:
    """Make a synthetic release of a private dataset."""
    from understudy.run.dry import dry_run as plan_only
    from understudy.run.synthesize import run

    options = {} if config is None else read_config(config)
    if source is not None:
        given["source"] = source
    settings = {**(options.get("settings") or {}), **parse_settings(set_ or [])}
    chosen = make_config({**options, **given, "settings": settings})
    if chosen.dry_run:
        show.plan(plan_only(chosen))
    else:
        show.result(run(chosen, show.capacity_table, progress=progress))


_Candidates = Annotated[
    str, typer.Argument(help="The candidates: a dataset, a release or a run's folder.")
]


@app.command("select")
@options_of_fields(
    select_options(), *(name for name in select_options() if name not in ("candidates", "settings"))
)
def select_command(
    candidates: _Candidates,
    set_: Settings = None,
    progress: Progress = "auto",
    **given: Any,
) -> None:
    """Keep the candidates that train well and leak little.

    With --epsilon under differential privacy; without --private as post-processing of releases;
    with --no-guarantee steered by private images without noise.
    """
    given |= {"candidates": candidates, "settings": parse_settings(set_ or [])}
    config = make_select_config(given)
    from understudy.run.select import run_selection

    show.result(run_selection(config, progress=progress))


@app.command("recipe")
def recipe_command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="YAML file with the steps.")],
    progress: Progress = "auto",
) -> None:
    """Run several commands from one file: generate, select, evaluate, report.

    Every step is checked before the first one runs; one that is done is passed over.
    """
    from understudy.run.recipe import carry_out, read_steps

    commands = context.find_root().command.commands  # type: ignore[attr-defined]  # it is a group
    carry_out(read_steps(file, commands, progress), commands, typer.echo)


app.command("evaluate")(evaluate_command.evaluate_command)
app.command()(report_command.report)
app.command()(report_command.compare)
app.command("audit")(audit_command.audit_command)
app.command("check")(check_command.check_command)


@app.command("runs")
def runs_command(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List the runs in a folder and below it, finished or not. Reads no dataset."""
    from understudy.run.runs import list_runs

    runs = list_runs(folder)
    if as_json:
        typer.echo(json.dumps([run.as_dict() for run in runs], indent=2, ensure_ascii=False))
    else:
        show.run_list(runs)


@app.command()
def sample(
    out: Annotated[Path, typer.Option(help="Folder of the pictures, or of the release.")],
    prompt: Annotated[str | None, typer.Argument(help="What to draw.")] = None,
    classes: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Draw a release of these classes instead."),
    ] = None,
    count: Annotated[int, typer.Option(help="How many in all.")] = 16,
    model: Annotated[str, typer.Option(help="A generator; see `understudy backends`.")] = (
        "embedded:studio"
    ),
    seed: Annotated[int, typer.Option(help="The same seed draws the same pictures.")] = 0,
    template: Annotated[
        str | None, typer.Option(help="Of --classes: the prompt, with {class}.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="Of --classes: png or parquet.")] = None,
    licence: Annotated[str | None, typer.Option(help="Of --classes: of the release.")] = None,
    progress: Progress = "auto",
) -> None:
    """Draw pictures of a sentence, or a base set. Reads nothing private and spends nothing."""
    from understudy.run.sample import base_set
    from understudy.run.sample import sample as draw

    common: dict[str, Any] = {"out": out, "count": count, "model": model, "seed": seed}
    of_classes = {"template": template, "format": format, "licence": licence}
    common["progress"] = progress
    given: dict[str, Any] = {k: v for k, v in of_classes.items() if v is not None}
    if (prompt is None) == (classes is None):
        raise ConfigError("say what to draw: a PROMPT, or --classes NAME,NAME for a release")
    if classes is not None:
        show.base_set_summary(base_set(classes.split(","), **common, **given))
        return
    if given:
        raise ConfigError(f"--{next(iter(given))} is an option of --classes: leave it out")
    show.drawn_images(draw(prompt or "", **common))


@app.command()
def methods() -> None:
    """List the methods and their settings."""
    from understudy.run.methods import methods as known

    show.method_table(known())


@app.command()
def backends() -> None:
    """List the model backends and what each needs."""
    from understudy.backends.registry import backends as known

    show.backend_table(known())


@app.command()
def doctor() -> None:
    """Check this machine: packages, threads, the ledger, the noise."""
    from understudy.run.doctor import check_up

    checks = check_up()
    show.checks(checks)
    if not all(check.good for check in checks):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the result.")] = Path("demo-out"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    progress: Progress = "auto",
) -> None:
    """Make a release of Fashion-MNIST, and say where the pictures are."""
    from understudy.run.synthesize import demo as play

    show.result(play(out, epsilon, progress=progress))


def main() -> None:
    """Run the command line; errors raised on purpose become a message and an exit code."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except UnderstudyError as error:
        _say(f"understudy: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt as interrupt:
        for note in getattr(interrupt, "__notes__", ()):
            _say(f"understudy: stopped. {note}")
        sys.exit(143 if isinstance(interrupt, _Terminated) else 130)
    except MemoryError:
        _say("understudy: the memory is full. Nothing was charged by this command")
        sys.exit(1)
    except OSError as error:
        _say(f"understudy: {error}")
        sys.exit(1)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which stops a run as Ctrl-C does."""


def _terminate(*_: object) -> None:
    raise _Terminated


def _say(message: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(message, markup=False)
