"""``understudy``: private images in, a release out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from understudy.cli import (
    audit_command,
    evaluate_command,
    ledger_command,
    report_command,
    show,
    studio_command,
)
from understudy.cli.option_values import parse_settings
from understudy.core.errors import ConfigError, UnderstudyError

app = typer.Typer(
    name="understudy",
    help="Turn a private image dataset into a synthetic one that can be shared.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold private values
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(ledger_command.app, name="ledger")
app.add_typer(studio_command.studio_app, name="studio")


# Options of `synthesize` that do not fit a line; None: not given, so that a file can say it.
_Config = Annotated[Path | None, typer.Option(help="YAML file with any of these options.")]
_Base = Annotated[str | None, typer.Option(help="Public set of the same classes to start from.")]
_ClusterEncoder = Annotated[str | None, typer.Option(help="Encoder whose space is partitioned.")]
_Set = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE, a setting of the method.")
]
_LABEL = "Column that holds the class; 'none': no labels."
_Classes = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME", help="All classes there are, declared by the owner."),
]
_HoldOut = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Set a random part aside before the run, such as 5%."),
]
_SkipBad = Annotated[bool | None, typer.Option("--skip-bad", help="Pass over unreadable files.")]
_Quality = Annotated[str | None, typer.Option(help="Choose images by piqe, niqe or niqe:FILE.")]
_Threshold = Annotated[float | None, typer.Option(help="Draw again what is not below it.")]
_PerEmbedding = Annotated[int | None, typer.Option(help="Images to choose from, each time.")]
_Watch = Annotated[
    bool | None, typer.Option("--watch", help="Tell how far off it is; for the owner alone.")
]


@app.command()
def synthesize(
    source: Annotated[str | None, typer.Argument(help="The private dataset.")] = None,
    config: _Config = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the result.")] = None,
    method: Annotated[str | None, typer.Option(help="See `understudy methods`.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of this run.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta; 1e-5 if not given.")] = None,
    encoder: Annotated[str | None, typer.Option(help="See `understudy backends`.")] = None,
    decoder: Annotated[str | None, typer.Option(help="'none' for embeddings only.")] = None,
    public: Annotated[str | None, typer.Option(help="Public dataset to learn from, free.")] = None,
    base: _Base = None,
    cluster_encoder: _ClusterEncoder = None,
    generator: Annotated[str | None, typer.Option(help="Draws images of texts.")] = None,
    renderer: Annotated[str | None, typer.Option(help="Draws the final images.")] = None,
    writer: Annotated[str | None, typer.Option(help="Writes captions.")] = None,
    captioner: Annotated[str | None, typer.Option(help="Captions images.")] = None,
    set_: _Set = None,
    count: Annotated[int | None, typer.Option(help="Synthetic rows to make.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of sampling; the noise takes none.")] = None,
    unit: Annotated[str | None, typer.Option(help="Column that says whose row it is.")] = None,
    unit_rows: Annotated[int | None, typer.Option(help="Rows of a unit to use at most.")] = None,
    adjacency: Annotated[str | None, typer.Option(help="add-remove or replace-one.")] = None,
    ledger: Annotated[str | None, typer.Option(help="Path or URL of the ledger.")] = None,
    test: Annotated[str | None, typer.Option(help="Real test set, to measure accuracy.")] = None,
    test_rows: Annotated[int | None, typer.Option(help="Train on at most so many.")] = None,
    size: Annotated[int | None, typer.Option(help="Resize images to SIZE x SIZE.")] = None,
    label: Annotated[str | None, typer.Option(help=_LABEL)] = None,
    classes: _Classes = None,
    channels: Annotated[int | None, typer.Option(help="Convert to 1 (grey) or 3 (RGB).")] = None,
    hold_out: _HoldOut = None,
    format: Annotated[str | None, typer.Option(help="png or parquet.")] = None,
    licence: Annotated[str | None, typer.Option(help="Licence of the release.")] = None,
    resume: Annotated[bool | None, typer.Option("--resume", help="Go on with OUT.")] = None,
    dry_run: Annotated[bool | None, typer.Option("--dry-run", help="Only show the plan.")] = None,
    skip_bad: _SkipBad = None,
    watch: _Watch = None,
    quality: _Quality = None,
    quality_threshold: _Threshold = None,
    images_per_embedding: _PerEmbedding = None,
) -> None:
    """Make a synthetic release of a private dataset."""
    asked: dict[str, Any] = dict(locals())
    from understudy.run.config import make_config, read_config
    from understudy.run.dry import dry_run as plan_only
    from understudy.run.synthesize import run

    given = {k: v for k, v in asked.items() if k not in ("config", "set_") and v is not None}
    options = {} if config is None else read_config(config)
    settings = {**(options.get("settings") or {}), **parse_settings(set_ or [])}
    chosen = make_config({**options, **given, "settings": settings})
    if chosen.dry_run:
        show.plan(plan_only(chosen))
    else:
        show.result(run(chosen, show.carried))


for command in (
    evaluate_command.evaluate,
    report_command.report,
    report_command.compare,
    audit_command.audit,
):
    app.command()(command)


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
) -> None:
    """Draw pictures of a sentence, or a base set. Reads nothing private and spends nothing."""
    from understudy.run.base_set_release import base_set
    from understudy.run.sample import sample as draw

    common: dict[str, Any] = {"out": out, "count": count, "model": model, "seed": seed}
    of_classes = {"template": template, "format": format, "licence": licence}
    given: dict[str, Any] = {k: v for k, v in of_classes.items() if v is not None}
    if (prompt is None) == (classes is None):
        raise ConfigError("say what to draw: a PROMPT, or --classes NAME,NAME for a release")
    if classes is not None:
        show.base_set(base_set(classes.split(","), **common, **given))
        return
    if given:
        raise ConfigError(f"--{next(iter(given))} is an option of --classes: leave it out")
    show.samples(draw(prompt or "", **common))


@app.command()
def methods() -> None:
    """List the methods and their settings."""
    from understudy.run.methods import methods as known

    show.methods(known())


@app.command()
def backends() -> None:
    """List the model backends and what each needs."""
    from understudy.backends.registry import backends as known

    show.backends(known())


@app.command()
def doctor() -> None:
    """Check this machine: packages, threads, the ledger, the noise."""
    from understudy.run.doctor import check_up

    found = check_up()
    show.checks(found)
    if not all(check.good for check in found):
        raise typer.Exit(1)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the result.")] = Path("demo-out"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
) -> None:
    """Make a release of Fashion-MNIST, and say where the pictures are."""
    from understudy.run.demo import demo as play

    show.result(play(out, epsilon))


def main() -> None:
    """Run the command line; errors raised on purpose become a message and an exit code."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        app()
    except UnderstudyError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"understudy: {error}", markup=False
        )
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
