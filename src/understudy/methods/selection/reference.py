"""The reference set: what the proxy is to do well on, and what of it is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Vector
from understudy.methods.selection.linear_proxy import softmax


@dataclass(frozen=True)
class RecordReference:
    """A reference set that is there record by record: private, held out, or of a release.

    Its loss is the cross-entropy. (The paper writes utility loss as 1 - accuracy, which has no
    gradient.)

    Attributes:
        features: (n, d) in the proxy's space.
        labels: (n,) int64.
        weights: (n,) of each record in the loss; they add up to 1.
    """

    features: NDArray[Any]
    labels: Labels
    weights: Vector

    @classmethod
    def of(
        cls, features: NDArray[Any], labels: Labels, *, balanced: bool = False
    ) -> RecordReference:
        """Records that count the same each, or each class the same (``balanced``).

        Raises:
            ConfigError: No records.
        """
        if len(features) == 0:
            raise ConfigError("the reference set is empty: no candidate can be better than another")
        sizes = np.bincount(labels)
        weights = 1.0 / sizes[labels] if balanced else np.ones(len(labels))
        return cls(features, labels, weights / weights.sum())

    def gradient(self, state: Vector) -> Vector:
        """X' (w (softmax(X theta) - Y)): (d + 1, C) float64."""
        weights = state.astype(self.features.dtype)
        residuals = softmax(self.features @ weights[:-1] + weights[-1])
        residuals[np.arange(len(residuals)), self.labels] -= 1
        residuals *= self.weights[:, None].astype(residuals.dtype)
        return np.asarray(
            np.vstack([self.features.T @ residuals, residuals.sum(0)]), dtype=np.float64
        )

    def loss(self, state: Vector) -> float:
        """Weighted cross-entropy at a proxy's weights."""
        probabilities = softmax(self.features.astype(np.float64) @ state[:-1] + state[-1])
        chosen = probabilities[np.arange(len(self.labels)), self.labels]
        return -float(self.weights @ np.log(np.maximum(chosen, np.finfo(np.float64).tiny)))
