"""Public partitions of private records, and which cluster a record falls in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import require_finite, row_squares
from understudy.core.types import Vector
from understudy.privacy.nearest import Nearest


@dataclass(frozen=True)
class Cells:
    """A public partition: the class of a record, then the nearest of that class's centres.

    Attributes:
        centres: (classes, k, d) float64, released or public.
    """

    centres: Vector

    @property
    def parameters(self) -> tuple[Vector, ...]:
        """All that the partition is made of."""
        return (self.centres,)

    @property
    def count(self) -> int:
        """classes * k."""
        return int(self.centres.shape[0] * self.centres.shape[1])

    @property
    def dim(self) -> int:
        """d."""
        return int(self.centres.shape[2])

    @cached_property
    def flat(self) -> Vector:
        """(classes * k, d): the centre of each cluster."""
        return self.centres.reshape(self.count, self.dim)

    @cached_property
    def _nearest(self) -> list[Nearest]:
        """Of each class."""
        return [Nearest(centres) for centres in self.centres]

    def assign(self, values: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cluster of each record: (n,) int64 in [0, classes * k).

        A record's cluster depends on nothing but the record: exact arithmetic decides (`nearest`).
        """
        k = self.centres.shape[1]
        if k == 1:
            return labels
        clusters = np.empty(len(values), dtype=np.int64)
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            # One class only is the common case, and needs no copy.
            records = values if len(members) == len(values) else values[members]
            clusters[members] = label * k + self._nearest[label](records)
        return clusters

    def residuals(self, values: NDArray[Any], clusters: NDArray[np.int64]) -> Vector:
        """x - centre of its cluster: (n, d) float64, a new array."""
        residuals = self.flat[clusters]
        np.subtract(values, residuals, out=residuals)
        return residuals


@dataclass(frozen=True)
class ScaledCells(Cells):
    """Clusters whose residuals are measured in public widths of each.

    Proof: nothing to add, as of `SplitCells`: a query clips the residual that it gets.

    Attributes:
        centres: (classes, k, d).
        widths: (classes * k, d), or (classes * k, 1) of all numbers; positive.
    """

    widths: Vector

    @property
    def parameters(self) -> tuple[Vector, ...]:
        """The centres and the widths."""
        return self.centres, self.widths

    def residuals(self, values: NDArray[Any], clusters: NDArray[np.int64]) -> Vector:
        """(x - centre) / width of its cluster: (n, d) float64, a new array."""
        residuals = super().residuals(values, clusters)
        residuals /= self.widths[clusters]
        return residuals


@dataclass(frozen=True)
class SplitCells(Cells):
    """Clusters of records that hold two embeddings one after the other.

    The first ``split`` numbers of a record say which cluster it falls in, the others are what is
    added up there. Every query of `queries` takes these clusters.

    Proof: nothing to add. A query clips what a record adds, and `sums` what a unit adds, to the
    query's bound, wherever the cluster and the residual come from; and a record falls in one
    cluster, which depends on that record and on public centres alone. A stored release is reused
    only for the same ``centres``, both parts of them.

    Attributes:
        centres: (classes, k, split + d) float64: the position of a cluster, then the public centre
            that is subtracted from the records in it.
        split: p, 1 or more.
    """

    split: int

    @classmethod
    def of(cls, seeds: Vector, centres: Vector) -> SplitCells:
        """From (classes, k, p) positions of clusters and (classes, k, d) centres to subtract."""
        return cls(np.concatenate([seeds, centres], axis=2), seeds.shape[2])

    @property
    def dim(self) -> int:
        """d, the numbers that are added up."""
        return int(self.centres.shape[2]) - self.split

    @cached_property
    def _positions(self) -> Cells:
        return Cells(np.ascontiguousarray(self.centres[:, :, : self.split]))

    @cached_property
    def flat(self) -> Vector:
        """(classes * k, d): what is subtracted in each cluster."""
        return np.ascontiguousarray(self.centres[:, :, self.split :]).reshape(self.count, self.dim)

    def assign(self, values: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cluster of each record, by its first numbers: (n,) int64 in [0, classes * k)."""
        return self._positions.assign(np.ascontiguousarray(values[:, : self.split]), labels)

    def residuals(self, values: NDArray[Any], clusters: NDArray[np.int64]) -> Vector:
        """The last numbers less the centre of their cluster: (n, d) float64, a new array."""
        # A record that is not finite is refused, also where there is a single cluster.
        require_finite(row_squares(values[:, : self.split]))
        return super().residuals(values[:, self.split :], clusters)
