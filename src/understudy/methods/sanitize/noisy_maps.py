"""L1 under differential privacy: the noisy mean of a map over the references, and no map of any.

Edges or a drawn skeleton of every reference are averaged on a coarse grid inside the vault, and
Gaussian noise is added to the sum: (epsilon, delta) as of any other release, charged to the ledger
of the dataset. With the ten references of SpinML nothing but noise is left; a mean over a thousand
photos of one camera shows where edges usually are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Images, Stage, Vector
from understudy.privacy.cells import Cells
from understudy.privacy.queries import CountAndSum
from understudy.privacy.vault import Vault

MAP_STAGE = Stage("mean map", 1.0)
"""The one release of `noisy_mean_map`."""


@dataclass(frozen=True, slots=True)
class NoisyMap:
    """A noisy mean of maps. DP: it may be sent.

    Attributes:
        mean: (side, side) float64, about 0 to 1.
        noise_sd: Standard deviation of the noise in each of its numbers.
    """

    mean: Vector
    noise_sd: float
    count: float


def noisy_mean_map(
    vault: Vault,
    draw: Callable[[Images], Images],
    *,
    side: int = 8,
    clip_radius: float = 1.0,
    stage: Stage = MAP_STAGE,
) -> NoisyMap:
    """Release the mean over the vault's photos of what is drawn of each.

    Count and sum are one release (`CountAndSum`), so the number of references need not be public.

    Args:
        vault: The owner's photos; labels are not looked at.
        draw: Photos (n, height, width, channels) to what an L1 sanitizer draws of them, the same
            shape; row i depends on photo i alone.
        side: Cells a side that a map is averaged to: side squared numbers are released.
        clip_radius: Maps of a larger L2 norm are scaled down to it. A mean of edges over cells is
            about 0.2, so that 64 of them have a norm of 1.6.
        stage: Of the account's plan.

    Raises:
        ConfigError: A side or a radius that makes no sense.
        BudgetRefused: Over the dataset's budget.
    """
    if side < 1 or not clip_radius > 0:
        raise ConfigError(
            f"side must be 1 or more and clip_radius above 0, found {side} and {clip_radius}"
        )

    def embed(values: NDArray[Any]) -> Embeddings:
        return cell_means(draw(values), side).reshape(len(values), side * side)

    query = CountAndSum(Cells(np.zeros((1, 1, side * side))), clip_radius)
    maps = vault.map(embed).unconditional()
    released = maps.release(query, stage=stage.name)
    count = max(1.0, float(query.counts(released)[0]))
    noise = maps.noise_sd(query, stage=stage.name) / query.sum_part / count
    return NoisyMap(query.sums(released)[0].reshape(side, side) / count, noise, count)


def cell_means(images: Images, side: int) -> Embeddings:
    """(n, side, side) float32 in [0, 1]: mean brightness of the cells of a grid.

    Raises:
        ConfigError: The images are smaller than the grid.
    """
    height, width = images.shape[1:3]
    if min(height, width) < side:
        raise ConfigError(f"images of {height} x {width} pixels have no grid of {side} x {side}")
    # Integer sums: a row is the same to the last bit, whatever other rows there are.
    grey = images.astype(np.int64).sum(axis=3)
    rows, columns = (np.arange(side + 1) * length // side for length in (height, width))
    sums = np.add.reduceat(np.add.reduceat(grey, rows[:-1], axis=1), columns[:-1], axis=2)
    areas = np.diff(rows)[:, None] * np.diff(columns) * images.shape[3] * 255
    return np.asarray(sums / areas, dtype=np.float32)
