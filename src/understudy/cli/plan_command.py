"""``understudy plan``: what to run on a dataset, why, what it costs and what to expect of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.option_values import Progress, options_of_a_run
from understudy.cli.printing import AsJson, print_json
from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.cli.show_run import costs

if TYPE_CHECKING:  # importing it takes a while, which every command would pay
    from understudy.planning.recommendation import Recommendation

_GIVEN = (
    *("epsilon", "delta", "accept_epsilon", "public", "base", "encoder", "decoder", "generator"),
    *("size", "fit", "label", "classes", "channels", "unit", "unit_from", "unit_from_name"),
    *("adjacency", "ledger", "skip_bad", "allow_remote_private", "max_calls", "max_cost"),
)
"""The options of a run that say what is at hand and how the dataset is read."""


@options_of_a_run(*_GIVEN)
def plan_command(
    source: Annotated[str, typer.Argument(help="The private dataset.")],
    forecast: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png",
            help="Also write a sheet of public images beside what the run makes of them; takes a "
            "minute or two.",
        ),
    ] = None,
    as_json: AsJson = False,
    progress: Progress = "auto",
    **given: Any,
) -> None:
    """Recommend a method and settings for a dataset, with the reasons. Spends nothing."""
    from understudy.planning.recommendation import recommended_run

    epsilon = given.pop("epsilon", "")  # where it is missing, the error says what to do
    result = recommended_run(source, epsilon=epsilon, forecast=forecast, progress=progress, **given)
    if as_json:
        print_json(result.as_dict())
    else:
        _show(result, forecast)
    if result.command is None or result.problems:
        raise typer.Exit(1)


def _show(result: Recommendation, sheet: Path | None) -> None:
    """A recommendation as text."""
    table = _table("fact", "", "")
    for fact in result.facts:
        kind = "private: for the owner alone" if fact.private else "public"
        table.add_row(fact.name, fact.value, kind)
    _console.print(table)
    for problem in result.problems:
        _console.print(f"!! {problem.kind}: {problem.message}")
    if result.command is None:
        _console.print("mend this first: understudy check says all of it. Nothing was spent")
        return
    _show_outlook(result, sheet)
    _console.print("recommended:")
    for choice in result.choices:
        _console.print(f"  {choice.option}: {choice.reason}")
    if result.plan is not None:
        _console.print("what it would cost:")
        costs(result.plan)
    if result.obstacle is not None:
        _console.print(f"as things are, it would be refused: {result.obstacle}")
    for note in result.notes:
        _console.print(f"note: {note}")
    _show_expected(result)
    condition = "" if result.obstacle is None else " once that is mended"
    _console.print(f"to run it{condition}: {result.command}")
    _console.print("nothing was spent")


def _show_outlook(result: Recommendation, sheet: Path | None) -> None:
    """What the samples will look like, and first what would serve better than they do."""
    rules = () if result.plan is None else result.plan.expectations
    poor = [rule for rule in rules if rule.instead]
    better = " Better:" if result.instead else " Nothing else serves either."
    for rule in poor:
        _console.print(f"first: {rule.words} (rule: {rule.rule}).{better}")
    for one in result.instead:
        _console.print(f"  {one.command}")
        _console.print(f"    {one.reason}")
    rest = [rule for rule in rules if not rule.instead]
    if rest:
        _console.print("what to expect, of any images (owner only):")
    for rule in rest:
        _console.print(f"  {rule.words} (rule: {rule.rule})")
    if result.forecast is None:
        return
    _console.print(
        "forecast, the same run on public drawings, whose classes are told apart at a glance "
        f"(owner only): {sheet}"
    )
    chance = 1 / max(1, result.forecast.classes)
    for kind in result.forecast.kinds:
        if kind.accuracy is not None:
            _console.print(
                f"  {kind.kind}: the classifier that is released tells {kind.accuracy:.0%} of "
                f"other ones apart ({chance:.0%} by chance)"
            )


def _show_expected(result: Recommendation) -> None:
    """The benchmarks nearest to the run."""
    if not result.expected:
        _console.print("no benchmark is like it: docs/benchmarks.md")
        return
    _console.print("the nearest benchmarks, on other data and so no guarantee for yours:")
    for one in result.expected:
        pixels = f", {one.side} pixels a side" if one.kind == "images" else ", embeddings"
        _console.print(
            f"  {one.result}: {one.data}, {one.images:,} images, {one.classes} classes{pixels}, "
            f"epsilon {one.epsilon:g}"
        )
        _console.print(f"    {one.command}")
