"""Records that two datasets share, and copies of private records among the samples of a release."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Source
from understudy.core.types import Embeddings
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
        for digest in self.digests.tolist():
            yield hashlib.blake2b(digest, digest_size=16, key=key).digest()

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


def shared_records(first: Source, second: Source) -> int:
    """How many records of the first source are in the second one, value for value.

    Both are compared as they are opened: images at the same size, whatever files they came from.
    Blank images do not count.
    """
    prints = [
        np.concatenate(
            [record_digests(batch.values) for batch in source.batches(batch_size(source))]
        )
        for source in (first, second)
    ]
    return int(copied(prints[0], prints[1]).sum())


def copies_of(
    samples: Fingerprints,
    embeddings: Embeddings,
    private: Fingerprints,
    private_embeddings: Embeddings,
    space: str,
) -> StatedCopies:
    """How many samples are copies of a private record: exact ones, and near ones besides.

    A near-copy has the perceptual hash of a private image, seen in a mirror or not, but for 6 bits
    of 64; or lies four times nearer to a private record than private records usually do to their
    nearest other one. How often a private record is as near to another one says what chance gives.

    Args:
        samples: Of the release, n.
        embeddings: (n, d).
        private: Of all private records, p.
        private_embeddings: (p, d).
        space: What the embeddings are, in words.
    """
    exact = copied(samples.digests, private.digests)
    asked = np.arange(len(private_embeddings))[some(len(private_embeddings), _ASKED)]
    rows, queries, records = clouds(private_embeddings, embeddings, private_embeddings[asked])
    others = nearest_rows(records, rows, min(2, len(private_embeddings)))[1][:, -1]
    limit = _NEAR_PART * float(np.median(others))
    near = nearest_rows(queries, rows)[1][:, 0] < limit
    usual = others < limit
    words = f"a distance below a quarter of that between private records, in the space of {space}"
    if samples.hashes is not None and samples.mirrored is not None and private.hashes is not None:
        for hashes in (samples.hashes, samples.mirrored):
            near |= nearest_hashes(hashes, private.hashes)[1] <= NEAR_BITS
        usual |= _near_another(private.hashes, asked)
        words = (
            f"a perceptual hash that differs in {NEAR_BITS} of 64 bits at most, mirrored or not; "
            f"or {words}"
        )
    return StatedCopies(
        len(exact), int(exact.sum()), int((near & ~exact).sum()), float(usual.mean()), words
    )


def _near_another(hashes: Hashes, asked: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the images asked for have the hash of another one, nearly."""
    near = [np.bitwise_count(hashes ^ hashes[row]) <= NEAR_BITS for row in asked.tolist()]
    return np.array([hits.sum() > 1 for hits in near], dtype=np.bool_)
