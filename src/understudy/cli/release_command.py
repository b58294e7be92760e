"""``understudy resample``, ``verify``, ``sign`` and ``train``: what is done with a release."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from understudy.cli.option_values import Progress
from understudy.cli.printing import AsJson, print_json
from understudy.cli.printing import console as _console
from understudy.cli.show_run import RunPrinter
from understudy.core.errors import count_words, escaped

if TYPE_CHECKING:  # importing it takes a second, which every command would pay
    from understudy.release.verify import Verification

_Release = Annotated[Path, typer.Argument(help="A release, or a run's folder with one in it.")]
_Run = Annotated[Path, typer.Argument(help="The folder of a finished run.")]


def resample_command(
    folder: _Run,
    count: Annotated[int | None, typer.Option(help="Samples in all.")] = None,
    per_class: Annotated[int | None, typer.Option(help="Samples of each class instead.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same samples.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the result; beside the run if not given.")
    ] = None,
    progress: Progress = "auto",
) -> None:
    """Draw more samples from what a run has paid for. Reads nothing private and spends nothing."""
    from understudy.run.resample import resample

    RunPrinter().result(
        resample(folder, count=count, per_class=per_class, seed=seed, out=out, progress=progress)
    )


def verify_command(
    release: Annotated[Path, typer.Argument(help="A release, a run's folder, or a zip of it.")],
    key: Annotated[
        str | None,
        typer.Option(
            metavar="PUBLIC", help="The key that must have signed it: a PEM file, or its digits."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a release: every file by its hash, the guarantee by its own numbers.

    Reads the release alone, and says what cannot be checked from outside. Exits with 1 where
    something is wrong.
    """
    from understudy.release.verify import verify

    verification = verify(release, key=key)
    if as_json:
        print_json(verification.as_dict())
    else:
        _show(verification)
    if not verification.sound:
        raise typer.Exit(1)


def _show(checked: Verification) -> None:
    """What was checked of a release, what is wrong, and what cannot be checked."""
    from understudy.report.meaning import guarantee_words

    for fault in checked.faults:
        _console.print(f"WRONG: {escaped(fault)}")
    record = checked.record
    if checked.sound and record is not None:
        _console.print(f"files:      {checked.files:,}, each as its hash says")
        computed = "" if not record.receipt.stages else ", computed anew from its stages"
        _console.print(
            f"guarantee:  {guarantee_words(record.receipt, record.private_samples)}{computed}"
        )
        _console.print(f"licence:    {escaped(record.licence)}")
        _console.print(f"contact:    {escaped(record.contact) or 'not stated'}")
        if record.total is not None:
            total = record.total
            _console.print(
                f"in all:     epsilon {total.epsilon:.4g} at delta {total.delta:g} by "
                f"{count_words(total.releases, 'run')}, as the owner states"
            )
        unchecked = "not checked" if checked.unchecked else "nobody"
        _console.print(f"signed by:  {checked.signed_by or unchecked}")
    _console.print("cannot be checked from outside:")
    for line in checked.unverified:
        _console.print(f"- {line}")
    count = len(checked.faults)
    words = f"NOT sound: {count_words(count, 'fault')}" if count else "sound"
    _console.print(f"{checked.release}: {words}")


def sign_command(
    release: _Release, key: Annotated[Path, typer.Option(help="Private Ed25519 key, PEM.")]
) -> None:
    """Sign a release: the list of its files and their hashes, by an Ed25519 key."""
    from understudy.release.checksums import SIGNATURE, sign_release
    from understudy.release.outputs import release_folder

    place = release_folder(release)
    public = sign_release(place, key)
    _console.print(f"signed:     {place / SIGNATURE}")
    _console.print(f"public key: {public}")


def train_command(
    release: _Release,
    export: Annotated[
        Path, typer.Option(metavar="FILE", help="The model: .onnx, or LiteRT as .tflite.")
    ],
    from_: Annotated[
        Literal["samples", "statistics"],
        typer.Option(
            "--from", help="What it is made of; statistics: what the run released of its classes."
        ),
    ] = "samples",
    network: Annotated[
        str | None,
        typer.Option(
            help="two-layer for embeddings; for images discriminant (the default), cnn, convnet, "
            "resnet9, ..."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed trains the same model.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Passes over the release.")] = None,
    progress: Progress = "auto",
) -> None:
    """Write a classifier of a release as ONNX or LiteRT.

    Trained on the samples, it reads the release alone. The classifier of the released statistics
    is read from the owner's part of a run, and costs nothing either.
    """
    from understudy.run.trained_model import train_classifier

    trained = train_classifier(
        release,
        export=export,
        from_=from_,
        network=network,
        seed=seed,
        epochs=epochs,
        progress=progress,
    )
    shape = " x ".join(map(str, trained.shape))
    origin = "of the released statistics, without a sample"
    if trained.rows is not None:
        origin = f"trained on {trained.rows:,} samples"
    _console.print(f"model:    {trained.path}")
    _console.print(f"network:  {trained.network}, {origin}")
    _console.print(f"takes:    {trained.source} ({shape} numbers a row)")
    _console.print(f"gives:    scores of {', '.join(trained.classes)}")
    images = " (of images: --encoder NAME)" if trained.source == "embeddings" else ""
    _console.print(
        f"how good it is: understudy evaluate --model {shlex.quote(str(trained.path))} "
        "--real SOURCE --test SOURCE"
        f"{images}"
    )
    if trained.hint:
        _console.print(f"note: {trained.hint}")
