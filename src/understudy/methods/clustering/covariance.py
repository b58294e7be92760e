"""The axes within classes, and the covariances of clusters along them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.types import Labels, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import planned
from understudy.methods.clustering.embedding_space import EmbeddingSpace
from understudy.methods.clustering.params import ClusteringParams
from understudy.methods.dp_estimators import Clusters
from understudy.privacy.cells import Cells
from understudy.privacy.queries import FullMoments
from understudy.steps import shrinkage
from understudy.steps.space import Frame, plain_frame, principal_frame

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

_WIDE = 1.1  # times the usual length of residuals along leading directions: where they are clipped
_SHORT = 0.25  # of the usual length of residuals: shorter ones hardly occur
_FAINT = 0.4  # of a variance: noise of an eigenvalue that a class's own covariance may have
_LENGTHS = 0.5  # standard deviation of what classes have more or less of than others, publicly
_LEAST = 16  # leading coordinates that an image keeps: colours and coarse shapes
_MOST, _MOST_OF_FULL = 60, 100  # axes that an image keeps


def within_class_frame(
    space: EmbeddingSpace,
    centres: Vector,
    sizes: Vector,
    units: float,
    params: ClusteringParams,
    spread: Stage | None,
    stage: Stage | None,
) -> Frame:
    """Axes of the covariance within classes, of which images keep those clear of the noise.

    Releases: ``spread``, distances to the class means (classes, d), where the records are on no
    sphere; ``stage``, the tied covariance, or its diagonal where no matrix is measured.
    ``sizes``: (classes,) noisy class sizes. ``units``: how many there are.
    """
    dim, radius = centres.shape[1], space.residual_radius(centres, spread)
    lead, cells = min(dim, max(4, 2 * (params.clusters or 1))), Cells(centres[:, None])
    if not params.matrix:
        if stage is None:
            return plain_frame(dim, radius, None, lead)
        squares, sd = dp_estimators.squared_moments(space.vault, cells, radius, stage)
        size = float(sizes.sum())
        noise = sd * np.sqrt(len(squares)) / size
        variances = shrinkage.shrink_variances(squares.sum(axis=0)[None] / size, noise**2, 0.02)[0]
        return plain_frame(dim, radius, variances, lead)
    total, sd = dp_estimators.second_moments(space.vault, cells, radius, None, planned(stage))
    raw, noise_sd = total[0] / units, sd / units
    if not space.settings.selective:
        covariance = shrinkage.denoise_covariance(raw, noise_sd)
        return principal_frame(covariance, dim, lead, mahalanobis=True, rest=True)
    block, above = shrinkage.clear_block(raw, noise_sd)
    keep, least = above, min(dim, _LEAST)
    if above < least:  # the clusters' means need them all the same
        block = keep = least
    covariance = np.zeros_like(raw)
    covariance[:block, :block] = shrinkage.denoise_covariance(raw[:block, :block], noise_sd)
    lead = min(lead, max(above, 1))
    most = _MOST_OF_FULL if params.covariance == "full" else _MOST
    frame = principal_frame(covariance, min(keep, most), lead, mahalanobis=False, rest=False)
    frame = replace(frame, clear=above >= least)
    if not space.settings.ordered:
        return frame
    # Without what lies outside of the axes, samples of few images are too smooth to learn edges of.
    explained = ((frame.axes * frame.spread) ** 2).sum(axis=1)
    deviations = np.sqrt(shrinkage.left_variances(raw, explained, noise_sd))
    return replace(frame, rest=(np.eye(dim) - frame.axes @ frame.axes.T) * deviations)


@dataclass(frozen=True)
class Roots:
    """Square roots of covariances, and what of them is a cluster's own."""

    roots: Vector  # (f, d, d), or (f, d) of diagonal ones
    root_of: Labels  # (classes * k,) which of them a cluster has
    directions: Labels  # (f,) in which a covariance is not the pooled one, but clear of the noise


