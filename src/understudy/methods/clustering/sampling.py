"""From a mixture to samples: drawn, brought back from its space, decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.ports import Decoder, LinearDecoder
from understudy.core.types import Images, Labels, Seeds, SyntheticBatch, Vector
from understudy.methods.base import Materials
from understudy.methods.clustering.embedding_space import EmbeddingSpace
from understudy.methods.clustering.pixels import LinearPixels
from understudy.steps.gaussians import Mixture

Batches = Callable[[], Iterator[SyntheticBatch]]
Another = Callable[[Labels, int], tuple[Vector, Labels]]
"""Other points, and their components, for some samples of a block in another round of a quality."""

_BLOCK = 4096
_DECODED = 512  # few at a time where each is decoded: a handful needs not wait for thousands


@dataclass(frozen=True)
class Producer:
    """Draws synthetic samples of a released mixture: the same seed gives the same samples."""

    materials: Materials
    space: EmbeddingSpace
    mixture: Mixture

    @property
    def block(self) -> int:
        """Samples that are finished at a time."""
        return _BLOCK if self.materials.decoder is None else _DECODED

    def components(self, sizes: Labels, rng: np.random.Generator) -> Labels:
        """So many of each component, shuffled."""
        return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))

    def batches(self, sizes: Labels) -> Iterator[SyntheticBatch]:
        """So many samples of each component, drawn as they are read."""
        rng = np.random.default_rng(self.materials.seed)
        components = self.components(sizes, rng)
        for first in range(0, len(components), self.block):
            part = components[first : first + self.block]
            points = self.mixture.draw(part, rng)
            another = partial(self.anew, f"samples {first}", part)
            yield self.finish("samples", first, points, part, another)

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
            return SyntheticBatch(labels, embeddings=self.space.backward(points, rng))

        def draw(samples: Labels, number: int, image: int) -> Images:
            drawing = (points[samples], components[samples])
            if number:
                drawing = another(samples, number)
            rng = materials.rng_of(f"{name} {first} round {number}")
            seeds = materials.seeds_of(f"{name} round {number} image {image}", first + samples)
            return self._decoded(*drawing, seeds, rng)

        return SyntheticBatch(labels, images=materials.selected(len(points), draw))

    def anew(
        self, name: str, components: Labels, samples: Labels, number: int
    ) -> tuple[Vector, Labels]:
        """New points of the components of some samples (`Another`)."""
        rng = self.materials.rng_of(f"{name} again {number}")
        return self.mixture.draw(components[samples], rng), components[samples]

    @cached_property
    def _decoder(self) -> Decoder | LinearPixels:
        decoder = self.materials.decoder
        if decoder is None:
            raise ConfigError("images need a decoder: this release is of embeddings alone")
        if isinstance(decoder, LinearDecoder) and self.space.sphere is None:
            return LinearPixels(decoder, self.space, self.mixture)
        return decoder

    def _decoded(
        self, points: Vector, components: Labels, seeds: Seeds, rng: np.random.Generator
    ) -> Images:
        decoder = self._decoder
        if isinstance(decoder, LinearPixels):
            return decoder.images(points, components, rng)
        return decoder.decode(self.space.backward(points, rng), seeds=seeds)
