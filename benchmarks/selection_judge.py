"""Who judges a selection: a linear head on all features, and attackers with their own records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from benchmarks.selection_worlds import Samples, SelectionTask
from understudy.core.types import Labels, Vector
from understudy.metrics.attacks import ReleaseAttack, by_distance_ratio
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.roc import Roc, roc
from understudy.metrics.scoring import balanced_accuracy, confusion

DECAY = 0.03  # of the head's weights, in the mean loss
ITERATIONS = 100


@dataclass(frozen=True)
class LinearHead:
    """A softmax regression on standardised features."""

    centre: NDArray[np.float32]  # (d,)
    scale: NDArray[np.float32]  # (d,)
    weights: NDArray[np.float32]  # (d + 1, C), the last row for the intercept

    @classmethod
    def fit(
        cls, features: NDArray[Any], labels: Labels, classes: int, decay: float = DECAY
    ) -> LinearHead:
        """The minimum of the mean cross-entropy and decay / 2 |W|^2, by L-BFGS."""
        centre = features.mean(0).astype(np.float32)
        scale = features.std(0).astype(np.float32) + 1e-3
        values = (features - centre) / scale
        shape, rows = (values.shape[1] + 1, classes), np.arange(len(labels))

        def objective(flat: Vector) -> tuple[float, Vector]:
            weights = flat.reshape(shape).astype(np.float32)
            probabilities = softmax(values @ weights[:-1] + weights[-1], axis=1)
            loss = -float(np.log(np.maximum(probabilities[rows, labels], 1e-30)).mean())
            probabilities[rows, labels] -= 1
            probabilities /= len(labels)
            gradient = np.vstack([values.T @ probabilities, probabilities.sum(0)[None]])
            gradient[:-1] += decay * weights[:-1]
            loss += decay / 2 * float(np.vdot(weights[:-1], weights[:-1]))
            return loss, gradient.ravel().astype(np.float64)

        result = minimize(
            objective,
            np.zeros(shape[0] * shape[1]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS},
        )
        return cls(centre, scale, result.x.reshape(shape).astype(np.float32))

    def probabilities(self, features: NDArray[Any]) -> NDArray[np.float32]:
        """(n, C)."""
        values = (features - self.centre) / self.scale
        return np.asarray(softmax(values @ self.weights[:-1] + self.weights[-1], axis=1))

    def balanced(self, test: Samples) -> float:
        """Balanced accuracy on test images, in [0, 1]."""
        predicted = self.probabilities(test.judge).argmax(1)
        return balanced_accuracy(confusion(test.labels, predicted, self.weights.shape[1]))


def accuracy(task: SelectionTask, release: Samples) -> float:
    """Balanced accuracy of the judge that is trained on a release, in [0, 1]."""
    return LinearHead.fit(release.judge, release.labels, task.classes).balanced(task.test)


def release_attack(
    task: SelectionTask, release: Samples, attack: ReleaseAttack = by_distance_ratio
) -> Roc:
    """Who was private? By the nearest sample of the release, calibrated with the attacker's own."""
    members, others = (
        attack(side.judge, release.judge, task.attacker.judge)
        for side in (task.private, task.non_members)
    )
    return roc(members, others)


def nearest_distance(task: SelectionTask, release: Samples) -> float:
    """Median distance of a release to the nearest private image over that of held-out images.

    In MobileNetV2's space: 1 where the release is no nearer than strangers are.
    """
    private, samples, held_out = clouds(task.private.judge, release.judge, task.held_out.judge)
    own, usual = (np.median(nearest_rows(one, private)[1]) for one in (samples, held_out))
    return float(own / usual)


def nearest_pairs(
    task: SelectionTask, release: Samples, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The samples nearest to a private image, and these images: rows of each, nearest first.

    No private image twice: many copies of one image are one pair.
    """
    private, samples = clouds(task.private.judge, release.judge)
    nearest, distances = (one[:, 0] for one in nearest_rows(samples, private))
    order = np.argsort(distances, kind="stable")
    _, first = np.unique(nearest[order], return_index=True)
    rows = order[np.sort(first)[:count]]
    return rows, nearest[rows]


def utility_losses(
    task: SelectionTask, release: Samples, epochs: tuple[int, ...], seed: int = 0
) -> list[float]:
    """1 - balanced accuracy after some epochs of stochastic gradient descent (the paper's Table 5).

    A two-layer network on the features, which goes on learning for hundreds of epochs.
    """
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(seed)
    centre, scale = release.judge.mean(0), release.judge.std(0) + 1e-3
    values, test = (
        torch.from_numpy((one - centre) / scale) for one in (release.judge, task.test.judge)
    )
    labels = torch.from_numpy(release.labels)
    network = nn.Sequential(
        nn.Linear(values.shape[1], 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, task.classes)
    )
    optimiser = torch.optim.SGD(network.parameters(), lr=0.002, momentum=0.9, weight_decay=1e-3)
    losses = []
    for epoch in range(1, max(epochs) + 1):
        network.train()
        for rows in torch.randperm(len(values)).split(128):
            optimiser.zero_grad()
            functional.cross_entropy(network(values[rows]), labels[rows]).backward()
            optimiser.step()
        if epoch in epochs:
            network.eval()
            with torch.no_grad():
                predicted = network(test).argmax(1).numpy()
            table = confusion(task.test.labels, predicted, task.classes)
            losses.append(1 - balanced_accuracy(table))
    return losses
