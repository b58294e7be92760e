"""The warm start: a Gaussian per class of small images, from one round of DP statistics.

The best denoiser of a Gaussian is known in closed form. What is released here denoises where there
is much noise, so the network has only to learn what a Gaussian does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import Projection
from understudy.core.types import Embeddings, Labels, Stage, Vector
from understudy.methods import dp_estimators
from understudy.privacy.cells import Cells
from understudy.steps import histogram, shrinkage
from understudy.steps.space import leading_axes

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

_AXES = 100  # of public images, along which private ones are measured
_COMMON_LEVEL = 0.95  # of public images lie nearer to their mean than private ones are clipped at
_CLASS_LEVEL = 0.8  # of private ones lie nearer to the common mean; as in clustering
_LEAST_VARIANCE = 1e-4  # of a pixel of -1 to 1: of rounding to 8 bits, and less

ImageRows = NDArray[np.float32]


@dataclass(frozen=True)
class GaussianStages:
    """The releases of the warm start."""

    sizes: Stage
    units: Stage | None  # how many there are, where one may be of several classes
    centre: Stage  # the mean of all
    spread: Stage  # how far from it records lie
    means: Stage
    covariances: Stage


@dataclass(frozen=True)
class ClassGaussians:
    """Gaussians of images as vectors of length d, one a class."""

    means: ImageRows  # (C, d)
    axes: ImageRows  # (d, r) orthonormal, that covariances are known along
    turns: ImageRows  # (C, r, r) eigenvectors of each class, along the axes
    variances: ImageRows  # (C, r) its eigenvalues
    rest: float  # the variance across the axes

    @property
    def deviation(self) -> float:
        """Root mean square of a pixel's difference to its class's mean."""
        d, r = self.axes.shape
        return float(np.sqrt((self.variances.sum(axis=1).mean() + self.rest * (d - r)) / d))

    def denoise(self, noisy: ImageRows, sigmas: NDArray[np.float32], labels: Labels) -> ImageRows:
        """E[x | x + sigma n] of (n, d) images with (n,) noise levels and classes: (n, d).

        Each row by itself to the last bit: products are exact sums or of one row each.
        """
        offsets = noisy - self.means[labels]
        squares = np.square(sigmas)[:, None]
        across = self.rest / (self.rest + squares)
        turns, variances = self.turns[labels], self.variances[labels]
        along = Projection(self.axes)(offsets).astype(np.float32)
        turned = np.matmul(along[:, None], turns)[:, 0]
        shrunk = turned * (variances / (variances + squares) - across)
        back = np.matmul(turns, shrunk[:, :, None])[:, :, 0]
        moved = Projection(self.axes.T)(back).astype(np.float32)
        return np.asarray(self.means[labels] + across * offsets + moved, dtype=np.float32)


def public_gaussian(images: Embeddings) -> ClassGaussians:
    """One Gaussian of public images (n, d), along their leading axes."""
    centre = images.mean(axis=0, dtype=np.float64)
    keep = min(_AXES, images.shape[1] - 1, len(images) - 1)
    values, axes = leading_axes((images - centre).astype(np.float32), keep)
    total = float(images.var(axis=0, dtype=np.float64).sum())
    rest = max((total - values.sum()) / (images.shape[1] - keep), _LEAST_VARIANCE)
    turns = np.eye(keep, dtype=np.float32)[None]
    narrow = np.ascontiguousarray(axes, dtype=np.float32)
    return ClassGaussians(
        centre.astype(np.float32)[None],
        narrow,
        turns,
        np.maximum(values, _LEAST_VARIANCE).astype(np.float32)[None],
        rest,
    )


def released_gaussians(
    vault: Vault, public: ClassGaussians, norms: Vector, classes: int, stages: GaussianStages
) -> tuple[ClassGaussians, Vector, float]:
    """Gaussians of the private images (n, d) of a vault, their class sizes (classes,), and units.

    ``norms``: (m,) of what public images differ from their mean along the axes, each in deviations.
    Statistics are taken in these units: there the spectrum is about flat, so what noise hides of a
    covariance becomes the spectrum of public images and not an even grain.
    """
    scales = np.sqrt(public.variances[0].astype(np.float64))
    axes = public.axes.astype(np.float64)
    middle = public.means[0].astype(np.float64) @ axes / scales
    narrow = vault.view(Projection(axes / scales))
    sizes, sizes_sd = dp_estimators.class_sizes(vault, classes, len(axes), stages.sizes)
    units = dp_estimators.units(narrow, sizes, len(axes), stages.units)
    everyone = narrow.unconditional()
    radius = float(np.quantile(norms, _COMMON_LEVEL))
    common = dp_estimators.group_means(everyone, Cells(middle[None, None]), radius, stages.centre)
    centre = common.means[0]
    edges = np.geomspace(0.02, 1.0, 80) * radius
    weights = dp_estimators.norm_histogram(
        everyone, Cells(centre[None, None]), edges, stages.spread
    )
    radius = min(radius, histogram.quantile(weights, edges, _CLASS_LEVEL))
    cells = Cells(np.repeat(centre[None, None], classes, axis=0))
    groups = dp_estimators.group_means(narrow, cells, radius, stages.means, sizes)
    means = centre + shrinkage.shrink_in_blocks(groups.means - centre, groups.variances)
    each = np.arange(classes)
    totals, sd = dp_estimators.second_moments(
        narrow, Cells(means[:, None]), radius, each, stages.covariances
    )
    pooled = shrinkage.denoise_covariance(
        totals.sum(axis=0) / sizes.sum(), sd * np.sqrt(classes) / float(sizes.sum())
    )
    matrices = [
        shrinkage.shrink_leading(total / size, pooled, sd / size, clear=True)[0]
        for total, size in zip(totals, sizes, strict=True)
    ]
    values, turns = np.linalg.eigh(np.stack(matrices) * np.outer(scales, scales))
    # What public images have across the axes, in proportion to what is along them.
    ratio = float(np.trace(pooled)) / len(pooled)
    across = public.means[0].astype(np.float64) - axes @ (middle * scales)
    return (
        ClassGaussians(
            (across + (means * scales) @ axes.T).astype(np.float32),
            public.axes,
            np.ascontiguousarray(turns, dtype=np.float32),
            np.maximum(values, _LEAST_VARIANCE).astype(np.float32),
            max(public.rest * ratio, _LEAST_VARIANCE),
        ),
        np.maximum(sizes, sizes_sd),
        units,
    )
