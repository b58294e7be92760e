"""What is to be public, compared with the private records and every dataset of the ledger.

By stored bytes, by decoded values, and by looks, which re-encoding, resizing and mirroring leave
alone (`understudy.core.image_identity`). With the records at hand, images are also compared with
their centre crops; parts from elsewhere in an image are not recognised, and of a dataset that only
the ledger knows no crop is. One shared record is a refusal, before anything is charged or written;
its message holds counts of private records and is for the owner alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.image_identity import (
    CROPS,
    Looks,
    centre,
    is_blank,
    originals_of,
    same_looks,
    value_digest,
)
from understudy.core.ports import Source
from understudy.metrics.subsets import some
from understudy.privacy.ledger.fingerprint import RecordDigests
from understudy.privacy.ledger.ledger import Ledger

FEW = 0.01
"""Part of a test set that may be private: duplicates that large datasets have."""

_LISTED = 3
_CROPPED = 10_000  # private images, at most, whose crops are looked for, chosen at random
_CROP_PAIRS = 5_000**2  # pairs, at most, that are compared at each size of a crop
_NEARLY_ALL = 0.9  # of the candidates: then they are the private dataset, and no pool


@dataclass(frozen=True)
class PublicInput:
    """A dataset that enters a run and is not the private one.

    Attributes:
        recorded: Whether the ledger records it as private: it may be of a dataset that it knows.
        measured: Whether copies in it are counted and stated, because the run claims no guarantee:
            it is refused only where nearly all of its records are private ones.
    """

    role: str
    source: Source
    recorded: bool = False
    measured: bool = False


def require_no_shared_records(
    inputs: Sequence[PublicInput], private: Source | None, ledger: Ledger
) -> None:
    """Refuse what holds records of the private dataset, or of one that the ledger knows.

    Args:
        inputs: What is compared.
        private: The private dataset; None: there is none.
        ledger: Its datasets are compared by the digests that it stores.
    """
    if not inputs:
        return
    own = None if private is None else RecordDigests.of(private, ledger.key)
    crops = [] if private is None else _crops(private)
    faults = []
    for one in inputs:
        records = RecordDigests.of(one.source, ledger.key)
        if private is not None and own is not None:
            counts, rows = _shared(records, own, crops)
            if sum(counts) > (_NEARLY_ALL * len(one.source) if one.measured else 0):
                faults.append(_words(one, private.name, counts) + first_of_rows(one.source, rows))
                continue
        if not one.recorded:
            for shared in ledger.shared_records(records, besides=own):
                dataset = (
                    f"{shared.dataset.name} (id {shared.dataset.id} in the ledger, private since a "
                    "run read it, or selected from it without --candidates-public)"
                )
                faults.append(_words(one, dataset, (shared.stored, shared.values, shared.looks)))
    if faults:
        raise ConfigError(
            f"{'; '.join(faults)}. What is called public or synthetic here is private: it would "
            "leave as it is, outside of every guarantee. Nothing was charged and nothing was "
            "written. Take these records out, or name others (this message counts private "
            "records: it is for the owner alone)"
        )


def require_unseen_test(test: Source, private: Source) -> None:
    """Refuse a test set of which more than `FEW` of the records are private, value for value."""
    key = secrets.token_bytes(32)
    own = {value_digest(record, key) for record in originals_of(private)}
    shared = [
        row
        for row, record in enumerate(originals_of(test))
        if not is_blank(record) and value_digest(record, key) in own
    ]
    if len(shared) > FEW * len(test):
        raise ConfigError(
            f"{len(shared):,} of the {len(test):,} records of the test set ({test.name}) are "
            f"private records{first_of_rows(test, shared)}: a test set is of real records that "
            "were not in the private dataset, or no accuracy on it means anything. Nothing was "
            "charged and nothing was written. Leave them out, name another (--test), or have a "
            "part held out (--hold-out 5%)"
        )


def first_of_rows(source: Source, rows: Sequence[int]) -> str:
    """The first of some rows of a dataset, in brackets; by their files where they are files."""
    locations = getattr(source, "locations", None)
    names = locations() if callable(locations) else None
    words = [f"row {row}" if names is None else names[row] for row in rows[:_LISTED]]
    return f" (the first: {', '.join(words)})"


def shared_count(source: Source, other: Source) -> int:
    """How many records of a dataset are those of another: by bytes, by values or by looks."""
    key = secrets.token_bytes(32)
    digests = RecordDigests.of(source, key), RecordDigests.of(other, key)
    return sum(_shared(*digests, _crops(other))[0])


def _crops(source: Source) -> list[Looks]:
    """The looks of centre crops of the images, or of a sample of them, a size after the other."""
    if source.kind != "images":
        return []
    sample = set(np.arange(len(source))[some(len(source), _CROPPED)].tolist())
    images = (image for row, image in enumerate(originals_of(source)) if row in sample)
    each = [[Looks.of([centre(image, share)]) for share in CROPS] for image in images]
    return [Looks.concatenated(looks) for looks in zip(*each, strict=True)]


def _cropped(looks: Looks, crops: Sequence[Looks]) -> set[int]:
    """Which images look like a crop; of more than can be compared, which of a sample do."""
    if not crops:
        return set()
    rows = np.arange(len(looks))[some(len(looks), _CROP_PAIRS // len(crops[0]))]
    return {int(row) for one in crops for row in rows[same_looks(looks.at(rows), one)]}


def _shared(
    records: RecordDigests, own: RecordDigests, crops: Sequence[Looks]
) -> tuple[tuple[int, int, int], list[int]]:
    """How many records are private by bytes, others by values, others by looks; and which."""
    stored = {
        row
        for row, (digest, value) in enumerate(zip(records.stored, records.values, strict=True))
        if value is not None and digest in own.stored_set
    }
    values = {
        row
        for row, value in enumerate(records.values)
        if value is not None and value in own.values_set
    }
    looks = set(np.flatnonzero(same_looks(records.looks, own.looks)).tolist())
    looks |= _cropped(records.looks, crops)
    counts = len(stored), len(values - stored), len(looks - values - stored)
    return counts, sorted(stored | values | looks)


def _words(one: PublicInput, dataset: str, counts: tuple[int, int, int]) -> str:
    kinds = "by stored bytes", "by decoded values", "by looks"
    parts = [f"{count:,} {kind}" for count, kind in zip(counts, kinds, strict=True) if count]
    return (
        f"{one.source.name} ({one.role}): {sum(counts):,} of its {len(one.source):,} records are "
        f"those of {dataset}, {', '.join(parts)}"
    )
