"""When two files show one image: equal decoded pixels, or equal looks.

Looks are the lowest spatial frequencies of the luminance (a cosine transform), which re-encoding,
resizing, mirroring and turning by quarters leave nearly alone. Two images look the same where
their frequencies differ by far less than those of the images around them do, because scans, or
small objects on black, are near to one another although no two are one image.

The limits were set on five sets of real images, 28 to 128 pixels a side (scans, photographs, aerial
images, small objects on black), each against 243 to 5,000 unrelated ones of its kind: `RATIO` of
the nearest unrelated pair was 0.03 (objects on black), and 0.18 or more elsewhere; of re-encoded
and halved images it was below 0.01 for nearly all photographs, and below `RATIO_OF_MANY` for half
or more of the objects on black. Of 10,000 everyday photographs that had no part in this, 5,000
against 5,000, one pair matched: a photograph and its mirror image. Where no two records look alike,
one pair may differ as much as one of many. Where records look alike among themselves, as drawings
of simple shapes do, the limit is stricter; there a pair is judged by its colours as well, if these
tell records apart: of 281 pairs of sets of 300 drawings (32 to 64 pixels) one had a pair of images
below `RATIO_IN_COLOUR`, and nearly all halved images and those of JPEG quality 90 are.

Where only digests of one side are at hand, looks are cut into bands of signs of secret projections
(Charikar 2002), and each band is a keyed digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.one_ahead import one_ahead
from understudy.core.ports import Source

RATIO = 0.0125
"""Dissimilarity of one pair, over that of the images around it, up to which it is one image."""

RATIO_IN_COLOUR = 0.01
"""The same with colours, where these tell records apart that look alike in grey."""

RATIO_OF_MANY = 0.05
"""The same where many images of a set have a partner: unrelated small objects have 0.2 %."""

_MANY_SHARE, _MANY = 0.02, 5  # of the images of a set, and at least so many
_ORDER = 16  # frequencies a side
_LEAST_ORDER = 8  # fewer say too little: images below 12 pixels a side are compared exactly
_USED = 0.7  # of the frequencies that a side of so many pixels can hold; halving blurs the others
_CONTRAST = 0.05  # grey levels: images below are flat, and equal one another
_COMPLEXITY = 2.0  # effective number of frequencies: gradients have one
_DENSE, _STRICTER = 0.04, 10.0  # more records than this are near others: drawings, bursts
_TIMES_ALIKE = 3.0  # as many of a set of copies look like a record as records do among themselves
_EXCESS = 0.25  # or of those that are left, where so many do that three times as many is too much
_CHANCE = 8  # records more than are counted may look alike, where some do
_EQUAL = 1 - 1e-5
_DISTINCT, _ENOUGH = 0.15, 256  # no two of so many records are that near: satellite tiles
_SAMPLE = 512  # images that show how near unrelated ones lie
_NEIGHBOURS_SHARE, _NEIGHBOURS = 0.02, 10  # which of the sample is an image's surrounding
_BLOCK = 2048
_READ = 256
CROPS = tuple(round(1 - 0.02 * step, 2) for step in range(1, 11))
"""Sides of the centre crops that are looked for, of the whole side: 98 % down to 80 %."""

BANDS = 8
"""Digests of the looks of one image."""
BAND_BYTES = 4
"""Of each of them; three that are equal by chance are one in 2^96."""
_BAND_BITS = 48
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_CHROMA = np.array(  # twice the blue and the red difference
    [[-0.338, 1.0], [-0.662, -0.838], [1.0, -0.162]], dtype=np.float32
)
_LOW = 4  # frequencies a side that colours have
_NO_GREY = np.zeros((_ORDER, _ORDER), dtype=np.float16)
_NO_COLOUR = np.zeros((_LOW, _LOW, 3), dtype=np.float32)
_NEGATIVE_ZERO = 0x8000  # in half precision
_HALF_PRECISION_DIM = 16  # embeddings of fewer numbers may be equal by chance once rounded

Values = NDArray[Any]
"""One record as it is decoded: (height, width, 1 or 3) uint8 in its own size, or (d,) float32."""


@runtime_checkable
class OriginalSource(Source, Protocol):
    """A source that can decode its records as they are stored."""

    def originals(self) -> Iterator[Values]:
        """Every record in order, in its own size, colours and precision."""
        ...


def centre(image: Values, share: float) -> Values:
    """The centre of an image: a share of each of its sides; an embedding as it is."""
    if image.ndim == 1:
        return image
    down, across = (round(side * (1 - share) / 2) for side in image.shape[:2])
    return image[down : image.shape[0] - down, across : image.shape[1] - across]


def originals_of(source: Source) -> Iterator[Values]:
    """Every record of a source in order: as stored where it knows that, else as it is read."""
    if isinstance(source, OriginalSource):
        yield from source.originals()
        return
    for batch in source.batches(_READ):
        yield from batch.values


def value_digest(values: Values, key: bytes) -> bytes:
    """A keyed 16-byte digest of decoded values, whatever file or array they are stored in.

    Colour without colour counts as grey. Embeddings count as rounded to half precision.
    """
    if values.ndim == 1:
        return next(_row_digests(_rounded(values[None]), key))
    if values.shape[2] == 3 and (values == values[:, :, :1]).all():
        values = values[:, :, :1]
    digest = hashlib.blake2b(repr(values.shape).encode(), digest_size=16, key=key)
    digest.update(np.ascontiguousarray(values).data)
    return digest.digest()


def embedding_digests(embeddings: Iterable[Values], key: bytes) -> Iterator[bytes]:
    """The `value_digest` of each of many embeddings of one length."""
    records = iter(embeddings)
    blocks = iter(lambda: list(islice(records, _READ)), [])
    stacked = (np.concatenate(block).reshape(len(block), -1) for block in blocks)
    for values in one_ahead(_rounded(block) for block in stacked):
        yield from _row_digests(values, key)


def _rounded(embeddings: Values) -> Values:
    """Embeddings (n, d) as they count: in half precision if they are long, no negative zeros.

    One whose largest number half precision does not hold is divided by a power of two first: by
    infinities or zeros alone, records that have nothing in common would be equal.
    """
    if embeddings.shape[1] < _HALF_PRECISION_DIM:
        return embeddings.astype(np.float32) + np.float32(0)
    largest, half = np.abs(embeddings).max(axis=1), np.finfo(np.float16)
    outside = (largest < half.smallest_normal) | (largest > half.max)
    if outside.any():
        exponents = np.where(outside, np.frexp(largest)[1], 0)
        embeddings = np.ldexp(embeddings, -exponents[:, None])
    values = embeddings.astype(np.float16)
    bits = values.view(np.uint16)
    bits[bits == _NEGATIVE_ZERO] = 0
    return values


def _row_digests(rows: Values, key: bytes) -> Iterator[bytes]:
    start = hashlib.blake2b(repr(rows.shape[1:]).encode(), digest_size=16, key=key)
    for row in rows:
        digest = start.copy()
        digest.update(row.data)
        yield digest.digest()


def is_blank(values: Values) -> bool:
    """Whether an image is of one colour: it holds nothing of anybody, and equals others."""
    return values.ndim == 3 and bool((values == values[:1, :1]).all())


@dataclass(frozen=True)
class Looks:
    """The looks of images.

    Attributes:
        frequencies: (n, 16, 16) float16 of the luminance, the lowest first, weighted by the root
            of their frequency, without the mean.
        colours: (n, 2, 4, 4) the lowest likewise of twice the blue and red difference; zeros: grey.
        orders: (n,) how many frequencies a side an image has; 0: it has no looks to compare.
    """

    frequencies: NDArray[np.float16]
    colours: NDArray[np.float16]
    orders: NDArray[np.int64]

    @classmethod
    def of(cls, images: Iterable[Values]) -> Looks:
        """The looks of images of any sizes; embeddings have none."""
        frequencies, colours, orders = [], [], []
        for image in images:
            order = 0 if image.ndim == 1 else _order(image)
            grey, colour = _transform(image) if order else (_NO_GREY, _NO_COLOUR)
            frequencies.append(grey)
            colours.append(colour)
            orders.append(order)
        stacked = np.array(frequencies, dtype=np.float16).reshape(-1, *_NO_GREY.shape)
        low = np.array(colours, dtype=np.float32).reshape(-1, *_NO_COLOUR.shape)
        differences = np.moveaxis(low @ _CHROMA, 3, 1) * _weights()[:_LOW, :_LOW]
        return cls(stacked, differences.astype(np.float16), np.array(orders, dtype=np.int64))

    @classmethod
    def concatenated(cls, parts: Iterable[Looks]) -> Looks:
        """Those of one or more sets of images together."""
        several = list(parts)
        frequencies = np.concatenate([one.frequencies for one in several])
        colours = np.concatenate([one.colours for one in several])
        return cls(frequencies, colours, np.concatenate([one.orders for one in several]))

    def __len__(self) -> int:
        return len(self.orders)

    def at(self, rows: NDArray[Any]) -> Looks:
        """Those of some of the images."""
        return Looks(self.frequencies[rows], self.colours[rows], self.orders[rows])

    def planes(self, order: int) -> list[NDArray[np.float32]]:
        """(n, order, order) of the luminance, and (n, 4, 4) of each colour difference."""
        blue, red = np.moveaxis(self.colours.astype(np.float32), 1, 0)
        return [self.frequencies[:, :order, :order].astype(np.float32), blue, red]

    def directions(self, order: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """(n, order, order) of length 1 each, and which are neither flat nor a gradient."""
        values = self.frequencies[:, :order, :order].astype(np.float32)
        squares = values**2
        energy = squares.sum(axis=(1, 2))
        complexity = energy**2 / np.maximum((squares**2).sum(axis=(1, 2)), 1e-30)
        clear = (energy >= _CONTRAST**2) & (complexity >= _COMPLEXITY) & (self.orders >= order)
        return values / np.sqrt(np.maximum(energy, 1e-30))[:, None, None], clear


def same_looks(images: Looks, records: Looks) -> NDArray[np.bool_]:
    """Which images look the same as one of the records, mirrored or turned or not: (n,)."""
    single, many = (np.zeros((2, len(images)), dtype=np.bool_) for _ in range(2))
    alike = np.zeros(2)
    for order in sorted({*images.orders.tolist(), *records.orders.tolist()} - {0}):
        # Pairs of which the smaller image has so many frequencies: each pair once.
        for mine, theirs in _pairs(images.orders, records.orders, order):
            rows, others = np.flatnonzero(mine), records.at(np.flatnonzero(theirs))
            ratios = _ratios(images.at(rows), others, order)
            shares, limits = _alike(others, order)
            alike = np.maximum(alike, shares)
            single[:, rows] |= ratios <= limits[:, None]
            many[:, rows] |= ratios <= RATIO_OF_MANY
    usual = np.minimum(_TIMES_ALIKE * alike, alike + _EXCESS * (1 - alike))
    enough = np.maximum(_MANY, np.maximum(_MANY_SHARE, usual) * len(images))
    many[many.sum(axis=1) < enough] = False
    return np.asarray((single | many).any(axis=0))


def _alike(records: Looks, order: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Share of records that look like another one of their own set, and the limit for one pair.

    Each (2,), as `_ratios` are. Pixels that are equal, or next to equal, say nothing: they are
    copies. Where many are near one another, chance makes the counted share too small.
    """
    rng = np.random.default_rng(0)
    sample = records.at(rng.permutation(len(records))[:_SAMPLE])
    ratios = _ratios(sample, records, order, below=_EQUAL, near=_DISTINCT)
    shares, near = ((ratios <= limit).mean(axis=1) for limit in (RATIO_OF_MANY, _DISTINCT))
    if not near.any():
        return shares, np.full(2, RATIO_OF_MANY if len(sample) >= _ENOUGH else RATIO)
    dense = near > np.maximum(_DENSE, [0, near[0] / 2])  # else colours tell most of them apart
    limits = np.where(dense, RATIO / _STRICTER, [RATIO, RATIO_IN_COLOUR])
    return shares + dense * _CHANCE / len(sample), limits


