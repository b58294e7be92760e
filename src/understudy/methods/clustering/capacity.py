"""What a class of some size can carry under the noise of a plan, what to expect, what it got.

The rules are those by which a run decides from released numbers, put as questions of size alone.
What to expect of a release follows rules with a name. Their numbers were measured on public
drawings (`understudy.planning.public_drawings`), on none of the sets of our benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import listed
from understudy.core.types import Labels, Vector
from understudy.methods.base import Context, Expectation
from understudy.steps.shrinkage import chance_ratio

LEAST_DECODED = 60.0
"""Units of a class times mu, below which images of it serve little."""

_FEW_CLUSTERS = 3
_COARSE_DIM, _SHAPE_DIM = 105, 200  # numbers of an image, from which layouts and outlines are seen
_USUAL_DIFFERENCE = 0.3  # between class means of public scenes, in deviations of images; shapes 0.6
_CLASSIFIED = 250.0  # images of a class times mu, from which on a DP classifier's labels gain


@dataclass(frozen=True)
class Carried:
    """What a class of so many images can carry."""

    size: float  # number of images
    size_sd: float  # standard deviation of the noise in the class's released size
    own_mean: bool  # whether a mean that lies half the usual distance from the others' stands out
    clusters: int  # whose counts and means stand out, at least 1
    directions: int  # of a covariance that stand out, differing from the pooled one by half of it
    or_more: bool = False  # directions, which depends on the released covariance
    serves: bool = True  # images of it, by rule "few units"

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
        if not self.serves:
            return "images serve little"
        mean = "a mean of its own" if self.own_mean else "the mean of all"
        return mean if self.clusters == 1 else f"{mean}, {self.clusters} clusters"


def own_directions(size: float, axes: int, *, diagonal: bool) -> int:
    """Directions that stand out of the noise in the covariance of ``size`` noise multipliers.

    Noise in each of b (b + 1) / 2 numbers has a deviation of 1.21 b v / size, v the usual variance
    (`Frame.radius`), against a difference of v / 2 in each of b directions.
    """
    blocks = np.array([axes]) if diagonal else np.arange(1, axes + 1)
    numbers = axes * chance_ratio(axes, 1.0) if diagonal else blocks * (blocks + 3) / 2
    clear = 2 * 1.21 * np.sqrt(blocks * numbers) <= size
    return int(blocks[clear].max(initial=0))


def facts_of_sizes(classes: tuple[str, ...], sizes: Vector, sd: float) -> dict[str, object]:
    """The released size of each class, and the deviation of its noise, as facts of a release."""
    rounded = dict(zip(classes, map(round, sizes.tolist()), strict=True))
    return {"class_sizes": rounded, "class_size_noise": round(sd, 1)}


@dataclass(frozen=True)
class Shares:
    """What each class of a release got, for its facts; all of it is computed from DP numbers."""

    classes: tuple[str, ...]
    sizes: Vector  # (classes,) released
    size_sd: float  # standard deviation of the noise in each
    own_mean: NDArray[np.bool_]  # (classes,) whether a class's mean is not the common one
    clusters: Labels  # (classes,)
    directions: Labels  # (classes,) of covariances that are not the pooled one's

    def facts(self) -> dict[str, object]:
        """JSON values."""
        names = ("own_mean_per_class", "clusters_per_class", "own_directions_per_class")
        columns = zip(names, (self.own_mean, self.clusters, self.directions), strict=True)
        return facts_of_sizes(self.classes, self.sizes, self.size_sd) | {
            name: dict(zip(self.classes, values.tolist(), strict=True)) for name, values in columns
        }

    def notes(self) -> list[str]:
        """A sentence for the classes that got one mean only, and one for those without even it."""
        lone = (self.clusters == 1) & (self.directions == 0)
        notes = []
        if len(self.classes) > 1 and not self.own_mean.all():
            notes.append(
                f"{self._listed(~self.own_mean)}: under this noise not told apart from "
                "the mean of all classes. Take more images, a larger epsilon, or leave them out"
            )
        if (lone & self.own_mean).any():
            notes.append(
                f"{self._listed(lone & self.own_mean)}: only a mean of its own under this "
                "noise; how its samples vary is what all classes have in common"
            )
        return notes

    def _listed(self, marks: NDArray[np.bool_]) -> str:
        return listed([name for name, mark in zip(self.classes, marks, strict=True) if mark], 10)


def few_units(units: float, mu: float, *, classifies: bool) -> tuple[Expectation, ...]:
    """Rule "few units", where there are: sampling and decoding lose most where least was released.

    The error of a class's mean falls with 1 / (units mu). Of ten classes of 44 units times mu, a
    small CNN that learnt from 400 samples was right for 86, 83 and 20 % of other public shapes,
    textures and scenes, and the classifier that was released with them for 94, 93 and 41 %. A
    mixture releases none, and no decoder loses what its embeddings hold.
    """
    words = (
        f"images of these classes serve little: a class of {about(units)} at mu {mu:.2f} comes to "
        f"{about(units * mu)}, and below {LEAST_DECODED:g} images lose much of what is released"
    )
    rule = Expectation("few units", words, ("classifier" if classifies else "embeddings",))
    return () if images_serve(units, mu) else (rule,)


def images_serve(units: float, mu: float) -> bool:
    """Whether images of a class of so many units serve, by rule "few units"."""
    return units * mu >= LEAST_DECODED


def mixture_expectations(context: Context, carried: Carried) -> tuple[Expectation, ...]:
    """What to expect of a mixture a class, by what the mean class can carry."""
    if context.decoder is None:
        return ()
    return (*few_units(carried.size, context.mu, classifies=False), _clusters(carried))


def _clusters(carried: Carried) -> Expectation:
    """Rule "clusters": the mean of few clusters is smooth, for it averages images that differ."""
    if not carried.own_mean:
        words = "expect blobs that are alike in all classes: no mean stands out of the noise"
    elif carried.clusters < _FEW_CLUSTERS:
        words = "expect blobs: a class has its own mean, and less than three clusters"
    else:
        words = (
            f"expect smooth shapes: {carried.clusters} clusters of a class stand out of the noise"
        )
    return Expectation("clusters", words)


def least_classified(mu: float) -> float:
    """Images of a class, in the mean, from which on `labels=classifier` serves better than not."""
    return _CLASSIFIED / mu


def about(number: float) -> str:
    """A number to two digits."""
    return f"{float(f'{number:.2g}'):,.0f}"


def detail_of_numbers(dim: int, most: int) -> Expectation:
    """Rule "numbers": what is seen of an image follows from how many numbers of it are measured.

    The first ones are the lowest cosines and the coarsest energies; outlines take many. The bounds
    were seen on sheets of public drawings.
    """
    part = f"the budget pays for {dim} of at most {most} numbers of an image"
    if dim < _COARSE_DIM:
        words = f"expect blobs: {part}, so where it is light and dark, or of which colour"
    elif dim < _SHAPE_DIM:
        words = f"expect textures and layouts without outlines: {part}"
    else:
        words = (
            f"expect shapes, with outlines where things are alike in place and size: {part}; no "
            "fine details, no faces and no writing"
        )
    return Expectation("numbers", words)


def difference_of_classes(dim: int, noise: float, units: float) -> Expectation:
    """Rule "class means": the noise in a class's mean beside what classes differ by.

    Clipped at a norm of sqrt(d), each number of the mean of u units has noise of sqrt(d) noise / u
    (Dwork and Roth 2014). Classes of public drawings differ by 0.3 (scenes) to 0.6 (shapes).
    """
    error = np.sqrt(dim) * noise / max(units, 1.0)
    verdict = "so classes that differ as much will differ in samples"
    if error > _USUAL_DIFFERENCE:
        verdict = "so classes will look much alike"
    elif error > _USUAL_DIFFERENCE / 2:
        verdict = "so classes will differ where they differ more than that"
    return Expectation(
        "class means",
        f"the mean of a class of {about(units)} has noise of {error:.2f} deviations of "
        f"the images in each number, and classes of public scenes differ by "
        f"{_USUAL_DIFFERENCE:g}, {verdict}",
    )
