"""``understudy studio``: small models trained on public pictures, and what is fitted to them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from understudy.cli.option_values import Progress, options_of_a_run
from understudy.cli.printing import console as _console

studio_app = typer.Typer(help="Train small models on public pictures.", no_args_is_help=True)


@studio_app.command("train")
def train_studio_command(
    out: Annotated[Path, typer.Option(help="Folder of the studio; begun work goes on.")],
    world: Annotated[
        Literal["playhouse", "photographs"] | None,
        typer.Option(help="playhouse: draw the pictures; photographs: an autoencoder alone."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of PUBLIC pictures instead.")] = None,
    captions: Annotated[
        Path | None, typer.Option(help="CSV of their captions: path,caption.")
    ] = None,
    images: Annotated[
        list[str] | None,
        typer.Option(help="PUBLIC images that photographs learns from; may be repeated."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Learn on from this studio: embedded:studio or a folder; with --stage."),
    ] = None,
    stage: Annotated[
        list[str] | None, typer.Option(help="Only this stage; may be repeated.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    count: Annotated[int | None, typer.Option(min=64, help="Pictures to learn from.")] = None,
    scale: Annotated[
        float, typer.Option(min=0.001, help="How long to learn, against the default.")
    ] = 1.0,
    compile: Annotated[bool, typer.Option("--compile", help="Compile the networks.")] = False,
    bfloat16: Annotated[
        bool | None,
        typer.Option(help="Multiply in bfloat16: fast where the processor can, usual on a GPU."),
    ] = None,
    progress: Progress = "auto",
) -> None:
    """Train a studio, stage by stage; stop it and start it again at any moment."""
    from understudy.studio.train import Order, make_studio

    order = Order(
        out,
        world,
        data=data,
        captions=captions,
        images=images or (),
        start=start,
        stages=stage,
        device=device,
        count=count,
        scale=scale,
        compile=compile,
        bfloat16=bfloat16,
    )
    stages = make_studio(order, progress=progress)
    _console.print(f"trained: {', '.join(stages)}")
    _console.print(f"use it:  embedded:studio?folder={out}")


_PublicPhotos = Annotated[list[str], typer.Option(help="PUBLIC photos; may be repeated.")]
_BegunFolder = Annotated[Path, typer.Option(help="Folder to write; begun work goes on.")]
_Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]


@studio_app.command("segmenter")
def segmenter_command(
    images: _PublicPhotos,
    teacher: Annotated[str, typer.Option(help="A larger segmenter; see `understudy backends`.")],
    out: _BegunFolder,
    count: Annotated[int, typer.Option(min=9, help="Photos to learn from.")] = 9_000,
    steps: Annotated[int, typer.Option(min=1, help="Steps of 32 photos.")] = 5_000,
    device: _Device = "auto",
    progress: Progress = "auto",
) -> None:
    """Distil a small segmenter of photos from a larger one."""
    from understudy.studio.train import distil_segmenter

    folder = distil_segmenter(
        images, teacher, out, count=count, steps=steps, device=device, progress=progress
    )
    _console.print(f"use it:  --segmenter embedded:photo?folder={folder}")


@studio_app.command("pose")
def pose_command(
    images: _PublicPhotos,
    segmenter: Annotated[str, typer.Option(help="What finds persons in them.")],
    teacher: Annotated[str, typer.Option(help="A larger pose estimator, of COCO's keypoints.")],
    out: _BegunFolder,
    count: Annotated[int, typer.Option(min=9, help="Photos to look for persons in.")] = 9_000,
    steps: Annotated[int, typer.Option(min=1, help="Steps of 32 persons.")] = 5_000,
    device: _Device = "auto",
    progress: Progress = "auto",
) -> None:
    """Distil a small pose estimator of persons from a larger one."""
    from understudy.studio.train import distil_pose

    folder = distil_pose(
        images, segmenter, teacher, out, count=count, steps=steps, device=device, progress=progress
    )
    _console.print(f"use it:  --pose-model hf:{folder}")


@studio_app.command("fit-niqe")
@options_of_a_run("size", "fit")
def fit_niqe_command(
    source: Annotated[str, typer.Argument(help="PUBLIC pictures; the model holds their averages.")],
    out: Annotated[Path, typer.Option(help="The .npz to write.")],
    block: Annotated[int, typer.Option(help="Pixels a side: 96 for photos, 16 for 64 x 64.")] = 96,
    progress: Progress = "auto",
    **given: Any,
) -> None:
    """Fit NIQE's pristine model to public pictures."""
    from understudy.run.quality_filter import fit_niqe_model

    fit_niqe_model(source, out, block, **given, progress=progress)
    _console.print(f"written: {out}")


@studio_app.command("axes")
def axes_command(
    images: Annotated[
        list[str],
        typer.Option(help="PUBLIC images of many kinds in folders of classes; may be repeated."),
    ],
    out: Annotated[Path, typer.Option(help="File to write, such as axes.safetensors.")],
    progress: Progress = "auto",
) -> None:
    """Write what embedded:energies knows of public images: usual sizes, and telling axes."""
    from understudy.studio.public_axes import write_axes

    count = write_axes(images, out, progress=progress)
    _console.print(f"axes of {count:,} public images: {out}")
