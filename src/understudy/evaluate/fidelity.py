"""How alike two sets of images are, by their embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Vector


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of a set of embeddings.

    Attributes:
        mean: (d,).
        covariance: (d, d), divided by n - 1.
    """

    mean: Vector
    covariance: Vector

    @classmethod
    def of(cls, embeddings: NDArray[Any]) -> Moments:
        """Of (n, d) embeddings.

        Raises:
            ConfigError: Fewer than two rows, or numbers that are not finite.
        """
        rows = np.asarray(embeddings, dtype=np.float64)
        if rows.ndim != 2 or len(rows) < 2:
            raise ConfigError(
                f"a Frechet distance takes two or more embeddings a side, found {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise ConfigError("a Frechet distance takes finite embeddings")
        return cls(rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False)))


def frechet_distance(a: Moments | NDArray[Any], b: Moments | NDArray[Any]) -> float:
    """Frechet distance of two sets of embeddings, each taken as a Gaussian.

    ||m_a - m_b||^2 + tr(C_a + C_b - 2 (C_a C_b)^{1/2}): FID where the embeddings are Inception's
    (Heusel et al. 2017, Eq. 6). The trace of the root is that of the root of the symmetric
    C_a^{1/2} C_b C_a^{1/2}, so that no complex number can come up.

    Args:
        a: (n, d) embeddings, or their moments.
        b: (m, d) embeddings, or their moments.

    Returns:
        The squared distance, 0 or more. Biased upwards on few rows: compare equal numbers only.

    Raises:
        ConfigError: Fewer than two rows, other lengths, or numbers that are not finite.
    """
    one, two = (x if isinstance(x, Moments) else Moments.of(x) for x in (a, b))
    if one.mean.shape != two.mean.shape:
        raise ConfigError(
            f"embeddings of {len(one.mean)} and of {len(two.mean)} numbers cannot be compared"
        )
    values, vectors = np.linalg.eigh(one.covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    between = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ two.covariance @ root), 0.0)).sum()
    apart = float(np.square(one.mean - two.mean).sum())
    spread = float(np.trace(one.covariance) + np.trace(two.covariance) - 2 * between)
    return max(0.0, apart + spread)
