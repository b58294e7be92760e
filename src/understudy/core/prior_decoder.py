"""The port of a decoder that can also draw what it decodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Decoder
from understudy.core.types import Embeddings, Seeds

COVARIANCE = "covariance"
"""Of what settles a description: (d, d), how the numbers of public descriptions go together."""


@runtime_checkable
class PriorDecoder(Decoder, Protocol):
    """A decoder with a generative prior: it draws embeddings that have wanted descriptions.

    Its prior learnt public images, so what it draws depends on the description and the seed alone.

    Attributes:
        description: What settles a description, as `understudy.steps.grid.Description.of_arrays`
            takes it, and `COVARIANCE` where that is known.
    """

    description: Mapping[str, NDArray[Any]]

    def draw(
        self, descriptions: NDArray[np.float32], *, seeds: Seeds, start: Embeddings | None = None
    ) -> Embeddings:
        """An embedding for each of n descriptions and (n,) seeds: (n, d) float32.

        Args:
            descriptions: (n, k).
            seeds: (n,).
            start: (n, d) embeddings that noise is added to, to draw others like these; None: what
                is drawn begins as noise.
        """
        ...
