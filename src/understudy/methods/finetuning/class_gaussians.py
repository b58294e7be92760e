"""A Gaussian per class of small images, whose best denoiser is known in closed form.

It denoises where there is much noise, so the network has only to learn what a Gaussian does not
know.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.denoising import ImageRows
from understudy.core.independence import Projection
from understudy.core.types import Labels
from understudy.steps.space import leading_axes

_AXES = 100  # along which a covariance is more than one number
_SHRUNK = 400  # images of a class: with as many, half of its covariance is that of all classes
_LEAST_VARIANCE = 1e-4  # of a pixel of -1 to 1: of rounding to 8 bits, and less


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


def gaussians_of(images: ImageRows, labels: Labels, classes: int) -> ClassGaussians:
    """Those of public images (n, d) of each class, covariances shrunk to that of all classes."""
    counts = np.bincount(labels, minlength=classes)
    everyone = images.mean(axis=0, dtype=np.float64)
    sums = np.zeros((classes, images.shape[1]))
    np.add.at(sums, labels, images)
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], everyone)
    rows = (images - means[labels]).astype(np.float32)
    keep = min(_AXES, images.shape[1] - 1, len(images) - 1)
    axes = np.ascontiguousarray(leading_axes(rows, keep)[1], dtype=np.float32)
    along = (rows @ axes).astype(np.float64)
    pooled = along.T @ along / len(along)
    matrices = []
    for label, count in enumerate(counts):
        own = along[labels == label]
        matrices.append((own.T @ own + _SHRUNK * pooled) / (count + _SHRUNK))
    values, turns = np.linalg.eigh(np.stack(matrices))
    total = float(rows.var(axis=0, dtype=np.float64).sum())
    return ClassGaussians(
        means.astype(np.float32),
        axes,
        np.ascontiguousarray(turns, dtype=np.float32),
        np.maximum(values, _LEAST_VARIANCE).astype(np.float32),
        max((total - float(np.trace(pooled))) / (images.shape[1] - keep), _LEAST_VARIANCE),
    )
