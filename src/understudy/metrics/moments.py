"""Means and covariances gathered batch by batch: memory does not grow with the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Vector

_ROWS = 8192  # turned to float64 at a time


@dataclass(frozen=True)
class Moments:
    """Mean (d,) and covariance (d, d), divided by n - 1, of a set of embeddings."""

    mean: Vector
    covariance: Vector

    @classmethod
    def of(cls, embeddings: NDArray[Any]) -> Moments:
        """Of (n, d) embeddings.

        Raises:
            InputError: Fewer than two rows, or numbers that are not finite.
        """
        if embeddings.ndim != 2 or len(embeddings) < 2:
            raise InputError(
                f"a Frechet distance takes two or more embeddings a side, found {embeddings.shape}"
            )
        sums = MomentSums(embeddings.shape[1])
        sums.add(embeddings)
        return sums.moments()

    @cached_property
    def root(self) -> Vector:
        """(d, d) the symmetric root of the covariance."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


class MomentSums:
    """Count, mean and scatter of the rows seen so far, in float64.

    Batches are merged about their own means (Chan, Golub, LeVeque 1983), so that nothing is lost
    where the mean is large beside the spread. Any division into batches gives the same up to
    float64's rounding.

    Attributes:
        count: Rows seen.
        mean: (d,) of them.
        scatter: (d, d) sum of the products of what they differ from it.
    """

    def __init__(self, dim: int) -> None:
        self.count = 0
        self.mean: Vector = np.zeros(dim)
        self.scatter: Vector = np.zeros((dim, dim))

    def add(self, rows: NDArray[Any]) -> None:
        """See (n, d) more rows.

        Raises:
            InputError: Numbers that are not finite.
        """
        for start in range(0, len(rows), _ROWS):
            part = np.asarray(rows[start : start + _ROWS], dtype=np.float64)
            if not np.isfinite(part).all():
                raise InputError("a Frechet distance takes finite embeddings")
            mean = part.mean(axis=0)
            part = part - mean
            self._merge(len(part), mean, part.T @ part)

    def merge(self, other: MomentSums) -> None:
        """See all that another has seen."""
        self._merge(other.count, other.mean, other.scatter)

    def _merge(self, count: int, mean: Vector, scatter: Vector) -> None:
        if not count:
            return
        total = self.count + count
        apart = mean - self.mean
        self.scatter += scatter
        self.scatter += np.outer(apart, apart) * (self.count * count / total)
        self.mean = self.mean + apart * (count / total)
        self.count = total

    def moments(self) -> Moments:
        """What `Moments.of` gives for all the rows at once.

        Raises:
            InputError: Fewer than two rows.
        """
        if self.count < 2:
            raise InputError(f"a Frechet distance takes two or more rows, found {self.count}")
        return Moments(self.mean.copy(), self.scatter / (self.count - 1))
