"""What a run measures on real records: balanced accuracy, and ``--watch``. Owner-only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from understudy.backends.arrays import fit_images
from understudy.core.files import owner_file
from understudy.core.ports import Encoder, Events, Source
from understudy.core.results import Evaluation, MetricValue, Verdict
from understudy.core.types import Embeddings, LinearClassifier, Shape
from understudy.metrics.discriminant import DISCRIMINANT, EncodedClassifier
from understudy.metrics.fidelity import frechet_distance
from understudy.metrics.moments import Moments
from understudy.metrics.utility import (
    ACCURACY,
    BALANCED_ACCURACY,
    CLASS_RECALL,
    RELEASED_ACCURACY,
    Labelled,
    Network,
    UtilityReport,
    gather,
    mean_and_spread,
    score,
    utility_report,
)
from understudy.metrics.verdicts import judge_utility
from understudy.report import ModelScore, read_score
from understudy.run.config import RunConfig, require_known
from understudy.run.models import front_end, measured_columns
from understudy.run.progress import Bars, duration

_BATCH = 1024
# Processor seconds of one pass over one image or embedding: 1,000 images of 64 x 64 pixels, and
# 1,000 embeddings of 192 numbers.
_SECONDS_PER_PIXEL = 1e-6
_SECONDS_PER_EMBEDDING = 2e-5
WORDS: dict[Network, str] = {
    "cnn": "small CNN on images",
    "convnet": "ConvNet on images",
    "resnet9": "ResNet-9 on images",
    "resnet-in": "residual network with instance normalisation on images",
    "wrn40-4": "WRN-40-4 on images",
    "resnet50": "ResNet-50 on images",
    "vgg11": "VGG-11 on images",
    "mobilenetv2": "MobileNetV2 on images",
    "discriminant": "linear discriminant of energies of images",
    "two-layer": "two-layer network on embeddings",
}
"""The networks, as figures name them."""

RELEASED_WORDS = "linear discriminant of the released statistics"
"""The classifier that needs no samples, as figures name it."""


@dataclass(frozen=True)
class Accuracy:
    """One network, trained on the release and on the real data, tested on the real test set.

    Attributes:
        model: What was trained, in words.
        synthetic: Mean balanced accuracy over the seeds when trained on the release, 0 to 1.
        real: The same when trained on the real data.
        report: Every single result, with the plain accuracy and the recall of each class.
        released: Whether it is of what the run released, and no sample had a part in it.
    """

    model: str
    synthetic: float
    real: float
    report: UtilityReport
    released: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        content = {"model": self.model, "kind": "owner-only", "released": self.released}
        return {**content, **asdict(self.report)}

    @property
    def score(self) -> ModelScore:
        """The same with its baselines and recalls, as it is printed and reported."""
        return read_score(self.as_dict())


def measure(
    release: Source,
    real: Source,
    test: Source,
    encoder: Encoder | None,
    bars: Bars,
    *,
    networks: Sequence[Network] | None = None,
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    rows: int | None = None,
    classifier: LinearClassifier | None = None,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Accuracy, ...]:
    """Train on a release and on the real data, test both on real data.

    Args:
        release: The samples: images, to whose size the real ones are brought, or embeddings.
        real: The private training set.
        test: The real test set.
        encoder: Embeds real images where the release holds embeddings.
        bars: Progress.
        networks: Which; by default `usual_networks`.
        seeds: Trainings to average over.
        epochs: Passes over the training set, where not the usual number.
        rows: Train on at most so many rows of each side.
        classifier: Of the released statistics, where they can classify images; tested besides.
        facts: Public facts of the release.

    Raises:
        InputError: An unknown network, or one that cannot learn from these rows.
    """
    require_networks(networks)
    features = front_end(release.shape)
    synthetic = collect(release, None, bars).at_most(rows)
    encode, shape = (encoder, None) if release.kind == "embeddings" else (None, release.shape)
    pair = collect(real, encode, bars, shape).at_most(rows), collect(test, encode, bars, shape)
    accuracies = []
    for network in networks or usual_networks(release):
        step = EpochBar(bars, f"training on the release and on real data: {WORDS[network]}")
        report = utility_report(
            synthetic,
            *pair,
            network=network,
            seeds=seeds,
            epochs=epochs,
            encoder=features,
            measured=measured_columns(features, facts, synthetic.values),
            progress=step,
        )
        accuracies.append(_accuracy(WORDS[network], report))
        if network == DISCRIMINANT and classifier is not None and features is not None:
            model = EncodedClassifier(features, classifier, pair[1].values.shape[1:])
            statistics = score(model, pair[1], synthetic.classes)
            report = replace(report, synthetic=(statistics,))
            accuracies.append(replace(_accuracy(RELEASED_WORDS, report), released=True))
    return tuple(accuracies)


def _accuracy(model: str, report: UtilityReport) -> Accuracy:
    release, real = (mean_and_spread(side)[0] for side in (report.synthetic, report.real))
    return Accuracy(model, release, real, report)


def training_note(rows: int, shape: Shape | None, config: RunConfig) -> str:
    """What ``--test`` takes: the networks that it trains, about how long, and how to do it later.

    Args:
        rows: Of the real training set.
        shape: (height, width, channels) of the release; None: it holds embeddings.
        config: The run.
    """
    from understudy.metrics.networks.recipes import EMBEDDINGS, IMAGES  # imports torch

    rows = min(rows, config.data.test_rows or rows)
    network: Network = "two-layer" if shape is None else "cnn"
    recipe = EMBEDDINGS if shape is None else IMAGES[network][1]
    each = _SECONDS_PER_EMBEDDING if shape is None else _SECONDS_PER_PIXEL * shape[0] * shape[1]
    cores = os.cpu_count() or 1
    seconds = 2 * recipe.passes(rows) * rows * each / cores
    return (
        f"--test trains two networks after the release is written ({WORDS[network]}: one learns "
        f"from the release, one from real records), for about {duration(max(seconds, 1))} on "
        f"{cores} cores. It can be left for later: understudy evaluate OUT --real SOURCE "
        "--test TEST --full"
    )


def usual_networks(release: Source) -> Sequence[Network]:
    """The networks that are trained where none is named."""
    if release.kind == "embeddings":
        return ("two-layer",)
    return ("cnn",) if front_end(release.shape) is None else ("cnn", DISCRIMINANT)


def require_networks(networks: Sequence[str] | None) -> list[Network]:
    """The networks by their names, all of which exist."""
    by_name: dict[str, Network] = {name: name for name in WORDS}
    require_known("network", networks or (), by_name)
    return [by_name[name] for name in networks or ()]


def evaluation_of_scores(scores: Sequence[ModelScore]) -> Evaluation | None:
    """What a run measured by itself (``--test``), as metric values."""
    values: list[MetricValue] = []
    for entry in scores:
        model = entry.model
        if entry.released:
            values.append(
                RELEASED_ACCURACY.value(entry.synthetic, baseline=entry.real, measured=model)
            )
            continue
        values.append(BALANCED_ACCURACY.value(entry.synthetic, baseline=entry.real, measured=model))
        if entry.accuracy is not None:
            values.append(
                ACCURACY.value(entry.accuracy, baseline=entry.accuracy_real, measured=model)
            )
        values += [
            CLASS_RECALL.value(
                recall.synthetic, baseline=recall.real, measured=model, label=recall.label
            )
            for recall in entry.recalls
        ]
    return Evaluation(tuple(values)) if values else None


def utility_of_scores(scores: Sequence[ModelScore]) -> Verdict | None:
    """The verdict on utility by what a run measured itself; None where it measured nothing."""
    evaluation = evaluation_of_scores([score for score in scores if score.real is not None])
    return None if evaluation is None else judge_utility(evaluation.values)


class EpochBar:
    """A bar that is told how many epochs are done."""

    def __init__(self, bars: Bars, words: str) -> None:
        self._bars, self._words, self._done = bars, words, 0
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        """So many of all epochs are done."""
        self._bar = self._bar or self._bars(self._words, total)
        self._bar(done - self._done)
        self._done = done


def collect(
    source: Source, encoder: Encoder | None, bars: Bars, shape: Shape | None = None
) -> Labelled:
    """A source in memory; images as embeddings where there is an encoder, else of a shape."""
    bar = bars(f"reading {source.name}", len(source), owner_only=True)
    parts = []
    for batch in source.batches(_BATCH):
        values = batch.values
        if source.kind == "images" and encoder is not None:
            values = encoder.encode(values)
        elif source.kind == "images" and shape is not None:
            values = fit_images(values, shape)
        parts.append((values, batch.labels))
        bar(len(batch.labels))
    return gather(parts, source.classes)


class Watch:
    """Compares with the private records themselves, without noise: for the owner alone.

    Args:
        source: The private records.
        encoder: Images to embeddings; None where the source holds embeddings.
        owner: The owner's folder; every comparison is added to ``watch.jsonl`` there.
        events: Where the distance is reported.
    """

    def __init__(
        self, source: Source, encoder: Encoder | None, owner: Path, events: Events
    ) -> None:
        self._source, self._encoder = source, encoder
        self._file, self._events = owner / "watch.jsonl", events

    def __call__(self, words: str, embeddings: Embeddings) -> None:
        """Note the Frechet distance of (n, d) synthetic embeddings to all private ones."""
        distance = frechet_distance(self._private, embeddings)
        self._events.notice(f"{words}: Frechet distance {distance:.4g}", owner_only=True)
        line = {"when": words, "frechet": distance, "rows": len(embeddings), "kind": "owner-only"}
        with owner_file(self._file, "a") as file:
            file.write(json.dumps(line) + "\n")

    @cached_property
    def _private(self) -> Moments:
        rows = []
        for batch in self._source.batches(256):
            values = batch.values
            rows.append(values if self._encoder is None else self._encoder.encode(values))
        return Moments.of(np.concatenate(rows))
