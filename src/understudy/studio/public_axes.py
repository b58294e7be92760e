"""``understudy studio axes``: what `embedded:energies` knows of public photographs.

Usual sizes of cosine coefficients, and axes of oriented energies and histograms along which classes
differ much and images of one class little: a discriminant analysis (Fisher 1936, Rao 1948). How far
images of one thing differ is measured by two other photos of each image as well, moved a little, in
other colours and light. All are plain statistics of public images: no network is trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy
import torch

from understudy.backends.arrays import FloatArray, with_channels
from understudy.backends.embedded.energies import transform
from understudy.backends.embedded.energies.transform import COSINES, PublicAxes
from understudy.core.errors import ConfigError
from understudy.core.types import Batch, Vector
from understudy.data import open_source
from understudy.metrics.moments import MomentSums
from understudy.metrics.networks.camera_variation import as_other_photos
from understudy.run.progress import ProgressMode, reporting

_LUMA_AXES, _CHROMA_AXES = 220, 40
_LUMA_RANK, _CHROMA_RANK = 220, 100  # principal axes of energies that axes are combined of
_LENGTH = 0.5  # mean deviation of public images along an axis
_OF_IMAGES = 0.1  # weight of differences between images, beside those between classes
_POWER = 0.3  # of the part of an axis's variance between classes, that its deviation goes by
_BATCH = 256
_FEWEST = 2_000


class _Features:
    """What is summed of d features: the images, their classes, and other photos."""

    def __init__(self, dim: int) -> None:
        self.images, self.photos, self.differences = (MomentSums(dim) for _ in range(3))
        self.classes: dict[int, Vector] = {}  # the number of images, and their sum

    def add(self, rows: Vector, batch: Batch, photos: Sequence[Vector]) -> None:
        self.images.add(rows)
        for label in np.unique(batch.labels):
            own = rows[batch.labels == label]
            self.classes[label] = self.classes.get(label, 0) + np.append(len(own), own.sum(axis=0))
        for photo in photos:
            self.photos.add(photo)
        self.differences.add(photos[0] - photos[1])

    def axes(self, most: int, rank: int, bins: int) -> tuple[FloatArray, FloatArray]:
        """The mean, and the first axes in falling order of how well they tell classes apart."""
        sums = np.stack(list(self.classes.values()))
        means = sums[:, 1:] / sums[:, :1] - self.images.mean
        between = means.T @ (sums[:, :1] / self.images.count * means)
        total = self.images.moments().covariance
        of_photos = self.differences.moments().covariance / 2
        maps = len(total) - bins
        _, vectors = np.linalg.eigh(total[:maps, :maps])
        leading = scipy.linalg.block_diag(vectors[:, -rank:], np.eye(bins))
        signal = between + _OF_IMAGES * (self.photos.moments().covariance - of_photos)
        noise = total - between + of_photos
        ratios, axes = scipy.linalg.eigh(leading.T @ signal @ leading, leading.T @ noise @ leading)
        axes, ratios = leading @ axes[:, : -most - 1 : -1], np.maximum(ratios[: -most - 1 : -1], 0)
        sizes = (ratios / (1 + ratios)) ** _POWER
        sizes *= _LENGTH / sizes.mean() / np.sqrt(((total @ axes) * axes).sum(axis=0))
        return self.images.mean.astype(np.float32), (axes * sizes).astype(np.float32)


def axes_of_images(batches: Iterable[Batch]) -> PublicAxes:
    """The axes of public images of classes, (n, height, width, 3) uint8 a batch."""
    grids = [
        transform.grid_axes(octaves * transform.ANGLES, bins)
        for octaves, bins in (
            (transform.LUMA_OCTAVES, transform.BINS),
            (2 * transform.CHROMA_OCTAVES, 0),
        )
    ]
    luma, chroma = (_Features(grid.shape[1]) for grid in grids)
    squares = np.zeros((3, COSINES, COSINES))

    def features(values: FloatArray) -> list[Vector]:
        """Of luma and of chroma, in the lowest cosines over the grid."""
        tensor = torch.from_numpy(values)
        with torch.inference_mode():
            parts = transform.luma_features(tensor), transform.chroma_energies(tensor)
        return [part.numpy() @ grid for part, grid in zip(parts, grids, strict=True)]

    torch.manual_seed(0)
    for batch in batches:
        images = with_channels(batch.values, 3)
        values = transform.coefficients(images)
        squares += np.square(values, dtype=np.float64).sum(axis=0)
        photos = [as_other_photos(torch.from_numpy(images)).numpy() for _ in range(2)]
        rows = features(values), *(features(transform.coefficients(photo)) for photo in photos)
        for kind, own, *others in zip((luma, chroma), *rows, strict=True):
            kind.add(own, batch, others)
    if luma.images.count < _FEWEST:
        raise ConfigError(
            f"axes need {_FEWEST:,} public images at least, found {luma.images.count:,}"
        )
    deviations = np.sqrt(_power_law(squares / luma.images.count))
    return PublicAxes(
        deviations.astype(np.float32),
        *luma.axes(_LUMA_AXES, _LUMA_RANK, transform.BINS),
        *chroma.axes(_CHROMA_AXES, _CHROMA_RANK, 0),
    )


def _power_law(squares: Vector) -> Vector:
    """Mean squares (3, COSINES, COSINES) as a power law of frequency, but for the mean."""
    radii = transform.radii()
    inside = radii > 0
    design = np.stack([np.ones(inside.sum()), np.log(radii[inside] + 1)], axis=1)
    result = np.empty_like(squares)
    for channel, measured in enumerate(squares):
        fit = np.linalg.lstsq(design, np.log(measured[inside]), rcond=None)[0]
        result[channel] = np.exp(fit[0] + fit[1] * np.log(radii + 1))
        result[channel, 0, 0] = measured[0, 0]
    return result


def write_axes(images: Sequence[str], file: Path, *, progress: ProgressMode = "auto") -> int:
    """Write the axes of public sources to a file, and return how many images they are of."""
    sources = [open_source(name) for name in images]
    for source in sources:
        if source.kind != "images":
            raise ConfigError(f"{source.name} holds embeddings: name public images")
    total = sum(map(len, sources))
    with reporting(progress) as bars:
        step = bars.step("reading public images", total)

        def batches() -> Iterable[Batch]:
            first = 0  # label of a source's first class
            for source in sources:
                for batch in source.batches(_BATCH):
                    step(len(batch.labels))
                    yield replace(batch, labels=batch.labels + first)
                first += len(source.classes)

        axes_of_images(batches()).write(file)
    return total
