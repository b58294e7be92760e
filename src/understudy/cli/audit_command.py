"""``understudy audit``: does the implementation keep its promise?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.option_values import Progress, Settings, options_of_a_run
from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.errors import ConfigError
from understudy.core.files import write_private
from understudy.core.roles import flag_of
from understudy.run.config import AUDITED, parse_settings
from understudy.run.progress import reporting

if TYPE_CHECKING:  # importing it takes a while, which every command would pay
    from understudy.core.results import Evaluation


_Source = Annotated[str | None, typer.Argument(help="A dataset that you may use for an audit.")]
_How = Annotated[str, typer.Option(help="pairs of runs, canaries in one run, or lira.")]
_Runs = Annotated[
    int | None,
    typer.Option(help="Runs, canaries or shadow models; with --mechanisms alone, draws of each."),
]
_Mechanisms = Annotated[
    bool, typer.Option("--mechanisms", help="Draw each mechanism by itself too; needs no source.")
]


@options_of_a_run(*AUDITED)
def audit_command(
    source: _Source = None,
    epsilon: Annotated[float, typer.Option(help="The promise that is tried.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-5,
    how: _How = "pairs",
    runs: _Runs = None,
    rows: Annotated[int, typer.Option(help="Use so many rows of the source.")] = 200,
    confidence: Annotated[float, typer.Option(help="That a refutation is right.")] = 0.95,
    mechanisms: _Mechanisms = False,
    set_: Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Keep it.")] = None,
    progress: Progress = "auto",
    **given: Any,
) -> None:
    """Try to refute a method's epsilon on data of your own. Releases nothing; owner only."""
    if source is None and not mechanisms:
        raise ConfigError("say what to audit: a SOURCE that you may use for it, or --mechanisms")
    of_runs = {**given, "set": set_}
    if source is None and (names := [name for name, value in of_runs.items() if value]):
        raise ConfigError(
            f"{flag_of(names[0])} is of runs on a SOURCE, and --mechanisms alone draws without "
            "any: leave it out, or name a SOURCE"
        )
    claim = {"epsilon": epsilon, "delta": delta, "confidence": confidence}
    evaluations = []
    with reporting(progress) as events:
        from understudy.audit import audit as audits
        from understudy.run.report import require_folder

        if out is not None:
            require_folder(out)
        if source is not None:  # first, for it may be refused
            given |= {**claim, "settings": parse_settings(set_ or [])}
            given |= {"how": how, "runs": runs, "rows": rows}
            evaluations.append(audits.audit(source, **given, progress=events))
        if mechanisms:
            draws = audits.DRAWS if runs is None or source is not None else runs
            evaluations.append(audits.audit_mechanisms(draws=draws, **claim, progress=events))
    for evaluation in evaluations:
        _show(evaluation)
    if out is not None:
        _write(evaluations, out)
    if any(verdict.grade == "poor" for one in evaluations for verdict in one.verdicts):
        raise typer.Exit(1)


def _write(evaluations: list[Evaluation], out: Path) -> None:
    content = [evaluation.as_dict() for evaluation in evaluations]
    write_private(out, f"{json.dumps(content, indent=2)}\n".encode())
    _console.print(f"written: {out}")


def _show(evaluation: Evaluation) -> None:
    """An audit's metric values and its verdict."""
    table = _table("audit (owner only)", "", "interval", "by chance", "measured on")
    for one in evaluation.values:
        ends = ["" if end is None else f"{end:.3f}" for end in (one.low, one.high)]
        interval = "" if one.high is None else " to ".join(ends)
        chance = "" if one.baseline is None else f"{one.baseline:.3f}"
        table.add_row(one.name, f"{one.value:.3f}", interval, chance, one.measured)
    _console.print(table)
    for verdict in evaluation.verdicts:
        _console.print(verdict.sentence)
