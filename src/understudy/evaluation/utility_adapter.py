"""What the release is good for: models trained on it, on the private records, and on both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

from understudy.core.errors import ConfigError, MissingExtra
from understudy.core.ports import Source
from understudy.core.results import Curve, Interval, Metric, MetricValue
from understudy.evaluation import Part
from understudy.evaluation.attack_adapter import attack_trained_model
from understudy.metrics.discriminant import DISCRIMINANT, EncodedClassifier
from understudy.metrics.labelled import Labelled
from understudy.metrics.sample_size import accuracy_by_size, halvings
from understudy.metrics.utility import (
    ACCURACY,
    BALANCED_ACCURACY,
    BALANCED_ACCURACY_WITH_PRIVATE,
    CALIBRATION_ERROR,
    CLASS_RECALL,
    MAJORITY_ACCURACY,
    MAJORITY_BALANCED_ACCURACY,
    RELEASED_ACCURACY,
    Network,
    TrainingSet,
    UtilityReport,
    UtilityResult,
    mean_and_spread,
    score,
    utility_report,
)
from understudy.run.accuracy import RELEASED_WORDS, WORDS, EpochBar, require_networks
from understudy.run.models import front_end, measured_columns
from understudy.run.progress import Bars

if TYPE_CHECKING:
    from understudy.metrics.utility import AnyClassifier

_LEAST_SIDE = 8
_LEAST_ROWS = 200  # of a side, for balanced accuracy over the number of rows
_SIZES = 4  # all rows, half of them, ...

_CHEAPEST: tuple[Network, ...] = (
    "two-layer",
    "cnn",
    "convnet",
    "resnet-in",
    "mobilenetv2",
    "resnet9",
    "vgg11",
    "resnet50",
    "wrn40-4",
)

_Score = Literal["balanced", "accuracy", "ece"]
_SCORES: tuple[tuple[_Score, Metric], ...] = (
    ("balanced", BALANCED_ACCURACY),
    ("accuracy", ACCURACY),
    ("ece", CALIBRATION_ERROR),
)


def require_trainable(release: Source, test: Source, networks: Sequence[Network] | None) -> None:
    """Refuse what no network could be trained on, before anything is measured.

    Raises:
        ConfigError: An unknown network, no classes, or other classes than the test set has.
        MissingExtra: The package that trains networks is not installed.
    """
    from understudy.backends.plugin import installed

    if not installed("torch"):
        raise MissingExtra("training models (--full or --network)", "torch")
    require_networks(networks)
    if len(release.classes) < 2:
        raise ConfigError("a release without classes trains no classifier: leave out --full")
    lacks = sorted(set(test.classes) - set(release.classes))
    if lacks:
        raise ConfigError(
            f"the test set has classes that the release lacks: {', '.join(lacks[:10])}; leave "
            "out --full, or give a test set with the release's classes"
        )
    for name in networks or ():
        if (name == "two-layer") != (release.kind == "embeddings"):
            fits = "two-layer" if release.kind == "embeddings" else "one of the other networks"
            raise ConfigError(f"{name} does not learn from {release.kind}: name {fits}")
    if DISCRIMINANT in (networks or ()) and front_end(release.shape) is None:
        raise ConfigError(
            f"{DISCRIMINANT} is of images of 16 to 256 pixels a side, found {release.shape}: name "
            "another network"
        )
    if release.kind == "images" and min(release.shape[:2]) < _LEAST_SIDE:
        raise ConfigError(f"networks need images of {_LEAST_SIDE} pixels a side: leave out --full")


def measure_utility(
    synthetic: Labelled,
    private: Labelled,
    held_out: Labelled,
    bars: Bars,
    *,
    networks: Sequence[Network],
    seeds: int,
    epochs: int | None,
    both: bool,
    released: EncodedClassifier | None = None,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> Part:
    """Train and test; attack the first model that was trained on the release by its losses.

    The confusion is that of the first network. ``seeds`` trainings of each are averaged over, for
    ``epochs`` passes where not the usual number, and with ``both`` also on the release and the
    private records together. ``released`` is the classifier of the released statistics, which is
    tested where a discriminant of the private records stands beside it; ``facts`` are those of the
    release.
    """
    part, encoder = Part(), front_end(synthetic.values.shape[1:])
    columns = measured_columns(encoder, facts, synthetic.values)
    for network in networks:
        first: list[AnyClassifier] = []
        report = utility_report(
            synthetic,
            private,
            held_out,
            network=network,
            seeds=range(seeds),
            epochs=epochs,
            progress=EpochBar(bars, f"training {WORDS[network]}"),
            both=both,
            keep=partial(_keep_first, first),
            encoder=encoder,
            measured=columns,
        )
        part.values += _values(report, WORDS[network], synthetic.classes)
        attacked, _ = attack_trained_model(
            first[0].probabilities, private, held_out, synthetic.classes, WORDS[network]
        )
        part.add(attacked)
        part.settings.setdefault("confusion", [_confusion(report.synthetic, synthetic.classes)])
        if released is not None and network == DISCRIMINANT:
            right = score(released, held_out, synthetic.classes).balanced
            baseline, _ = mean_and_spread(report.real)
            part.values.append(
                RELEASED_ACCURACY.value(right, baseline=baseline, measured=RELEASED_WORDS)
            )
    part.values += _majority(report.synthetic[0])
    return part


def measure_by_size(
    synthetic: Labelled,
    held_out: Labelled,
    bars: Bars,
    *,
    networks: Sequence[Network],
    epochs: int | None,
) -> Part:
    """Balanced accuracy over the rows of the release that the cheapest network is trained on."""
    if min(len(synthetic.labels), len(held_out.labels)) < _LEAST_ROWS:
        few = f"accuracy over the number of rows: fewer than {_LEAST_ROWS} rows of a side"
        return Part(left_out=[few])
    if not (networks := _in_passes(networks)):
        return Part(left_out=["accuracy over the number of rows: no network learns in passes"])
    network = min(networks, key=_CHEAPEST.index)
    sizes = halvings(len(synthetic.labels), most=_SIZES)
    results = accuracy_by_size(
        synthetic,
        held_out,
        network=network,
        sizes=sizes,
        epochs=epochs,
        progress=EpochBar(bars, f"training {WORDS[network]} on parts of the release"),
    )
    curve = Curve(
        "utility",
        f"{WORDS[network]}, trained on parts of the release",
        "rows of the release",
        "balanced accuracy",
        tuple(map(float, sizes)),
        tuple(result.balanced for result in results),
    )
    return Part(curves=[curve])


def measure_dp_sgd(
    private: Labelled,
    held_out: Labelled,
    bars: Bars,
    *,
    networks: Sequence[Network],
    guarantee: tuple[float, float],
    epochs: int | None,
    without_noise: Sequence[MetricValue],
) -> Part:
    """What the owner could do instead: DP-SGD on the private records, at the release's guarantee.

    ``guarantee`` is its epsilon and delta, ``without_noise`` holds values of the same networks.
    """
    from understudy.metrics.dp_sgd import CLIP, DP_SGD_ACCURACY, LEARNING_RATE, dp_sgd

    baselines = {
        value.measured: value.baseline
        for value in without_noise
        if value.metric.key == BALANCED_ACCURACY.key
    }
    options: dict[str, Any] = dict(zip(("epsilon", "delta"), guarantee, strict=True))
    options |= {} if epochs is None else {"epochs": epochs}
    part = Part()
    for network in _in_passes(networks):
        words = WORDS[network]
        options |= {"network": network, "progress": EpochBar(bars, f"training {words} by DP-SGD")}
        training = dp_sgd(private, held_out, **options)
        part.values.append(
            DP_SGD_ACCURACY.value(
                training.result.balanced, baseline=baselines[words], measured=words
            )
        )
        part.settings["dp_sgd"] = {
            "steps": training.steps,
            "clip": CLIP,
            "learning_rate": LEARNING_RATE,
        }
    return part


def _in_passes(networks: Sequence[Network]) -> list[Network]:
    """The networks that learn in passes over the data."""
    return [network for network in networks if network != DISCRIMINANT]


def _confusion(results: Sequence[UtilityResult], classes: Sequence[str]) -> dict[str, Any]:
    """Counts of all seeds together, a line a true class."""
    counts = np.sum([one.confusion for one in results], axis=0)
    return {
        "name": f"{WORDS[results[0].network]}, trained on the release",
        "classes": list(classes),
        "counts": counts.tolist(),
    }


def _keep_first(
    first: list[AnyClassifier], training_set: TrainingSet, seed: int, model: AnyClassifier
) -> None:
    """Keep the first model that was trained on the release."""
    if training_set == "synthetic" and not first:
        first.append(model)


def _values(report: UtilityReport, measured: str, classes: Sequence[str]) -> Iterator[MetricValue]:
    """Means over the seeds; where there are several, with Student's interval (95 %)."""
    seeds = len(report.synthetic)
    for field, metric in _SCORES:
        value, spread = mean_and_spread(report.synthetic, field)
        number: float | Interval = value
        if seeds > 1:
            half = float(scipy.stats.t.ppf(0.975, seeds - 1)) * spread / np.sqrt(seeds)
            number = Interval(value, max(0.0, value - half), min(1.0, value + half))
        yield metric.value(
            number, baseline=mean_and_spread(report.real, field)[0], measured=measured
        )
    if report.both:
        yield BALANCED_ACCURACY_WITH_PRIVATE.value(
            mean_and_spread(report.both)[0],
            baseline=mean_and_spread(report.real)[0],
            measured=measured,
        )
    for name in classes:
        ours, theirs = (
            [result.per_class[name] for result in side] for side in (report.synthetic, report.real)
        )
        if None in ours or None in theirs:
            continue
        yield CLASS_RECALL.value(
            float(np.mean([recall for recall in ours if recall is not None])),
            baseline=float(np.mean([recall for recall in theirs if recall is not None])),
            measured=measured,
            label=name,
        )


def _majority(result: UtilityResult) -> list[MetricValue]:
    """What naming the most frequent class of the test set for every row comes to."""
    return [
        MAJORITY_BALANCED_ACCURACY.value(result.majority_balanced, measured="no model"),
        MAJORITY_ACCURACY.value(result.majority, measured="no model"),
    ]
