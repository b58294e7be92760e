"""What a model or a dataset must offer; implementations live in ``backends`` and ``data``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Batch, Embeddings, Images, Shape

T = TypeVar("T")
R = TypeVar("R")


@runtime_checkable
class Encoder(Protocol):
    """Images to embeddings.

    Attributes:
        name: The name it was asked for by, such as ``"embedded:dct"``.
        dim: d, the length of an embedding.
        norm_bound: A number that no embedding's L2 norm exceeds, known without looking at any
            private image; None where none is known.
        ordered: Whether the numbers of an embedding come in order of importance, so that the first
            ones can stand for all.
        licence: Licence and origin of the weights, for the card; ``"none"`` without weights.
    """

    name: str
    dim: int
    norm_bound: float | None
    ordered: bool
    licence: str

    def encode(self, images: Images) -> Embeddings:
        """Embed (n, height, width, channels) uint8 images: (n, d) float32, finite.

        A row depends on its own image only. n = 0 gives (0, d).
        """
        ...


@runtime_checkable
class Decoder(Protocol):
    """Embeddings to images.

    Attributes:
        name: The name it was asked for by.
        dim: d, the length of an embedding it takes.
        shape: (height, width, channels) of the images it makes.
        licence: Licence and origin of the weights.
    """

    name: str
    dim: int
    shape: Shape
    licence: str

    def decode(self, embeddings: Embeddings) -> Images:
        """Decode (n, d) float32 embeddings: (n, height, width, channels) uint8."""
        ...


@runtime_checkable
class LinearDecoder(Decoder, Protocol):
    """A decoder that is linear up to the last step, the cut to the range of a pixel."""

    def pixels(self, embeddings: Embeddings) -> NDArray[np.float32]:
        """Before that cut: (n, height, width, channels) float32, 0 black to 1 white, unbounded."""
        ...


@runtime_checkable
class Source(Protocol):
    """A dataset that can be read any number of times, in the same order, in a stream.

    Attributes:
        name: The name it was opened by.
        kind: ``"images"`` or ``"embeddings"``.
        shape: Shape of one record: (height, width, channels) or (d,). Public.
        classes: Class names, sorted as labels index them. Public. ``("all",)`` without labels.
        has_units: Whether rows carry a unit.
        skipped: Bad files passed over so far (``--skip-bad``). Owner-only.
    """

    name: str
    kind: Literal["images", "embeddings"]
    shape: Shape
    classes: tuple[str, ...]
    has_units: bool
    skipped: int

    def __len__(self) -> int:
        """Number of rows. Private under add/remove: owner-only."""
        ...

    def batches(self, size: int) -> Iterator[Batch]:
        """Every row in order, ``size`` at a time (the last batch may be shorter)."""
        ...

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed 16-byte BLAKE2b digest of each row's stored bytes (not its name or label)."""
        ...


class Engine(Protocol):
    """Where a function over many blocks runs."""

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """The results, in any order. ``items`` is read only a little ahead."""
        ...
