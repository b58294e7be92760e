"""From a mixture to samples: drawn, brought back from its space, decoded.

A linear decoder's pixels are cut to black and white, which takes variance away: thin white strokes
come out grey. So each pixel's moments hold after the cut by `latent_moments`, those of all grey
pixels together by `Contrast`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.core.ports import LinearDecoder
from understudy.core.types import Images, Labels, SyntheticBatch, Vector
from understudy.methods.base import Materials
from understudy.methods.clustering.embedding_space import EmbeddingSpace
from understudy.steps.gaussians import Contrast, Mixture, latent_moments

Batches = Callable[[], Iterator[SyntheticBatch]]

_BLOCK = 4096
_DECODED = 512  # few at a time where each is decoded: a handful needs not wait for thousands
_TRIED = 512  # samples whose contrast is looked at
_TRIED_PIXELS = 1 << 17


@dataclass(frozen=True)
class LinearPixels:
    """Decodes the samples of a mixture."""

    decoder: LinearDecoder
    space: EmbeddingSpace
    mixture: Mixture

    def images(self, points: Vector, components: Labels, rng: np.random.Generator) -> Images:
        """Points (n, d) of these components, (n,), as (n, height, width, channels) uint8."""
        pixels = self._contrast(self._cut(points, components, rng))
        return np.asarray(np.rint(pixels * 255), dtype=np.uint8)

    def _cut(self, points: Vector, components: Labels, rng: np.random.Generator) -> Vector:
        """Pixels of 0 to 1, each with the moments that were released."""
        pixels = self.decoder.pixels(self.space.backward(points, rng))
        for component in np.unique(components):
            mine, (mean, _, latent, factor) = components == component, self._moments[component]
            pixels[mine] = latent + (pixels[mine] - mean) * factor
        return np.clip(pixels, 0.0, 1.0)

    @cached_property
    def _contrast(self) -> Contrast:
        """What restores the released contrast of grey images, by samples of a fixed seed.

        Of colours it moves hues, and a network learnt less from them.
        """
        mixture, rng = self.mixture, np.random.default_rng(0)
        if self.decoder.shape[2] != 1 or mixture.rest is None:
            return Contrast()
        components = rng.choice(len(mixture.weights), _TRIED, p=mixture.weights)
        tried = self._cut(mixture.draw(components, rng), components, rng)
        mean = float(mixture.weights @ [mean.mean() for mean, *_ in self._moments])
        square = float(mixture.weights @ [(m**2 + sd**2).mean() for m, sd, *_ in self._moments])
        every = max(1, tried.size // _TRIED_PIXELS)
        return Contrast.of(tried.ravel()[::every], mean, square)

    @cached_property
    def _moments(self) -> list[tuple[Vector, Vector, Vector, Vector]]:
        """Mean and sd of a component's pixels, released; mean and factor of sd before the cut."""

        def decode(points: Vector) -> Vector:
            return self.decoder.pixels(self.space.backward(points, None)).astype(np.float64)

        mixture, zero = self.mixture, decode(np.zeros((1, self.mixture.dim)))
        roots = (mixture.root(index) for index in range(len(mixture.roots)))
        variances = [((decode(root.T) - zero) ** 2).sum(axis=0) for root in roots]
        if mixture.rest is not None:
            common = ((decode(mixture.rest.T) - zero) ** 2).sum(axis=0)
            variances = [variance + common for variance in variances]
        moments = []
        for mean, root in zip(decode(mixture.means), mixture.root_of, strict=True):
            sd = np.sqrt(variances[root])
            latent, latent_sd = latent_moments(mean, sd)
            moments.append((mean, sd, latent, latent_sd / (sd + 1e-4)))
        return moments


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

    def blocks(self, sizes: Labels, rng: np.random.Generator) -> Iterator[tuple[int, Labels]]:
        """Components of the samples, a block at a time, with the number of its first one."""
        components = self.components(sizes, rng)
        for first in range(0, len(components), self.block):
            yield first, components[first : first + self.block]

    def finished(self, name: str, first: int, points: Vector, components: Labels) -> SyntheticBatch:
        """Points (n, d) of components (n,) as embeddings or images: ``first`` and on of a name.

        Where images are not good enough, other points of their components are drawn.
        """
        labels, materials = self.mixture.labels[components], self.materials
        decoder = materials.decoder
        if decoder is None:
            rng = materials.rng_of(f"{name} {first}")
            return SyntheticBatch(labels, embeddings=self.space.backward(points, rng))

        def draw(samples: Labels, number: int, image: int) -> Images:
            places, mine = points[samples], components[samples]
            if number:
                places = self.mixture.draw(mine, materials.rng_of(f"{name} {first} again {number}"))
            rng = materials.rng_of(f"{name} {first} round {number}")
            if self._pixels is not None:
                return self._pixels.images(places, mine, rng)
            seeds = materials.seeds_of(f"{name} round {number} image {image}", first + samples)
            return decoder.decode(self.space.backward(places, rng), seeds=seeds)

        return SyntheticBatch(labels, images=materials.selected(len(points), draw))

    @cached_property
    def _pixels(self) -> LinearPixels | None:
        """How a linear decoder's pixels keep their moments."""
        decoder = self.materials.decoder
        if not isinstance(decoder, LinearDecoder) or self.space.sphere is not None:
            return None
        return LinearPixels(decoder, self.space, self.mixture)
