"""``understudy train``: a classifier of a release, as one file that others can run.

It is trained on the samples, so it has the guarantee of the release; or it is what the run released
of the means and the covariance of the classes, which has that guarantee too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.core.errors import ConfigError, MissingExtra
from understudy.core.ports import Events, Source
from understudy.core.types import Shape
from understudy.methods.base import UNLABELLED
from understudy.metrics.discriminant import DISCRIMINANT, image_discriminant
from understudy.metrics.labelled import Labelled
from understudy.metrics.utility import Network
from understudy.release.outputs import open_release, release_folder
from understudy.release.verify import sound_record
from understudy.report import RunRecord
from understudy.run.accuracy import WORDS, EpochBar, collect, require_networks, usual_networks
from understudy.run.codec_rules import lacks_torch
from understudy.run.models import front_end, measured_columns
from understudy.run.progress import ProgressMode, reporting
from understudy.run.released_classifier import (
    LITERT_SUFFIX,
    file_facts,
    has_statistics,
    released_classifier,
    written_classifier,
)
from understudy.run.report import require_folder

_NO_RESIDUALS = "resnet50", "wrn40-4"  # whose blocks `onnx_export` does not write
TRAINED = tuple(name for name in WORDS if name not in _NO_RESIDUALS)
"""The networks that can be trained and written as ONNX."""

_STATISTICS = (
    "the statistics that the run released tell its classes apart too, and lost nothing in drawing "
    "and decoding samples: compare with --from statistics"
)

Origin = Literal["samples", "statistics"]
"""What a classifier is made of."""


@dataclass(frozen=True, slots=True)
class ExportedClassifier:
    """A classifier of a release.

    Attributes:
        path: The file, ONNX or LiteRT.
        network: Its network, such as ``"discriminant"``.
        classes: What its scores are of, in their order.
        rows: Samples that it was trained on; None: it is of the released statistics.
        source: Name of its input: ``"embeddings"`` or ``"images"``.
        shape: Shape of an input row.
        hint: What may serve better; "": nothing is known to.
    """

    path: Path
    network: str
    classes: tuple[str, ...]
    rows: int | None
    source: str
    shape: Shape
    hint: str = ""


def train_classifier(
    folder: str | Path,
    *,
    export: str | Path,
    from_: Origin = "samples",
    network: str | None = None,
    seed: int = 0,
    epochs: int | None = None,
    progress: ProgressMode | Events = "auto",
) -> ExportedClassifier:
    """Write a classifier of a release as ONNX or LiteRT, all that its input goes through included.

    The file takes ``embeddings``, (n, d) float32, or ``images``, (n, channels, height, width)
    float32 in [0, 255], and gives ``scores``, (n, classes). Its metadata names the classes, the
    guarantee and the encoder. LiteRT has the channels of images last.

    Args:
        folder: A release, or a run's folder with one in it.
        export: The file: ``.onnx``, or ``.tflite`` for LiteRT.
        from_: ``"samples"``: trained on the release; ``"statistics"``: what the run released of its
            classes, from the owner's part of the run's folder, at no charge.
        network: One of `TRAINED`; None: ``"two-layer"`` for embeddings; for images the
            ``"discriminant"``, or ``"cnn"`` where they are too small or too large for it.
        seed: Of everything random.
        epochs: Passes over the release; None: the network's usual number.
        progress: Where events go, as for `understudy.synthesize`.

    Raises:
        ConfigError: No such network, or one for the other kind of release; a release without
            classes, or without such statistics; no folder to write to, or another ending.
        RunError: The release is not sound; the folder is no finished run, and statistics were
            asked for.
        MissingExtra: A package is not installed.
    """
    path = Path(export)
    _require_writable(path)
    place = release_folder(Path(folder))
    record = sound_record(place)
    if len(record.classes) < 2 or record.classes == UNLABELLED:
        raise ConfigError(f"{folder}: has no classes that a network could learn to tell apart")
    with reporting(progress) as events:
        if from_ == "statistics":
            _require_untrained(network, epochs)
            return _of_statistics(folder, path, events)
        source = open_release(place, record.image_shape)
        name = _network(network, source, epochs, events)
        _require_format(path, name)
        rows = collect(source, None, events.step)
        if name == DISCRIMINANT:
            data = _discriminant(rows, record, path)
        else:
            bar = EpochBar(events.step, f"training on the release: {WORDS[name]}")
            data = _onnx(name, rows, record, seed=seed, epochs=epochs, progress=bar)
    hint = _STATISTICS if network is None and has_statistics(place, record) else ""
    path.write_bytes(data)
    trained = len(rows.labels), source.kind, source.shape
    return ExportedClassifier(path, name, rows.classes, *trained, hint)


def _require_writable(path: Path) -> None:
    """Refuse a file in no folder, or of another ending."""
    require_folder(path)
    if path.suffix not in (".onnx", LITERT_SUFFIX):
        raise ConfigError(
            f"the model is written as ONNX or LiteRT: name it {path.stem}.onnx or "
            f"{path.stem}{LITERT_SUFFIX}, not {path.name}"
        )


def _require_untrained(network: str | None, epochs: int | None) -> None:
    """Refuse options of a training."""
    if network not in (None, DISCRIMINANT) or epochs is not None:
        option = "--epochs" if epochs is not None else f"--network {network}"
        raise ConfigError(
            f"--from statistics trains nothing: the statistics are a linear discriminant. Leave "
            f"out {option}, or train on the samples (--from samples)"
        )


def _of_statistics(folder: str | Path, path: Path, events: Events) -> ExportedClassifier:
    """The classifier of what a run released, written."""
    statistics = released_classifier(folder, events)
    classifier, record = statistics.classifier, statistics.record
    facts = file_facts(record, record.classes, classifier.shape, classifier.encoder.name)
    facts["trained on"] = "nothing: these are the statistics that the run released"
    path.write_bytes(written_classifier(classifier, path, facts))
    return ExportedClassifier(path, DISCRIMINANT, record.classes, None, "images", classifier.shape)


def _require_format(path: Path, network: Network) -> None:
    """Refuse a format that a network is not written in."""
    if path.suffix == LITERT_SUFFIX and network != DISCRIMINANT:
        raise ConfigError(
            f"{path.name}: --network {network} is written as ONNX only (--export model.onnx); "
            f"--network {DISCRIMINANT} of images is written as LiteRT too"
        )


def _network(choice: str | None, source: Source, epochs: int | None, events: Events) -> Network:
    """The network."""
    if lacks_torch():
        raise MissingExtra("training on a release", "torch")
    usual = usual_networks(source)[-1]
    if choice is None and usual == "cnn":
        events.warning(
            f"these images have a size for which there is no {DISCRIMINANT} (16 to 256 pixels a "
            "side), so the small CNN is trained"
        )
    (name,) = require_networks([choice or usual])
    if (name == "two-layer") != (source.kind == "embeddings"):
        raise ConfigError(
            f"this release holds {source.kind}, and --network {name} learns from "
            f"{'embeddings' if name == 'two-layer' else 'images'}"
        )
    if name not in TRAINED:
        raise ConfigError(
            f"--network {name} cannot be written as ONNX; these can: {', '.join(TRAINED)}"
        )
    if name == DISCRIMINANT:
        if usual != DISCRIMINANT:
            raise ConfigError(
                f"--network {DISCRIMINANT} is of images of 16 to 256 pixels a side, found "
                f"{source.shape[0]} x {source.shape[1]}: --network cnn takes others"
            )
        if epochs is not None:
            raise ConfigError(
                f"the {DISCRIMINANT} is computed, not trained in passes: leave out --epochs, or "
                "name a network that is (--network cnn)"
            )
    return name


def _discriminant(rows: Labelled, record: RunRecord, path: Path) -> bytes:
    """The discriminant of the samples as a file."""
    encoder = front_end(rows.values.shape[1:])
    if encoder is None:
        raise ConfigError(f"no {DISCRIMINANT} of rows of shape {rows.values.shape[1:]}")
    columns = measured_columns(encoder, record.facts, rows.values)
    classifier = image_discriminant(
        encoder, rows.values, rows.labels, len(rows.classes), columns=columns
    )
    facts = file_facts(record, rows.classes, classifier.shape, encoder.name)
    return written_classifier(classifier, path, facts)


def _onnx(network: str, rows: Labelled, record: RunRecord, **training: Any) -> bytes:
    """The network, trained with these options, as ONNX; a missing package is found before."""
    from understudy.metrics.networks.classifier_training import train
    from understudy.metrics.networks.onnx_export import onnx_bytes

    classifier = train(network, rows.values, rows.labels, classes=len(rows.classes), **training)
    encoders = [model.name for model in record.models if model.role == "encoder"]
    encoder = encoders[0] if rows.values.ndim == 2 and encoders else None
    facts = file_facts(record, rows.classes, classifier.shape, encoder)
    mean, gain = classifier.mean.numpy(), classifier.gain.numpy()
    return onnx_bytes(classifier.model, classifier.shape, mean, gain, facts)
