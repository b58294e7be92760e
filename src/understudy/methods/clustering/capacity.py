"""What a class of some size can carry under the noise of a plan: public arithmetic, no data.

The rules are those by which a run decides from released numbers (`dp_estimators.least_cluster`,
`shrinkage.signal_part`, `shrinkage.shrink_leading`), put as questions of size alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from understudy.core.types import Stage
from understudy.methods.dp_estimators import least_cluster
from understudy.steps.shrinkage import CLEAR_DEVIATIONS

SIZES = (100, 300, 1_000, 3_000, 10_000)
"""Class sizes of the table in a plan."""

IMAGE_AXES = 16
"""Axes that are reckoned with for images, where noise decides how many are kept."""

_LEADING = 8  # numbers of a mean that are shrunk together where they come in order
_CLASSIFIED = 250.0  # images of a class times mu, from which on a DP classifier's labels gain

Noise = Callable[[Stage], float]
"""The noise of a stage over the bound on a unit's contribution."""


@dataclass(frozen=True)
class Carried:
    """What a class of so many images can carry.

    Attributes:
        size: Number of images.
        size_sd: Standard deviation of the noise in the class's released size.
        own_mean: Whether a mean that lies half the usual distance from the others' stands out.
        clusters: Clusters whose counts and means stand out, at least 1.
        directions: Directions of a covariance that stand out where it differs from the pooled one
            by half of that; 0: the pooled covariance.
        or_more: Whether there may be more directions, which depends on the released covariance.
    """

    size: int
    size_sd: float
    own_mean: bool
    clusters: int
    directions: int
    or_more: bool = False

    @property
    def columns(self) -> dict[str, str]:
        """As a `ClassCapacity`."""
        more = " or more" if self.or_more else ""
        return {
            "size known within": f"{self.size_sd:.0f}",
            "mean": "its own" if self.own_mean else "near that of all",
            "clusters": str(self.clusters),
            "covariance of its own": f"{self.directions}{more} directions"
            if self.directions
            else "none: the pooled one",
        }

    @property
    def summary(self) -> str:
        """As a `ClassCapacity`."""
        mean = "a mean of its own" if self.own_mean else "the mean of all"
        return f"{mean}, {self.clusters} cluster{'s' * (self.clusters != 1)}"


@dataclass(frozen=True)
class MixtureModel:
    """What is released of each class.

    Attributes:
        dim: Numbers of a mean.
        axes: Coordinates in which clusters and covariances are measured.
        ordered: Whether means are shrunk in blocks.
        clusters: The most clusters of a class.
        diagonal: Whether covariances are variances alone.
        class_sizes: The release of the class sizes.
        means: The release of the means.
        cluster_means: The release of counts and means of clusters, or None.
        covariances: The release of the covariances of classes or clusters, or None where there is
            one covariance.
    """

    dim: int
    axes: int
    ordered: bool
    clusters: int
    diagonal: bool
    class_sizes: Stage
    means: Stage
    cluster_means: Stage | None
    covariances: Stage | None


