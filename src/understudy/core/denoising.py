"""The port of a diffusion network whose weights and gradients are vectors, as DP-SGD needs them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Labels, Shape

Weights = NDArray[np.float32]
"""All parameters of a network in one vector: (P,) float32."""

ImagePairs = NDArray[np.float32]
"""Two images a sample: (n, 2, height, width, channels) float32."""


@runtime_checkable
class Denoiser(Protocol):
    """A network that corrects a denoised image: two images, a level of noise and a class to one.

    Nothing in it mixes samples, and it has no weights of its own: whoever trains it keeps them.

    Attributes:
        name: The name it was asked for by; asking again gives the same network.
        licence: Licence and origin of the weights; ``"none"`` without weights.
        side: Heights and widths that it takes are multiples of this.
    """

    name: str
    licence: str
    side: int

    def initial(self, shape: Shape, classes: int, *, seed: int) -> Weights:
        """Weights for (height, width, channels) images, by which every answer is zero."""
        ...

    def adapted(self, shape: Shape, classes: int) -> int:
        """How many of the last weights adapt the network to other images, and DP-SGD trains."""
        ...

    def predict(
        self, weights: Weights, pairs: ImagePairs, levels: NDArray[np.float32], labels: Labels
    ) -> NDArray[np.float32]:
        """Of n pairs, with (n,) levels about -1 to 1 and (n,) classes: (n, height, width, c)."""
        ...

    def gradients(
        self,
        weights: Weights,
        pairs: ImagePairs,
        levels: NDArray[np.float32],
        labels: Labels,
        targets: NDArray[np.float32],
        last: int,
    ) -> NDArray[np.float32]:
        """The gradient of each record's squared error, the mean over its k draws of noise.

        Args:
            weights: (P,).
            pairs: (n, k, 2, height, width, channels).
            levels: (n, k).
            labels: (n,).
            targets: (n, k, height, width, channels).
            last: The gradient is by so many of the last weights, as `adapted` says, or all.

        Returns:
            (n, last). Of n records of one shape, each by itself to the last bit.
        """
        ...
