"""Reconstruction: how much of each private image can be read off the release?

The attack is the best there is without knowing the mechanism: for every private image, the
synthetic one that comes nearest to it. The same for held-out images says how much of any image
of the kind can be found in a release of this size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.errors import InputError
from understudy.core.results import Interval, Metric
from understudy.core.types import Images, Labels, Vector
from understudy.metrics.nearest_neighbours import RowProgress, clouds, nearest_rows, row_blocks
from understudy.metrics.roc import clopper_pearson
from understudy.metrics.similarity import decibels, mse, ssim

_NUMBERS = 2**25
"""Pixel values of the release that are made ready at once: 256 MB."""


_MATCHES = (
    "Every private image is compared with the synthetic one most like it: what could be rebuilt of "
    "it. Held-out images find matches as good where nothing was copied. "
)

MATCH_PSNR = Metric(
    key="reconstruction_psnr",
    group="leakage",
    name="reconstruction: PSNR of the best match in dB, median",
    explanation=f"{_MATCHES}PSNR: how alike two images are by squared error, in decibels; "
    "infinite: equal.",
    better="lower",
    baseline="held-out real records",
)

MATCH_SSIM = Metric(
    key="reconstruction_ssim",
    group="leakage",
    name="reconstruction: SSIM of the best match, median",
    explanation=f"{_MATCHES}SSIM: how alike two images are in brightness, contrast and structure. "
    "1: equal.",
    better="lower",
    baseline="held-out real records",
)

MATCHED_BETTER = Metric(
    key="reconstruction_matched_better",
    group="leakage",
    name="reconstruction: matched better than 99 % of held-out records are",
    explanation=f"{_MATCHES}Part of the private images that are matched better than 99 % of "
    "held-out ones: as many as chance gives where nothing was copied.",
    better="lower",
    unit="%",
    baseline="chance",
)


@dataclass(frozen=True, slots=True)
class Matches:
    """The synthetic image that comes nearest to each real one.

    Attributes:
        rows: (n,) which synthetic image.
        mse: (n,) mean squared difference of the pixels, 0 to 255 squared.
        ssim: (n,) structural similarity of the two, 1 for the same image.
    """

    rows: Labels
    mse: Vector
    ssim: Vector

    @property
    def psnr(self) -> Vector:
        """(n,) peak signal-to-noise ratio in decibels; infinite for a copy."""
        return decibels(self.mse)


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """Best matches over the release, of private and of held-out images. Owner-only.

    Attributes:
        private: Of the private images.
        held_out: Of real images that were not in the private data.
    """

    private: Matches
    held_out: Matches

    @property
    def closer(self) -> Interval:
        """Part of the private images matched better than all but 1 % of held-out ones.

        `chance` where nothing leaks. Clopper and Pearson's interval, the threshold taken as given.
        """
        near = self.private.mse < np.quantile(self.held_out.mse, 0.01)
        return Interval(float(near.mean()), *clopper_pearson(int(near.sum()), len(near)))

    @property
    def chance(self) -> float:
        """What `closer` comes to on average where private images are drawn as held-out ones are.

        A part k / (m + 1) of all images lies below the k-th of m held-out ones.
        """
        count = len(self.held_out.mse)
        return (1 + 0.01 * (count - 1)) / (count + 1)


def reconstruct(
    private: Images, release: Images, held_out: Images, *, progress: RowProgress | None = None
) -> Reconstruction:
    """The best match over the release for every private and every held-out image.

    Nearest by the mean squared difference; SSIM is of that match. Memory does not grow with the
    release beyond 256 MB.

    Args:
        private: (p, height, width, channels) uint8, at least 11 x 11 pixels.
        release: (n, ...) of the same shape.
        held_out: (m, ...) of the same shape, not in the private data.
        progress: Told how many of the p + m images are done.

    Raises:
        InputError: An empty set, other shapes, or images too small for SSIM.
    """
    for name, images in (("private", private), ("synthetic", release), ("held-out", held_out)):
        if images.ndim != 4 or not len(images) or images.shape[1:] != private.shape[1:]:
            raise InputError(
                "images of one size and colour are compared, one or more of each kind: the "
                f"{name} ones have shape {images.shape}, the private ones {private.shape}"
            )
    return Reconstruction(
        _matches(private, release, progress), _matches(held_out, release, progress)
    )


def _matches(asked: Images, release: Images, progress: RowProgress | None) -> Matches:
    rows = np.zeros(len(asked), dtype=np.int64)
    for mine in row_blocks(len(asked)):
        rows[mine] = _best(asked[mine], release)
        if progress is not None:
            progress(mine.stop - mine.start)
    nearest = release[rows]
    return Matches(rows, mse(asked, nearest), ssim(asked, nearest))


def _best(asked: Images, release: Images) -> Labels:
    """The nearest synthetic image of each, the first of equals."""
    flat = asked.reshape(len(asked), -1)
    part = max(1, _NUMBERS // flat.shape[1])
    rows = np.zeros(len(asked), dtype=np.int64)
    least = np.full(len(asked), np.inf)
    for start in range(0, len(release), part):
        there, mine = clouds(release[start : start + part].reshape(-1, flat.shape[1]), flat)
        nearest, distances = (each[:, 0] for each in nearest_rows(mine, there))
        nearer = distances < least
        rows[nearer], least[nearer] = nearest[nearer] + start, distances[nearer]
    return rows
