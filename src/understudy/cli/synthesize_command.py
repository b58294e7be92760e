"""``understudy synthesize``, ``select`` and ``demo``: what makes a release and charges for it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli import show
from understudy.cli.option_values import (
    Progress,
    Settings,
    Yes,
    options_of_a_run,
    options_of_fields,
    parse_settings,
)
from understudy.core.errors import Declined
from understudy.run.config import make_config, read_config, run_options
from understudy.run.progress import reporting
from understudy.run.selection.select_config import make_select_config, select_options

if TYPE_CHECKING:  # importing it takes a while, which every command would pay
    from understudy.planning.dry import RunPlan

_Config = Annotated[Path | None, typer.Option(help="YAML file with any of these options.")]


@options_of_a_run(*(name for name in run_options() if name not in ("source", "settings")))
def synthesize_command(
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
            from understudy.planning.dry import dry_run as plan_only

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


def demo_command(
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
