"""How long an evaluation takes, estimated by small probes before it begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from understudy.core.ports import Source
from understudy.evaluation.embedding_pass import FeatureExtractor
from understudy.evaluation.inputs import EvaluationOptions, Inputs
from understudy.metrics.discriminant import DISCRIMINANT
from understudy.metrics.labelled import Labelled
from understudy.metrics.utility import Network, fit
from understudy.run.accuracy import usual_networks
from understudy.run.models import front_end
from understudy.run.progress import duration

LONG = 60.0
"""Seconds from which an evaluation says beforehand how long it takes."""

_PROBED = 32  # rows that are embedded, and trained on
_PASSES = 3
_BLOCK = 512  # rows of a side whose distances are computed
_SORTED = 3.0  # times a product of blocks: what finding the nearest in it takes besides
_SCORED = 3e-4  # seconds a record: the bootstrap of the attacks
_DP_SGD = 4.0  # passes without noise that a pass of DP-SGD takes as long as


def announced(seconds: Mapping[str, float]) -> str:
    """A sentence on how long it takes; empty where that is less than a minute."""
    whole = sum(seconds.values())
    if whole < LONG:
        return ""
    parts = ", ".join(
        f"{part} {duration(each)}" for part, each in seconds.items() if each >= 0.05 * whole
    )
    return f"the evaluation takes about {duration(whole)} ({parts})"


def estimated_seconds(inputs: Inputs, options: EvaluationOptions) -> dict[str, float]:
    """Seconds of each part of an evaluation, by what a few rows take."""
    sides = (inputs.release, inputs.real, inputs.test)
    rows = [len(side) for side in sides]
    real = next(iter(inputs.real.batches(_PROBED)))
    embed = inputs.features
    if inputs.real.kind == "embeddings":
        embed = FeatureExtractor(embed.name)
    features, _ = embed(real.values)  # loads what is loaded once
    reading = _timed(lambda: embed(real.values)) / len(real.labels)
    block = np.ones((_BLOCK, features.shape[1]), dtype=np.float32)
    pair = _timed(lambda: block @ block.T) / _BLOCK**2 * (1 + _SORTED)
    searched = [min(count, options.rows) for count in rows]
    seconds = {
        "reading": reading * sum(rows),
        "comparing": pair * sum(searched) ** 2,
        "attacks": _SCORED * sum(searched[1:]) if options.attacks else 0.0,
    }
    if options.trains:
        batch = next(iter(inputs.release.batches(_PROBED)))
        probe = Labelled(batch.values, np.arange(len(batch.labels)) % 2, ("one", "another"))
        networks = options.networks or usual_networks(inputs.release)
        seconds["training"] = sum(
            _training(network, probe, rows, options, sides) for network in networks
        )
    return seconds


def _training(
    network: Network,
    probe: Labelled,
    rows: Sequence[int],
    options: EvaluationOptions,
    sides: Sequence[Source],
) -> float:
    """Seconds of training a network on the release, on the private records and, if so, on both."""
    release, private, _ = rows
    trainings = [release, private]
    if options.full:
        trainings += [release + private, 2 * release]  # on both, and on parts of the release
    if network == DISCRIMINANT:
        encoder = front_end(sides[0].shape)
        if encoder is None:
            return 0.0
        each = _timed(lambda: encoder.encode(probe.values)) / len(probe.labels)
        return each * sum(trainings) * options.seeds

    def passes(count: int) -> float:
        return _timed(lambda: fit(probe, network=network, epochs=count))

    passes(1)  # loads what is loaded once
    each = max(passes(1 + _PASSES) - passes(1), 0.0) / _PASSES / len(probe.labels)
    private_passes = private * _DP_SGD if options.dp_sgd else 0.0
    row_passes: float = sum(count * _epochs(network, count, options.epochs) for count in trainings)
    row_passes += private_passes * _epochs(network, private, options.epochs)
    return each * row_passes * options.seeds


def _epochs(network: Network, rows: int, epochs: int | None) -> int:
    """Passes over so many rows."""
    from understudy.metrics.networks.recipes import EMBEDDINGS, IMAGES

    if epochs is not None:
        return epochs
    recipe = EMBEDDINGS if network == "two-layer" else IMAGES[network][1]
    return recipe.passes(rows)


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