def _pairs(
    mine: NDArray[np.int64], theirs: NDArray[np.int64], order: int
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    for one, other in ((mine == order, theirs >= order), (mine > order, theirs == order)):
        if one.any() and other.any():
            yield one, other


def _ratios(
    images: Looks, records: Looks, order: int, *, below: float = 2.0, near: float = RATIO_OF_MANY
) -> NDArray[np.float64]:
    """(2, n) dissimilarity to the nearest record over that of what surrounds the two.

    First of the luminance alone, then of the same pair with its colours.
    """
    own, clear = images.directions(order)
    other, usable = records.directions(order)
    rows, other = np.flatnonzero(clear), other[usable]
    ratios = np.full((2, len(images)), np.inf)
    if not len(rows) or not len(other):
        return ratios
    own = own[rows]
    best = np.full(len(rows), -1.0, dtype=np.float32)
    nearest = np.zeros(len(rows), dtype=np.int64)
    for first in range(0, len(rows), _BLOCK):
        mine = slice(first, first + _BLOCK)
        for start in range(0, len(other), _BLOCK):
            similar = _similarities(own[mine], other[start : start + _BLOCK])
            similar[similar >= below] = -1.0
            at = similar.argmax(axis=1)
            value = similar[np.arange(len(at)), at]
            better = value > best[mine]
            best[mine][better], nearest[mine][better] = value[better], at[better] + start
    close = np.flatnonzero(1 - best <= near)
    if len(close):
        rng = np.random.default_rng(0)
        samples = [part[rng.permutation(len(part))[:_SAMPLE]] for part in (other, own)]
        around = np.maximum(
            _surrounding(own[close], samples[0]), _surrounding(other[nearest[close]], samples[1])
        )
        pairs = images.at(rows[close]), records.at(np.flatnonzero(usable)[nearest[close]])
        coloured = _coloured_similarities(*pairs, order)
        different = 1 - np.stack([best[close], coloured])
        ratios[:, rows[close]] = different / np.maximum(1 - around, 1e-9)
    return ratios


def _coloured_similarities(one: Looks, other: Looks, order: int) -> NDArray[np.float32]:
    """(n,) cosines of the luminance and colours of each image and its own partner."""
    mine, theirs = one.planes(order), other.planes(order)
    turned = zip(*map(_orientations, mine), strict=True)
    products = [_products(planes, theirs) for planes in turned]
    energies = _products(mine, mine) * _products(theirs, theirs)
    return np.asarray(np.max(products, axis=0) / np.sqrt(energies))


def _products(one: Iterable[Values], other: Iterable[Values]) -> Values:
    """(n,) scalar products over all planes."""
    products = [(a * b).sum(axis=(1, 2)) for a, b in zip(one, other, strict=True)]
    return np.asarray(np.sum(products, axis=0))


def _surrounding(directions: NDArray[np.float32], sample: NDArray[np.float32]) -> Values:
    """(n,) similarity of the image of a sample that begins what is unrelated; 0 without any."""
    rank = min(len(sample) - 1, max(_NEIGHBOURS, int(_NEIGHBOURS_SHARE * len(sample))))
    if rank < 1:
        return np.zeros(len(directions), dtype=np.float32)
    blocks = [
        np.partition(_similarities(directions[i : i + _BLOCK], sample), -1 - rank, axis=1)
        for i in range(0, len(directions), _BLOCK)
    ]
    return np.asarray(np.concatenate(blocks)[:, -1 - rank])


def band_digests(looks: Looks, key: bytes, *, turned: bool = False) -> list[list[list[bytes]]]:
    """Keyed digests of the looks of each image: of two that look the same, three or more agree.

    Returns:
        For each image, for it and what it is turned to, `BANDS` digests; of images that have no
        looks to compare, nothing.
    """
    directions, clear = looks.directions(_LEAST_ORDER)
    seed = int.from_bytes(hashlib.blake2b(b"looks", key=key).digest(), "big")
    shape = (_LEAST_ORDER**2, BANDS * _BAND_BITS)
    projections = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    starts = [hashlib.blake2b(bytes([i]), digest_size=BAND_BYTES, key=key) for i in range(BANDS)]
    digests: list[list[list[bytes]]] = [[] for _ in range(len(looks))]
    rows = np.flatnonzero(clear)
    for values in _orientations(directions[rows]) if turned else [directions[rows]]:
        signs = (_flat(values) @ projections > 0).reshape(len(rows), BANDS, _BAND_BITS)
        for row, bands in zip(rows.tolist(), np.packbits(signs, axis=2), strict=True):
            hashes = [start.copy() for start in starts]
            for digest, band in zip(hashes, bands, strict=True):
                digest.update(band.data)
            digests[row].append([digest.digest() for digest in hashes])
    return digests


def _orientations(directions: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """The looks of the images mirrored and turned in all eight ways."""
    signs = (-1.0) ** np.arange(directions.shape[1], dtype=np.float32)
    for turned in (directions, directions.transpose(0, 2, 1)):
        for down in (np.ones_like(signs), signs):
            for across in (np.ones_like(signs), signs):
                yield turned * down[:, None] * across


def _similarities(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, m) cosines, the largest over mirrored and turned images.

    Mirroring changes the sign of the odd frequencies along a side, so four products of the even
    and odd parts give all four; a quarter turn exchanges the sides.
    """
    similarities = []
    for turned in (one, one.transpose(0, 2, 1)):
        parts = [
            _flat(turned[:, down::2, right::2]) @ _flat(other[:, down::2, right::2]).T
            for down, right in ((0, 0), (1, 1), (0, 1), (1, 0))
        ]
        same, both, across, along = parts
        similarities.append(
            np.maximum(same + both + np.abs(across + along), same - both + np.abs(across - along))
        )
    return np.asarray(np.maximum(*similarities))


def _flat(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return values.reshape(len(values), values.shape[1] * values.shape[2])


def _order(image: Values) -> int:
    order = min(_ORDER, int(_USED * min(image.shape[:2])))
    return order if order >= _LEAST_ORDER else 0


def _transform(image: Values) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
    """(16, 16) weighted frequencies of the luminance, and the lowest (4, 4, 3) of the pixels."""
    down, across = _basis(image.shape[0]), _basis(image.shape[1])
    pixels = image.astype(np.float32)
    grey = pixels[:, :, 0] if image.shape[2] == 1 else pixels @ _LUMA
    frequencies = (down @ grey @ across.T * _weights()).astype(np.float16)
    if image.shape[2] == 1:
        return frequencies, _NO_COLOUR
    rows = (down[:_LOW] @ pixels.reshape(len(pixels), -1)).reshape(_LOW, *image.shape[1:])
    return frequencies, across[:_LOW] @ rows


@lru_cache(maxsize=256)
def _basis(side: int) -> NDArray[np.float32]:
    """(16, side) cosines, so that an image of another size has the same frequencies."""
    at = (np.arange(side) + 0.5) / side
    return np.asarray(
        np.cos(np.pi * np.outer(np.arange(_ORDER), at)) * np.sqrt(2) / side, dtype=np.float32
    )


@lru_cache(maxsize=1)
def _weights() -> NDArray[np.float32]:
    """Root of the frequency: images have less of the high ones, and noise as much of each."""
    return np.asarray(np.hypot(*np.mgrid[:_ORDER, :_ORDER]) ** 0.5, dtype=np.float32)
