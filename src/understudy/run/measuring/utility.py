"""What the release is good for: models trained on it, on the private rows, and on both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from understudy.core.errors import ConfigError, MissingExtra
from understudy.core.figures import Curve, Figure
from understudy.core.ports import Encoder, Source
from understudy.evaluate.utility import (
    Network,
    Side,
    UtilityReport,
    mean_and_spread,
    utility_report,
)
from understudy.evaluate.verdicts import ACCURACY
from understudy.run.measure import WORDS, EpochBar, collect, require_networks, usual_networks
from understudy.run.measuring.attacks import attack_by_loss
from understudy.run.progress import Bars

if TYPE_CHECKING:
    from understudy.evaluate.classifier import Classifier

_LEAST_SIDE = 8

_Score = Literal["accuracy", "balanced", "ece"]
_SCORES: tuple[tuple[_Score, str, str, str], ...] = (
    ("accuracy", ACCURACY, "higher", "%"),
    ("balanced", "balanced accuracy, trained on the release", "higher", "%"),
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
    release: Source,
    real: Source,
    test: Source,
    encoder: Encoder | None,
    bars: Bars,
    *,
    networks: Sequence[Network] | None,
    seeds: int,
    epochs: int | None,
    both: bool,
) -> tuple[list[Figure], list[Curve]]:
    """Train and test; attack the first model that was trained on the release by its losses.

    Args:
        release: The synthetic rows.
        real: The private training set.
        test: The real test set.
        encoder: Embeds real images where the release holds embeddings.
        bars: Progress.
        networks: Which; None: the usual one.
        seeds: Trainings of each to average over.
        epochs: Passes over the training set, where not the usual number.
        both: Also train on the release and the private rows together.
    """
    synthetic, private, held_out = (collect(one, encoder, bars) for one in (release, real, test))
    figures: list[Figure] = []
    curves: list[Curve] = []
    for network in networks or usual_networks(release):
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
        figures += _figures(report, WORDS[network], synthetic.classes)
        attacked = attack_by_loss(
            kept[0].probabilities, private, held_out, synthetic.classes, WORDS[network]
        )
        figures += attacked.figures
        curves += attacked.curves
    return figures, curves


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
            "accuracy, trained on the release and the private rows",
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
            ACCURACY,
            float(np.mean([one for one in ours if one is not None])),
            baseline=float(np.mean([one for one in theirs if one is not None])),
            measured=words,
            label=name,
            better="higher",
            unit="%",
        )
