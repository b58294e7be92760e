"""How balanced accuracy grows with the number of rows that a network is trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from understudy.core.errors import InputError
from understudy.metrics.labelled import Labelled
from understudy.metrics.utility import (
    EpochProgress,
    Network,
    UtilityResult,
    fit,
    match_classes,
    mean_and_spread,
    score,
)

EPOCH_FACTOR = 10
"""A small part is trained on for at most so many times the epochs."""


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Balanced accuracy over the number of rows. Owner-only: of the real test split.

    Attributes:
        sizes: Rows trained on, ascending.
        results: For each size, one result a seed.
    """

    sizes: tuple[int, ...]
    results: tuple[tuple[UtilityResult, ...], ...]

    @property
    def means(self) -> tuple[float, ...]:
        """Mean balanced accuracy at each size."""
        return tuple(mean_and_spread(each)[0] for each in self.results)

    @property
    def spreads(self) -> tuple[float, ...]:
        """Standard deviation of it over the seeds; 0 for one seed."""
        return tuple(mean_and_spread(each)[1] for each in self.results)


def halvings(rows: int, *, least: int = 100, most: int = 6) -> tuple[int, ...]:
    """``rows``, half of them, a quarter ..., ascending, none below ``least``; at most ``most``."""
    sizes = [rows >> power for power in range(most)]
    return tuple(sorted({rows, *(size for size in sizes if size >= least)}))


def accuracy_by_size(
    train: Labelled,
    test: Labelled,
    *,
    network: Network,
    sizes: Sequence[int] | None = None,
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    progress: EpochProgress | None = None,
) -> SizeCurve:
    """Train on random parts of different sizes, and test each.

    A part is trained on for as many steps as the largest one (but at most 10 times the epochs), so
    that the curve shows what more rows bring, and not what more steps do.

    Args:
        train: What to train on: the release, or the real data to compare with.
        test: The real test split.
        network: ``"two-layer"`` for embeddings, one of the others for images.
        sizes: Rows to train on; by default `halvings` of all rows.
        seeds: One training at each size for every seed, each on other rows.
        epochs: Passes over the largest part; None for the recipe's own number.
        progress: Told after every epoch of all trainings together.

    Raises:
        InputError: A size that is not in 1 to the number of rows; no seeds; else as `utility`.
        MissingExtra: Torch is not installed.
    """
    rows = len(train.labels)
    asked = tuple(sorted(set(halvings(rows) if sizes is None else sizes)))
    if not asked or not 1 <= asked[0] <= asked[-1] <= rows or not seeds:
        raise InputError(
            f"sizes must be in 1 to {rows}, the rows there are, with one seed or more; "
            f"found sizes {list(asked)} and {len(seeds)} seeds"
        )
    match_classes(test.labels, test.classes, train.classes)
    passes = _passes(network, asked, epochs)
    whole, done = sum(passes) * len(seeds), 0
    results: list[tuple[UtilityResult, ...]] = []
    for size, count in zip(asked, passes, strict=True):
        seed_results = []
        for seed in seeds:
            part, part_progress = train.at_most(size, seed), _after(progress, done, whole)
            model = fit(part, network=network, seed=seed, epochs=count, progress=part_progress)
            seed_results.append(score(model, test, train.classes, n_train=size, seed=seed))
            done += count
        results.append(tuple(seed_results))
    return SizeCurve(asked, tuple(results))


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
