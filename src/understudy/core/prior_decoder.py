"""The port of a decoder that can also draw what it decodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Decoder
from understudy.core.types import Embeddings, Images, Seeds


@runtime_checkable
class PublicExamples(Protocol):
    """Public images that a decoder can draw again, and features that tell what an image shows.

    Attributes:
        descriptions: (m, d) float32 of the examples, as the decoder draws by.
        features: (m, p) float32 of the examples.
        clusters: (m,) int64: examples of one cluster look alike.
        kinds: (clusters,) int64: what source a cluster's examples come from.
        kind_names: What the sources show, in words.
        radii: (clusters,) float32: an image whose features lie no farther than this from those of
            an example of the cluster looks like it.
    """

    descriptions: NDArray[np.float32]
    features: NDArray[np.float32]
    clusters: NDArray[np.int64]
    kinds: NDArray[np.int64]
    kind_names: tuple[str, ...]
    radii: NDArray[np.float32]

    def encode(self, images: Images, /) -> Embeddings:
        """Features of images of the decoder's size: (n, p) float32, each of its image alone."""
        ...


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

    def draw(self, descriptions: NDArray[np.float32], *, seeds: Seeds) -> Embeddings:
        """An embedding for each of n descriptions and (n,) seeds: (n, d) float32."""
        ...


@runtime_checkable
class ExampleDecoder(PriorDecoder, Protocol):
    """A prior decoder that brings public examples.

    Attributes:
        examples: Those of descriptions such as it draws by; None: it has none.
    """

    examples: PublicExamples | None

    def examples_like(self, images: Images, descriptions: NDArray[np.float32], /) -> PublicExamples:
        """Examples that are other public images, (m, height, width, channels), described (m, d).

        Raises:
            BackendError: ``examples`` is None.
        """
        ...
