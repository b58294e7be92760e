"""What may be asked of private records, and the proof of how much one unit can change the answer.

Every query is a sum over units of a vector c, stacked over ``slots`` clusters of ``width`` numbers:
what the unit's records add, over the L2 norm of its numbers of records in each class
(`sums.unit_weights`); where all records add to the same slots, their average. So a sum over a count
of units with the same weights is a mean. `sums` clips c so that ||c||_2 <= bound holds whatever a
query computes, so a mistake in here costs utility, never privacy. From that one bound follow the
sensitivities:

* add or remove one unit: the sum changes by c itself, so by at most ``bound``;
* replace one unit: by c - c', so by at most 2 bound, and where contributions have non-negative
  inner products (histograms, squares, outer products) by at most sqrt(2) bound, because
  ||c - c'||^2 = ||c||^2 + ||c'||^2 - 2 c.c' <= 2 bound^2.

A unit touches several clusters when its records do; the bound is on the whole stack, so all classes
and clusters of a stage cost as much as one.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import (
    Projection,
    require_finite,
    row_softmax,
    row_squares,
    scaled_rows,
)
from understudy.core.types import Labels, Vector
from understudy.privacy import sums
from understudy.privacy.cells import Cells as Cells
from understudy.privacy.sums import UnitCodes
from understudy.privacy.unit import Adjacency

Contributions = tuple[NDArray[np.int64], Vector]
"""Cluster of each record, (n,), and what it adds there, (n, width) float64."""

CACHED = 1 << 18
"""Numbers in float64, about as many as a processor's cache holds."""


