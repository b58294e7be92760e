"""Synthetic samples drawn from a mixture: sampled, brought back from its space, decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.ports import LinearDecoder
from understudy.core.types import Images, Labels, Seeds, SyntheticBatch, Vector
from understudy.methods.base import Materials
from understudy.methods.clustering.embedding_space import Entered
from understudy.steps.mixture import Mixture
from understudy.steps.rectify import latent_moments

Batches = Callable[[], Iterator[SyntheticBatch]]
Another = Callable[[Labels, int], tuple[Vector, Labels]]
"""Other points, and their components, for some rows of a block in another round of a quality."""

_BLOCK = 4096
_DECODED = 512  # few at a time where each is decoded: a handful needs not wait for thousands


@dataclass(frozen=True)
class Producer:
    """Draws synthetic samples: the same seed gives the same samples.

    Attributes:
        materials: Decoder, seed, classes.
        place: The space the mixture lives in, and the way out of it.
        mixture: The released mixture.
    """

    materials: Materials
    place: Entered
    mixture: Mixture

    @property
    def block(self) -> int:
        """Samples that are finished at a time."""
        return _BLOCK if self.materials.decoder is None else _DECODED

    def finish(
        self, name: str, first: int, points: Vector, components: Labels, another: Another
    ) -> SyntheticBatch:
        """Points of the space as embeddings or images.

        Args:
            name: A name for these samples; another name gives other noise.
            first: The number of the first of them.
            points: (n, d).
            components: (n,).
            another: Points in place of those whose images are not good enough.
        """
        labels, materials = self.mixture.labels[components], self.materials
        if materials.decoder is None:
            rng = materials.rng_of(f"{name} {first}")
            return SyntheticBatch(labels, embeddings=self.place.backward(points, rng))

        def draw(rows: Labels, number: int, image: int) -> Images:
            chosen = (points[rows], components[rows]) if number == 0 else another(rows, number)
            rng = materials.rng_of(f"{name} {first} round {number}")
            seeds = materials.seeds_of(f"{name} round {number} image {image}", first + rows)
            return self._decoded(*chosen, seeds, rng)

        return SyntheticBatch(labels, images=materials.selected(len(points), draw))

    def anew(
        self, name: str, components: Labels, rows: Labels, number: int
    ) -> tuple[Vector, Labels]:
        """New samples of the components of some rows (`Another`)."""
        rng = self.materials.rng_of(f"{name} again {number}")
        return self.mixture.draw(components[rows], rng), components[rows]

    def _decoded(
        self, points: Vector, components: Labels, seeds: Seeds, rng: np.random.Generator
    ) -> Images:
        decoder = self.materials.decoder
        if decoder is None:
            raise ConfigError("images need a decoder: this release is of embeddings alone")
        if isinstance(decoder, LinearDecoder) and self.place.sphere is None:
            return self._rectified(decoder, points, components, rng)
        return decoder.decode(self.place.backward(points, rng), seeds=seeds)

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
    """So many samples, drawn as they are read."""

    def batches() -> Iterator[SyntheticBatch]:
        blocks = producer.mixture.sample(count, producer.materials.seed, producer.block)
        for number, (points, components) in enumerate(blocks):
            first = number * producer.block
            another = partial(producer.anew, f"samples {first}", components)
            yield producer.finish("samples", first, points, components, another)

    return batches
