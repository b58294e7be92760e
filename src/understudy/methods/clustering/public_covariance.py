"""Mixtures of few images: the covariance of public descriptions, and the budget for the means.

A covariance of d numbers takes thousands of images under noise. Where the released class sizes add
up to fewer than would let a leading axis stand out (`least_images`), none is measured: the one of
public descriptions is taken, which the decoder's prior knows (`EvenedSpace`). The stages that would
have measured it ask for the class means again, along the leading public axes alone, and for one
thing of each covariance, how much longer or shorter its records are than public ones. What is asked
is settled by released numbers, and the noise and the name of each stage stay those of the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import row_squares
from understudy.core.types import Stage, Vector
from understudy.methods import dp_estimators
from understudy.privacy.cells import Cells
from understudy.privacy.queries import CountAndSum, DiagonalMoments
from understudy.steps import shrinkage
from understudy.steps.mixture import Mixture

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

_DROWNED = 2.5  # times the largest public variance: noise in eigenvalues that leaves too little
_MEANS = 0.05  # variance of a class's mean along an axis of variance v, of v squared
_CLIP = 0.9  # times the usual length of public records along the leading axes: where they are cut
_USUAL_LENGTH = 0.8  # squared length of records in public deviations, a number
_LENGTHS = 0.4  # standard deviation of that over classes
_LONGEST = 1.2  # deviations a number, beyond which a record counts no longer
_LENGTH_RANGE = (0.1, 1.5)  # of the squared lengths of classes
_LEADING = 16  # axes whose length is measured apart from that of the others, of enough images
_WITHIN = 0.64  # of a public variance that is left within classes: static, where it is more
_APART = 0.7  # variance within classes at most; what public images have beyond tells kinds apart


def least_images(variances: Vector, sigma: float) -> float:
    """Images of all classes together that a measured covariance takes.

    Of fewer, noise reaches eigenvalues (2 s, s^2 = d noise_sd^2 / 2) of 2.5 times the variance of
    public records along their leading axis.

    Args:
        variances: (d,) of public records, falling.
        sigma: Noise multiplier of the covariance's stage.
    """
    edge = np.sqrt(2 * len(variances)) * sigma * variances.sum()  # of the noise, of one image
    return float(edge / (_DROWNED * variances[0]))


def measured_axes(variances: Vector, size: float, sigma: float) -> int:
    """How many axes of the means of classes are measured: 1, 2, 4, ... or all.

    A record is clipped to one length, so more axes mean more noise in each. It may have, at most,
    the variance that means of classes have along these axes.

    Args:
        variances: (d,) of public records, falling.
        size: Images of a class.
        sigma: Noise multiplier of all stages that measure the means, together.
    """
    lead, dim = 1, len(variances)
    while lead < dim:
        more = min(2 * lead, dim)
        part = np.sqrt(1 + 1 / np.sqrt(more))  # (`CountAndSum`)
        noise = part * sigma * _radius(variances[:more]) / size
        if noise**2 > _MEANS * (variances[:more] ** 2).mean():
            break
        lead = more
    return lead


def joint_noise(sigmas: Sequence[float]) -> float:
    """Noise of the best average of answers to one question with noise of these deviations."""
    return float(np.sum(np.asarray(sigmas) ** -2.0) ** -0.5)


def _radius(variances: Vector) -> float:
    return float(_CLIP * np.sqrt(variances.sum()))


@dataclass(frozen=True)
class PublicMixture:
    """One Gaussian a class, of the public shape.

    Attributes:
        sizes: (classes,) released, all counts together.
        size_sd: Standard deviation of the noise in each.
        means: (classes, d).
        roots: (classes, d) deviations.
        axes: Leading axes along which the means are the classes' own.
    """

    sizes: Vector
    size_sd: float
    means: Vector
    roots: Vector
    axes: int

    @property
    def mixture(self) -> Mixture:
        """As it is sampled."""
        labels = np.arange(len(self.sizes))
        return Mixture(labels, self.sizes / self.sizes.sum(), self.means, self.roots, labels)


def public_mixture(
    vault: Vault,
    variances: Vector,
    sizes: Vector,
    size_sd: float,
    means: Sequence[Stage],
    lengths: Stage,
) -> PublicMixture:
    """Class means and lengths of records, measured; all else as public records have it.

    Args:
        vault: Records along public axes, about the public mean.
        variances: (d,) of public records, falling.
        sizes: (classes,) released class sizes.
        size_sd: Standard deviation of the noise in each.
        means: The stages that measure means.
        lengths: The stage that measures lengths.
    """
    unit = CountAndSum(Cells(_zeros(sizes, 1)), 1.0)
    sigmas = [vault.noise_sd(unit, stage=stage.name) for stage in means]
    together = joint_noise(sigmas)
    axes = measured_axes(variances, float(np.median(sizes)), together)
    view = vault.view(lambda rows: rows[:, :axes])
    query = CountAndSum(Cells(_zeros(sizes, axes)), _radius(variances[:axes]))
    weights = together**2 / np.square(sigmas)
    answer = sum(
        weight * view.release(query, stage=stage.name)
        for weight, stage in zip(weights, means, strict=True)
    )
    count_sd = together / query.count_part
    sizes, size_sd = dp_estimators.counted_twice(sizes, size_sd, query.counts(answer), count_sd)
    _, raw, noise = shrinkage.noisy_means(
        sizes, query.sums(answer), size_sd, together / query.sum_part
    )
    centres = np.zeros((len(sizes), len(variances)))
    prior = _MEANS * variances[:axes] ** 2
    centres[:, :axes] = shrinkage.shrink_by_axis(raw, noise, prior)
    roots = _deviations(vault, variances, centres, np.maximum(sizes, 2 * size_sd), lengths)
    return PublicMixture(sizes, size_sd, centres, roots, axes)


def _zeros(sizes: Vector, dim: int) -> Vector:
    return np.zeros((len(sizes), 1, dim))


def _deviations(
    vault: Vault, variances: Vector, centres: Vector, sizes: Vector, stage: Stage
) -> Vector:
    """(classes, d): public deviations within classes, longer where the records of a class are."""
    blocks = _blocks(len(variances), float(np.median(sizes)), vault, stage)
    query = DiagonalMoments(Cells(_zeros(sizes, len(blocks))), _LONGEST * np.sqrt(len(blocks)))
    view = vault.view(partial(_lengths, variances, blocks))
    answer = view.release(query, stage=stage.name) / sizes[:, None]
    noise = (vault.noise_sd(query, stage=stage.name) / sizes[:, None]) ** 2
    squares = _USUAL_LENGTH + _LENGTHS**2 / (_LENGTHS**2 + noise) * (answer - _USUAL_LENGTH)
    deviations = np.empty_like(centres)
    for block, square in zip(blocks, squares.T, strict=True):
        own = square - (centres[:, block] ** 2 / variances[block]).mean(axis=1)
        within = _WITHIN * np.minimum(variances[block], _APART)
        deviations[:, block] = np.sqrt(np.clip(own, *_LENGTH_RANGE)[:, None] * within)
    return deviations


def _blocks(dim: int, size: float, vault: Vault, stage: Stage) -> tuple[slice, ...]:
    """Axes whose length is one number: the leading ones apart where noise lets them."""
    query = DiagonalMoments(Cells(np.zeros((1, 1, 2))), _LONGEST * np.sqrt(2))
    if dim <= _LEADING or vault.noise_sd(query, stage=stage.name) > _LENGTHS / 2 * size:
        return (slice(0, dim),)
    return slice(0, _LEADING), slice(_LEADING, dim)


def _lengths(variances: Vector, blocks: Sequence[slice], rows: NDArray[Any]) -> Vector:
    """Lengths of records (n, d) in public deviations a number, in each block of axes."""
    parts = [
        row_squares(rows[:, block] / np.sqrt(variances[block] * len(variances[block])))
        for block in blocks
    ]
    return np.sqrt(np.stack(parts, axis=1))
