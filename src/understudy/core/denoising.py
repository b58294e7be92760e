"""The port of a diffusion network whose weights and gradients are vectors, as DP-SGD needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Images, Labels, Shape

Weights = NDArray[np.float32]
"""The parameters of a network that are trained, in one vector: (P,) float32."""

ImageRows = NDArray[np.float32]
"""Images as a network sees them, flattened: (n, d) float32."""

NoiseLevels = NDArray[np.float32]
"""Standard deviations of noise: (n,) float32, above 0."""


@dataclass(frozen=True)
class NoisyImages:
    """n images, or k noisy ones of each of n records: leading axes (n,) or (n, k).

    Attributes:
        images: (..., height, width, channels) float32, an image and noise.
        denoised: What a Gaussian of all images of the class makes of them, the same shape.
        sigmas: (...) float32, the noise's standard deviation.
        deviation: Of an image about its class's mean: what is usual of `sigmas` is about it.
    """

    images: NDArray[np.float32]
    denoised: NDArray[np.float32]
    sigmas: NoiseLevels
    deviation: float

    @property
    def scales(self) -> NoiseLevels:
        """(...) c_out of each: D(x; sigma) = denoised + c_out * F."""
        spread = np.sqrt(np.square(self.sigmas) + self.deviation**2)
        return np.asarray(self.sigmas * self.deviation / spread, dtype=np.float32)


@runtime_checkable
class TrainableNetwork(Protocol):
    """F of D(x; sigma) = G(x; sigma) + c_out(sigma) F, for images of a shape and some classes.

    Nothing in it mixes samples, and it holds no weights that are trained: whoever trains keeps
    them.

    Attributes:
        name: The name of its `Denoiser`.
        shape: (height, width, channels) of what it denoises: small images, or latents.
        size: The number of weights that are trained on public images, P.
        adapted: How many of the last of them DP-SGD trains.
    """

    name: str
    shape: Shape
    size: int
    adapted: int

    def rows(self, images: Images) -> ImageRows:
        """Images (n, h, w, c) uint8 as it sees them, about -1 to 1, each by itself: (n, d)."""
        ...

    def images(self, rows: ImageRows) -> Images:
        """The way back: (n, height, width, channels) uint8."""
        ...

    def initial(self, *, seed: int) -> Weights:
        """The weights to begin with: (P,)."""
        ...

    def predict(self, weights: Weights, noisy: NoisyImages, labels: Labels) -> NDArray[np.float32]:
        """F of n noisy images of (n,) classes: (n, height, width, channels)."""
        ...

    def gradients(
        self,
        weights: Weights,
        noisy: NoisyImages,
        labels: Labels,
        targets: NDArray[np.float32],
        last: int,
    ) -> NDArray[np.float32]:
        """The gradient of each record's squared error of F, the mean over its k draws of noise.

        Args:
            weights: (P,).
            noisy: k images of each of n records, (n, k).
            labels: (n,).
            targets: (n, k, height, width, channels).
            last: The gradient is by so many of the last weights: `adapted`, or all.

        Returns:
            (n, last). Of n records of one shape, each by itself to the last bit.
        """
        ...


@runtime_checkable
class Denoiser(Protocol):
    """A model of noisy images that is trained.

    Attributes:
        name: The name it was asked for by; asking again gives the same network.
        licence: Licence and origin of the weights; ``"none"`` without weights.
    """

    name: str
    licence: str

    def network(self, shape: Shape, classes: Sequence[str]) -> TrainableNetwork:
        """The network for (height, width, 1 or 3) images of these classes.

        Raises:
            BackendError: It draws no such images.
        """
        ...
