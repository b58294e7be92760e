"""A trained network, and the statistics that its inputs are standardised by."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError, packages_for
from understudy.core.types import Labels, Shape, Vector

with packages_for("training on a release", "torch"):
    import torch
    from torch import Tensor, nn


_BATCH = 256


@dataclass(frozen=True, slots=True)
class Classifier:
    """A trained network and the statistics its inputs are standardised by.

    Attributes:
        network: ``"two-layer"``, or one of `recipes.IMAGES`.
        model: The network, in evaluation mode.
        shape: Shape of one input row: (d,) or (height, width, channels).
        classes: Number of classes.
        mean: Mean of the training set, a feature or a channel.
        gain: 1 / standard deviation of the same; 0 where the training set is constant.
    """

    network: str
    model: nn.Module
    shape: Shape
    classes: int
    mean: Tensor
    gain: Tensor

    def predict(self, x: NDArray[Any]) -> Labels:
        """The likeliest class of each row of x, (n, *shape): (n,) int64.

        Raises:
            InputError: The rows have another shape than the training set's.
        """
        labels = np.empty(len(x), np.int64)
        for at, scores in self._scores(x):
            labels[at] = scores.argmax(1).numpy()
        return labels

    def probabilities(self, x: NDArray[Any]) -> Vector:
        """The probability of each class for each row of x, (n, *shape): (n, classes).

        Raises:
            InputError: The rows have another shape than the training set's.
        """
        probabilities = np.empty((len(x), self.classes))
        for at, scores in self._scores(x):
            probabilities[at] = scores.double().softmax(1).numpy()
        return probabilities

    def _scores(self, x: NDArray[Any]) -> Iterator[tuple[slice, Tensor]]:
        if x.shape[1:] != self.shape:
            raise InputError(
                f"the classifier was trained on rows of shape {self.shape}, found {x.shape[1:]}: "
                "use the same encoder, and images of the same size and colours"
            )
        with torch.inference_mode():
            for start in range(0, len(x), _BATCH):
                part = slice(start, start + _BATCH)
                rows = self.prepare(torch.from_numpy(np.array(x[part])))
                yield part, self.model(rows).cpu()

    def prepare(self, rows: Tensor) -> Tensor:
        """Standardise; images also go from (n, h, w, c) bytes to (n, c, h, w)."""
        rows = (rows.to(self.mean.device).float() - self.mean) * self.gain
        return rows.permute(0, 3, 1, 2) if rows.ndim == 4 else rows


def accuracy(classifier: Classifier, x: NDArray[Any], y: Labels) -> float:
    """Part of the rows of x whose class the classifier finds, in [0, 1]. Owner-only on real data.

    Raises:
        InputError: No rows, or not as many labels as rows.
    """
    if len(x) == 0 or len(x) != len(y):
        raise InputError(f"accuracy needs a label for each row: {len(x)} rows, {len(y)} labels")
    return float((classifier.predict(x) == y).mean())


def untrained(
    network: str, model: nn.Module, x: NDArray[Any], classes: int, device: str = "cpu"
) -> Classifier:
    """A network and the statistics of the rows it is to be trained on, both on a device."""
    mean, gain = (part.to(device) for part in input_statistics(x))
    return Classifier(network, model.to(device), x.shape[1:], classes, mean, gain)


def input_statistics(x: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Mean of each feature or channel, and what its difference from it is multiplied by."""
    mean, deviation = statistics(x)
    # A feature that never changes in training says nothing of the class: it is left out rather
    # than divided by zero, and a real record that differs there is not thrown off.
    alive = deviation > 1e-6 * deviation.max(initial=0.0)
    gain = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=alive)
    return torch.from_numpy(mean).float(), torch.from_numpy(gain).float()


def statistics(x: NDArray[Any]) -> tuple[Vector, Vector]:
    """Mean and standard deviation over all axes but the last, in two passes of 8 MB blocks."""
    axes = tuple(range(x.ndim - 1))
    count = math.prod(x.shape[:-1])
    block = max(1, 2**20 // math.prod(x.shape[1:]))
    blocks = range(0, len(x), block)
    mean: Vector = np.zeros(x.shape[-1])
    with np.errstate(invalid="ignore"):  # infinity minus infinity: refused just below
        for start in blocks:
            mean += x[start : start + block].sum(axes, dtype=np.float64) / count
    if not np.isfinite(mean).all():
        raise InputError("the embeddings hold NaN or infinity: encode the images again")
    variance: Vector = np.zeros(x.shape[-1])
    for start in blocks:
        variance += ((x[start : start + block] - mean) ** 2).sum(axes) / count
    return mean, np.sqrt(variance)
