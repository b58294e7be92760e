"""``understudy synthesize``, ``select`` and ``demo``: what makes a release and charges for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.option_values import (
    AdvancedProgress,
    Progress,
    Settings,
    Verbose,
    Yes,
    options_of_a_run,
)
from understudy.cli.printing import print_json
from understudy.cli.show_run import RunPrinter, plan_alone
from understudy.core.errors import ConfigError
from understudy.run.config import make_config, parse_settings, read_config, run_options
from understudy.run.progress import reporting
from understudy.run.select_config import make_select_config, select_options

_Config = Annotated[
    Path | None,
    typer.Option(help="YAML file with any of these options.", rich_help_panel="Advanced: Output"),
]

_DryJson = Annotated[
    bool,
    typer.Option(
        "--json", help="With --dry-run: print the plan as JSON.", rich_help_panel="Advanced: Output"
    ),
]

_COMMON = (
    *("size", "unit", "epsilon", "delta", "method", "encoder", "out", "count", "test", "dry_run"),
)


@options_of_a_run(
    *(name for name in run_options() if name not in ("source", "settings")), common=_COMMON
)
def synthesize_command(
    source: Annotated[str | None, typer.Argument(help="The private dataset.")] = None,
    config: _Config = None,
    set_: Settings = None,
    yes: Yes = False,
    verbose: Verbose = False,
    as_json: _DryJson = False,
    progress: AdvancedProgress = "auto",
    **given: Any,
) -> None:
    """Make a synthetic release of a private dataset.

    The plan is shown and confirmed before anything is charged.
    """
    options = {} if config is None else read_config(config)
    if source is not None:
        given["source"] = source
    settings = {**(options.get("settings") or {}), **parse_settings(set_ or [])}
    run_config = make_config({**options, **given, "settings": settings})
    if as_json and not run_config.output.dry_run:
        raise ConfigError("--json prints a plan: it goes with --dry-run")
    printer = RunPrinter(yes=yes, verbose=verbose)
    with reporting(progress) as events:  # importing takes a while, and something is to be written
        if run_config.output.dry_run:
            from understudy.planning.dry import dry_run as plan_only

            dry = plan_only(run_config)
        else:
            from understudy.run.synthesize import run

            result = run(run_config, printer.confirm, progress=events)
    if as_json:
        print_json(dry.as_dict())
    elif run_config.output.dry_run:
        plan_alone(dry)
    else:
        printer.result(result)


_Candidates = Annotated[
    str, typer.Argument(help="The candidates: a dataset, a release or a run's folder.")
]


@options_of_a_run(
    *(name for name in select_options() if name not in ("candidates", "settings")),
    annotations=select_options(),
    common=("keep", "private", "reference", "epsilon", "no_guarantee", "encoder", "out", "size"),
)
def select_command(
    candidates: _Candidates,
    set_: Settings = None,
    yes: Yes = False,
    verbose: Verbose = False,
    progress: AdvancedProgress = "auto",
    **given: Any,
) -> None:
    """Keep the candidates that train well and leak little.

    With --epsilon under differential privacy; without --private as post-processing of releases;
    with --no-guarantee steered by private images without noise.
    """
    given |= {"candidates": candidates, "settings": parse_settings(set_ or [])}
    config = make_select_config(given)
    printer = RunPrinter(yes=yes, verbose=verbose)
    with reporting(progress) as events:
        from understudy.run.select import run_selection

        result = run_selection(config, printer.confirm, progress=events)
    printer.result(result)


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder of the result.")] = Path("demo-out"),
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget; the images are public, and so is its ledger.")
    ] = 1.0,
    progress: Progress = "auto",
) -> None:
    """Make a release of Fashion-MNIST, and say where the pictures are."""
    printer = RunPrinter(yes=True)
    with reporting(progress) as events:
        from understudy.run.synthesize import demo as play

        result = play(out, epsilon, printer.confirm, progress=events)
    printer.result(result)
