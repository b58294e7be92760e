"""The classifiers that need no training: of what a run released, and of its samples' embeddings.

Both are linear in the embeddings of one fixed encoder, the front end, which knows nothing of any
dataset. What a run released of the means and the covariance of its classes is a linear discriminant
already (`LinearClassifier`): it is made of noisy answers alone, so it is free.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from understudy.core.errors import ConfigError, MissingExtra, RunError
from understudy.core.matching import NUMBERS_MEASURED
from understudy.core.operations import WrittenEncoder
from understudy.core.ports import Events
from understudy.core.types import Shape
from understudy.methods.base import Resampling
from understudy.metrics.discriminant import EncodedClassifier, classifier_operations
from understudy.release.outputs import RunPaths, read_json, release_folder
from understudy.report import RunRecord, read_record
from understudy.report.meaning import guarantee_words
from understudy.run.codec_rules import ENERGIES, lacks_torch
from understudy.run.models import front_end
from understudy.run.resample import open_run

LITERT_SUFFIX = ".tflite"
"""Of a file that is written as LiteRT; others are ONNX."""


@dataclass(frozen=True)
class ReleasedClassifier:
    """What the released statistics of a run know of its classes."""

    record: RunRecord
    classifier: EncodedClassifier


def released_classifier(folder: str | Path, events: Events) -> ReleasedClassifier:
    """The classifier of what a run released: fitted again from the answers that it stored.

    Reads no private record and charges nothing.

    Args:
        folder: The folder of a finished run, its ``owner`` part included, or the release in it.
        events: Where progress goes.

    Raises:
        RunError: It is no folder of a finished run, or answers are missing.
        ConfigError: The run released no statistics that classify images.
        MissingExtra: The package of the encoder is not installed.
    """
    place = release_folder(Path(folder))
    root = place.parent
    record = read_record(read_json(place / "privacy.json"))
    if lacks_torch():
        raise MissingExtra("the classifier of what a run released", "torch")
    codec = {model.name for model in record.models if model.role in ("encoder", "decoder")}
    encoder = front_end(record.image_shape) if codec == {ENERGIES} else None
    if encoder is None or record.image_shape is None:
        models = ", ".join(sorted(codec)) or "no encoder"
        raise ConfigError(_no_statistics(folder, f"it worked with {models}"))
    if not _in_run(place):
        raise RunError(
            f"{folder}: is a release alone, and the statistics lie in the run's owner/stages: the "
            "owner writes this classifier. understudy train RELEASE learns from the samples"
        )
    earlier = open_run(root, root.parent / f"{root.resolve().name}-statistics")
    resampling = Resampling(
        earlier.prepared.config.output.seed, record.count, None, lambda _, make: make()
    )
    materials = earlier.materials(resampling, events)
    linear = earlier.prepared.method.run(materials, earlier.prepared.params).classifier
    if linear is None:
        raise ConfigError(_no_statistics(folder, "its statistics tell no classes apart"))
    return ReleasedClassifier(record, EncodedClassifier(encoder, linear, record.image_shape))


def has_statistics(place: Path, record: RunRecord) -> bool:
    """Whether a release lies in its run's folder, and the run measured what classifies images."""
    return NUMBERS_MEASURED in record.facts and _in_run(place)


def _in_run(place: Path) -> bool:
    return place.name == "release" and RunPaths(place.parent).record.is_file()


def _no_statistics(folder: str | Path, reason: str) -> str:
    return (
        f"{folder}: released no means and covariance of classes of images ({reason}): understudy "
        f"train {folder} --from samples learns from its samples; a run of images of two classes or "
        f"more with --encoder {ENERGIES} releases such statistics"
    )


def written_classifier(classifier: EncodedClassifier, path: Path, facts: dict[str, str]) -> bytes:
    """A classifier as one file, its encoder included: ONNX, or LiteRT by the name of the file."""
    encoder, linear = classifier.encoder, classifier.linear
    if not isinstance(encoder, WrittenEncoder):
        raise ConfigError(f"{encoder.name}: cannot be written down")
    operations = classifier_operations(encoder.operations(), linear)
    if path.suffix == LITERT_SUFFIX:
        from understudy.metrics.networks.litert_export import operations_as_litert as written
    else:
        from understudy.metrics.networks.onnx_export import operations_as_onnx as written
    return written(operations, classifier.shape, len(linear.bias), facts)


def file_facts(
    record: RunRecord, classes: tuple[str, ...], shape: Shape, encoder: str | None
) -> dict[str, str]:
    """What a file of a classifier says of itself; of an input of a shape, as records have it."""
    facts = {
        "input": _input_words(record, shape),
        "classes": json.dumps(list(classes), ensure_ascii=False),
        "guarantee": guarantee_words(record.receipt, record.private_samples),
        "trained on": "samples",
        "licence": record.licence,
        "made with": f"Understudy {record.version}",
    }
    return facts if encoder is None else {**facts, "encoder": encoder}


def _input_words(record: RunRecord, shape: Shape) -> str:
    """What a classifier takes, and how the private images of its release were read."""
    if len(shape) == 1:
        return f"float32 embeddings of {shape[0]} numbers"
    height, width, channels = shape
    words = (
        f"float32 images of {height} x {width} pixels (height x width), "
        f"{'1 channel (grey)' if channels == 1 else '3 channels (red, green, blue)'}, each value "
        "from 0 (black) to 255 (white)"
    )
    window = next((one.value for one in record.premises if one.name == "intensity window"), None)
    if window is None:
        return words
    read = window if isinstance(window, str) else "{:g},{:g} (centre, width)".format(*window)
    return f"{words}; real ones were read by the intensity window {read}"
