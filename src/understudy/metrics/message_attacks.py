"""What a curious server reads from the messages of a device: the status, and which home it is.

The attacker has what the server gets, and the same of other homes with their statuses: who
chooses the sanitizers can run them on public photos. Homes of the training set are never asked.
Nothing in here is DP: owner-only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Interval, Metric
from understudy.core.types import Images, Labels, Vector
from understudy.metrics.fingerprints import area_means
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.roc import clopper_pearson
from understudy.steps.kmeans import square_distances

OUTLINE_ATTACK = Metric(
    key="outline_attack",
    group="attack",
    name="outline attack: statuses read from what was sent",
    explanation="How often a classifier that learnt from other homes reads what an object does "
    "from the messages of a device: outlines, holes, shadows.",
    better="lower",
    unit="%",
    baseline="the commonest status",
)

REIDENTIFICATION = Metric(
    key="reidentification",
    group="attack",
    name="re-identification: homes recognised by what was sent",
    explanation="How often the nearest other message of a device comes from the same home.",
    better="lower",
    unit="%",
    baseline="a message chosen at random",
)

Attacker = Callable[[NDArray[Any], Labels, NDArray[Any], int], Labels]
"""Training messages, their statuses, messages to read, number of statuses: statuses."""

_RIDGE = 1e-2


@dataclass(frozen=True, slots=True)
class AttackAccuracy:
    """How often an attacker is right. Owner-only.

    Attributes:
        accuracy: Part of the messages, with an exact interval.
        chance: What is right without looking at the message.
        attacker: Which attacker.
    """

    accuracy: Interval
    chance: float
    attacker: str

    @property
    def above_chance(self) -> float:
        """Accuracy less chance."""
        return self.accuracy.value - self.chance


def outline_attack(
    messages: NDArray[Any],
    statuses: Labels,
    homes: Sequence[str],
    *,
    attackers: Mapping[str, Attacker] | None = None,
    folds: int = 5,
) -> tuple[AttackAccuracy, ...]:
    """Read the status of each message by classifiers that learnt from the messages of other homes.

    The strongest comes first. It is chosen by the figure that is reported, so it is too high
    rather than too low.

    Args:
        messages: (n, d) features, or (n, height, width, channels) uint8 images of what was sent.
        statuses: (n,) int64 from 0.
        homes: (n,) whose message each is.
        attackers: By name; None: `ATTACKERS`.
        folds: Parts of the homes, each asked once.

    Raises:
        InputError: Not a status and a home for each message, or fewer homes than folds.
    """
    classes = int(statuses.max()) + 1 if len(statuses) else 0
    parts = _folds(messages, statuses, homes, folds)
    commonest = np.zeros(len(messages), dtype=bool)
    for part in parts:
        guess = np.bincount(statuses[~part], minlength=classes).argmax()
        commonest[part] = statuses[part] == guess
    chance = float(commonest.mean())
    results = []
    for name, attacker in (ATTACKERS if attackers is None else attackers).items():
        hits = 0
        for part in parts:
            train, tests = messages[~part], messages[part]
            guesses = attacker(train, statuses[~part], tests, classes)
            hits += int((guesses == statuses[part]).sum())
        accuracy = Interval(hits / len(messages), *clopper_pearson(hits, len(messages)))
        results.append(AttackAccuracy(accuracy, chance, name))
    return tuple(sorted(results, key=lambda one: -one.accuracy.value))


def reidentification(messages: NDArray[Any], homes: Sequence[str]) -> AttackAccuracy:
    """Whether the nearest other message comes from the same home.

    Args:
        messages: (n, d) features or embeddings, or (n, height, width, channels) uint8 images.
        homes: (n,) whose message each is.

    Raises:
        InputError: Not a home for each message, or a single message.
    """
    if len(messages) != len(homes) or len(messages) < 2:
        raise InputError(
            f"a home for each of two messages or more: {len(messages)} messages, {len(homes)} homes"
        )
    names, owners, sizes = np.unique(homes, return_inverse=True, return_counts=True)
    features = message_features(messages)
    (cloud,) = clouds(features)
    nearest, _ = nearest_rows(cloud, cloud, 2)
    # Of equal messages another one may come before the message itself.
    itself = nearest[:, 0] == np.arange(len(features))
    other = np.where(itself, nearest[:, 1], nearest[:, 0])
    hits = int((owners[other] == owners).sum())
    return AttackAccuracy(
        Interval(hits / len(features), *clopper_pearson(hits, len(features))),
        float(((sizes - 1) / (len(features) - 1))[owners].mean()),
        f"nearest of {len(names)} homes",
    )


def message_features(messages: NDArray[Any]) -> Vector:
    """(n, d): images averaged to 32 pixels a side and flattened; features as they are."""
    if messages.ndim == 2:
        return np.asarray(messages, dtype=np.float64)
    small = area_means(messages, 32, smaller=True)
    return np.asarray(small.reshape(len(small), -1), dtype=np.float64)


def camera_residuals(messages: Images, homes: Sequence[str]) -> Images:
    """What sets a message apart from the others of its home: an attack on holes and their fill.

    Args:
        messages: (n, height, width, channels) uint8.
        homes: (n,) whose message each is.

    Returns:
        (n, height, width, 1) uint8: distance to the median of the home's messages, the largest of
        the colours.
    """
    owners = np.asarray(homes)
    residuals = np.empty((*messages.shape[:3], 1), dtype=np.uint8)
    for home in np.unique(owners):
        rows = np.flatnonzero(owners == home)
        own = messages[rows].astype(np.int16)
        apart = np.abs(own - np.median(own, axis=0).astype(np.int16))
        residuals[rows] = apart.max(axis=3, keepdims=True)
    return residuals


def _folds(
    messages: NDArray[Any], statuses: Labels, homes: Sequence[str], folds: int
) -> list[NDArray[np.bool_]]:
    """For each fold the messages of its homes."""
    if not len(messages) == len(statuses) == len(homes):
        raise InputError(
            f"a status and a home for each message: {len(messages)} messages, {len(statuses)} "
            f"statuses, {len(homes)} homes"
        )
    names, owners = np.unique(homes, return_inverse=True)
    if not 2 <= folds <= len(names):
        raise InputError(f"{folds} folds need as many homes and at least 2: found {len(names)}")
    order = np.random.default_rng(0).permutation(len(names))
    return [np.isin(owners, part) for part in np.array_split(order, folds)]


def _nearest(train: NDArray[Any], statuses: Labels, tests: NDArray[Any], _classes: int) -> Labels:
    """The status of the nearest message."""
    there, here = message_features(train), message_features(tests)
    queries, rows = clouds(here, there)
    nearest, _ = nearest_rows(queries, rows, 1)
    return np.asarray(statuses[nearest[:, 0]])


def _kernel(train: NDArray[Any], statuses: Labels, tests: NDArray[Any], classes: int) -> Labels:
    """Ridge regression on the statuses with a Gaussian kernel as wide as half the median."""
    there, here = message_features(train), message_features(tests)
    spread = np.maximum(there.std(axis=0), 1e-6 * max(1.0, float(there.std())))
    there, here = (rows / spread for rows in (there, here))
    square = square_distances(there, there)
    width = max(float(np.median(square[square > 0])) / 4, 1e-12) if square.any() else 1.0
    kernel = np.exp(-square / (2 * width))
    kernel[np.diag_indices_from(kernel)] += _RIDGE * len(kernel) / 10
    shares = np.bincount(statuses, minlength=classes) / len(statuses)
    weights = np.linalg.solve(kernel, np.eye(classes)[statuses] - shares)
    near = np.exp(-square_distances(here, there) / (2 * width))
    return np.asarray((near @ weights + shares).argmax(1))


ATTACKERS: Mapping[str, Attacker] = {"nearest message": _nearest, "kernel": _kernel}
"""Attackers that need NumPy alone."""