class Query(ABC):
    """A bounded contribution per unit, summed exactly.

    Attributes:
        description: What is asked, for receipts and statements.
        slots: Number of clusters.
        width: Numbers per cluster.
        cells: The partition.
        bound: L2 norm that a unit's contribution cannot exceed.
    """

    description: ClassVar[str]
    slots: int
    width: int
    cells: Cells
    bound: float
    alike: ClassVar[bool] = False  # contributions have non-negative inner products

    @property
    def size(self) -> int:
        """How many numbers the query releases."""
        return self.slots * self.width

    @property
    def records_at_once(self) -> int:
        """How many records are best worked on at a time. Any number gives the same sum."""
        return max(64, CACHED // self.cells.dim)

    @property
    def weights(self) -> Vector | None:
        """(width,) weights of the norm and divisors of the noise; None where all are 1."""
        return None

    @property
    def pooled(self) -> bool:
        """Whether records of several classes add to the same slots: a unit's are then averaged."""
        return False

    def sensitivity(self, adjacency: Adjacency) -> float:
        """Largest L2 change of the sum between neighbouring datasets (proof: module docstring)."""
        if adjacency == "add-remove":
            return self.bound
        return self.bound * (math.sqrt(2) if self.alike else 2.0)

    def grid(self, sigma: float) -> float:
        """The grid step for noise of standard deviation ``sigma``."""
        heaviest = 1.0 if self.weights is None else float(self.weights.max())
        return sums.grid_step(sigma / heaviest)

    def integer_sum(
        self, values: NDArray[Any], labels: Labels, groups: UnitCodes | None, grid: float
    ) -> NDArray[np.int64]:
        """Exact sum of a block's contributions in grid steps: (slots, width) int64."""
        slot, rows = self.contributions(values, labels)
        return self._exact_sum(grid)(slot, rows, groups, None if self.pooled else labels)

    def _exact_sum(self, grid: float) -> Callable[..., NDArray[np.int64]]:
        """What adds up the contributions of a block, bounded, in grid steps."""
        return partial(
            sums.bounded_sum, slots=self.slots, bound=self.bound, grid=grid, weights=self.weights
        )

    @abstractmethod
    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """What each record adds, and where."""

    def fingerprint(self) -> str:
        """A digest of the query's public parameters; a stored release is reused only for it."""
        digest = hashlib.sha256(type(self).__name__.encode())
        for name, value in sorted(vars(self).items()):
            if name.startswith("_") or name == "flat":
                continue
            for part in value.parameters if isinstance(value, Cells) else (value,):
                digest.update(f"{name}:{np.asarray(part).dtype}:{np.shape(part)}".encode())
                digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


class Counts(Query):
    """How many units each cluster holds.

    Proof: a unit with m_c records in class c adds m_c / ||m||_2 to the clusters of the class, all
    together, and an L2 norm is at most the L1 norm.
    """

    description = "counts per cluster"
    alike = True

    def __init__(self, cells: Cells) -> None:
        self.cells, self.slots, self.width, self.bound = cells, cells.count, 1, 1.0

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """One 1 in the record's cluster."""
        return self.cells.assign(values, labels), np.ones((len(values), 1))


def clip_rows(rows: Vector, radius: float, out: Vector, *, times: float = 1.0) -> Vector:
    """Rows scaled to an L2 norm of at most ``radius``, ``times`` a number, in ``out``."""
    norms = np.sqrt(row_squares(rows))
    factor = times * radius / np.maximum(norms, radius)
    return scaled_rows(rows, factor, out)


class ClippedSums(Query):
    """Per cluster, the sum of x - centre clipped to ``radius``.

    Proof: what a unit adds is clipped to norm ``radius``.
    """

    description = "sums per cluster of the difference to its centre"

    def __init__(self, cells: Cells, radius: float) -> None:
        self.cells, self.slots, self.width, self.bound = cells, cells.count, cells.dim, radius

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """The clipped residual."""
        clusters = self.cells.assign(values, labels)
        residuals = self.cells.residuals(values, clusters)
        return clusters, clip_rows(residuals, self.bound, residuals)


class CountAndSum(Query):
    """Per cluster, its count and the sum of x - centre clipped to ``radius``, in one vector.

    A record adds (a, b v) with v = clipped residual / radius, a^2 + b^2 = 1 and
    a^2 = 1 / (1 + sqrt(d)): about what makes the error of sum / count smallest, since the sum has
    d noisy numbers and the count one (Su et al. 2016, section 4.2, for the L2 case).

    Proof: ||(a, b v)||^2 <= a^2 + b^2 = 1, and what a unit adds is clipped to norm 1.
    """

    description = "counts and sums per cluster, jointly"

    def __init__(self, cells: Cells, radius: float) -> None:
        self.cells, self.radius = cells, radius
        self.slots, self.width, self.bound = cells.count, cells.dim + 1, 1.0

    @property
    def count_part(self) -> float:
        """a."""
        return math.sqrt(1 / (1 + math.sqrt(self.cells.dim)))

    @property
    def sum_part(self) -> float:
        """b / radius: what a residual is multiplied with."""
        return math.sqrt(1 - self.count_part**2) / self.radius

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """(a, b v)."""
        clusters = self.cells.assign(values, labels)
        contributions = np.empty((len(values), self.width))
        contributions[:, 0] = self.count_part
        residuals = self.cells.residuals(values, clusters)
        contributions[:, 1:] = clip_rows(residuals, self.radius, residuals, times=self.sum_part)
        return clusters, contributions

    def counts(self, released: Vector) -> Vector:
        """Noisy counts: (slots,)."""
        return np.asarray(released[:, 0] / self.count_part)

    def sums(self, released: Vector) -> Vector:
        """Noisy sums of the residuals: (slots, d)."""
        return np.asarray(released[:, 1:] / self.sum_part)


class DiagonalMoments(Query):
    """Per cluster, the sum of the squares of x - centre clipped to ``radius``.

    Proof: with ||v|| <= R, the vector of squares has ||v^2||_2 <= ||v^2||_1 = ||v||^2 <= R^2; what
    a unit adds of such non-negative vectors is clipped to R^2.
    """

    description = "sums per cluster of the squared difference to its centre, each dimension"
    alike = True

    def __init__(self, cells: Cells, radius: float) -> None:
        self.cells, self.radius = cells, radius
        self.slots, self.width, self.bound = cells.count, cells.dim, radius * radius

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """The squared clipped residual."""
        clusters = self.cells.assign(values, labels)
        residuals = self.cells.residuals(values, clusters)
        return clusters, np.square(clip_rows(residuals, self.radius, residuals), out=residuals)


class FullMoments(Query):
    """Per group of clusters, the sum of v v^T with v = x - centre clipped to ``radius``.

    The upper triangle is released, with off-diagonal noise smaller by sqrt(2), which is the same as
    weighting those numbers by sqrt(2): the weighted norm is then the Frobenius norm.

    Proof: the Frobenius norm of a sum of outer products is at most the sum of ||v||^2, so of a
    unit's at most R^2 (`sums.bounded_outer_sum`). Positive semidefinite matrices have non-negative
    inner products.

    Args:
        cells: The partition that gives each record its centre.
        radius: R.
        slot_of_cell: (clusters,) which matrix a cluster adds to; None: one matrix for all (tied).
    """

    description = "sums of outer products of the difference to its centre"
    alike = True

    def __init__(
        self, cells: Cells, radius: float, slot_of_cell: NDArray[np.int64] | None = None
    ) -> None:
        self.cells, self.radius, self.bound = cells, radius, radius * radius
        self.slot_of_cell = (
            np.zeros(cells.count, np.int64) if slot_of_cell is None else slot_of_cell
        )
        self.slots = int(self.slot_of_cell.max()) + 1
        self.width = cells.dim * (cells.dim + 1) // 2

    @property
    def pooled(self) -> bool:
        """Whether a matrix is of clusters of several classes."""
        classes, clusters = self.cells.centres.shape[:2]
        class_of = np.repeat(np.arange(classes), clusters)
        pairs = np.unique(self.slot_of_cell * classes + class_of)
        return len(np.unique(pairs // classes)) < len(pairs)

    @property
    def records_at_once(self) -> int:
        """Many: each time, whole matrices are added up."""
        return 1 << 16

    @property
    def weights(self) -> Vector:
        """sqrt(2) off the diagonal."""
        first, second = np.triu_indices(self.cells.dim)
        return np.where(first == second, 1.0, math.sqrt(2))

    @property
    def _step(self) -> float:
        return math.ldexp(1.0, math.ceil(math.log2(self.radius)) - 18)

    def grid(self, sigma: float) -> float:
        """The square of a record's grid step, which has radius / step in (2^17, 2^18]."""
        return self._step**2

    def _exact_sum(self, grid: float) -> Callable[..., NDArray[np.int64]]:
        return partial(
            sums.bounded_outer_sum, slots=self.slots, radius=self.radius, step=math.sqrt(grid)
        )

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """The residual itself, (n, d); the outer product is taken of its integers."""
        clusters = self.cells.assign(values, labels)
        return self.slot_of_cell[clusters], self.cells.residuals(values, clusters)

    def matrices(self, released: Vector) -> Vector:
        """The noisy symmetric matrices: (slots, d, d)."""
        d = self.cells.dim
        full = np.zeros((self.slots, d, d))
        upper = np.triu_indices(d)
        full[:, upper[0], upper[1]] = released
        full[:, upper[1], upper[0]] = released
        return full


class Votes(Query):
    """Each unit votes for the candidate of its own class that is nearest to it.

    Proof: as `Counts`. A unit's votes have an L2 norm of at most 1, whatever the number of classes.

    Args:
        candidates: (classes, m, d).
        sizes: (classes,) how many of them stand for a vote, 1 to m; the others of a class must
            equal its first one, and never win. None: all. Votes are released for the former only.
    """

    description = "votes for the nearest candidate"
    alike = True

    def __init__(self, candidates: Vector, sizes: NDArray[np.int64] | None = None) -> None:
        self.cells = Cells(candidates)
        self.sizes = np.full(len(candidates), candidates.shape[1]) if sizes is None else sizes
        self.slots, self.width, self.bound = int(self.sizes.sum()), 1, 1.0

    @property
    def records_at_once(self) -> int:
        """Many: a record adds one number, and `nearest` takes records in blocks of its own."""
        return 1 << 16

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """One 1 for the nearest candidate."""
        label, position = np.divmod(self.cells.assign(values, labels), self.cells.centres.shape[1])
        # Of equals the first is nearest (`Nearest`), so no position is that of a filler.
        slot = (np.cumsum(self.sizes) - self.sizes)[label] + position
        return slot, np.ones((len(values), 1))


class NormHistogram(Query):
    """How many units have a norm of x - centre in each of the bins between ``edges``.

    Proof: a unit of several rows spreads one vote over its bins, whatever their classes.

    Args:
        cells: The partition that gives each record its centre.
        edges: (bins - 1,) increasing public numbers; the last bin is open.
    """

    description = "histogram of norms"
    alike = True
    pooled = True

    def __init__(self, cells: Cells, edges: Vector) -> None:
        self.cells, self.edges = cells, edges
        self.slots, self.width, self.bound = len(edges) + 1, 1, 1.0

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """One 1 in the bin of the norm."""
        residuals = self.cells.residuals(values, self.cells.assign(values, labels))
        norms = np.sqrt(row_squares(residuals))
        require_finite(norms)
        return np.searchsorted(self.edges, norms), np.ones((len(values), 1))


class RecallCounts(Query):
    """How many units of each class a public linear classifier finds, and how many it misses.

    Proof: as `Counts`. What a record adds depends on it alone: its logits are a `Projection`, and
    the first of equal ones counts.

    Args:
        theta: (d + 1, C) public weights; the last row is the intercept's.
    """

    description = "per class, records that a classifier trained on the release finds and misses"
    alike = True

    def __init__(self, theta: Vector) -> None:
        self.theta = np.ascontiguousarray(theta, dtype=np.float64)
        dim, classes = theta.shape[0] - 1, theta.shape[1]
        self.slots, self.width, self.bound = 2 * classes, 1, 1.0
        self.cells = Cells(np.zeros((classes, 1, dim)))
        self._projection = Projection(self.theta[:-1])

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """One 1: in slot 2 c + 1 where a record of class c is found, else in slot 2 c."""
        predicted = (self._projection(values) + self.theta[-1]).argmax(axis=1)
        return 2 * labels + (predicted == labels), np.ones((len(values), 1))


class ClippedGradients(Query):
    """The sum of the gradients of a softmax regression's cross-entropy, each clipped to a norm.

    A record (x, y) adds the matrix (x, 1) (p - e_y)^T, where p are the probabilities of its classes
    at public weights. It has rank one, so its Frobenius norm is ||(x, 1)|| ||p - e_y||. All of the
    matrix is one contribution: the query has one cluster, and `gradient` shapes the answer.

    Proof: the average of a unit's matrices is clipped to a Frobenius norm of ``clip_norm``,
    whatever it is. Two of them may point in opposite directions, so replacing a unit moves the sum
    by up to twice that. What a record adds depends on it alone: the logits are a `Projection`, the
    probabilities a `row_softmax`, and the rest are products of single numbers.

    Args:
        theta: (d + 1, C) public weights; the last row is the intercept's.
        clip_norm: Frobenius norm that a gradient is clipped to.
    """

    description = "sums of clipped gradients of a softmax regression at public weights"
    pooled = True

    def __init__(self, theta: Vector, clip_norm: float) -> None:
        self.theta, self.bound = np.ascontiguousarray(theta, dtype=np.float64), clip_norm
        rows, classes = theta.shape
        self.slots, self.width = 1, rows * classes
        self.cells = Cells(np.zeros((classes, 1, rows - 1)))
        self._projection = Projection(self.theta[:-1])

    @property
    def records_at_once(self) -> int:
        """As many as have gradients that stay in the cache."""
        return max(64, CACHED // self.size)

    def contributions(self, values: NDArray[Any], labels: Labels) -> Contributions:
        """Zeros, for there is one cluster, and the gradients row by row: (n, (d + 1) C)."""
        residuals = row_softmax(self._projection(values) + self.theta[-1])
        residuals[np.arange(len(labels)), labels] -= 1.0
        gradients = np.empty((len(labels), *self.theta.shape))
        np.multiply(values[:, :, None], residuals[:, None, :], out=gradients[:, :-1])
        gradients[:, -1] = residuals
        return np.zeros(len(labels), dtype=np.int64), gradients.reshape(len(labels), self.width)

    def gradient(self, released: Vector) -> Vector:
        """The noisy sum of gradients: (d + 1, C)."""
        return released.reshape(self.theta.shape)
