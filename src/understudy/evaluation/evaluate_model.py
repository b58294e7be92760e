"""``understudy evaluate --model FILE``: a classifier in a file, on real data. Owner-only."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from understudy.backends.classifier_file import ClassifierFile
from understudy.backends.registry import load_encoder
from understudy.core.errors import BackendError, ConfigError
from understudy.core.ports import Encoder, Events, Source
from understudy.core.results import Evaluation, MetricValue, Verdict
from understudy.evaluation import Part
from understudy.evaluation.apart import require_few_shared
from understudy.evaluation.attack_adapter import attack_trained_model
from understudy.evaluation.inputs import EvaluationOptions
from understudy.metrics import verdicts
from understudy.metrics.fingerprints import record_digests
from understudy.metrics.labelled import Labelled
from understudy.metrics.utility import (
    ACCURACY,
    BALANCED_ACCURACY,
    CALIBRATION_ERROR,
    CLASS_RECALL,
    MAJORITY_ACCURACY,
    MAJORITY_BALANCED_ACCURACY,
    UtilityResult,
    score,
)
from understudy.run.accuracy import collect
from understudy.run.models import encoder_name
from understudy.run.prepare import open_labelled, open_test, require_classes


def evaluate_model(
    file: str | Path, real: str, test: str | None, options: EvaluationOptions, events: Events
) -> Evaluation:
    """Measure a classifier (ONNX or LiteRT) on a real test set, and attack it by its losses.

    ``real`` is the private dataset that the release which it was trained on was made from, ``test``
    real rows that were not in it; of the options count label, encoder, skip_bad and attacks.

    Raises:
        InputError: It is no classifier, or the data do not fit it.
    """
    if test is None:
        raise ConfigError(
            "a classifier is measured on a test set: say --test, real records that were not in the "
            "private dataset"
        )
    start = time.perf_counter()
    model = ClassifierFile(file)
    private, held_out = _opened(model, real, test, options)
    bars = partial(events.step, owner_only=True)
    encoder = _encoder(model, private, options.encoder)
    sides = [collect(source, encoder, bars) for source in (private, held_out)]
    digests = [record_digests(side.values) for side in sides]
    apart = ~require_few_shared(digests[1], {"private records": digests[0]}, held_out)
    rows = Labelled(sides[1].values[apart], sides[1].labels[apart], sides[1].classes)
    classes = model.classes or sides[0].classes
    _require_known(model, classes, rows)
    result = score(model, rows, classes)
    part, attacks = Part(), verdicts.Attacks(left_out=not options.attacks)
    if options.attacks:
        part, attacks = attack_trained_model(
            model.probabilities, sides[0], rows, classes, model.network
        )
    judged = (_judged(model, result), verdicts.judge_attacks(attacks))
    settings: dict[str, Any] = {
        "kind": "owner-only",
        "model": model.path.name,
        "real": private.name,
        "test": held_out.name,
        "rows": {"private": len(sides[0].labels), "held_out": len(rows.labels)},
        "left_out": []
        if apart.all()
        else [f"{(~apart).sum():,} private records among the test set"],
    }
    seconds = {"the classifier": round(time.perf_counter() - start, 2)}
    values = (*_values(model, result), *part.values)
    return Evaluation(values, tuple(part.curves), judged, settings, seconds)


def _opened(
    model: ClassifierFile, real: str, test: str, options: EvaluationOptions
) -> tuple[Source, Source]:
    """The private dataset and the test set, in the size that the model takes."""
    like: dict[str, Any] = {"skip_bad": options.skip_bad}
    if model.kind == "images" and model.shape is not None:
        like |= {"size": model.shape[:2], "channels": model.shape[2]}
    private = open_labelled(real, label=options.label, **like)
    held_out = open_test(test, label=options.label, **like)
    require_classes(private, held_out)
    return private, held_out


def _encoder(model: ClassifierFile, private: Source, choice: str | None) -> Encoder | None:
    """What embeds images for a classifier of embeddings; None: rows are given as they are."""
    if model.kind == "images" and private.kind == "embeddings":
        raise ConfigError(f"{model.path}: is of images, and {private.name} holds embeddings")
    encoder = None
    if model.kind == "embeddings" and private.kind == "images":
        name = choice or model.encoder
        if name is None:
            raise ConfigError(
                f"{model.path}: is of embeddings and names no encoder: say --encoder NAME"
            )
        try:
            encoder = load_encoder(encoder_name(name), shape=private.shape)
        except BackendError as error:
            if choice is not None:
                raise
            raise ConfigError(  # a release names a file without its folder
                f"{model.path}: takes embeddings of {name}, which is not found by this name "
                f"({error}): say --encoder NAME"
            ) from error
    shape = private.shape if encoder is None else (encoder.dim,)
    if model.shape is not None and model.shape != shape:
        raise ConfigError(f"{model.path}: takes rows of shape {model.shape}, found {shape}")
    return encoder


def _require_known(model: ClassifierFile, classes: tuple[str, ...], rows: Labelled) -> None:
    """Refuse a test set of classes that the model does not give."""
    scores = model.probabilities(rows.values[:1]).shape[1]
    if scores != len(classes):
        raise ConfigError(
            f"{model.path}: gives {scores} scores, and there are {len(classes)} classes: "
            f"{', '.join(classes[:10])}"
        )
    if lacks := sorted(set(rows.classes) - set(classes)):
        raise ConfigError(
            f"{model.path}: does not know {', '.join(lacks[:10])}; it tells "
            f"{', '.join(classes[:10])}"
        )


def _values(model: ClassifierFile, result: UtilityResult) -> list[MetricValue]:
    measured = model.network
    values = [
        BALANCED_ACCURACY.value(result.balanced, measured=measured),
        ACCURACY.value(result.accuracy, measured=measured),
        CALIBRATION_ERROR.value(result.ece, measured=measured),
        MAJORITY_BALANCED_ACCURACY.value(result.majority_balanced, measured="no model"),
        MAJORITY_ACCURACY.value(result.majority, measured="no model"),
    ]
    for name, recall in result.per_class.items():
        if recall is not None:
            values.append(CLASS_RECALL.value(recall, measured=measured, label=name))
    return values


def _judged(model: ClassifierFile, result: UtilityResult) -> Verdict:
    recalls = {name: recall for name, recall in result.per_class.items() if recall is not None}
    lowest = min(recalls, key=lambda name: recalls[name])
    return Verdict(
        "utility",
        "unknown",
        f"{model.path.name} reaches a balanced accuracy of {result.balanced:.1%} on real test "
        f"records (accuracy {result.accuracy:.1%}); one class for all: "
        f"{result.majority_balanced:.1%} ({result.majority:.1%}). The class that it finds least is "
        f"{lowest}: {recalls[lowest]:.1%} of its rows.",
        "Not graded: nothing was trained on the private records to compare it with.",
    )
