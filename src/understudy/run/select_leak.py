"""What a selection without noise leaks: copies, and what attackers gain. Stated in the release."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Source
from understudy.core.types import Embeddings, Labels, Vector
from understudy.data.batches import batch_size
from understudy.metrics.attacks import by_distance_ratio
from understudy.metrics.fingerprints import (
    NEAR_BITS,
    Digests,
    Hashes,
    copied,
    nearest_hashes,
    perceptual_hashes,
    record_digests,
)
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.roc import roc
from understudy.metrics.subsets import some
from understudy.report import StatedAttack, StatedCopies
from understudy.report.statement import jsonable
from understudy.run.select_inputs import Steering
from understudy.run.select_spaces import EmbeddedRows, Spaces

_MOST = 20_000  # records of a side that are attacked
_LEAST = 5  # records of a side, below which rates mean nothing
_RATE = 0.01

_NEAR_PART = 0.25
"""Of the distance between private records: a near-copy lies no farther from one of them."""

_ALONE = 0.01
"""Of private records, beside the others: a near-copy is as near to a single one as these."""

_QUERIES = 1_000  # private records, at most, whose nearest other private record is looked for

ATTACKED = "all candidates", "this release", "this release, by one who holds all candidates"
"""What is attacked: before the selection, after it, and with the rejected candidates at hand."""

BY_DISTANCE = "distance to the nearest sample, calibrated with records of the attacker's own"
BY_REJECTED = "distance to the nearest sample over that to the nearest rejected candidate"


@dataclass(frozen=True)
class Leak:
    """What a selection without noise tells of private records, as far as it was measured.

    Attributes:
        attacks: What attackers gain; empty where no held-out records were named.
        copies: How many samples are copies; None without private data.
    """

    attacks: tuple[StatedAttack, ...] = ()
    copies: StatedCopies | None = None

    def as_dict(self) -> dict[str, Any]:
        """For the ledger: JSON values."""
        return {
            "attacks": jsonable([asdict(one) for one in self.attacks]) or "not measured",
            "copies": None if self.copies is None else asdict(self.copies),
        }


def leak_of(
    candidates: EmbeddedRows,
    indices: NDArray[np.int64],
    steering: Steering,
    prints: Fingerprints,
    spaces: Spaces,
) -> Leak:
    """What the selection tells of the private records.

    Args:
        candidates: All of them.
        indices: Those that are released.
        steering: The private records, and held-out ones where some were named.
        prints: Of the candidates.
        spaces: What rows are compared in.
    """
    members = steering.members
    if members is None:
        return Leak()
    names = [one.name for one in (spaces.proxy, spaces.distance) if one is not None]
    names = names or ["the embeddings"]
    private, records = Fingerprints.of(members.source), members.distance
    if steering.held_out is not None:
        private = private.and_those_of(Fingerprints.of(steering.held_out.source))
        records = np.concatenate([records, steering.held_out.distance])
    rows = candidates.distance[indices]
    copies = copies_of(prints.at(indices), rows, private, records, names[-1])
    calibration, held_out = steering.calibrating, steering.measured
    if held_out is None or calibration is None:
        return Leak((), copies)
    return Leak(attacks_on(candidates, indices, members, calibration, held_out, names), copies)


def attacks_on(
    candidates: EmbeddedRows,
    indices: NDArray[np.int64],
    members: EmbeddedRows,
    calibrating: EmbeddedRows,
    held_out: EmbeddedRows,
    spaces: Sequence[str],
) -> tuple[StatedAttack, ...]:
    """What attackers gain: before the selection, after it, and who holds all candidates.

    Args:
        candidates: All of them.
        indices: Those that are released.
        members: The private records that the selection used.
        calibrating: Records that are none of them, which the attacker has too.
        held_out: Others, which had no part in the candidates, steered nothing and must be told
            from the members.
        spaces: The name of the proxy's space and, where it is another, of that of the distances.

    Returns:
        () where there are too few records.
    """
    if min(len(rows.labels) for rows in (members, held_out, calibrating)) < _LEAST:
        return ()
    targets = members.at(np.arange(len(members.labels))[some(len(members.labels), _MOST)])
    rejected = np.setdiff1d(np.arange(len(candidates.labels)), indices)
    samples, others = candidates.at(indices), candidates.at(rejected)
    attacks = [
        (ATTACKED[0], BY_DISTANCE, candidates, calibrating),
        (ATTACKED[1], BY_DISTANCE, samples, calibrating),
    ]
    if len(rejected):
        attacks.append((ATTACKED[2], BY_REJECTED, samples, others))
    return tuple(
        _strongest(subject, attack, spaces, [targets, held_out], release, reference)
        for subject, attack, release, reference in attacks
    )


def _strongest(
    subject: str,
    attack: str,
    spaces: Sequence[str],
    sides: Sequence[EmbeddedRows],
    release: EmbeddedRows,
    reference: EmbeddedRows,
) -> StatedAttack:
    """The largest result over both signs of the score and all spaces.

    The attacker knows the method and may ask either way round: what a penalty keeps away from
    private records tells where they are. Taking the larger of several results is a choice made on
    the same records, so each has an interval of a higher confidence (Bonferroni): with 95 % all of
    them hold together, and so does that of the largest.
    """
    fields = ("proxy", "distance")[: len(spaces)]
    confidence = 1 - 0.05 / (2 * len(fields))
    curves = []
    for field in fields:
        scores = [
            by_distance_ratio(*(getattr(rows, field) for rows in (side, release, reference)))
            for side in sides
        ]
        curves += [
            roc(sign * scores[0], sign * scores[1], confidence=confidence) for sign in (1, -1)
        ]
    rates, areas = [one.tpr_at[_RATE] for one in curves], [one.auc for one in curves]
    largest = [max(each, key=lambda one: one.value) for each in (rates, areas)]
    return StatedAttack(
        subject,
        attack,
        f"in the space of {' and of '.join(spaces)}, private records against "
        f"{len(sides[1].labels):,} held-out ones, the largest of {len(curves)} results",
        *((one.value, one.low, one.high) for one in largest),
    )


@dataclass(frozen=True)
class Fingerprints:
    """What records are recognised by.

    Attributes:
        digests: (n,) any change of a value changes one; blank images have none (zeros).
        hashes: (n, 2) perceptual hashes of images, as they are and in a mirror; (n, 0) of
            embeddings.
    """

    digests: Digests
    hashes: Hashes

    @classmethod
    def of(cls, source: Source) -> Fingerprints:
        """Those of all records of a source, batch by batch."""
        digests, hashes = [], []
        for batch in source.batches(batch_size(source)):
            images = batch.values
            sides = (images, images[:, :, ::-1]) if source.kind == "images" else ()
            digests.append(record_digests(images))
            none = np.zeros((len(images), 0), dtype=np.uint64)
            hashes.append(np.column_stack([none, *map(perceptual_hashes, sides)]))
        return cls(np.concatenate(digests), np.concatenate(hashes))

    def keyed(self, key: bytes) -> Iterator[bytes]:
        """16 bytes of each record that say nothing without the key: for a ledger."""
        return _keyed(self.digests.tolist(), key)

    def keyed_looks(self, key: bytes) -> Iterator[bytes]:
        """The same of what images look like, mirrored or not, which many keep if stored anew."""
        if not self.hashes.size:
            return self.keyed(key)
        return _keyed((each.tobytes() for each in self.hashes.min(axis=1)), key)

    def and_those_of(self, other: Fingerprints) -> Fingerprints:
        """Those of both, these first; both of images or both of embeddings."""
        digests, hashes = (self.digests, other.digests), (self.hashes, other.hashes)
        return Fingerprints(np.concatenate(digests), np.concatenate(hashes))

    def at(self, rows: NDArray[np.int64]) -> Fingerprints:
        """Those of some records."""
        return Fingerprints(self.digests[rows], self.hashes[rows])


def content_digest(labels: Labels, digests: Digests, key: bytes = b"") -> str:
    """Of all records together: of their classes (n,) and digests (n,), by a key if private."""
    return hashlib.blake2b(labels.tobytes() + digests.tobytes(), key=key).hexdigest()


def _keyed(digests: Iterable[bytes], key: bytes) -> Iterator[bytes]:
    for digest in digests:
        yield hashlib.blake2b(digest, digest_size=16, key=key).digest()


def _bits_to_others(private: Fingerprints, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """(k,) bits to the nearest of all others, mirrored or not, of some of the images."""
    least = np.full(len(rows), 64, dtype=np.int64)
    for own in private.hashes.T:
        for at, row in enumerate(rows.tolist()):
            bits = np.bitwise_count(private.hashes[:, 0] ^ own[row])
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
    """
    exact = copied(samples.digests, private.digests)
    rows = np.arange(len(private_embeddings))[some(len(private_embeddings), _QUERIES)]
    distances, ratios = _two_nearest(embeddings, private_embeddings)
    gaps, gap_ratios = _two_nearest(private_embeddings[rows], private_embeddings, apart=True)
    limit = _NEAR_PART * float(np.median(gaps))
    # The second nearest of two records is the nearest: none is alone beside it.
    alone = float(np.quantile(gap_ratios, _ALONE)) if len(private_embeddings) > 2 else 0.0
    near = (distances < limit) | (ratios < alone)
    usual = (gaps < limit) | (gap_ratios < alone)
    words = (
        f"in the space of {space}, nearer to one private record, beside the next one, than 99 % of "
        "private records are, or at a quarter of the usual distance between them"
    )
    if samples.hashes.size:
        for hashes in samples.hashes.T:
            near |= nearest_hashes(hashes, private.hashes[:, 0])[1] <= NEAR_BITS
        usual |= _bits_to_others(private, rows) <= NEAR_BITS
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
    """(n,) the nearest distance, and over the second; ``apart``: queries are among the records."""
    first = 1 if apart else 0
    record_cloud, query_cloud = clouds(records, queries)
    distances = nearest_rows(query_cloud, record_cloud, min(2 + first, len(records)))[1]
    nearest, second = distances[:, min(first, distances.shape[1] - 1)], distances[:, -1]
    return nearest, nearest / np.maximum(second, 1e-12)
