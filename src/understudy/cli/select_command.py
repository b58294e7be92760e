"""``understudy select``: keep the candidates that train well and leak little."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from understudy.cli import show
from understudy.cli.option_values import Progress, Settings, options_of_fields, parse_settings
from understudy.run.select_config import make_select_config, select_options

_Candidates = Annotated[
    str, typer.Argument(help="The candidates: a dataset, a release or a run's folder.")
]


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
