"""``understudy audit``: does the implementation keep its promise?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from understudy.cli.option_values import parse_settings
from understudy.core.errors import ConfigError

if TYPE_CHECKING:  # importing it takes a while, which every command would pay
    from understudy.core.results import Evaluation

_console = Console(soft_wrap=True, highlight=False, markup=False)

_Source = Annotated[str | None, typer.Argument(help="A dataset that you may use for an audit.")]
_How = Annotated[str, typer.Option(help="pairs of runs, canaries in one run, or lira.")]
_Runs = Annotated[
    int | None,
    typer.Option(help="Runs, canaries or shadow models; with --mechanisms alone, draws of each."),
]
_Set = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE, a setting of the method.")
]
_Mechanisms = Annotated[
    bool, typer.Option("--mechanisms", help="Draw each mechanism by itself too; needs no source.")
]


def audit(
    source: _Source = None,
    method: Annotated[str | None, typer.Option(help="See `understudy methods`.")] = None,
    epsilon: Annotated[float, typer.Option(help="The promise that is tried.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-5,
    how: _How = "pairs",
    runs: _Runs = None,
    rows: Annotated[int, typer.Option(help="Use so many rows of the source.")] = 200,
    confidence: Annotated[float, typer.Option(help="That a refutation is right.")] = 0.95,
    mechanisms: _Mechanisms = False,
    set_: _Set = None,
    encoder: Annotated[str | None, typer.Option(help="See `understudy backends`.")] = None,
    decoder: Annotated[str | None, typer.Option(help="'none' for embeddings only.")] = None,
    base: Annotated[str | None, typer.Option(help="Public set to start from.")] = None,
    generator: Annotated[str | None, typer.Option(help="Draws images of texts.")] = None,
    writer: Annotated[str | None, typer.Option(help="Writes captions.")] = None,
    adjacency: Annotated[str | None, typer.Option(help="add-remove or replace-one.")] = None,
    unit: Annotated[str | None, typer.Option(help="Column that says whose row it is.")] = None,
    size: Annotated[int | None, typer.Option(help="Resize images to SIZE x SIZE.")] = None,
    label: Annotated[str | None, typer.Option(help="Column that holds the class.")] = None,
    classes: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="All classes there are.")
    ] = None,
    channels: Annotated[int | None, typer.Option(help="Convert to 1 or 3.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything public.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Keep it.")] = None,
) -> None:
    """Try to refute a method's epsilon on data of your own. Releases nothing; owner only."""
    options: dict[str, Any] = {
        "method": method, "encoder": encoder, "decoder": decoder, "base": base,
        "generator": generator, "writer": writer, "adjacency": adjacency, "unit": unit,
        "size": size, "label": label, "classes": classes, "channels": channels, "seed": seed,
    }  # fmt: skip
    from understudy.audit import audit as audits

    if source is None and not mechanisms:
        raise ConfigError("say what to audit: a SOURCE that you may use for it, or --mechanisms")
    found = []
    if mechanisms:
        draws = audits.DRAWS if runs is None or source is not None else runs
        promise = {"epsilon": epsilon, "delta": delta}
        found.append(audits.audit_mechanisms(**promise, draws=draws, confidence=confidence))
    if source is not None:
        given = {name: value for name, value in options.items() if value is not None}
        given |= {"epsilon": epsilon, "delta": delta, "settings": parse_settings(set_ or [])}
        given |= {"how": how, "runs": runs, "rows": rows, "confidence": confidence}
        found.append(audits.audit(source, **given))
    for one in found:
        show(one)
    if out is not None:
        _write(found, out)
    if any(verdict.grade == "poor" for one in found for verdict in one.verdicts):
        raise typer.Exit(1)


def _write(found: list[Evaluation], out: Path) -> None:
    content = [one.as_dict() for one in found]
    out.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    _console.print(f"written: {out}")


def show(found: Evaluation) -> None:
    """An audit's metric values and its verdict."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("audit (owner only)", "", "interval", "measured on"):
        table.add_column(column, overflow="fold")
    for one in found.values:
        ends = ["" if end is None else f"{end:.3f}" for end in (one.low, one.high)]
        interval = "" if one.high is None else " to ".join(ends)
        table.add_row(one.name, f"{one.value:.3f}", interval, one.measured)
    _console.print(table)
    for verdict in found.verdicts:
        _console.print(verdict.sentence)
