"""``understudy studio axes``: what `embedded:energies` knows of public photographs.

Usual sizes of cosine coefficients, and the principal axes of oriented energies. Both are plain
statistics of public images: nothing is trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from understudy.backends.arrays import FloatArray, with_channels
from understudy.backends.embedded.energies import transform
from understudy.backends.embedded.energies.transform import COSINES, PublicAxes
from understudy.core.errors import ConfigError
from understudy.core.types import Images, Vector
from understudy.data import open_source
from understudy.run.progress import ProgressMode, reporting

_LUMA_AXES, _CHROMA_AXES = 220, 40
_LENGTH = 0.5  # standard deviation of public images along an axis
_BATCH = 256
_FEWEST = 2_000


@dataclass
class _Moments:
    """Sums of rows and of their outer products."""

    count: int = 0
    total: Vector = field(default_factory=lambda: np.zeros(0))
    squares: Vector = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, rows: NDArray[np.floating]) -> None:
        values = rows.astype(np.float64)
        if not self.count:
            self.total, self.squares = np.zeros(values.shape[1]), np.zeros((values.shape[1],) * 2)
        self.count += len(values)
        self.total += values.sum(axis=0)
        self.squares += values.T @ values

    def principal(self, most: int) -> tuple[FloatArray, FloatArray]:
        """The mean, and the first axes, each over twice its deviation."""
        mean = self.total / self.count
        values, axes = np.linalg.eigh(self.squares / self.count - np.outer(mean, mean))
        first = np.argsort(-values)[:most]
        scaled = axes[:, first] * (_LENGTH / np.sqrt(values[first]))
        return mean.astype(np.float32), scaled.astype(np.float32)


def axes_of_images(batches: Iterable[Images]) -> PublicAxes:
    """The axes of public images, (n, height, width, 3) uint8 a batch."""
    luma, chroma = _Moments(), _Moments()
    squares, grids = np.zeros((3, COSINES, COSINES)), {}
    for images in batches:
        values = transform.coefficients(with_channels(images, 3))
        squares += np.square(values, dtype=np.float64).sum(axis=0)
        with torch.inference_mode():
            tensor = torch.from_numpy(values)
            parts = transform.luma_energies(tensor), transform.chroma_energies(tensor)
        for moments, part in zip((luma, chroma), parts, strict=True):
            maps = part.shape[1] // transform.GRID**2
            if maps not in grids:
                grids[maps] = transform.grid_axes(maps)
            moments.add(part.numpy() @ grids[maps])
    if luma.count < _FEWEST:
        raise ConfigError(f"axes need {_FEWEST:,} public images at least, found {luma.count:,}")
    deviations = np.sqrt(_power_law(squares / luma.count))
    return PublicAxes(
        deviations.astype(np.float32), *luma.principal(_LUMA_AXES), *chroma.principal(_CHROMA_AXES)
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

        def batches() -> Iterable[Images]:
            for source in sources:
                for batch in source.batches(_BATCH):
                    step(len(batch.labels))
                    yield batch.values

        axes_of_images(batches()).write(file)
    return total
