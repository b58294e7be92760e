"""Train on a release, test on real data; beside it, the same network trained on the real data.

What comes out describes private data without noise: it is marked owner-only and never enters a
release folder. Importing this module needs no torch; training does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Batch, Labels, SyntheticBatch

Network = Literal["two-layer", "cnn", "resnet9", "resnet50", "vgg11"]
"""``two-layer`` reads embeddings, the others images."""

Progress = Callable[[int, int], None]
"""Called with (epochs done, epochs in all)."""

Rows = Batch | SyntheticBatch | tuple[NDArray[Any], Labels]
"""Some rows with a class each."""

OwnerOnly = Literal["owner-only"]
"""The mark of a figure that was measured on private data without noise."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A dataset in memory.

    Attributes:
        values: (n, d) float32 embeddings or (n, height, width, channels) uint8 images.
        labels: (n,) int64, indices into ``classes``.
        classes: The names of the classes.
    """

    values: NDArray[Any]
    labels: Labels
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UtilityResult:
    """How well one trained network does on the real test split.

    Attributes:
        accuracy: Part of the test rows whose class was found, in [0, 1].
        per_class: The same within each class; None for a class without test rows.
        balanced: Mean of ``per_class`` over the classes that have test rows.
        n_train: Rows it was trained on.
        network: Which network.
        seed: Seed of the training.
        kind: Always ``"owner-only"``.
    """

    accuracy: float
    per_class: dict[str, float | None]
    balanced: float
    n_train: int
    network: Network
    seed: int
    kind: OwnerOnly = "owner-only"


@dataclass(frozen=True, slots=True)
class UtilityReport:
    """The same network trained on the release and on the real data, once for each seed.

    Attributes:
        synthetic: Results of training on the release.
        real: Results of training on the real data: what sharing the data itself would give.
        kind: Always ``"owner-only"``.
    """

    synthetic: tuple[UtilityResult, ...]
    real: tuple[UtilityResult, ...]
    kind: OwnerOnly = "owner-only"

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON values, with mean and spread of the accuracies over the seeds."""
        return {
            "kind": self.kind,
            "synthetic": _summary(self.synthetic),
            "real": _summary(self.real),
        }


def gather(
    batches: Iterable[Rows],
    classes: Sequence[str],
    *,
    of: Literal["embeddings", "images"] = "images",
) -> Labelled:
    """Collect batches into memory.

    Args:
        batches: What ``Source.batches`` or ``Release.batches`` yields, or (values, labels) pairs.
        classes: Names of the classes that the labels index.
        of: Which part of a synthetic batch to take.

    Raises:
        InputError: There are no rows, no class names, or no such part in the release.
    """
    if not classes:
        raise InputError("the data has no classes to learn: release it with labels")
    pairs = [_pair(rows, of) for rows in batches]
    if not sum(len(labels) for _, labels in pairs):
        raise InputError("the data has no rows")
    if len({values.shape[1:] for values, _ in pairs}) > 1:
        raise InputError("the rows differ in shape: read the images at one size and colour")
    values, labels = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return Labelled(values, labels.astype(np.int64), tuple(classes))


def match_classes(labels: Labels, classes: Sequence[str], onto: Sequence[str]) -> Labels:
    """Renumber labels so that they index ``onto``, by the names of the classes.

    Args:
        labels: (n,) indices into ``classes``.
        classes: Names that the labels index now.
        onto: Names they are to index, such as the release's. May hold more classes.

    Raises:
        InputError: A class that has rows is not in ``onto``; names every one of them.
    """
    missing = sorted({classes[i] for i in np.unique(labels)} - set(onto))
    if missing:
        raise InputError(
            f"classes that the training set does not have: {', '.join(missing)}. "
            f"It has: {', '.join(onto)}. Rename the classes so that they agree"
        )
    place = {name: index for index, name in enumerate(onto)}
    # -1 marks classes without rows, which the check above lets pass.
    table = np.array([place.get(name, -1) for name in classes], np.int64)
    return table[labels]


