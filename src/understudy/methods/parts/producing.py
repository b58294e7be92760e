"""From a mixture to a release: sample, filter, decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.ports import LinearDecoder
from understudy.core.types import Images, Labels, Release, SyntheticBatch, Vector
from understudy.methods.parts.entering import Entered
from understudy.methods.parts.interface import Materials
from understudy.privacy.queries import Votes
from understudy.steps.mixture import Mixture
from understudy.steps.rectify import latent_moments

Filter = Literal["none", "embeddings", "images", "both"]

BLOCK = 4096


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


@dataclass(frozen=True)
class Producer:
    """Draws synthetic rows: the same seed gives the same rows.

    Attributes:
        materials: Decoder, seed, classes.
        place: The space the mixture lives in, and the way out of it.
        mixture: The released mixture.
    """

    materials: Materials
    place: Entered
    mixture: Mixture

    def points(self, count: int, seed: int) -> Iterator[tuple[Vector, Labels]]:
        """Samples in the space, and the component of each."""
        # Few at a time where each is decoded: whoever wants a handful need not wait for thousands.
        return self.mixture.sample(count, seed, BLOCK if self.materials.decoder is None else 512)

    def finish(
        self, points: Vector, components: Labels, rng: np.random.Generator
    ) -> SyntheticBatch:
        """Points of the space as embeddings or images."""
        labels = self.mixture.labels[components]
        decoder = self.materials.decoder
        if decoder is None:
            return SyntheticBatch(labels, embeddings=self.place.backward(points, rng))
        if isinstance(decoder, LinearDecoder) and self.place.sphere is None:
            return SyntheticBatch(labels, images=self._rectified(decoder, points, components, rng))
        embeddings = self.place.backward(points, rng)
        return SyntheticBatch(labels, images=decoder.decode(embeddings))

    def _rectified(
        self,
        decoder: LinearDecoder,
        points: Vector,
        components: Labels,
        rng: np.random.Generator,
    ) -> Images:
        """Decoded with moments that hold after the cut to a pixel's range (`steps.rectify`)."""
        pixels = decoder.pixels(self.place.backward(points, rng))
        moments = self._pixel_moments
        for component in np.unique(components):
            mean, latent, factor = moments[component]
            mine = components == component
            pixels[mine] = latent + (pixels[mine] - mean) * factor
        return np.asarray(np.rint(np.clip(pixels, 0.0, 1.0) * 255), dtype=np.uint8)

    @cached_property
    def _pixel_moments(self) -> list[tuple[Vector, Vector, Vector]]:
        """For each component: mean pixels, latent mean, and the factor of the deviations."""
        decoder = self.materials.decoder
        if not isinstance(decoder, LinearDecoder):
            raise ConfigError("only a linear decoder has pixels before the cut to their range")

        def decode(points: Vector) -> Vector:
            return decoder.pixels(self.place.backward(points, None)).astype(np.float64)

        zero = decode(np.zeros((1, self.mixture.dim)))
        means = decode(self.mixture.means)
        found = []
        roots = (self.mixture.root(index) for index in range(len(self.mixture.roots)))
        variances = [((decode(root.T) - zero) ** 2).sum(axis=0) for root in roots]
        for mean, root in zip(means, self.mixture.root_of, strict=True):
            sd = np.sqrt(variances[root])
            latent, latent_sd = latent_moments(mean, sd)
            found.append((mean, latent, latent_sd / (sd + 1e-4)))
        return found


def produce(
    materials: Materials,
    place: Entered,
    mixture: Mixture,
    method: str,
    total: float,
    sieve: Sieve,
) -> Release:
    """Lines 9 to 17 of Algorithm 1.

    Args:
        materials: Decoder, seed, classes, count.
        place: The space of the mixture.
        mixture: What to sample from.
        method: The method's name.
        total: Noisy number of private rows, for the default count.
        sieve: What is kept of the samples.

    Raises:
        ConfigError: A filter of images without a decoder.
    """
    check_filter(sieve.keep, images=materials.decoder is not None)
    count = materials.count or max(1, round(total))
    producer = Producer(materials, place, mixture)
    facts = {"noisy_rows": round(total), "components": len(mixture.weights)}
    batches: Callable[[], Iterator[SyntheticBatch]]
    if sieve.keep == "none":
        batches = _stream(producer, count)
    else:
        points, chosen = _filtered(producer, count, sieve)
        facts |= {"candidates": count * sieve.oversample, "kept": len(points)}
        count = min(count, len(points))
        batches = _fixed(producer, points[:count], chosen[:count])
    shape = None if materials.decoder is None else materials.decoder.shape
    dim = place.entry.total if shape is None else None
    classes = materials.classes if place.classes > 1 else ("all",)
    return Release(method, classes, count, batches, dim, shape, facts)


def check_filter(keep: Filter, *, images: bool) -> None:
    """Refuse to filter images that are never made.

    Raises:
        ConfigError: As said.
    """
    if keep in ("images", "both") and not images:
        raise ConfigError(f"filter={keep} needs a decoder: this release is of embeddings alone")


def _stream(producer: Producer, count: int) -> Callable[[], Iterator[SyntheticBatch]]:
    def batches() -> Iterator[SyntheticBatch]:
        seed = producer.materials.seed
        rng = np.random.default_rng([seed, 1])
        for points, components in producer.points(count, seed):
            yield producer.finish(points, components, rng)

    return batches


def _fixed(
    producer: Producer, points: Vector, components: Labels
) -> Callable[[], Iterator[SyntheticBatch]]:
    def batches() -> Iterator[SyntheticBatch]:
        for start in range(0, len(points), BLOCK):
            part = slice(start, start + BLOCK)
            rng = np.random.default_rng([producer.materials.seed, 2, start])
            yield producer.finish(points[part], components[part], rng)

    return batches


def _filtered(producer: Producer, count: int, sieve: Sieve) -> tuple[Vector, Labels]:
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
    for batch in _fixed(producer, points, components)():
        if batch.images is not None:
            seen.append(producer.place.forward(encoder.encode(batch.images)))
    return np.concatenate(seen).astype(np.float64)


def _votes(producer: Producer, points: Vector, stage: str) -> Vector:
    """Noisy votes for candidates (classes, m, d): (classes, m)."""
    return producer.place.vault.release(Votes(points), stage=stage).reshape(points.shape[:2])
