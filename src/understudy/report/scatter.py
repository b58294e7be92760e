"""A release of embeddings as points: where its classes lie along two axes of the samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.types import Embeddings, Labels

DRAWING_SIDE = 480  # units of the drawing, across and down

MARGIN = 24
POINTS = 1500  # at most so many points are drawn: the first ones, which are in a random order

NAMED = 20  # classes that are named in the drawing; of more, none is

_TRIMMED = 0.5  # percent of the points at each end of an axis, which are drawn at its end


@dataclass(frozen=True, slots=True)
class ScatterClass:
    """The points of one class."""

    name: str
    points: tuple[tuple[float, float], ...]  # (x, y) in the drawing's units
    middle: tuple[float, float]  # where its name stands: the mean of its points


@dataclass(frozen=True, slots=True)
class Scatter:
    """Synthetic embeddings along their two principal axes. Part of the release."""

    classes: tuple[ScatterClass, ...]  # the points, class by class
    explained: tuple[float, float]  # part of the variance along each of the two axes
    count: int  # how many points there are

    @property
    def named(self) -> bool:
        """Whether classes are named in the drawing."""
        return 1 < len(self.classes) <= NAMED


def scatter_of(embeddings: Embeddings, labels: Labels, names: tuple[str, ...]) -> Scatter:
    """The first of (n, d) embeddings, by a principal component analysis of them alone."""
    rows, labels = embeddings[:POINTS].astype(np.float64), labels[:POINTS]
    rows = rows - rows.mean(axis=0)
    _, lengths, axes = np.linalg.svd(rows, full_matrices=False)
    positions = np.zeros((len(rows), 2))
    positions[:, : len(axes[:2])] = rows @ axes[:2].T
    low, high = np.percentile(positions, [_TRIMMED, 100 - _TRIMMED], axis=0)
    width = np.maximum(high - low, 1e-12)
    places = np.clip((positions - low) / width, 0.0, 1.0) * (DRAWING_SIDE - 2 * MARGIN) + MARGIN
    places[:, 1] = DRAWING_SIDE - places[:, 1]
    variances = np.pad(lengths**2, (0, 2)) / max(float((lengths**2).sum()), 1e-300)
    classes = []
    for label, name in enumerate(names or ("all",)):
        mine = places[labels == label]
        if len(mine):
            points = tuple((round(x, 1), round(y, 1)) for x, y in mine.tolist())
            x, y = mine.mean(axis=0).tolist()
            classes.append(ScatterClass(name, points, (round(x, 1), round(y, 1))))
    explained = float(variances[0]), float(variances[1])
    return Scatter(tuple(classes), explained, len(rows))
