"""Linear discriminants of embeddings: fitted to samples, scored like a network, written down.

A discriminant has one mean a class and one covariance for all (Fisher 1936). Of embeddings that say
much of any image it needs no training, and few samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.operations import EncoderOperations, Operation
from understudy.core.ports import Encoder
from understudy.core.types import Embeddings, Images, Labels, LinearClassifier, Shape, Vector

DISCRIMINANT: Final = "discriminant"
"""Its name among the networks."""

_ENCODED = 1024
_LEAST_DEVIATION = 1e-6  # of the largest, below which a number says nothing of the class


def fit_discriminant(embeddings: Embeddings, labels: Labels, classes: int) -> LinearClassifier:
    """The discriminant of labelled embeddings, all classes being taken for equally likely.

    Numbers are measured by their own deviation within classes, and the covariance is then shrunk to
    the identity by as much as Ledoit and Wolf (2004) estimate to be best, which leaves it
    invertible however few samples there are.

    Args:
        embeddings: (n, d), finite.
        labels: (n,) classes, each in [0, classes).
        classes: Their number; one without samples is never named.

    Raises:
        InputError: Fewer than two classes have samples, or a label is out of range.
    """
    if len(embeddings) != len(labels) or not len(labels):
        raise InputError(f"a label a row: {len(embeddings)} rows, {len(labels)} labels")
    if not 0 <= labels.min() <= labels.max() < classes:
        raise InputError(
            f"labels must be in 0..{classes - 1}, found {labels.min()}..{labels.max()}"
        )
    counts = np.bincount(labels, minlength=classes)
    if (counts > 0).sum() < 2:
        raise InputError("a discriminant tells two classes or more apart, found samples of one")
    values = embeddings.astype(np.float64)
    means = np.zeros((classes, values.shape[1]))
    np.add.at(means, labels, values)
    means /= np.maximum(counts, 1)[:, None]
    centre = means[counts > 0].mean(axis=0)
    values -= means[labels]
    deviations = np.sqrt((values**2).mean(axis=0))
    scale = np.zeros_like(deviations)
    alive = deviations > _LEAST_DEVIATION * deviations.max(initial=0.0)
    scale[alive] = 1 / deviations[alive]
    covariance = shrunk_covariance(values * scale)
    standard = (means - centre) * scale
    weights = np.linalg.solve(covariance, standard.T)
    bias = np.where(counts > 0, -0.5 * (standard.T * weights).sum(axis=0), -np.inf)
    weights = weights * scale[:, None]
    return LinearClassifier(weights, bias - centre @ weights)


def shrunk_covariance(rows: Vector) -> Vector:
    """The covariance of centred rows (n, d), shrunk to a multiple of the identity.

    By the weight that Ledoit and Wolf (2004, lemma 3.3) estimate from the rows themselves.
    """
    count, dim = rows.shape
    covariance = rows.T @ rows / count
    size = np.trace(covariance) / dim
    distance = float((covariance**2).sum() - dim * size**2)
    squares = rows**2
    spread = float((squares.sum(axis=1) ** 2).sum() / count - (covariance**2).sum()) / count
    weight = 1.0 if distance <= 0 else min(1.0, max(0.0, spread) / distance)
    # A floor, for rows that are all alike.
    return np.asarray((1 - weight) * covariance + max(weight * size, 1e-9) * np.eye(dim))


@dataclass(frozen=True, slots=True)
class EncodedClassifier:
    """A linear classifier of images by their embeddings.

    Attributes:
        encoder: Makes the embeddings.
        linear: Classifies them.
        shape: (height, width, channels) of an image.
        network: What it is called among networks.
    """

    encoder: Encoder
    linear: LinearClassifier
    shape: Shape
    network: str = DISCRIMINANT

    def predict(self, x: Images) -> Labels:
        """The likeliest class of each image: (n,) int64.

        Raises:
            InputError: Images of another shape.
        """
        return np.asarray(self._scores(x).argmax(axis=1), dtype=np.int64)

    def probabilities(self, x: Images) -> Vector:
        """The probability of each class for each image: (n, classes).

        Raises:
            InputError: Images of another shape.
        """
        scores = self._scores(x)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def _scores(self, x: Images) -> Vector:
        if x.shape[1:] != self.shape:
            raise InputError(
                f"the classifier is of images of shape {self.shape}, found {x.shape[1:]}: use "
                "images of the same size and colours"
            )
        return self.linear.scores(encoded(self.encoder, x))


def image_discriminant(
    encoder: Encoder,
    images: Images,
    labels: Labels,
    classes: int,
    progress: Callable[[int, int], None] | None = None,
    columns: NDArray[np.int64] | None = None,
) -> EncodedClassifier:
    """The discriminant of the embeddings of labelled images.

    Args:
        encoder: Makes the embeddings.
        images: (n, height, width, channels) uint8.
        labels: (n,) classes, each in [0, classes).
        classes: Their number.
        progress: Called with (1, 1) at the end: it is one pass.
        columns: The numbers of an embedding that are looked at; None: all.

    Raises:
        InputError: As `fit_discriminant`.
    """
    embeddings = encoded(encoder, images)
    if columns is None:
        linear = fit_discriminant(embeddings, labels, classes)
    else:
        part = fit_discriminant(embeddings[:, columns], labels, classes)
        weights = np.zeros((encoder.dim, classes))
        weights[columns] = part.weights
        linear = LinearClassifier(weights, part.bias)
    if progress is not None:
        progress(1, 1)
    return EncodedClassifier(encoder, linear, images.shape[1:])


def encoded(encoder: Encoder, images: Images) -> Embeddings:
    """Embeddings of images, (n, d), some at a time."""
    result = np.empty((len(images), encoder.dim), dtype=np.float32)
    for first in range(0, len(images), _ENCODED):
        part = slice(first, first + _ENCODED)
        result[part] = encoder.encode(images[part])
    return result


def classifier_operations(
    encoder: EncoderOperations, linear: LinearClassifier
) -> tuple[Operation, ...]:
    """What a linear classifier computes, from pixels to scores (n, classes).

    The encoder's linear part and the classifier become one product, in double precision; what all
    classes have in common says nothing of which is the largest, and is left out.
    """
    weights = encoder.matrix @ linear.weights
    bias = linear.bias + encoder.offset @ linear.weights
    weights -= weights.mean(axis=1, keepdims=True)
    bias = bias - bias[np.isfinite(bias)].mean()
    bias = np.maximum(bias, np.finfo(np.float32).min)  # of a class that is never named
    return (
        *encoder.operations,
        Operation(
            "MatMul", (encoder.operations[-1].output, weights.astype(np.float32)), "products"
        ),
        Operation("Add", ("products", bias.astype(np.float32)), "scores"),
    )