@dataclass(frozen=True)
class _Sums:
    """Released sums of squares or outer products about the clusters' centres."""

    totals: Vector  # (f, d, d), or (f, d)
    sizes: Vector  # (f,) records that each is a sum over, at least 1
    sd: float  # of the noise in each number, on the diagonal

    @property
    def noise(self) -> Vector:
        """(f,) standard deviation of the noise in each mean."""
        return self.sd / self.sizes

    @property
    def means(self) -> Vector:
        """The noisy covariances."""
        return self.totals / self.sizes.reshape(-1, *[1] * (self.totals.ndim - 1))

    def grouped(self, groups: Labels) -> _Sums:
        """The sums of groups (f,); the noise of each is taken for that of the largest."""
        totals = np.stack([self.totals[groups == g].sum(axis=0) for g in range(groups.max() + 1)])
        sd = self.sd * float(np.sqrt(np.bincount(groups).max()))
        return _Sums(totals, np.bincount(groups, self.sizes).astype(np.float64), sd)

    @property
    def pooled(self) -> _Sums:
        """The sums of all."""
        return self.grouped(np.zeros(len(self.sizes), dtype=np.int64))


def covariance_roots(
    vault: Vault,
    clusters: Clusters,
    frame: Frame,
    params: ClusteringParams,
    stage: Stage | None,
    *,
    units: float,
    lengths: bool,
) -> Roots:
    """Roots of the clusters' covariances, shrunk by the noise that is known to be in them.

    ``vault``: embeddings in the coordinates of ``frame``. ``stage``: None where all clusters have
    the covariance of the frame. ``units``: how many there are, which one covariance is
    divided by. ``lengths``: whether a class may have longer residuals than
    another: of descriptions, where the leading directions are measured alone (`_led`).
    """
    cells, each = Cells(clusters.centres), np.arange(clusters.sizes.size)
    if stage is None:
        tied = np.zeros_like(each)
        return Roots(np.diag(frame.spread)[None], tied, np.zeros(1, dtype=np.int64))
    kind, class_of = params.covariance, each // cells.centres.shape[1]
    if not params.matrix:
        squares, sd = dp_estimators.squared_moments(vault, cells, frame.radius, stage)
        sums = _Sums(squares, np.maximum(clusters.sizes.ravel(), 1.0), sd)
        deviations, directions = _deviations(sums, spherical=kind == "spherical")
        return Roots(deviations, each, directions)
    slot = {"tied": np.zeros_like(each), "class": class_of}.get(kind or "", each)
    single = frame.whitened and cells.centres.shape[1] == 1
    sizes = np.maximum(np.bincount(slot, clusters.sizes.ravel()), 1.0)
    if kind == "tied":
        sizes = np.array([max(units, 1.0)])
    if single and lengths:
        matrices, directions = _led(vault, cells, sizes, slot, stage)
    else:
        clip = _SHORT * frame.radius if single else frame.radius
        totals, sd = dp_estimators.second_moments(vault, cells, clip, slot, stage)
        sums = _Sums(totals, sizes, sd)
        groups = class_of if kind == "full" else np.arange(len(sizes))
        matrices, directions = (
            _cleaned(sums, cells.dim / clip**2)
            if single
            else _towards_pooled(sums, groups, clear=frame.whitened or frame.clear)
        )
    return Roots(np.stack([shrinkage.square_root(matrix) for matrix in matrices]), slot, directions)


def _led(
    vault: Vault, cells: Cells, sizes: Vector, slot: Labels, stage: Stage
) -> tuple[Vector, Labels]:
    """Covariances (f, d, d) in whitened coordinates, measured along the leading ones.

    Noise grows with the square of the length that is measured, so a few directions are known well
    where all would drown. What a class has more or less of there than others, it gets in the other
    directions.
    """
    unit = FullMoments(Cells(cells.centres[:, :, :1]), 1.0, slot)
    lead = leading_directions(
        float(np.median(sizes)) / vault.noise_sd(unit, stage=stage.name), cells.dim
    )
    view = vault.view(lambda rows: rows[:, :lead])
    narrow, clip = Cells(cells.centres[:, :, :lead]), _WIDE * np.sqrt(lead)
    totals, sd = dp_estimators.second_moments(view, narrow, clip, slot, stage)
    sums = _Sums(totals, sizes, sd)
    blocks, directions = _cleaned(sums, None)
    prior = _LENGTHS**2
    keep = prior / (prior + sums.noise**2 / lead)
    matrices = np.empty((len(sizes), cells.dim, cells.dim))
    for matrix, block, part in zip(matrices, blocks, keep, strict=True):
        own = np.eye(lead) + part * (block - np.eye(lead))
        matrix[:] = np.eye(cells.dim) * (np.trace(own) / lead)
        matrix[:lead, :lead] = own
    return matrices, directions


