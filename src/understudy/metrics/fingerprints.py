"""Few numbers that stand for an image: digests, perceptual hashes and means of its parts."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.results import Metric
from understudy.core.types import Images, Labels
from understudy.metrics.nearest_neighbours import RowProgress, row_blocks, side_by_side

_HASH_SIDE = 8
_HASH_OF = 32

NEAR_BITS = 6
"""Bits of 64 in which perceptual hashes of near-copies differ at most."""

Digests = NDArray[np.void]
"""(n,) of 16 bytes."""

Hashes = NDArray[np.uint64]
"""(n,) of 64 bits."""


NEAR_DUPLICATES = Metric(
    key="near_duplicates",
    group="leakage",
    name="near-duplicates",
    explanation="Synthetic images that look the same as a private one to a perceptual hash.",
    better="lower",
    unit="%",
    baseline="chance: held-out real records",
)


def pixel_digests(images: Images) -> Digests:
    """16 bytes of each image that any change of a pixel changes; blank images have none (zeros).

    An image of one colour holds nothing of anybody, and equals every other of that colour.
    """
    rows = np.ascontiguousarray(images).reshape(len(images), -1)
    blank = (images == images[:, :1, :1]).all(axis=(1, 2, 3))
    digests = [
        bytes(16) if flat else hashlib.blake2b(row.data, digest_size=16).digest()
        for row, flat in zip(rows, blank.tolist(), strict=True)
    ]
    return np.array(digests, dtype="V16")


def record_digests(values: NDArray[Any]) -> Digests:
    """16 bytes of each record: of an image its `pixel_digests`, of an embedding its float32 bytes.

    Args:
        values: (n, height, width, channels) uint8 images, or (n, d) embeddings.
    """
    if values.ndim == 4:
        return pixel_digests(values)
    rows = np.ascontiguousarray(values, dtype=np.float32)
    digests = [hashlib.blake2b(row.data, digest_size=16).digest() for row in rows]
    return np.array(digests, dtype="V16")


def copied(digests: Digests, of: Digests) -> NDArray[np.bool_]:
    """Which images are, pixel for pixel, among others: (n,)."""
    blank = np.void(bytes(16))
    return np.asarray(np.isin(digests, of) & (digests != blank))


def twins(digests: Digests) -> NDArray[np.bool_]:
    """Which images are, pixel for pixel, among the others of their own set: (n,)."""
    _, at, times = np.unique(digests, return_inverse=True, return_counts=True)
    return np.asarray((times[at] > 1) & (digests != np.void(bytes(16))))


def area_means(images: Images, side: int, *, smaller: bool = False) -> NDArray[np.float32]:
    """Images of another size by the mean of what falls into each part, or by repeating.

    Args:
        images: (n, height, width, channels).
        side: Height and width of what comes out.
        smaller: Leave a side alone that is no longer than that.

    Returns:
        (n, side, side, channels), in the values of the images.
    """
    height, width = images.shape[1:3]
    to = (min(side, height), min(side, width)) if smaller else (side, side)
    values = images.astype(np.float32)
    if to == (height, width):
        return values
    rows = _parts(height, to[0]) @ values.reshape(len(images), height, -1)
    rows = rows.reshape(len(images), to[0], width, -1)
    return np.asarray(np.einsum("vw,nuwc->nuvc", _parts(width, to[1]), rows, optimize=True))


@lru_cache(maxsize=64)
def _parts(length: int, into: int) -> NDArray[np.float32]:
    """(into, length): how much of each old pixel goes into each new one; rows sum to 1."""
    edges = np.linspace(0, length, into + 1)
    starts = np.arange(length)
    low = np.maximum(edges[:-1, None], starts[None])
    high = np.minimum(edges[1:, None], starts[None] + 1)
    return np.asarray(np.maximum(high - low, 0) * into / length, dtype=np.float32)


def perceptual_hashes(images: Images) -> Hashes:
    """64 bits of each image that small changes leave alone (pHash, Zauner 2010).

    Which of the 8 x 8 lowest frequencies of the 32 x 32 luminance lie above their median.
    """
    small = area_means(images, _HASH_OF).mean(axis=3)
    basis = _low_frequencies()
    low = (basis @ small @ basis.T).reshape(len(images), -1)
    # The mean of the image says nothing of its shapes, so it does not move the median.
    above = low > np.median(low[:, 1:], axis=1)[:, None]
    hashes: Hashes = np.packbits(above, axis=1).view(">u8").astype(np.uint64)[:, 0]
    return hashes


@lru_cache(maxsize=1)
def _low_frequencies() -> NDArray[np.float32]:
    whole = scipy.fft.dct(np.eye(_HASH_OF), axis=0, norm="ortho")
    return np.asarray(whole[:_HASH_SIDE], dtype=np.float32)


def nearest_hashes(
    queries: Hashes, rows: Hashes, progress: RowProgress = lambda done: None
) -> tuple[Labels, Labels]:
    """The row whose hash differs least from each query's, and in how many of the 64 bits.

    Strangers differ in about 32; near-duplicates in 6 or fewer.

    Args:
        queries: (n,) of `perceptual_hashes`.
        rows: (m,) of the same, m at least 1.
        progress: Told of queries.

    Returns:
        (n,) and (n,).
    """
    nearest = np.zeros(len(queries), dtype=np.int64)
    bits = np.zeros(len(queries), dtype=np.int64)

    def search(mine: slice) -> slice:
        least = np.full(mine.stop - mine.start, 255, dtype=np.uint8)
        for theirs in row_blocks(len(rows)):
            differ = np.bitwise_count(queries[mine, None] ^ rows[None, theirs])
            better = np.flatnonzero(differ.min(axis=1) < least)
            at = differ[better].argmin(axis=1)
            least[better] = differ[better, at]
            nearest[mine][better] = at + theirs.start
        bits[mine] = least
        return mine

    for mine in side_by_side(search, row_blocks(len(queries))):
        progress(mine.stop - mine.start)
    return nearest, bits
