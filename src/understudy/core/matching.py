"""Ports of an encoder whose numbers lie in blocks, and of a decoder that matches them.

Most decoders map an embedding to an image. One that matches searches for an image whose own
embedding is near a wanted one, and has to be told which numbers are wanted, and in which metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Embeddings, Images, Seeds, Vector

NUMBERS_MEASURED = "numbers_measured"
"""The fact of a release that says how many numbers of a layout were measured of its records."""


@dataclass(frozen=True)
class Layout:
    """Some numbers of an embedding, in blocks of one kind each.

    Attributes:
        columns: (d,) int64: which numbers of the embedding.
        blocks: Slices of these columns, one after the other, none empty.
        colours: The block of these that says how colourful images are; None: none does.
    """

    columns: NDArray[np.int64]
    blocks: tuple[slice, ...]
    colours: int | None = None

    @property
    def dim(self) -> int:
        """d."""
        return len(self.columns)

    @property
    def block_of_column(self) -> NDArray[np.int64]:
        """(d,) the number of each column's block."""
        lengths = [block.stop - block.start for block in self.blocks]
        return np.repeat(np.arange(len(lengths)), lengths)

    def without(self, other: Layout) -> Layout:
        """The columns that another layout has not, in their blocks."""
        is_left = ~np.isin(self.columns, other.columns)
        parts = [self.columns[block][is_left[block]] for block in self.blocks]
        return Layout.of([part for part in parts if len(part)])

    @classmethod
    def of(cls, parts: Sequence[NDArray[np.int64]], colours: int | None = None) -> Layout:
        """A layout of blocks of columns."""
        bounds = np.cumsum([0, *map(len, parts)]).tolist()
        blocks = tuple(map(slice, bounds[:-1], bounds[1:]))
        return cls(np.concatenate([[], *parts]).astype(np.int64), blocks, colours)


@runtime_checkable
class BlockEncoder(Encoder, Protocol):
    """An encoder whose numbers lie in blocks, each in order of importance."""

    def layout(self, dim: int, *, colour: bool = True) -> Layout:
        """The ``dim`` numbers that say most of an image; fewer where there are fewer.

        Without ``colour``, of an image that has none.
        """
        ...


@runtime_checkable
class MatchingDecoder(Decoder, Protocol):
    """A decoder that searches for images whose embeddings are near wanted ones.

    Attributes:
        at_once: Images that are worth asking for together, for they are searched for side by side.
    """

    at_once: int

    def match(
        self,
        targets: Embeddings,
        layout: Layout,
        metric: Vector,
        sizes: Vector,
        widths: Vector,
        others: Layout,
        common: Vector,
        *,
        seeds: Seeds,
    ) -> Images:
        """Images whose embeddings are near the targets.

        Args:
            targets: (n, d) float32 numbers of ``layout``.
            layout: Which numbers of an embedding they are.
            metric: (d, d): the squared distance of an embedding x to its target t is
                ||metric ((x - t) / width)||^2.
            sizes: (blocks,) standard deviation of the numbers of each block, over that of public
                images: frequencies that no number measures are taken to vary as those that are.
            widths: (n, blocks) by how much the embeddings that a target is one of vary more than
                that.
            others: Further numbers, of which nothing is known but the mean over all images.
            common: (others,) that mean, which each image has roughly.
            seeds: (n,) one for each image.
        """
        ...