def capacity(model: MixtureModel, noise: Noise) -> tuple[Carried, ...]:
    """What classes of `SIZES` images can carry."""
    numbers = min(model.dim, _LEADING) if model.ordered else model.dim
    deviations = CLEAR_DEVIATIONS if model.ordered else 1.0
    # sqrt(d + k sqrt(2 d)) noise / n <= 1 / 2, in units of the clipping radius
    mean_size = 2 * np.sqrt(numbers + deviations * np.sqrt(2 * numbers)) * noise(model.means)
    cluster_size = np.inf
    if model.cluster_means is not None:
        cluster_size = least_cluster(noise(model.cluster_means), model.axes)
    table = []
    for size in SIZES:
        clusters = int(np.clip(size // cluster_size, 1, model.clusters))
        directions = 0
        if model.covariances is not None:
            directions = _directions(size / noise(model.covariances), model.axes, model.diagonal)
        capped = directions == model.axes < model.dim
        size_sd = noise(model.class_sizes)
        table.append(Carried(size, size_sd, bool(size >= mean_size), clusters, directions, capped))
    return tuple(table)


def _directions(size: float, axes: int, diagonal: bool) -> int:
    """Directions that stand out of the noise in the covariance of ``size`` noise multipliers.

    Noise in each of b (b + 1) / 2 numbers has a standard deviation of 1.21 b v / size, v the usual
    variance (`Frame.radius`), against a difference of v / 2 in each of b directions.
    """
    blocks = np.array([axes]) if diagonal else np.arange(1, axes + 1)
    numbers = blocks + np.sqrt(2 * blocks) if diagonal else blocks * (blocks + 3) / 2
    clear = 2 * 1.21 * np.sqrt(blocks * numbers) <= size
    return int(blocks[clear].max(initial=0))


@dataclass(frozen=True)
class Shares:
    """What each class of a release got, for its facts; all of it is computed from DP numbers.

    Attributes:
        classes: Names.
        sizes: (classes,) released sizes.
        size_sd: Standard deviation of the noise in each.
        own_mean: (classes,) whether a class's mean differs from the common one.
        clusters: (classes,) clusters.
        directions: (classes,) directions of covariances that are not the pooled one's.
        agreement: (classes,) part of each class's samples to which a DP classifier gives it; None:
            there is no classifier.
    """

    classes: tuple[str, ...]
    sizes: np.ndarray
    size_sd: float
    own_mean: np.ndarray
    clusters: np.ndarray
    directions: np.ndarray
    agreement: np.ndarray | None = None

    def facts(self) -> dict[str, object]:
        """JSON values."""
        columns = {
            "class_sizes": [round(float(size)) for size in self.sizes],
            "own_mean_per_class": self.own_mean.tolist(),
            "clusters_per_class": self.clusters.tolist(),
            "own_directions_per_class": self.directions.tolist(),
        }
        if self.agreement is not None:
            columns["classifier_agreement_per_class"] = self.agreement.round(3).tolist()
        named: dict[str, object] = {
            name: dict(zip(self.classes, values, strict=True)) for name, values in columns.items()
        }
        return {**named, "class_size_noise": round(self.size_sd, 1)}

    def notes(self) -> list[str]:
        """A sentence for the classes that got one mean only, and one for those without even it."""
        lone = (self.clusters == 1) & (self.directions == 0)
        notes = []
        if len(self.classes) > 1 and not self.own_mean.all():
            notes.append(
                f"{_listed(self.classes, ~self.own_mean)}: under this noise not told apart from "
                "the mean of all classes. Take more images, a larger epsilon, or leave them out"
            )
        if (lone & self.own_mean).any():
            notes.append(
                f"{_listed(self.classes, lone & self.own_mean)}: only a mean of its own under this "
                "noise, with the covariance of all classes; samples show little of its variety"
            )
        return notes


def least_classified(mu: float) -> float:
    """Images of a class, in the mean, from which on `labels=classifier` serves better than not.

    Args:
        mu: Gaussian-DP parameter of the run.
    """
    return _CLASSIFIED / mu


def classifier_words(mu: float) -> str:
    """How many images labels by a DP classifier take."""
    return (
        f"labels=classifier takes about {about(least_classified(mu))} images of every class at "
        "this budget. With fewer, its samples are mostly noise, and labels=mixture, the default, "
        "serves better"
    )


def about(number: float) -> str:
    """A number to two digits."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _listed(names: tuple[str, ...], chosen: np.ndarray) -> str:
    """The names chosen, ten at most."""
    mine = [name for name, is_chosen in zip(names, chosen, strict=True) if is_chosen]
    return ", ".join(mine[:10]) + (f" and {len(mine) - 10} more" if len(mine) > 10 else "")
