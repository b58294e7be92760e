"""Accuracy on real data of models trained on a release. Owner-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from understudy.core.ports import Encoder, Source
from understudy.evaluate.utility import (
    Labelled,
    Network,
    UtilityReport,
    gather,
    mean_and_spread,
    utility_report,
)
from understudy.run.config import unknown
from understudy.run.progress import Bars

_BATCH = 1024
_WORDS: dict[Network, str] = {
    "cnn": "small CNN on images",
    "resnet9": "ResNet-9 on images",
    "resnet50": "ResNet-50 on images",
    "vgg11": "VGG-11 on images",
    "two-layer": "two-layer network on embeddings",
}


@dataclass(frozen=True)
class Accuracy:
    """One network, trained on the release and on the real data, tested on the real test set.

    Attributes:
        model: What was trained, in words.
        synthetic: Mean accuracy over the seeds when trained on the release, 0 to 1.
        real: The same when trained on the real data.
        report: Every single result.
    """

    model: str
    synthetic: float
    real: float
    report: UtilityReport

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model": self.model, "kind": "owner-only", **asdict(self.report)}


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
) -> tuple[Accuracy, ...]:
    """Train on a release and on the real data, test both on real data.

    Args:
        release: The synthetic rows: images or embeddings.
        real: The private training set.
        test: The real test set.
        encoder: Embeds real images where the release holds embeddings.
        bars: Progress.
        networks: Which; by default the small CNN for images, the two-layer one for embeddings.
        seeds: Trainings to average over.
        epochs: Passes over the training set, where not the usual number.
        rows: Train on at most so many rows of each side.

    Raises:
        InputError: An unknown network, or one that cannot learn from these rows.
    """
    for name in networks or ():
        if name not in _WORDS:
            raise unknown("network", name, list(_WORDS))
    synthetic = _at_most(_collect(release, None, bars), rows)
    encode = encoder if release.kind == "embeddings" else None
    pair = _at_most(_collect(real, encode, bars), rows), _collect(test, encode, bars)
    default: Sequence[Network] = ("two-layer",) if release.kind == "embeddings" else ("cnn",)
    found = []
    for network in networks or default:
        step = _EpochBar(bars, f"training on the release and on real data: {_WORDS[network]}")
        report = utility_report(
            synthetic, *pair, network=network, seeds=seeds, epochs=epochs, progress=step
        )
        means = mean_and_spread(report.synthetic)[0], mean_and_spread(report.real)[0]
        found.append(Accuracy(_WORDS[network], *means, report))
    return tuple(found)


def _at_most(data: Labelled, rows: int | None) -> Labelled:
    if rows is None or rows >= len(data.labels):
        return data
    chosen = np.sort(np.random.default_rng(0).choice(len(data.labels), rows, replace=False))
    return Labelled(data.values[chosen], data.labels[chosen], data.classes)


class _EpochBar:
    def __init__(self, bars: Bars, words: str) -> None:
        self._bars, self._words, self._done = bars, words, 0
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        self._bar = self._bar or self._bars(self._words, total)
        self._bar(done - self._done)
        self._done = done


def _collect(source: Source, encoder: Encoder | None, bars: Bars) -> Labelled:
    bar = bars(f"reading {source.name}", len(source))
    parts = []
    for batch in source.batches(_BATCH):
        embed = encoder is not None and source.kind == "images"
        parts.append(
            (encoder.encode(batch.values) if embed and encoder else batch.values, batch.labels)
        )
        bar(len(batch.labels))
    return gather(parts, source.classes)
