"""How balanced accuracy grows with the number of rows that a network is trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from understudy.core.errors import InputError
from understudy.metrics.labelled import Labelled
from understudy.metrics.utility import (
    EpochProgress,
    Network,
    UtilityResult,
    fit,
    match_classes,
    score,
)

EPOCH_FACTOR = 10
"""A small part is trained on for at most so many times the epochs."""

_LEAST = 100  # rows of a part


def halvings(rows: int, *, most: int) -> tuple[int, ...]:
    """``rows``, half of them, a quarter ..., ascending, none below 100; at most ``most``."""
    sizes = [rows >> power for power in range(most)]
    return tuple(sorted({rows, *(size for size in sizes if size >= _LEAST)}))


def accuracy_by_size(
    train: Labelled,
    test: Labelled,
    *,
    network: Network,
    sizes: Sequence[int],
    epochs: int | None = None,
    progress: EpochProgress | None = None,
) -> tuple[UtilityResult, ...]:
    """Train on random parts of different sizes, and test each: a result a size.

    A part is trained on for as many steps as the largest one (but at most 10 times the epochs), so
    that the results show what more rows bring, and not what more steps do.

    Args:
        train: What to train on: the release, or the real data to compare with.
        test: The real test split.
        network: ``"two-layer"`` for embeddings, one of the others for images.
        sizes: Rows to train on, ascending.
        epochs: Passes over the largest part; None for the recipe's own number.
        progress: Told after every epoch of all trainings together.

    Raises:
        InputError: A size that is not in 1 to the number of rows; else as `utility`.
        MissingExtra: Torch is not installed.
    """
    rows = len(train.labels)
    if not sizes or not 1 <= sizes[0] <= sizes[-1] <= rows:
        raise InputError(f"sizes must be in 1 to {rows}, the rows there are, found {list(sizes)}")
    match_classes(test.labels, test.classes, train.classes)
    passes = _passes(network, sizes, epochs)
    whole, done = sum(passes), 0
    results = []
    for size, count in zip(sizes, passes, strict=True):
        part, part_progress = train.at_most(size), _after(progress, done, whole)
        model = fit(part, network=network, epochs=count, progress=part_progress)
        results.append(score(model, test, train.classes, n_train=size))
        done += count
    return tuple(results)


def _passes(network: Network, sizes: Sequence[int], epochs: int | None) -> list[int]:
    """Epochs at each size: the steps of the largest, as far as `EPOCH_FACTOR` lets them."""
    if epochs is None:
        from understudy.metrics.networks.recipes import EMBEDDINGS, IMAGES

        recipe = IMAGES[network][1] if network in IMAGES else EMBEDDINGS
        epochs = recipe.passes(sizes[-1])
    return [min(EPOCH_FACTOR * epochs, math.ceil(epochs * sizes[-1] / size)) for size in sizes]


def _after(progress: EpochProgress | None, before: int, whole: int) -> EpochProgress | None:
    if progress is None:
        return None
    return lambda done, _: progress(before + done, whole)
