"""``understudy``: private images in, a release out."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from understudy.cli import (
    audit_command,
    check_command,
    device_command,
    evaluate_command,
    ledger_command,
    plan_command,
    release_command,
    report_command,
    serve_command,
    show,
    studio_command,
)
from understudy.cli.option_values import (
    Progress,
    Settings,
    Yes,
    options_of_a_run,
    options_of_fields,
    parse_settings,
)
from understudy.cli.printing import AsJson, print_json
from understudy.core.errors import ConfigError, Declined, UnderstudyError
from understudy.run.config import make_config, read_config, run_options
from understudy.run.progress import reporting
from understudy.run.selection.select_config import make_select_config, select_options

if TYPE_CHECKING:  # importing it takes a while, which every command would pay
    from understudy.run.dry import RunPlan

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
    yes: Yes = False,
    progress: Progress = "auto",
    **given: Any,
) -> None:
    """Make a synthetic release of a private dataset.

    The plan comes first. On a terminal it is confirmed, once, before anything is charged.
    """
    options = {} if config is None else read_config(config)
    if source is not None:
        given["source"] = source
    settings = {**(options.get("settings") or {}), **parse_settings(set_ or [])}
    chosen = make_config({**options, **given, "settings": settings})
    with reporting(progress) as events:  # importing takes a while, and something is to be written
        if chosen.dry_run:
            from understudy.run.dry import dry_run as plan_only

            dry = plan_only(chosen)
        else:
            from understudy.run.synthesize import run

            result = run(chosen, partial(confirmed, yes=yes), progress=events)
    if chosen.dry_run:
        show.plan_alone(dry)
    else:
        show.result(result)


def confirmed(plan: RunPlan, *, yes: bool) -> None:
    """Show a plan before its charge and, where somebody is there to answer, ask.

    Raises:
        Declined: The answer was no, or none.
    """
    show.plan(plan)
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    name = plan.dataset or "this dataset"
    try:
        agreed = typer.confirm(f"Charge epsilon {plan.epsilon:g} to {name} for good?", err=True)
    except typer.Abort as abort:
        raise Declined from abort
    if not agreed:
        raise Declined


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
    yes: Yes = False,
    progress: Progress = "auto",
    **given: Any,
) -> None:
    """Keep the candidates that train well and leak little.

    With --epsilon under differential privacy; without --private as post-processing of releases;
    with --no-guarantee steered by private images without noise.
    """
    given |= {"candidates": candidates, "settings": parse_settings(set_ or [])}
    config = make_select_config(given)
    with reporting(progress) as events:
        from understudy.run.selection.select import run_selection

        result = run_selection(config, partial(confirmed, yes=yes), progress=events)
    show.result(result)


@app.command("recipe")
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


app.command("resample")(release_command.resample_command)
app.command("verify")(release_command.verify_command)
app.command("sign")(release_command.sign_command)
app.command("train")(release_command.train_command)
app.command("evaluate")(evaluate_command.evaluate_command)
app.command()(report_command.report)
app.command()(report_command.compare)
app.command("audit")(audit_command.audit_command)
app.command("check")(check_command.check_command)
app.command("plan")(plan_command.plan_command)


@app.command("runs")
def runs_command(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder and below it, finished or not. Reads no dataset."""
    from understudy.run.runs import list_runs

    runs = list_runs(folder)
    if as_json:
        print_json([run.as_dict() for run in runs])
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
    common: dict[str, Any] = {"out": out, "count": count, "model": model, "seed": seed}
    of_classes = {"template": template, "format": format, "licence": licence}
    given: dict[str, Any] = {k: v for k, v in of_classes.items() if v is not None}
    if (prompt is None) == (classes is None):
        raise ConfigError("say what to draw: a PROMPT, or --classes NAME,NAME for a release")
    if given and classes is None:
        raise ConfigError(f"--{next(iter(given))} is an option of --classes: leave it out")
    with reporting(progress) as events:
        from understudy.run import sample as samples

        common["progress"] = events
        if classes is not None:
            base = samples.base_set(classes.split(","), **common, **given)
        else:
            drawn = samples.sample(prompt or "", **common)
    if classes is not None:
        show.base_set_summary(base)
    else:
        show.drawn_images(drawn)


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods and their settings."""
    from understudy.run.methods import method_as_dict
    from understudy.run.methods import methods as known

    if as_json:
        print_json([method_as_dict(method) for method in known().values()])
    else:
        show.method_table(known())


@app.command()
def backends(as_json: AsJson = False) -> None:
    """List the model backends and what each needs."""
    from understudy.backends.registry import backends as known

    if as_json:
        print_json([asdict(info) for info in known()])
    else:
        show.backend_table(known())


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine: packages, threads, the ledger, the noise."""
    from understudy.run.doctor import check_up

    checks = check_up()
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        show.checks(checks)
    if not all(check.good for check in checks):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the result.")] = Path("demo-out"),
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget; the images are public, and so is its ledger.")
    ] = 1.0,
    progress: Progress = "auto",
) -> None:
    """Make a release of Fashion-MNIST, and say where the pictures are."""
    with reporting(progress) as events:
        from understudy.run.synthesize import demo as play

        result = play(out, epsilon, progress=events)
    show.result(result)


def main() -> None:
    """Run the command line; errors raised on purpose become a message and an exit code."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except UnderstudyError as error:
        _say(f"understudy: {error}")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:
        interrupt = _interrupt_of(end)
        if interrupt is None:
            raise
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


def _interrupt_of(end: BaseException) -> KeyboardInterrupt | None:
    """The interrupt that ended a command; Typer exits because of one, without its notes."""
    error: BaseException | None = end
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _terminate(*_: object) -> None:
    raise _Terminated


def _say(message: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(message, markup=False)
