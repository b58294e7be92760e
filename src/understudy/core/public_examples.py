"""The ports of public images that private ones may look like, and of what draws others like them.

A run that has such examples asks with noise which of them look like private images, and what their
classes would be; then its samples are drawn from these.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import LatentEncoder
from understudy.core.prior_decoder import PriorDecoder
from understudy.core.types import Embeddings, Images, Labels, Seeds, Shape


@runtime_checkable
class PublicExamples(Protocol):
    """Public images that others can be drawn like, and features that tell what an image shows."""

    @property
    def how(self) -> str:
        """What `draw` gives, in words, such as "drawn like public examples"."""
        ...

    @property
    def features(self) -> NDArray[np.float32]:
        """(m, p) of the examples."""
        ...

    @property
    def clusters(self) -> NDArray[np.int64]:
        """(m,): examples of one cluster look alike."""
        ...

    @property
    def kinds(self) -> NDArray[np.int64]:
        """(clusters,): what source a cluster's examples come from."""
        ...

    @property
    def kind_names(self) -> tuple[str, ...]:
        """What the sources show, in words."""
        ...

    @property
    def radii(self) -> NDArray[np.float32]:
        """(clusters,): how near the features of an image that looks like an example are to its."""
        ...

    def encode(self, images: Images, /) -> Embeddings:
        """Features of images of the private ones' size: (n, p) float32, each of its image alone."""
        ...

    def draw(self, rows: Labels, /, *, seeds: Seeds) -> Images:
        """An image like each of these n examples (rows may repeat): uint8, of the images' size."""
        ...


class DescribedBy(NamedTuple):
    """What turns public images into latents and descriptions that others like them are drawn by."""

    encoder: LatentEncoder
    decoder: PriorDecoder


class Described(NamedTuple):
    """Public images as they are drawn from: latents (m, d), and descriptions of these (m, k)."""

    latents: Embeddings
    descriptions: NDArray[np.float32]


@runtime_checkable
class ExampleGenerator(Protocol):
    """Draws images like public examples.

    Attributes:
        name: The name it was asked for by; asking again gives the same model.
        licence: Licence and origin of the weights, for the card.
    """

    name: str
    licence: str

    def known(self, shape: Shape, /) -> PublicExamples | None:
        """Its own examples for images (height, width, channels); None: it has none for these."""
        ...

    def describes(self, shape: Shape, /) -> DescribedBy | None:
        """What `like` wants images described by; None: nothing.

        Raises:
            BackendError: It cannot draw images (height, width, channels).
        """
        ...

    def like(self, images: Images, described: Described | None, /) -> PublicExamples:
        """Examples that are other public images, (m, height, width, channels)."""
        ...
