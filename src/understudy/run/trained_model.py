"""``understudy train``: a classifier trained on a release, as one file that others can run.

Reads the release and nothing else, so the model has the guarantee of the release.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.core.errors import ConfigError
from understudy.core.ports import Events, Source
from understudy.core.types import Shape
from understudy.methods.base import UNLABELLED
from understudy.metrics.labelled import Labelled
from understudy.report import RunRecord, read_record
from understudy.report.meaning import budget
from understudy.run.accuracy import WORDS, EpochBar, collect, require_networks, usual_networks
from understudy.run.outputs import open_release, read_json, release_folder
from understudy.run.progress import ProgressMode, reporting
from understudy.run.report import require_folder

_NO_RESIDUALS = "resnet50", "wrn40-4"  # whose blocks `onnx_export` does not write
TRAINED = tuple(name for name in WORDS if name not in _NO_RESIDUALS)
"""The networks that can be trained and written as ONNX."""


@dataclass(frozen=True, slots=True)
class ExportedClassifier:
    """A classifier that was trained on a release.

    Attributes:
        path: The ONNX file.
        network: Its network, such as ``"two-layer"``.
        classes: What its scores are of, in their order.
        rows: Samples that it was trained on.
        source: Name of its input: ``"embeddings"`` or ``"images"``.
        shape: Shape of an input row.
    """

    path: Path
    network: str
    classes: tuple[str, ...]
    rows: int
    source: str
    shape: Shape


def train_classifier(
    folder: str | Path,
    *,
    export: str | Path,
    network: str | None = None,
    seed: int = 0,
    epochs: int | None = None,
    progress: ProgressMode | Events = "auto",
) -> ExportedClassifier:
    """Train a classifier on a release and write it as ONNX, standardisation of its input included.

    The file takes ``embeddings``, (n, d) float32, or ``images``, (n, channels, height, width)
    float32 in [0, 255], and gives ``scores``, (n, classes). Its metadata names the classes, the
    guarantee and, of embeddings, the encoder.

    Args:
        folder: A release, or a run's folder with one in it.
        export: The ONNX file.
        network: One of `TRAINED`; None: ``"two-layer"`` for embeddings, ``"cnn"`` for images.
        seed: Of everything random.
        epochs: Passes over the release; None: the network's usual number.
        progress: Where events go, as for `understudy.synthesize`.

    Raises:
        ConfigError: No such network, or one for the other kind of release; a release without
            classes; no folder to write to.
        MissingExtra: A package is not installed.
    """
    path = Path(export)
    require_folder(path)
    place = release_folder(Path(folder))
    record = read_record(read_json(place / "privacy.json"))
    if len(record.classes) < 2 or record.classes == UNLABELLED:
        raise ConfigError(f"{folder}: has no classes that a network could learn to tell apart")
    source = open_release(place, record.image_shape)
    chosen = _network(network, source)
    with reporting(progress) as events:
        rows = collect(source, None, events.step)
        _onnx(chosen, rows, record, None)  # what cannot be written is refused before it is trained
        bar = EpochBar(events.step, f"training on the release: {WORDS[chosen]}")
        data = _onnx(chosen, rows, record, _Training(seed, epochs, bar))
    path.write_bytes(data)
    kind = "embeddings" if source.kind == "embeddings" else "images"
    return ExportedClassifier(path, chosen, rows.classes, len(rows.labels), kind, source.shape)


def _network(asked: str | None, source: Source) -> Any:
    """The network.

    Raises:
        ConfigError: It does not exist, cannot be written, or learns from the other kind of rows.
    """
    if asked is None:
        return usual_networks(source)[0]
    require_networks([asked])
    if (asked == "two-layer") != (source.kind == "embeddings"):
        raise ConfigError(
            f"this release holds {source.kind}, and --network {asked} learns from "
            f"{'embeddings' if asked == 'two-layer' else 'images'}"
        )
    if asked not in TRAINED:
        raise ConfigError(
            f"--network {asked} cannot be written as ONNX; these can: {', '.join(TRAINED)}"
        )
    return asked


@dataclass(frozen=True)
class _Training:
    """How to train."""

    seed: int
    epochs: int | None
    progress: EpochBar


def _onnx(network: str, rows: Labelled, record: RunRecord, training: _Training | None) -> bytes:
    """The network as ONNX: trained, or as it is before."""
    from understudy.metrics.networks.architectures import two_layer
    from understudy.metrics.networks.classifier import untrained
    from understudy.metrics.networks.classifier_training import train
    from understudy.metrics.networks.onnx_export import onnx_bytes
    from understudy.metrics.networks.recipes import IMAGES

    x, classes = rows.values, len(rows.classes)
    if training is None:
        shape = x.shape[1:]
        model = (
            two_layer(shape[0], classes)
            if network == "two-layer"
            else IMAGES[network][0](shape, classes)
        )
        classifier = untrained(network, model.eval(), x[:1], classes)
    else:
        classifier = train(
            network,
            x,
            rows.labels,
            classes=classes,
            seed=training.seed,
            epochs=training.epochs,
            progress=training.progress,
        )
    encoders = [model.name for model in record.models if model.role == "encoder"]
    facts = {
        "classes": json.dumps(list(rows.classes), ensure_ascii=False),
        "guarantee": budget(record.receipt),
        "licence": record.licence,
        "made with": f"Understudy {record.version}",
    }
    if rows.values.ndim == 2 and encoders:
        facts["encoder"] = encoders[0]
    mean, gain = classifier.mean.numpy(), classifier.gain.numpy()
    return onnx_bytes(classifier.model, classifier.shape, mean, gain, facts)
