"""``understudy evaluate``: what a release is worth and what it gives away, in numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table

from understudy.cli.option_values import Progress
from understudy.cli.printing import console as _console
from understudy.core.files import write_private
from understudy.run.progress import reporting

if TYPE_CHECKING:  # importing it takes NumPy
    from understudy.core.results import Evaluation, Group, MetricValue
    from understudy.metrics.utility import Network


_GROUPS: tuple[Group, ...] = ("fidelity", "utility", "leakage", "attack")

_Networks = Annotated[
    list[str] | None,
    typer.Option(
        help="Train this one; repeatable: two-layer, cnn, discriminant, convnet, resnet9, "
        "resnet-in, wrn40-4, resnet50, vgg11, mobilenetv2."
    ),
]
_Folder = Annotated[
    Path | None, typer.Argument(help="A run's folder, a release, or somebody else's dataset.")
]
_Model = Annotated[Path | None, typer.Option(metavar="FILE", help="A classifier: ONNX or LiteRT.")]
_DpSgd = Annotated[
    bool, typer.Option("--dp-sgd", help="With --full: DP-SGD on the private records, too.")
]
_Lpips = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A perceptual distance, as TorchScript.")
]
_Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON.")
]
_Table = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the metric values as a table, .csv."),
]


def evaluate_command(
    real: Annotated[str, typer.Option(help="The private dataset.")],
    folder: _Folder = None,
    model: _Model = None,
    test: Annotated[
        str | None, typer.Option(help="Real rows that were not in it; else what was held out.")
    ] = None,
    features: Annotated[str | None, typer.Option(help="An encoder, or inception:...")] = None,
    full: Annotated[bool, typer.Option("--full", help="Train models, too.")] = False,
    network: _Networks = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings to average over.")] = 1,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data.")] = None,
    dp_sgd: _DpSgd = False,
    lpips: _Lpips = None,
    rows: Annotated[int, typer.Option(help="Rows to find neighbours of, at most.")] = 60_000,
    no_attacks: Annotated[bool, typer.Option("--no-attacks", help="Leave them out.")] = False,
    encoder: Annotated[str | None, typer.Option(help="Where not the release's own.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column that holds the class, where not the run's own.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Pass over bad files.")] = False,
    json_file: _Json = None,
    table: _Table = None,
    progress: Progress = "auto",
) -> None:
    """Measure a release against real data. What it prints is for the owner alone."""
    with reporting(progress) as events:
        from understudy.evaluation.evaluate import evaluate as measure
        from understudy.run.report import write_table

        _require_writable(json_file, table)
        evaluation = measure(
            folder,
            real=real,
            test=test,
            model=model,
            features=features,
            full=full,
            networks=cast("list[Network] | None", network),
            seeds=seeds,
            epochs=epochs,
            rows=rows,
            attacks=not no_attacks,
            encoder=encoder,
            label=label,
            skip_bad=skip_bad,
            lpips=lpips,
            dp_sgd=dp_sgd,
            progress=events,
        )
    _show(evaluation)
    if json_file is not None:
        text = json.dumps(evaluation.as_dict(), indent=2, ensure_ascii=False)
        write_private(json_file, f"{text}\n".encode())
        _console.print(f"written: {json_file}")
    if table is not None:
        write_table(evaluation.rows(), table)
        _console.print(f"written: {table}")


def _require_writable(json_file: Path | None, table: Path | None) -> None:
    """Refuse files that cannot be written, before anything is measured."""
    from understudy.run.report import require_folder, require_table

    if json_file is not None:
        require_folder(json_file)
    if table is not None:
        require_table(table)


def _show(evaluation: Evaluation) -> None:
    """The verdicts, then the metric values of all rows and their baselines."""
    _console.print("owner only: measured on private records without noise; do not pass it on")
    if claim := evaluation.settings.get("claim"):
        _console.print(f"guarantee: {claim}")
    for verdict in evaluation.verdicts:
        _console.print(f"{verdict.group + ':':<10}{verdict.grade:<8} {verdict.sentence}")
    for group in _GROUPS:
        values = [value for value in evaluation.of(group) if not value.label]
        if values:
            _console.print(_table(f"{group} (owner only)", values))
    labels = {value.label for value in evaluation.values if value.label}
    if labels:
        _console.print(
            f"by class, where rows are enough ({len(labels)}): --table FILE.csv or the report"
        )
    if note := evaluation.settings.get("note"):
        _console.print(f"note: {note}")
    if advice := evaluation.settings.get("advice"):
        _console.print(f"advice: {advice}")
    for left in evaluation.settings.get("left_out", ()):
        _console.print(f"left out: {left}")
    seconds = ", ".join(f"{part} {duration:.0f} s" for part, duration in evaluation.seconds.items())
    _console.print(f"took: {seconds}")


def _table(head: str, values: list[MetricValue]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(head, overflow="fold")
    for column in ("release", "95 % interval", "baseline"):
        table.add_column(column, justify="right")
    table.add_column("baseline of", style="dim", overflow="fold")
    for measured in dict.fromkeys(value.measured for value in values):
        table.add_row(f"with {measured}:", style="dim")
        for value in (one for one in values if one.measured == measured):
            interval, baseline, source = "", "", ""
            if value.low is not None and value.high is not None:
                interval = f"{_number(value.low, value)} to {_number(value.high, value)}"
            if value.baseline is not None:
                baseline, source = _number(value.baseline, value), value.metric.baseline
            kind = "" if value.kind == "owner-only" else f" ({value.kind})"
            number = _number(value.value, value)
            table.add_row(f"  {value.name}{kind}", number, interval, baseline, source)
    return table


def _number(number: float, value: MetricValue) -> str:
    return f"{number:.2%}" if value.unit == "%" else f"{number:.4g}"
