"""What goes into the ledger and what comes out of it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.core.errors import LedgerError
from understudy.privacy.accounting import Event
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.fingerprint import Sketch


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset the ledger knows.

    Attributes:
        id: 16 hexadecimal digits.
        name: The name it was registered under.
        unit: What one person contributes, fixed by the first charge; None before it.
        adjacency: ``"add-remove"`` or ``"replace-one"``, fixed likewise.
        budget: The total its owner allows; None where none is set, and then nothing is refused.
    """

    id: str
    name: str
    unit: str | None
    adjacency: str | None
    budget: Budget | None


@dataclass(frozen=True, slots=True)
class Charge:
    """What one release is to be charged.

    Attributes:
        run: Id of the run.
        stage: Name of the stage in its plan, such as ``"moments"``.
        event: What it costs.
        details: What it was, for display (query, share, sensitivity, sigma, size): JSON values.
        attempt: 1, and 1 more for each time the stage is paid again because its noise was drawn
            and then lost.
    """

    run: str
    stage: str
    event: Event
    details: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1

    def __post_init__(self) -> None:
        if not self.run or not self.stage or self.attempt < 1:
            raise LedgerError(
                "a charge needs a run, a stage and an attempt from 1, found "
                f"{self.run!r}, {self.stage!r}, {self.attempt!r}"
            )


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What left without noise: no epsilon covers it.

    A release that a dataset steered, or the messages of a device.

    Attributes:
        run: Id of the run, or digest of what a device submits.
        what: What was disclosed, in words.
        details: The same item by item: JSON values.
        pool: Of a selection, the fingerprint of its candidates, by which another selection of them
            is recognised; it is never shown.
    """

    run: str
    what: str
    details: Mapping[str, Any] = field(default_factory=dict)
    pool: Sketch | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.run or not self.what:
            raise LedgerError(
                f"a disclosure needs a run and words, found {self.run!r} and {self.what!r}"
            )


@dataclass(frozen=True, slots=True)
class LedgerSpending:
    """What was spent on a dataset so far.

    Attributes:
        epsilon: Of all charges together, at ``delta``; 0.0 for none.
        delta: Delta of the same.
        events: Number of charges.
        runs: The runs that were charged, in order.
        disclosures: What was disclosed besides, in order, which ``epsilon`` does not cover.
    """

    epsilon: float
    delta: float
    events: int
    runs: tuple[str, ...]
    disclosures: tuple[Disclosure, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedRecords:
    """How many records of a public input are of a dataset that the ledger knows. Owner-only.

    Attributes:
        dataset: The dataset.
        stored: By their stored bytes.
        values: Others, by their decoded values.
        looks: Others, by their looks: encoded anew, resized or mirrored.
    """

    dataset: Dataset
    stored: int
    values: int
    looks: int


@dataclass(frozen=True, slots=True)
class Preview:
    """What a charge would do.

    Attributes:
        budget: The epsilon the owner allows in total; None where no budget is set.
        spent: Epsilon spent so far, at ``delta``.
        after: Epsilon in total if it were charged.
        delta: The budget's, else the one asked for.
        refused: Why it would be refused; None where it would not be.
        concerned: Names of the other datasets that would be charged the same.
    """

    budget: float | None
    spent: float
    after: float
    delta: float
    refused: str | None
    concerned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One row of the ledger, for display and export. Holds no key and no fingerprint.

    Attributes:
        seq: Its position in the chain, from 1.
        time: When it was written: UTC, ISO 8601.
        kind: One of those that `understudy.privacy.ledger.book` reads.
        dataset: Id of the dataset.
        data: What it says: JSON values.
        hash: Its seal. Written down elsewhere, it shows later that the chain still holds this row.
        by: The user account that wrote it, as that user's system said; empty in older rows.
    """

    seq: int
    time: str
    kind: str
    dataset: str
    data: Mapping[str, Any]
    hash: str
    by: str = ""
