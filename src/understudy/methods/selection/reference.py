"""The reference set: what the proxy is to do well on, and what of it is private.

`RecordReference` holds records: private ones without a guarantee, held-out ones, or those of a
release. Under differential privacy the private records answer through the vault: a clipped gradient
a round (`GradientReference`), or moments, of which pseudo-records are drawn (`moment_reference`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import Arrays, Make
from understudy.methods.selection.linear_proxy import softmax
from understudy.privacy.cells import Cells
from understudy.privacy.queries import ClippedGradients
from understudy.steps import shrinkage

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

DIVERGED = (
    "the proxy's training does not converge (its weights or scores are not finite): take a smaller "
    "learning_rate or weight_decay"
)
"""What is wrong where gradient descent overflows."""

_PSEUDO_RECORDS = 200  # of each class


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
        residuals = softmax(weights[:-1].T @ self.features.T + weights[-1][:, None])
        residuals[self.labels, np.arange(len(self.labels))] -= 1
        residuals *= self.weights.astype(residuals.dtype)
        gradient = np.vstack([(residuals @ self.features).T, residuals.sum(1)])
        return np.asarray(gradient, dtype=np.float64)


@dataclass
class GradientReference:
    """Private records that answer with one noisy sum of clipped gradients a round.

    Records count the same each. The sum is not divided by their number, which is private: scores
    are divided by their own deviation (`select_candidates`), so its scale does not matter.

    Attributes:
        vault: The records in the proxy's space.
        stages: One of each round.
        clip_norm: What a record's gradient is clipped to.
        keep: As `Materials.keep`: the weights that a round asks at, so that a resumed run asks the
            same question and is given the same answer.
    """

    vault: Vault
    stages: tuple[Stage, ...]
    clip_norm: float
    keep: Callable[[str, Make], Arrays]
    _rounds: int = field(default=0, init=False)

    def gradient(self, state: Vector) -> Vector:
        """The noisy sum at a proxy's weights: (d + 1, C) to (d + 1, C). Each call is a round.

        Raises:
            ConfigError: Weights that are not finite; nothing is paid for them.
        """
        if not np.isfinite(state).all():
            raise ConfigError(DIVERGED)
        stage = self.stages[self._rounds]
        self._rounds += 1
        theta = self.keep(f"weights {self._rounds:03d}", lambda: {"theta": state})["theta"]
        query = ClippedGradients(theta, self.clip_norm)
        return query.gradient(self.vault.release(query, stage=stage.name))


@dataclass(frozen=True)
class MomentStages:
    """The releases of `moment_reference`.

    Attributes:
        means: Counts and means of the classes.
        units: How many units there are, where one may be of several classes.
        covariance: The pooled covariance within classes.
    """

    means: Stage
    units: Stage | None
    covariance: Stage


def moment_reference(
    vault: Vault,
    features: NDArray[Any],
    labels: Labels,
    classes: int,
    stages: MomentStages,
    rng: np.random.Generator,
) -> RecordReference:
    """Gaussian pseudo-records of the classes' noisy means and their pooled noisy covariance.

    Means are asked for as differences to those of the candidates, clipped at about their usual
    distance, and shrunk by the noise that is known to be in them.

    Args:
        vault: The private records in the proxy's space.
        features: (M, d) of the candidates.
        labels: (M,) class of each.
        classes: C.
        stages: The releases.
        rng: Public randomness.

    Raises:
        ConfigError: The candidates of each class are all alike; nothing is paid.
    """
    centres = _class_means(features.astype(np.float64), labels, classes)
    squares = (features - centres[labels]) ** 2
    radius = 1.1 * float(np.sqrt(squares.sum(axis=1).mean()))
    if radius == 0:
        raise ConfigError("the candidates of each class are all alike: take reference=gradients")
    cells = Cells(centres[:, None])
    groups = dp_estimators.group_means(vault, cells, radius, stages.means)
    means = centres + shrinkage.shrink_to_zero(groups.means - centres, groups.variances)
    units = dp_estimators.units(vault, groups.counts, cells.dim, stages.units)
    total, sd = dp_estimators.second_moments(
        vault, Cells(means[:, None]), radius, None, stages.covariance
    )
    size = float(groups.counts.sum())
    covariance = shrinkage.denoise_covariance(total[0] / units, sd / units)
    root = np.linalg.cholesky(covariance)
    deviations = rng.standard_normal((classes, _PSEUDO_RECORDS, len(root))) @ root.T
    records = (means[:, None] + deviations).reshape(-1, len(root)).astype(features.dtype)
    weights = np.repeat(groups.counts / (size * _PSEUDO_RECORDS), _PSEUDO_RECORDS)
    return RecordReference(records, np.repeat(np.arange(classes), _PSEUDO_RECORDS), weights)


def _class_means(features: Vector, labels: Labels, classes: int) -> Vector:
    """The mean of each class, (C, d); that of all for a class without any."""
    means = np.tile(features.mean(axis=0), (classes, 1))
    for label in np.unique(labels):
        means[label] = features[labels == label].mean(axis=0)
    return means
