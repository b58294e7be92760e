"""The axes within classes, and the covariances of clusters along them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from understudy.core.types import Labels, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import planned
from understudy.methods.clustering.embedding_space import EmbeddingSpace
from understudy.methods.dp_estimators import Clusters
from understudy.privacy.cells import Cells
from understudy.privacy.queries import FullMoments
from understudy.steps import shrinkage
from understudy.steps.mixture import square_root
from understudy.steps.space import Frame, plain_frame, principal_frame

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

Covariance = Literal["spherical", "diagonal", "tied", "low_rank", "class", "full"]

_WIDE = 1.1  # times the usual length of residuals along leading directions: where they are clipped
_SHORT = 0.25  # of the usual length of residuals: shorter ones hardly occur
_FAINT = 0.4  # of a variance: noise of an eigenvalue that a class's own covariance may have
_LENGTHS = 0.5  # standard deviation of what classes have more or less of than others, publicly
_LEAST = 16  # leading coordinates that an image keeps: colours and coarse shapes


def within_class_frame(
    space: EmbeddingSpace,
    centres: Vector,
    size: float,
    clip_radius: float | None,
    spread: Stage | None,
    stage: Stage | None,
    *,
    plain: bool,
    clusters: int,
    most: int,
    residual: bool,
) -> Frame:
    """Axes of the covariance within classes, of which images keep those that rise above the noise.

    Releases: distances to the class means where the records are not on a sphere and no clipping
    radius is set; the tied covariance, or its diagonal where ``plain``.

    Args:
        space: The space.
        centres: (classes, d) released class means.
        size: Noisy number of records.
        clip_radius: Where differences to a class's mean are clipped; None: as the data says.
        spread: The release of the distances to the class means, or None.
        stage: The release of the covariance, or None.
        plain: Keep the coordinates as they are (spherical and diagonal covariance).
        clusters: k.
        most: Axes that an image keeps at most.
        residual: Whether what lies outside of these axes has the variances that were released, and
            no correlations, where numbers come in order; else it has none.
    """
    dim = centres.shape[1]
    radius = space.residual_radius(centres, spread) if clip_radius is None else clip_radius
    lead, cells = min(dim, max(4, 2 * clusters)), Cells(centres[:, None])
    if plain:
        if stage is None:
            return plain_frame(dim, radius, None, lead)
        squares, sd = dp_estimators.squared_moments(space.vault, cells, radius, stage)
        noise = sd * np.sqrt(len(squares)) / size
        variances = shrinkage.shrink_variances(squares.sum(axis=0)[None] / size, noise**2, 0.02)[0]
        return plain_frame(dim, radius, variances, lead)
    total, sd = dp_estimators.second_moments(space.vault, cells, radius, None, planned(stage))
    raw, noise_sd = total[0] / size, sd / size
    if not space.selective:
        covariance = shrinkage.denoise_covariance(raw, noise_sd)
        return principal_frame(covariance, dim, lead, mahalanobis=True, rest=True)
    block, above = clear_block(raw, noise_sd)
    keep, least = above, min(dim, _LEAST)
    if above < least:  # the clusters' means need them all the same
        block = keep = least
    covariance = np.zeros_like(raw)
    covariance[:block, :block] = shrinkage.denoise_covariance(raw[:block, :block], noise_sd)
    lead = min(lead, max(above, 1))
    frame = principal_frame(covariance, min(keep, most), lead, mahalanobis=False, rest=False)
    rest = _outside(frame, raw, noise_sd) if space.ordered and residual else frame.rest
    return replace(frame, rest=rest, clear=above >= least)


def _outside(frame: Frame, matrix: Vector, noise_sd: float) -> Vector:
    """A root (d, d) of the covariance outside of a frame's axes, as far as it is clear.

    Without it, samples of few images would be as smooth as the few axes that noise leaves are, and
    a network that learnt from them is lost where there are edges and thin strokes.
    """
    explained = ((frame.axes * frame.spread) ** 2).sum(axis=1)
    deviations = np.sqrt(shrinkage.left_variances(matrix, explained, noise_sd))
    return (np.eye(len(matrix)) - frame.axes @ frame.axes.T) * deviations


def clear_block(matrix: Vector, noise_sd: float) -> tuple[int, int]:
    """The leading coordinates whose covariance shows most signal: how many, and how many axes.

    Noise reaches lower eigenvalues in fewer coordinates (`shrinkage.clear_values`).

    Args:
        matrix: (d, d) noisy, the coordinates in falling order of importance.
        noise_sd: Standard deviation of the diagonal's noise.

    Returns:
        The number of leading coordinates, and that of their axes that stand out of the noise, which
        may be 0.
    """
    best, chosen, block = -1.0, (1, 0), 1
    while True:
        values = np.asarray(np.linalg.eigvalsh(matrix[:block, :block]), dtype=np.float64)
        clear, signals = shrinkage.clear_values(values, noise_sd)
        if (signal := float(signals[clear].sum())) > best:
            best, chosen = signal, (block, int(clear.sum()))
        if block == len(matrix):
            return chosen
        block = min(2 * block, len(matrix))


@dataclass(frozen=True)
class Roots:
    """Square roots of covariances, and what of them is a cluster's own.

    Attributes:
        roots: (f, d, d), or (f, d) of diagonal ones.
        root_of: (classes * k,) which of them a cluster has.
        directions: (f,) directions in which a covariance stands out of the noise; in the others it
            is the pooled one.
    """

    roots: Vector
    root_of: Labels
    directions: Labels


@dataclass(frozen=True)
class _Sums:
    """Released sums of squares or outer products about the clusters' centres.

    Attributes:
        totals: (f, d, d), or (f, d).
        sizes: (f,) records that each is a sum over, at least 1.
        sd: Standard deviation of the noise in each number, on the diagonal.
        shrink: 1, or 0 where the known noise is not reckoned with.
    """

    totals: Vector
    sizes: Vector
    sd: float
    shrink: float

    @property
    def noise(self) -> Vector:
        """(f,) standard deviation of the noise in each mean."""
        return self.shrink * self.sd / self.sizes

    @property
    def means(self) -> Vector:
        """The noisy covariances."""
        return self.totals / self.sizes.reshape(-1, *[1] * (self.totals.ndim - 1))

    def grouped(self, groups: Labels) -> _Sums:
        """The sums of groups (f,); the noise of each is taken for that of the largest."""
        totals = np.stack([self.totals[groups == g].sum(axis=0) for g in range(groups.max() + 1)])
        sd = self.sd * float(np.sqrt(np.bincount(groups).max()))
        sizes = np.bincount(groups, self.sizes).astype(np.float64)
        return _Sums(totals, sizes, sd, self.shrink)


def covariance_roots(
    vault: Vault,
    clusters: Clusters,
    radius: float,
    kind: Covariance,
    rank: int,
    stage: Stage,
    *,
    whitened: bool,
    clear: bool,
    lengths: bool,
    shrink: bool,
) -> Roots:
    """Roots of the clusters' covariances, shrunk by the noise that is known to be in them.

    Args:
        vault: Embeddings.
        clusters: About whose centres is measured.
        radius: About the usual length of residuals.
        kind: How many numbers a covariance has, and what shares it.
        rank: Kept directions for ``low_rank``.
        stage: The stage.
        whitened: Whether residuals have about unit covariance.
        clear: Whether every coordinate is known to hold more than noise.
        lengths: Whether a class may have longer residuals than another: of descriptions, where the
            leading directions are measured alone (`_led`).
        shrink: Whether to reckon with the noise.
    """
    cells, each = Cells(clusters.centres), np.arange(clusters.sizes.size)
    class_of = each // clusters.sizes.shape[1]
    if kind in ("spherical", "diagonal"):
        squares, sd = dp_estimators.squared_moments(vault, cells, radius, stage)
        sums = _Sums(squares, np.maximum(clusters.sizes.ravel(), 1.0), sd, float(shrink))
        deviations, directions = _deviations(sums, spherical=kind == "spherical")
        return Roots(deviations, each, directions)
    slot = {"tied": np.zeros_like(each), "class": class_of}.get(kind, each)
    single = whitened and cells.centres.shape[1] == 1
    sizes = np.maximum(np.bincount(slot, clusters.sizes.ravel()), 1.0)
    if single and lengths:
        matrices, directions = _led(vault, cells, sizes, slot, stage, shrink=shrink)
    else:
        clip = _SHORT * radius if single else radius
        totals, sd = dp_estimators.second_moments(vault, cells, clip, slot, stage)
        sums = _Sums(totals, sizes, sd, float(shrink))
        groups = class_of if kind in ("full", "low_rank") else np.arange(len(sizes))
        matrices, directions = (
            _cleaned(sums, cells.dim / clip**2)
            if single
            else _towards_pooled(sums, groups, clear=whitened or clear)
        )
    if kind == "low_rank":
        matrices = np.stack([shrinkage.low_rank(m, min(rank, cells.dim)) for m in matrices])
    return Roots(np.stack([square_root(m) for m in matrices]), slot, directions)


def _led(
    vault: Vault, cells: Cells, sizes: Vector, slot: Labels, stage: Stage, *, shrink: bool
) -> tuple[Vector, Labels]:
    """Covariances (f, d, d) in whitened coordinates, measured along the leading ones.

    Noise grows with the square of the length that is measured, so a few directions, which vary most
    to the eye, are known well where all of them would drown. What a class has more or less of there
    than the others have, it gets in the other directions, too.
    """
    unit = FullMoments(Cells(cells.centres[:, :, :1]), 1.0, slot)
    lead = leading_directions(
        float(np.median(sizes)) / vault.noise_sd(unit, stage=stage.name), cells.dim
    )
    view = vault.view(lambda rows: rows[:, :lead])
    narrow, clip = Cells(cells.centres[:, :, :lead]), _WIDE * np.sqrt(lead)
    totals, sd = dp_estimators.second_moments(view, narrow, clip, slot, stage)
    sums = _Sums(totals, sizes, sd, float(shrink))
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
    pooled = sums.grouped(np.zeros(len(sums.sizes), dtype=np.int64))
    target = shrinkage.shrink_variances(pooled.means, pooled.noise[:, None] ** 2, floor=0.02)
    noise = sums.noise[:, None] ** 2
    variances, keep = shrinkage.shrink_to_target(sums.means, target, noise, floor=0.02)
    if spherical:
        variances = np.repeat(variances.mean(axis=1, keepdims=True), variances.shape[1], axis=1)
    return np.sqrt(variances), np.where(keep > 0, variances.shape[1], 0)


def _towards_pooled(sums: _Sums, groups: Labels, *, clear: bool) -> tuple[Vector, Labels]:
    """Covariances (f, d, d), each moved to its group's, and that to the one of all, by the noise.

    Args:
        sums: Released.
        groups: (f,) the class of each.
        clear: Whether every coordinate is known to hold more than noise. Else the one of all has
            clear axes alone.
    """
    everyone = sums.grouped(np.zeros(len(sums.sizes), dtype=np.int64))
    clean = shrinkage.denoise_covariance if clear else shrinkage.clear_part
    pooled = clean(everyone.means[0], float(everyone.noise[0]))
    classes = sums.grouped(groups)
    own = [
        shrinkage.shrink_leading(mean, pooled, noise, clear=clear)
        for mean, noise in zip(classes.means, classes.noise, strict=True)
    ]
    targets = np.stack([matrix for matrix, _, _ in own])
    directions = np.array([block for _, block, _ in own])
    if len(groups) == len(targets):
        return targets, directions
    moved = [
        shrinkage.shrink_leading(mean, targets[group], noise, clear=clear)
        for mean, noise, group in zip(sums.means, sums.noise, groups, strict=True)
    ]
    blocks = np.array([block for _, block, _ in moved])
    return np.stack([matrix for matrix, _, _ in moved]), np.maximum(blocks, directions[groups])


def _cleaned(sums: _Sums, scale: float | None) -> tuple[Vector, Labels]:
    """Covariances in coordinates where the pooled one is about the identity, each by itself.

    The noise that is known leaves the spectrum: a matrix that is all noise becomes a multiple of
    the pooled one. With a ``scale`` they are of directions: a residual far below the usual length
    hardly occurs in many dimensions, so with a short clipping radius every residual is clipped to
    it: all weigh alike, no matter how long, and nothing is lost to outliers. Their trace is known
    and set to d. On a public benchmark this beat clipping at the usual length by 1 to 2 points.
    Without a scale, what a class has more or less of than the others, its length included, stays.
    """
    matrices, directions = [], []
    for mean, noise in zip((scale or 1.0) * sums.means, (scale or 1.0) * sums.noise, strict=True):
        matrix = shrinkage.denoise_covariance(mean, float(noise), floor=0.05)
        edge = 2 * np.sqrt(len(mean) / 2) * noise
        outside = np.abs(np.linalg.eigvalsh(mean) - np.trace(mean) / len(mean)) > edge
        directions.append(int(outside.sum()))
        matrices.append(matrix if scale is None else matrix * (len(mean) / np.trace(matrix)))
    return np.stack(matrices), np.array(directions)
