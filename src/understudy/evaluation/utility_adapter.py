"""What the release is good for: models trained on it, on the private rows, and on both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from understudy.core.errors import ConfigError, MissingExtra
from understudy.core.ports import Source
from understudy.core.results import Curve, Figure
from understudy.evaluation.attack_adapter import attack_by_loss
from understudy.evaluation.part import Part
from understudy.metrics.labelled import Labelled
from understudy.metrics.sample_size import accuracy_by_size, halvings
from understudy.metrics.utility import (
    Network,
    Side,
    UtilityReport,
    UtilityResult,
    mean_and_spread,
    utility_report,
)
from understudy.metrics.verdicts import BALANCED, MAJORITY, RECALL
from understudy.run.accuracy import WORDS, EpochBar, require_networks
from understudy.run.progress import Bars

if TYPE_CHECKING:
    from understudy.metrics.classifier import Classifier

_LEAST_SIDE = 8
_LEAST_ROWS = 200  # of a side, for balanced accuracy over the number of rows
_SIZES = 4  # all rows, half of them, ...

_CHEAPEST: tuple[Network, ...] = (
    "two-layer",
    "cnn",
    "convnet",
    "mobilenetv2",
    "resnet9",
    "vgg11",
    "resnet50",
    "wrn40-4",
)

_Score = Literal["balanced", "accuracy", "ece"]
_SCORES: tuple[tuple[_Score, str, str, str], ...] = (
    ("balanced", BALANCED, "higher", "%"),
    ("accuracy", "accuracy, trained on the release", "higher", "%"),
    ("ece", "calibration error, trained on the release", "lower", ""),
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
    strange = sorted(set(test.classes) - set(release.classes))
    if strange:
        raise ConfigError(
            f"the test set has classes that the release lacks: {', '.join(strange[:10])}; leave "
            "out --full, or give a test set with the release's classes"
        )
    for name in networks or ():
        if (name == "two-layer") != (release.kind == "embeddings"):
            fits = "two-layer" if release.kind == "embeddings" else "one of the other networks"
            raise ConfigError(f"{name} does not learn from {release.kind}: name {fits}")
    if release.kind == "images" and min(release.shape[:2]) < _LEAST_SIDE:
        raise ConfigError(f"networks need images of {_LEAST_SIDE} pixels a side: leave out --full")


def trained(
    synthetic: Labelled,
    private: Labelled,
    held_out: Labelled,
    bars: Bars,
    *,
    networks: Sequence[Network],
    seeds: int,
    epochs: int | None,
    both: bool,
) -> Part:
    """Train and test; attack the first model that was trained on the release by its losses.

    Args:
        synthetic: The release.
        private: The private training set.
        held_out: The real test set.
        bars: Progress.
        networks: Which; the confusion is told of the first.
        seeds: Trainings of each to average over.
        epochs: Passes over the training set, where not the usual number.
        both: Also train on the release and the private rows together.
    """
    found = Part()
    for network in networks:
        kept: list[Classifier] = []
        report = utility_report(
            synthetic,
            private,
            held_out,
            network=network,
            seeds=range(seeds),
            epochs=epochs,
            progress=EpochBar(bars, f"training {WORDS[network]}"),
            both=both,
            keep=partial(_keep_first, kept),
        )
        found.figures += _figures(report, WORDS[network], synthetic.classes)
        attacked = attack_by_loss(
            kept[0].probabilities, private, held_out, synthetic.classes, WORDS[network]
        )
        found.add(Part(attacked.figures, attacked.curves))
        found.settings.setdefault("confusion", [_confusion(report.synthetic, synthetic.classes)])
    found.figures += _majority(report.synthetic[0])
    return found


def by_size(
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
    network = min(networks, key=_CHEAPEST.index)
    found = accuracy_by_size(
        synthetic,
        held_out,
        network=network,
        sizes=halvings(len(synthetic.labels), most=_SIZES),
        epochs=epochs,
        progress=EpochBar(bars, f"training {WORDS[network]} on parts of the release"),
    )
    curve = Curve(
        "utility",
        f"{WORDS[network]}, trained on parts of the release",
        "rows of the release",
        "balanced accuracy",
        tuple(map(float, found.sizes)),
        found.means,
    )
    return Part(curves=[curve])


def by_dp_sgd(
    private: Labelled,
    held_out: Labelled,
    bars: Bars,
    *,
    networks: Sequence[Network],
    promise: tuple[float, float],
    epochs: int | None,
    plain: Sequence[Figure],
) -> Part:
    """What the owner could do instead: DP-SGD on the private rows, at the release's promise.

    Args:
        private: The private training set.
        held_out: The real test set.
        bars: Progress.
        networks: Which.
        promise: The release's epsilon and delta.
        epochs: Passes over the training set, where not the usual number.
        plain: Figures of the same networks without noise.
    """
    from understudy.metrics.dp_sgd import dp_sgd

    usual = {one.measured: one.baseline for one in plain if one.name == BALANCED}
    options: dict[str, Any] = dict(zip(("epsilon", "delta"), promise, strict=True))
    options |= {} if epochs is None else {"epochs": epochs}
    found = Part()
    for network in networks:
        words = WORDS[network]
        options |= {"network": network, "progress": EpochBar(bars, f"training {words} by DP-SGD")}
        made = dp_sgd(private, held_out, **options)
        figure = Figure(
            "utility",
            "balanced accuracy, DP-SGD on the private rows",
            made.result.balanced,
            baseline=usual[words],
            measured=words,
            better="higher",
            unit="%",
        )
        found.figures.append(figure)
        how = {"steps": made.steps, "clip": made.clip, "learning_rate": made.lr}
        found.settings["dp_sgd"] = how
    return found


def _confusion(results: Sequence[UtilityResult], classes: Sequence[str]) -> dict[str, Any]:
    """Counts of all seeds together, a line a true class."""
    counts = np.sum([one.confusion for one in results], axis=0)
    return {
        "name": f"{WORDS[results[0].network]}, trained on the release",
        "classes": list(classes),
        "counts": counts.tolist(),
    }


def _keep_first(kept: list[Classifier], side: Side, seed: int, model: Classifier) -> None:
    """Keep the first model that was trained on the release."""
    if side == "synthetic" and not kept:
        kept.append(model)


def _figures(report: UtilityReport, words: str, classes: Sequence[str]) -> Iterator[Figure]:
    """Means over the seeds; the interval is that of the seeds where there are several."""
    for field, name, better, unit in _SCORES:
        value, spread = mean_and_spread(report.synthetic, field)
        reach = 1.96 * spread / np.sqrt(len(report.synthetic))
        several = len(report.synthetic) > 1
        yield Figure(
            "utility",
            name,
            value,
            low=value - reach if several else None,
            high=value + reach if several else None,
            baseline=mean_and_spread(report.real, field)[0],
            measured=words,
            better="higher" if better == "higher" else "lower",
            unit="%" if unit else "",
        )
    if report.both:
        yield Figure(
            "utility",
            "balanced accuracy, trained on the release and the private rows",
            mean_and_spread(report.both)[0],
            baseline=mean_and_spread(report.real)[0],
            measured=words,
            better="higher",
            unit="%",
        )
    for name in classes:
        ours, theirs = (
            [one.per_class[name] for one in side] for side in (report.synthetic, report.real)
        )
        if None in ours or None in theirs:
            continue
        yield Figure(
            "utility",
            RECALL,
            float(np.mean([one for one in ours if one is not None])),
            baseline=float(np.mean([one for one in theirs if one is not None])),
            measured=words,
            label=name,
            better="higher",
            unit="%",
        )


def _majority(result: UtilityResult) -> list[Figure]:
    """What naming the most frequent class of the test set for every row comes to."""
    values = (
        (MAJORITY, result.majority_balanced),
        (
            "accuracy, the majority class for every row",
            result.majority,
        ),
    )
    return [Figure("utility", name, value, measured="no model", unit="%") for name, value in values]
