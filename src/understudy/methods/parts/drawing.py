"""Synthetic rows drawn from a mixture: sampled, brought back from its space, decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.ports import LinearDecoder
from understudy.core.types import Images, Labels, SyntheticBatch, Vector
from understudy.methods.parts.entering import Entered
from understudy.methods.parts.interface import Materials
from understudy.steps.mixture import Mixture
from understudy.steps.rectify import latent_moments

Batches = Callable[[], Iterator[SyntheticBatch]]

BLOCK = 4096


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


def stream(producer: Producer, count: int) -> Batches:
    """So many rows, drawn as they are read."""

    def batches() -> Iterator[SyntheticBatch]:
        seed = producer.materials.seed
        rng = np.random.default_rng([seed, 1])
        for points, components in producer.points(count, seed):
            yield producer.finish(points, components, rng)

    return batches


def fixed(producer: Producer, points: Vector, components: Labels) -> Batches:
    """Rows of these points of the space."""

    def batches() -> Iterator[SyntheticBatch]:
        for start in range(0, len(points), BLOCK):
            part = slice(start, start + BLOCK)
            rng = np.random.default_rng([producer.materials.seed, 2, start])
            yield producer.finish(points[part], components[part], rng)

    return batches
