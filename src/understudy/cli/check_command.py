"""``understudy check``: everything that is wrong with a dataset, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.option_values import Progress, options_of_a_run
from understudy.cli.printing import AsJson, print_json
from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.phrases import records_of, shape_words

if TYPE_CHECKING:  # importing it takes a while, which every command would pay
    from understudy.planning.check import SourceCheck

_GIVEN = (
    *("size", "fit", "label", "classes", "channels", "unit", "unit_from", "unit_from_name"),
    *("delta", "skip_bad"),
)
"""The options of a run that say how a dataset is read."""


@options_of_a_run(*_GIVEN)
def check_command(
    source: Annotated[str, typer.Argument(help="The private dataset.")],
    sheet: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Also write a few private images of each class."),
    ] = None,
    as_json: AsJson = False,
    progress: Progress = "auto",
    **given: Any,
) -> None:
    """Read a dataset once and list all that is wrong with it. Spends nothing; owner only."""
    from understudy.planning.check import checked_dataset

    result = checked_dataset(source, sheet=sheet, progress=progress, **given)
    if as_json:
        print_json(result.as_dict())
    else:
        _show(result)
    if not result.ready:
        raise typer.Exit(1)


def _show(result: SourceCheck) -> None:
    """A check as text."""
    kind = "" if result.shape is None else f", {shape_words(result.shape)}"
    units = "" if result.people is None else f" of {result.units:,} {result.people}"
    records = f": {result.images:,} {records_of(result.shape)}{units}{kind}"
    counted = records if result.images else ""  # of what cannot be opened nothing was
    _console.print(f"{result.source}{counted} (for the owner alone)")
    for problem in result.problems:
        _console.print(f"{'!!' if problem.blocking else '- '} {problem.kind}: {problem.message}")
        for example in problem.examples:
            _console.print(f"     {example}")
        if problem.examples and problem.count > len(problem.examples):
            _console.print(f"     and {problem.count - len(problem.examples):,} more")
    if result.classes:
        _show_classes(result)
    if result.ready:
        _console.print("nothing would refuse a run")
    for option, loss in result.losses.items():
        _console.print(f"by {option}: {loss}")
    if result.command is not None:
        _console.print(f"a run that fits: {result.command}")
    _console.print("nothing was spent")


def _show_classes(result: SourceCheck) -> None:
    people = [] if result.people is None else [result.people]
    carries = (f"carries at epsilon {epsilon:g}" for epsilon in result.carried)
    table = _table("class", records_of(result.shape), *people, *carries)
    for name, count in result.classes.items():
        cells = (of_class[name].summary for of_class in result.carried.values())
        units = [f"{result.class_units[name]:,}" for _ in people]
        table.add_row(name, f"{count:,}", *units, *cells)
    _console.print(table)