def utility(
    train: Labelled,
    test: Labelled,
    *,
    network: Network,
    seed: int = 0,
    epochs: int | None = None,
    at_most: int | None = None,
    progress: Progress | None = None,
) -> UtilityResult:
    """Train on one dataset, test on another; classes are matched by name.

    Args:
        train: What to train on; its classes are the ones that are learned.
        test: The real test split.
        network: ``"two-layer"`` for embeddings, one of the others for images.
        seed: Of the training, and of the choice of rows.
        epochs: Passes over the training set; None for the recipe's own number.
        at_most: Train on so many rows, chosen at random, where there are more (paper, C.3).
        progress: Told after every epoch.

    Raises:
        InputError: The classes, the shapes or the arrays do not fit; see the message.
        MissingExtra: Torch is not installed.
    """
    if network not in get_args(Network):
        raise InputError(f"no network {network!r}; there are {', '.join(get_args(Network))}")
    if at_most is not None and at_most < 1:
        raise InputError(f"at_most must be at least 1, found {at_most}")
    truth = match_classes(test.labels, test.classes, train.classes)
    if train.values.shape[1:] != test.values.shape[1:]:
        raise InputError(
            f"rows to train on have shape {train.values.shape[1:]}, rows to test on "
            f"{test.values.shape[1:]}: use the same encoder, and images of one size and colour"
        )
    from understudy.evaluate import training

    x, y = train.values, train.labels
    if at_most is not None and at_most < len(x):
        chosen = np.sort(np.random.default_rng(seed).choice(len(x), at_most, replace=False))
        x, y = x[chosen], y[chosen]
    options: dict[str, Any] = {"classes": len(train.classes), "seed": seed, "progress": progress}
    if epochs is not None:
        options["epochs"] = epochs
    if network == "two-layer":
        classifier = training.train_on_embeddings(x, y, **options)
    else:
        classifier = training.train_on_images(x, y, network=network, **options)
    return _score(classifier.predict(test.values), truth, train.classes, len(x), network, seed)


def utility_report(
    synthetic: Labelled,
    real: Labelled,
    test: Labelled,
    *,
    network: Network,
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    progress: Progress | None = None,
) -> UtilityReport:
    """Train the same network on the release and on the real data, and test both.

    Where the release has more rows than the real data, a random part of it of the same size is
    used, as in the paper (appendix C.3), so that neither side sees more rows.

    Args:
        synthetic: The release. Its classes are the ones that are learned.
        real: The real training split.
        test: The real test split.
        network: ``"two-layer"`` for embeddings, one of the others for images.
        seeds: One training on each side for every seed.
        epochs: Passes over the training set; None for the recipe's own number.
        progress: Told after every epoch of all trainings together.

    Raises:
        InputError: As :func:`utility`; or there are no seeds.
        MissingExtra: Torch is not installed.
    """
    if not seeds:
        raise InputError("seeds is empty: give at least one")
    labels = match_classes(real.labels, real.classes, synthetic.classes)
    sides = (synthetic, Labelled(real.values, labels, synthetic.classes))
    results: list[list[UtilityResult]] = [[], []]
    trainings = 2 * len(seeds)
    for number in range(trainings):
        seed, side = seeds[number // 2], number % 2
        told = None if progress is None else _part(progress, number, trainings)
        result = utility(
            sides[side],
            test,
            network=network,
            seed=seed,
            epochs=epochs,
            at_most=len(real.values),
            progress=told,
        )
        results[side].append(result)
    return UtilityReport(tuple(results[0]), tuple(results[1]))


def mean_and_spread(results: Sequence[UtilityResult]) -> tuple[float, float]:
    """Mean and sample standard deviation of the accuracies; the latter is 0 for one result."""
    values = [result.accuracy for result in results]
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _summary(results: Sequence[UtilityResult]) -> dict[str, Any]:
    mean, spread = mean_and_spread(results)
    return {"accuracy": mean, "spread": spread, "runs": [asdict(result) for result in results]}


def _part(progress: Progress, number: int, trainings: int) -> Progress:
    """Progress of one training among several of the same length."""
    return lambda done, total: progress(number * total + done, trainings * total)


def _pair(rows: Rows, of: Literal["embeddings", "images"]) -> tuple[NDArray[Any], Labels]:
    if isinstance(rows, tuple):
        return rows
    if isinstance(rows, Batch):
        return rows.values, rows.labels
    values = rows.embeddings if of == "embeddings" else rows.images
    if values is None:
        raise InputError(f"the release has no {of}")
    return values, rows.labels


def _score(
    found: Labels,
    truth: Labels,
    classes: tuple[str, ...],
    n_train: int,
    network: Network,
    seed: int,
) -> UtilityResult:
    if not len(truth):
        raise InputError("the test split has no rows")
    right = np.bincount(truth[found == truth], minlength=len(classes))
    rows = np.bincount(truth, minlength=len(classes))
    per_class = {
        name: float(hits / n) if n else None
        for name, hits, n in zip(classes, right, rows, strict=True)
    }
    balanced = float(np.mean(right[rows > 0] / rows[rows > 0]))
    return UtilityResult(
        float(right.sum() / len(truth)), per_class, balanced, n_train, network, seed
    )
