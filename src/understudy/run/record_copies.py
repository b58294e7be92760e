"""Copies of private records among the samples of a release, and what a pool is recognised by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Source
from understudy.core.types import Embeddings, Vector
from understudy.data.batches import batch_size
from understudy.metrics.fingerprints import (
    Digests,
    Hashes,
    copied,
    nearest_hashes,
    perceptual_hashes,
    record_digests,
)
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.subsets import some
from understudy.report import StatedCopies

NEAR_BITS = 6
"""Bits of 64 in which perceptual hashes of near-copies differ at most."""

_NEAR_PART = 0.25
"""Of the distance between private records: a near-copy lies no farther from one of them."""

_ALONE = 0.01
"""Of private records, beside the others: a near-copy is as near to a single one as these."""

_ASKED = 1_000  # private records, at most, whose nearest other private record is looked for


@dataclass(frozen=True)
class Fingerprints:
    """What records are recognised by.

    Attributes:
        digests: (n,) any change of a value changes one; blank images have none (zeros).
        hashes: (n,) perceptual hashes; None of embeddings.
        mirrored: (n,) those of the images seen in a mirror; None of embeddings.
    """

    digests: Digests
    hashes: Hashes | None
    mirrored: Hashes | None

    @classmethod
    def of(cls, source: Source) -> Fingerprints:
        """Those of all records of a source, batch by batch."""
        digests, hashes, mirrored = [], [], []
        for batch in source.batches(batch_size(source)):
            digests.append(record_digests(batch.values))
            if source.kind == "images":
                hashes.append(perceptual_hashes(batch.values))
                mirrored.append(perceptual_hashes(batch.values[:, :, ::-1]))
        if not hashes:
            return cls(np.concatenate(digests), None, None)
        return cls(np.concatenate(digests), np.concatenate(hashes), np.concatenate(mirrored))

    def keyed(self, key: bytes) -> Iterator[bytes]:
        """16 bytes of each record that say nothing without the key: for a ledger."""
        return _keyed(self.digests.tolist(), key)

    def keyed_looks(self, key: bytes) -> Iterator[bytes]:
        """The same of what images look like, which many keep when they are stored anew."""
        if self.hashes is None:
            return self.keyed(key)
        return _keyed((hash_.tobytes() for hash_ in self.hashes), key)

    def and_those_of(self, other: Fingerprints) -> Fingerprints:
        """Those of both, these first; both of images or both of embeddings."""
        pairs = (
            (self.hashes, other.hashes),
            (self.mirrored, other.mirrored),
        )
        hashes, mirrored = (
            None if one is None or two is None else np.concatenate([one, two]) for one, two in pairs
        )
        return Fingerprints(np.concatenate([self.digests, other.digests]), hashes, mirrored)

    def at(self, rows: NDArray[np.int64]) -> Fingerprints:
        """Those of some records."""
        return Fingerprints(
            self.digests[rows],
            None if self.hashes is None else self.hashes[rows],
            None if self.mirrored is None else self.mirrored[rows],
        )


def _keyed(digests: Iterable[bytes], key: bytes) -> Iterator[bytes]:
    for digest in digests:
        yield hashlib.blake2b(digest, digest_size=16, key=key).digest()


def _bits_to_others(known: Fingerprints, asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """(k,) the same of some of the images, each beside all the others, mirrored or not."""
    least = np.full(len(asked), 64, dtype=np.int64)
    for own in (known.hashes, known.mirrored):
        if own is None or known.hashes is None:
            continue
        for at, row in enumerate(asked.tolist()):
            bits = np.bitwise_count(known.hashes ^ own[row])
            bits[row] = 64
            least[at] = min(least[at], int(bits.min()))
    return least


def copies_of(
    samples: Fingerprints,
    embeddings: Embeddings,
    private: Fingerprints,
    private_embeddings: Embeddings,
    space: str,
) -> StatedCopies:
    """How many samples are copies of a private record: exact ones, and near ones besides.

    A near-copy has the perceptual hash of a private image, seen in a mirror or not, but for 6 bits
    of 64; or lies beside a single private record: its distance to the nearest over that to the
    second nearest is as small as that of one private record in a hundred beside the others; or lies
    four times nearer to a private record than such records usually do to their nearest other one.
    How often a private record is as near to another one says what chance gives.

    Args:
        samples: Of the release, n.
        embeddings: (n, d).
        private: Of all private records, p.
        private_embeddings: (p, d).
        space: What the embeddings are, in words.
    """
    exact = copied(samples.digests, private.digests)
    asked = np.arange(len(private_embeddings))[some(len(private_embeddings), _ASKED)]
    distances, ratios = _two_nearest(embeddings, private_embeddings)
    own, own_ratios = _two_nearest(private_embeddings[asked], private_embeddings, apart=True)
    limit = _NEAR_PART * float(np.median(own))
    alone = float(np.quantile(own_ratios, _ALONE))
    near = (distances < limit) | (ratios < alone)
    usual = (own < limit) | (own_ratios < alone)
    words = (
        f"in the space of {space}, nearer to one private record, beside the next one, than 99 % of "
        "private records are, or at a quarter of the usual distance between them"
    )
    if samples.hashes is not None and samples.mirrored is not None and private.hashes is not None:
        for hashes in (samples.hashes, samples.mirrored):
            near |= nearest_hashes(hashes, private.hashes)[1] <= NEAR_BITS
        usual |= _bits_to_others(private, asked) <= NEAR_BITS
        words = (
            f"by a perceptual hash that differs in {NEAR_BITS} of 64 bits at most, mirrored or "
            f"not; or {words}"
        )
    return StatedCopies(
        len(exact), int(exact.sum()), int((near & ~exact).sum()), float(usual.mean()), words
    )


def _two_nearest(
    queries: Embeddings, records: Embeddings, *, apart: bool = False
) -> tuple[Vector, Vector]:
    """(n,) the distance to the nearest record, and that over the distance to the second nearest.

    Args:
        queries: (n, d).
        records: (p, d).
        apart: Whether the queries are among the records: each is then its own nearest.
    """
    first = 1 if apart else 0
    rows, asked = clouds(records, queries)
    distances = nearest_rows(asked, rows, min(2 + first, len(records)))[1]
    nearest, second = distances[:, min(first, distances.shape[1] - 1)], distances[:, -1]
    return nearest, nearest / np.maximum(second, 1e-12)
