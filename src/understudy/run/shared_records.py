"""What is to be public, compared with the private records and every dataset of the ledger.

By stored bytes, by decoded values, and by looks, which re-encoding, resizing and mirroring leave
alone (`understudy.core.image_identity`). One shared record is a refusal, before anything is
charged or written; its message holds counts of private records and is for the owner alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.image_identity import same_looks
from understudy.core.ports import Source
from understudy.privacy.ledger.fingerprint import RecordDigests
from understudy.privacy.ledger.ledger import Ledger

_LISTED = 3
_NEARLY_ALL = 0.9  # of the candidates: then they are the private dataset, and no pool


@dataclass(frozen=True)
class PublicInput:
    """A dataset that enters a run and is not the private one.

    Attributes:
        role: What it is to the run.
        source: The dataset.
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

    Raises:
        ConfigError: Naming the roles and the counts.
    """
    if not inputs:
        return
    own = None if private is None else RecordDigests.of(private, ledger.key)
    faults = []
    for one in inputs:
        records = RecordDigests.of(one.source, ledger.key)
        if private is not None and own is not None:
            counts, rows = _shared(records, own)
            if sum(counts) > (_NEARLY_ALL * len(one.source) if one.measured else 0):
                faults.append(_words(one, private.name, counts) + _examples(one, rows))
                continue
        if not one.recorded:
            for shared in ledger.shared_records(records):
                dataset = f"{shared.dataset.name} (id {shared.dataset.id} in the ledger)"
                faults.append(_words(one, dataset, (shared.stored, shared.values, shared.looks)))
    if faults:
        raise ConfigError(
            f"{'; '.join(faults)}. What is called public or synthetic here is private: it would "
            "leave as it is, outside of every guarantee. Nothing was charged and nothing was "
            "written. Take these records out, or name others (this message counts private "
            "records: it is for the owner alone)"
        )


def _shared(records: RecordDigests, own: RecordDigests) -> tuple[tuple[int, int, int], list[int]]:
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
    counts = len(stored), len(values - stored), len(looks - values - stored)
    return counts, sorted(stored | values | looks)


def _words(one: PublicInput, dataset: str, counts: tuple[int, int, int]) -> str:
    kinds = "by stored bytes", "by decoded values", "by looks"
    parts = [f"{count:,} {kind}" for count, kind in zip(counts, kinds, strict=True) if count]
    return (
        f"{one.source.name} ({one.role}): {sum(counts):,} of its {len(one.source):,} records are "
        f"those of {dataset}, {', '.join(parts)}"
    )


def _examples(one: PublicInput, rows: Sequence[int]) -> str:
    """The first of these rows, by their files where they are files."""
    locations = getattr(one.source, "locations", None)
    names = locations() if callable(locations) else None
    listed = [f"row {row}" if names is None else names[row] for row in rows[:_LISTED]]
    return f" (the first: {', '.join(listed)})"
