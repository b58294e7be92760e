"""Images of a linear decoder with the moments that were released after the cut to a pixel's range.

A Gaussian that is cut to black and white has less variance than was released where a mean is near
one of them, and thin white strokes come out grey. The moments of each pixel hold by
`latent_moments`, those of all pixels of grey images together by `Contrast`: all post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import LinearDecoder
from understudy.core.types import Images, Labels, Vector
from understudy.methods.clustering.embedding_space import EmbeddingSpace
from understudy.steps.gaussians import Mixture, latent_moments

_TRIED = 512  # samples whose contrast is looked at
_TRIED_PIXELS = 1 << 17
_STRONGEST = 4.0  # gain
_STEPS = 24  # of bisection
_GREYEST = 0.98  # of the mean, which the mean square reaches where all pixels are black or white


@dataclass(frozen=True)
class Contrast:
    """A pixel x of 0 to 1 becomes gain (x - offset), cut to 0 and 1."""

    gain: float = 1.0  # 1 or more
    offset: float = 0.0  # what becomes black

    @classmethod
    def of(cls, pixels: Vector, mean: float, square: float) -> Contrast:
        """The one after which pixels (n,) of samples have this mean and this mean square.

        Where they have as much mean square, they stay as they are.
        """
        square = min(square, _GREYEST * mean)
        if float(np.square(pixels).mean()) >= square:
            return cls()
        low, high = 1.0, _STRONGEST
        for _ in range(_STEPS):
            gain = (low * high) ** 0.5
            contrast = cls(gain, _offset(pixels, gain, mean))
            lower = np.square(contrast(pixels)).mean() < square
            low, high = (gain, high) if lower else (low, gain)
        return contrast

    def __call__(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Pixels of 0 to 1, any shape."""
        return np.clip((pixels - self.offset) * self.gain, 0.0, 1.0)


def _offset(pixels: Vector, gain: float, mean: float) -> float:
    """The offset with which pixels of a gain have a mean."""
    low, high = -1.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        brighter = float(np.clip((pixels - middle) * gain, 0.0, 1.0).mean()) > mean
        low, high = (middle, high) if brighter else (low, middle)
    return (low + high) / 2


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
