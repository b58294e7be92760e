"""A Gaussian mixture with classes, and any number of samples from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from understudy.core.types import Labels, Vector
from understudy.steps.apportionment import apportion


@dataclass(frozen=True)
class Mixture:
    """Gaussian components, each of one class.

    Attributes:
        labels: (m,) int64 class of each component.
        weights: (m,) non-negative, summing to 1.
        means: (m, d).
        roots: Square roots A of the covariances A A^T: (f, d, r); or (f, d), the diagonals of
            diagonal ones.
        root_of: (m,) which root a component has.
        rest: (d, r') root of a covariance that every component has besides; None: none has more.
    """

    labels: Labels
    weights: Vector
    means: Vector
    roots: Vector
    root_of: Labels
    rest: Vector | None = None

    @property
    def dim(self) -> int:
        """d."""
        return int(self.means.shape[1])

    def root(self, index: int) -> Vector:
        """One of the roots as a matrix, (d, r), without the rest."""
        root = self.roots[index]
        return np.diag(root) if root.ndim == 1 else root

    def allot(self, count: int) -> Labels:
        """How many of ``count`` samples each component gives: (m,), largest remainders first."""
        ideal = self.weights * count
        given = np.floor(ideal).astype(np.int64)
        order = np.argsort(given - ideal, kind="stable")
        given[order[: count - int(given.sum())]] += 1
        return given

    def allot_classes(self, samples: Labels) -> Labels:
        """How many samples each component gives where each class has so many, (classes,): (m,)."""
        given = np.zeros(len(self.weights), dtype=np.int64)
        for label in np.unique(self.labels):
            mine = self.labels == label
            given[mine] = apportion(int(samples[label]), self.weights[mine])
        return given

    def sample(
        self, sizes: Labels, seed: int, block: int = 8192
    ) -> Iterator[tuple[Vector, Labels]]:
        """Samples in blocks: embeddings (n, d) and the component of each, shuffled.

        The same seed gives the same samples, whatever was drawn before.

        Args:
            sizes: (m,) samples of each component, as `allot` gives them.
            seed: Public.
            block: Samples of a block.
        """
        rng = np.random.default_rng(seed)
        components = rng.permutation(np.repeat(np.arange(len(self.weights)), sizes))
        for start in range(0, len(components), block):
            chosen = components[start : start + block]
            yield self.draw(chosen, rng), chosen

    def draw(self, chosen: Labels, rng: np.random.Generator) -> Vector:
        """A sample of each of these components: (n, d)."""
        noise = rng.standard_normal((len(chosen), self.roots.shape[-1]))
        values = self.means[chosen]
        if self.rest is not None:
            values += rng.standard_normal((len(chosen), self.rest.shape[1])) @ self.rest.T
        if self.roots.ndim == 2:
            noise *= self.roots[self.root_of[chosen]]
            values += noise
            return values
        for root in np.unique(self.root_of[chosen]):
            mine = self.root_of[chosen] == root
            values[mine] += noise[mine] @ self.roots[root].T
        return values


def square_root(covariance: Vector, rank: int | None = None) -> Vector:
    """A with A A^T = covariance, by eigenvalues; with the largest ``rank`` of them only: (d, r)."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root if rank is None else root[:, -rank:])