def leading_directions(size: float, most: int) -> int:
    """How many directions of a class of ``size`` noise multipliers are measured: 1, 2, 4, ...

    Of b directions the noise in an eigenvalue reaches sqrt(2 b) of that on the diagonal, which is
    the square of the clipping radius over the size. It may be `_FAINT` at most.
    """
    lead = 1
    while 2 * lead <= most and np.sqrt(4 * lead) * _WIDE**2 * 2 * lead <= _FAINT * size:
        lead *= 2
    return lead


def _deviations(sums: _Sums, *, spherical: bool) -> tuple[Vector, Labels]:
    """Standard deviations of clusters, (f, d), each shrunk towards the pooled one."""
    pooled = sums.pooled
    target = shrinkage.shrink_variances(pooled.means, pooled.noise[:, None] ** 2, floor=0.02)
    noise = sums.noise[:, None] ** 2
    variances, keep = shrinkage.shrink_to_target(sums.means, target, noise, floor=0.02)
    if spherical:
        variances = np.repeat(variances.mean(axis=1, keepdims=True), variances.shape[1], axis=1)
    return np.sqrt(variances), np.where(keep > 0, variances.shape[1], 0)


def _towards_pooled(sums: _Sums, groups: Labels, *, clear: bool) -> tuple[Vector, Labels]:
    """Covariances (f, d, d), each moved to its class's, and that to the one of all, by the noise.

    ``groups``: (f,) the class of each. ``clear``: whether every coordinate is known to hold more
    than noise; else the covariance of all has clear axes alone.
    """
    pooled_sums, classes = sums.pooled, sums.grouped(groups)
    clean = shrinkage.denoise_covariance if clear else shrinkage.clear_part
    pooled = clean(pooled_sums.means[0], float(pooled_sums.noise[0]))

    def moved(own: _Sums, targets: list[Vector]) -> tuple[Vector, Labels]:
        parts = [
            shrinkage.shrink_leading(mean, target, noise, clear=clear)
            for mean, target, noise in zip(own.means, targets, own.noise, strict=True)
        ]
        return np.stack([part[0] for part in parts]), np.array([part[1] for part in parts])

    targets, directions = moved(classes, [pooled] * len(classes.sizes))
    if len(groups) == len(targets):
        return targets, directions
    matrices, own_directions = moved(sums, [targets[group] for group in groups])
    return matrices, np.maximum(own_directions, directions[groups])


def _cleaned(sums: _Sums, scale: float | None) -> tuple[Vector, Labels]:
    """Covariances in coordinates where the pooled one is about the identity, each by itself.

    The noise that is known leaves the spectrum: a matrix that is all noise becomes a multiple of
    the pooled one. With a ``scale`` they are of directions: a short clipping radius makes all
    residuals weigh alike, so nothing is lost to outliers, and their trace is set to d. On a public
    benchmark this beat clipping at the usual length by 1 to 2 points.
    """
    matrices, directions, factor = [], [], scale or 1.0
    for mean, noise in zip(factor * sums.means, factor * sums.noise, strict=True):
        matrix = shrinkage.denoise_covariance(mean, float(noise), floor=0.05)
        edge = 2 * np.sqrt(len(mean) / 2) * noise
        outside = np.abs(np.linalg.eigvalsh(mean) - np.trace(mean) / len(mean)) > edge
        directions.append(int(outside.sum()))
        matrices.append(matrix if scale is None else matrix * (len(mean) / np.trace(matrix)))
    return np.stack(matrices), np.array(directions)
