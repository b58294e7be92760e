"""Which samples are kept: the filters of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Vector
from understudy.methods.parts.drawing import Producer, fixed
from understudy.privacy.queries import Votes
from understudy.steps.mixture import Mixture

Filter = Literal["none", "embeddings", "images", "both"]


@dataclass(frozen=True)
class Sieve:
    """Which samples are kept: the filters of Algorithm 1, by DP votes.

    Attributes:
        keep: Which filters.
        threshold: Noisy votes a candidate needs.
        oversample: Candidates drawn for each row wanted.
    """

    keep: Filter
    threshold: float
    oversample: int


def check_filter(keep: Filter, *, images: bool) -> None:
    """Refuse to filter images that are never made.

    Raises:
        ConfigError: As said.
    """
    if keep in ("images", "both") and not images:
        raise ConfigError(f"filter={keep} needs a decoder: this release is of embeddings alone")


def filtered(producer: Producer, count: int, sieve: Sieve) -> tuple[Vector, Labels]:
    """Candidates that enough private rows voted for, in the embedding and after decoding.

    An empty class cannot come of it: where no candidate of a class reaches every threshold, its
    most voted one stays.
    """
    classes = producer.place.classes
    each = -(-count * sieve.oversample // classes)
    drawn = [
        _of_class(producer.mixture, label, each, producer.materials.seed)
        for label in range(classes)
    ]
    points = np.stack([points for points, _ in drawn])
    components = np.stack([components for _, components in drawn])
    votes = []
    if sieve.keep in ("embeddings", "both"):
        votes.append(_votes(producer, points, "filter embeddings"))
    if sieve.keep in ("images", "both"):
        decoded = np.stack([_seen(producer, p, c) for p, c in zip(points, components, strict=True)])
        votes.append(_votes(producer, decoded, "filter images"))
    fewest = np.min(votes, axis=0)
    alive = fewest >= sieve.threshold
    alive[np.arange(classes), fewest.argmax(axis=1)] |= ~alive.any(axis=1)
    order = np.random.default_rng([producer.materials.seed, 3]).permutation(int(alive.sum()))
    return points[alive][order], components[alive][order]


def _of_class(mixture: Mixture, label: int, count: int, seed: int) -> tuple[Vector, Labels]:
    weights = np.where(mixture.labels == label, mixture.weights, 0.0)
    weights = (
        weights / weights.sum()
        if weights.sum() > 0
        else (mixture.labels == label) / (mixture.labels == label).sum()
    )
    one = Mixture(mixture.labels, weights, mixture.means, mixture.roots, mixture.root_of)
    parts = list(one.sample(count, seed + label))
    return np.concatenate([p for p, _ in parts]), np.concatenate([c for _, c in parts])


def _seen(producer: Producer, points: Vector, components: Labels) -> Vector:
    """Candidates as the encoder sees them once they are decoded: (n, d)."""
    encoder = producer.materials.encoder
    if encoder is None:
        raise ConfigError("a filter of images needs an encoder")
    seen = []
    for batch in fixed(producer, points, components)():
        if batch.images is not None:
            seen.append(producer.place.forward(encoder.encode(batch.images)))
    return np.concatenate(seen).astype(np.float64)


def _votes(producer: Producer, points: Vector, stage: str) -> Vector:
    """Noisy votes for candidates (classes, m, d): (classes, m)."""
    return producer.place.vault.release(Votes(points), stage=stage).reshape(points.shape[:2])
