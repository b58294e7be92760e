"""What to expect of a release, in words, before anything is spent: public arithmetic, no image.

Each sentence follows a rule that has a name. The numbers of the rules were measured on public
drawings (`understudy.run.public_drawings`), on none of the sets of our benchmarks, and each rule
says from which source its arithmetic is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.methods.base import Context, Expectation
from understudy.methods.clustering.capacity import Carried, Noise, about
from understudy.methods.clustering.samplers.tied_gaussian import MOST_DIM, TIED_STAGES, dimensions

LEAST_DECODED = 60.0
"""Units of a class times mu, below which images of it serve little."""

_COARSE_DIM, _SHAPE_DIM = 80, 150  # numbers of an image, from which layouts and outlines are seen
_USUAL_DIFFERENCE = 0.3  # between class means of public scenes, in deviations of images; shapes 0.6
_FEW_CLUSTERS = 3


def tied_expectations(context: Context, noise: Noise, units: float) -> tuple[Expectation, ...]:
    """What to expect of one Gaussian a class with a covariance that all share.

    ``noise``: of a stage, over the bound on a unit's contribution. ``units``: of a class, in the
    mean.
    """
    classes = len(context.classes)
    dim = dimensions(context.mu, units * classes, classes)
    rules = [_numbers(dim), _class_means(dim, noise(TIED_STAGES.means), units)]
    if units * context.mu < LEAST_DECODED:
        rules.insert(0, _few_units(units, context.mu, classifies=classes > 1))
    return tuple(rules)


def mixture_expectations(
    context: Context, table: Sequence[Carried], units: float
) -> tuple[Expectation, ...]:
    """What to expect of a mixture a class, by what classes of several sizes can carry."""
    if context.decoder is None:
        return ()
    few = units * context.mu < LEAST_DECODED
    first = [_few_units(units, context.mu, classifies=False)] if few else []
    fitting = [one for one in table if one.size <= units]
    return (*first, *([_clusters(fitting[-1])] if fitting else []))


def _few_units(units: float, mu: float, *, classifies: bool) -> Expectation:
    """Rule "few units": sampling and decoding lose most where least was released.

    The error of a class's mean falls with 1 / (units mu), as Gaussian noise in a mean does (Dwork
    and Roth 2014). Of classes of 44 units times mu, ten of them at 64 pixels, a small CNN that
    learnt from 400 samples was right for 86, 83 and 20 % of other public shapes, textures and
    scenes, and the classifier that was released with them for 94, 93 and 41 %.
    """
    instead = ("classifier", "embeddings") if classifies else ("embeddings",)
    return Expectation(
        "few units",
        f"images of these classes serve little: a class of {about(units)} at mu {mu:.2f} comes to "
        f"{about(units * mu)}, and below {LEAST_DECODED:g} images lose much of what is released",
        instead,
    )


def _numbers(dim: int) -> Expectation:
    """Rule "numbers": what is seen of an image follows from how many numbers of it are measured.

    The budget pays for (1.3 mu n)^(2/3) numbers of a covariance and (0.187 mu n / classes)^2 of
    the means (`tied_gaussian.dimensions`). The first ones are the lowest cosines (Ahmed, Natarajan
    and Rao 1974) and the coarsest energies; outlines take many. The bounds were seen on sheets of
    public drawings.
    """
    part = f"the budget pays for {dim} of at most {MOST_DIM} numbers of an image"
    if dim < _COARSE_DIM:
        words = f"expect blobs: {part}, so colours and where it is light and dark"
    elif dim < _SHAPE_DIM:
        words = f"expect textures and layouts without outlines: {part}"
    else:
        words = (
            f"expect shapes, with outlines where things are alike in place and size: {part}; no "
            "fine details, no faces and no writing"
        )
    return Expectation("numbers", words)


def _class_means(dim: int, noise: float, units: float) -> Expectation:
    """Rule "class means": the noise in a class's mean beside what classes differ by.

    A record's numbers, in its deviations, are clipped at a norm of sqrt(d), so that each number of
    the mean of u units has noise of sqrt(d) noise / u (Dwork and Roth 2014). Classes of public
    drawings differ by 0.3 (scenes) to 0.6 (shapes) such deviations.
    """
    error = np.sqrt(dim) * noise / max(units, 1.0)
    if error > _USUAL_DIFFERENCE:
        verdict = "so classes will look much alike"
    elif error > _USUAL_DIFFERENCE / 2:
        verdict = "so classes will differ where they differ much"
    else:
        verdict = "so classes will differ"
    return Expectation(
        "class means",
        f"the mean of a class of {about(units)} has noise of {error:.2f} deviations of the images "
        f"in each number, and classes of public scenes differ by {_USUAL_DIFFERENCE:g}, {verdict}",
    )


def _clusters(carried: Carried) -> Expectation:
    """Rule "clusters": variety within a class is that of its clusters and of its own covariance.

    How many clusters stand out of the noise is known before (`capacity.capacity`); the mean of few
    clusters is smooth, for it averages images that differ.
    """
    if not carried.own_mean:
        words = "expect blobs that are alike in all classes: no mean stands out of the noise"
    elif carried.clusters < _FEW_CLUSTERS:
        words = "expect blobs: a class has its own mean, and less than three clusters"
    else:
        words = (
            f"expect smooth shapes: {carried.clusters} clusters of a class stand out of the noise"
        )
    return Expectation("clusters", words)
