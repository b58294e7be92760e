"""What the ledger's rows say, read in order: datasets, budgets, charges, returns, releases.

All state is derived from the chained rows, so nothing that is not sealed is ever believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from understudy.core.errors import LedgerError
from understudy.privacy.accounting import Event, epsilon_of, event_from_json, event_to_json
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.chain import GENESIS, Head, Link, canonical
from understudy.privacy.ledger.fingerprint import SAME, Fingerprint, RecordDigests, Sketch
from understudy.privacy.ledger.records import (
    Charge,
    Dataset,
    Disclosure,
    LedgerRow,
    LedgerSpending,
    SharedRecords,
)

LedgerEntry = Mapping[str, Any]
T = TypeVar("T")
ReleaseKey = tuple[str, str, int]
"""A release: (run, stage, attempt)."""

SAME_POOL = 0.1
"""Candidates that share so much of the smaller set are of one pool: it takes few to compare."""


@dataclass
class Page:
    """Everything known of one dataset.

    Attributes:
        id: 16 hexadecimal digits, drawn at random.
        names: The names it was met under, the first one first.
        sketches: Its fingerprint as first met, then of every variant recognised since.
        unit: Fixed by the first charge, as is `adjacency`.
        adjacency: ``"add-remove"`` or ``"replace-one"``.
        budget: The newest one set.
        charged: What each release was charged, in order, without what was returned.
        runs: The runs that were charged, in order, as keys.
        disclosures: What no epsilon covers, in order, by run.
        ends: Disclosures that a server deleted or their owner withdrew, as (kind, run).
    """

    id: str
    names: list[str] = field(default_factory=list)
    sketches: list[Fingerprint] = field(default_factory=list, repr=False)
    unit: str | None = None
    adjacency: str | None = None
    budget: Budget | None = None
    charged: dict[ReleaseKey, Event] = field(default_factory=dict)
    runs: dict[str, None] = field(default_factory=dict)
    disclosures: dict[str, Disclosure] = field(default_factory=dict)
    ends: set[tuple[str, str]] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The name it was registered under."""
        return self.names[0]

    @property
    def events(self) -> list[Event]:
        """Everything charged, in order."""
        return list(self.charged.values())

    def knows_values_of(self, fingerprint: Fingerprint) -> bool:
        """Whether the decoded values of a dataset are known: earlier versions stored none."""
        values = fingerprint.values
        return values is None or any(
            sketch.values is not None and sketch.values.is_of(values) for sketch in self.sketches
        )

    def without(self, returned: Collection[ReleaseKey]) -> Page:
        """The page as it is once these charges are returned."""
        return replace(self, charged=_without(self.charged, returned))

    def dataset(self) -> Dataset:
        """The page as the owner sees it."""
        return Dataset(self.id, self.name, self.unit, self.adjacency, self.budget)

    def spending(self, delta: float) -> LedgerSpending:
        """Everything charged, composed at ``delta``."""
        epsilon = epsilon_of(self.events, delta)
        disclosures = tuple(self.disclosures.values())
        return LedgerSpending(epsilon, delta, len(self.events), tuple(self.runs), disclosures)


class Book:
    """The ledger as of its row ``head.count``.

    Attributes:
        head: Where the rows read so far end.
        pages: Datasets by id, in the order they were registered.
        charges: What was charged for a release: the id of the dataset that was run on, and the
            charge's text.
        releases: Digests of what was released for a charge, by the number of the step; 0: at once.
    """

    def __init__(self) -> None:
        self.head = Head(0, GENESIS, "")
        self.pages: dict[str, Page] = {}
        self.charges: dict[ReleaseKey, tuple[str, str]] = {}
        self.releases: dict[ReleaseKey, dict[int, str]] = {}

    def read(self, links: Sequence[Link]) -> None:
        """Take in the next rows, which the chain has vouched for.

        Raises:
            LedgerError: A row this version does not understand; then none is taken in.
        """
        for entry in [parse(link) for link in links]:
            _READERS[entry["kind"]](self, entry)
        if links:
            self.head = Head(links[-1].seq, links[-1].hash, "")

    def same_as(self, sketch: Fingerprint) -> tuple[Page, bool] | None:
        """The dataset with this fingerprint, and whether row for row; None for a new one.

        Equal rows first; else the most similar dataset, if it is similar enough and answers for
        all that this one would answer for. A union of two known datasets is neither of them: taken
        for the first, it would tie the two together for good.
        """
        for page in self.pages.values():
            if any(variant.is_of(sketch) for variant in page.sketches):
                return page, True
        overlapping = {page.id for page in self.overlapping([sketch])}
        by_similarity = [
            (max(k.similarity(sketch) for k in p.sketches), p) for p in self.pages.values()
        ]
        by_similarity.sort(key=lambda pair: -pair[0])  # stable: of equals the first registered
        for similarity, page in by_similarity:
            if similarity >= SAME and overlapping <= {
                answerable.id for answerable in self.answerable(page)
            }:
                return page, False
        return None

    def find(self, name_or_id: str) -> Page:
        """See `Ledger.find`."""
        pages = list(self.pages.values())
        matches = [a for a in pages if name_or_id in a.names]
        matches = matches or [a for a in pages if name_or_id and a.id.startswith(name_or_id)]
        if len(matches) == 1:
            return matches[0]
        names = ", ".join(f"{a.id} ({a.name})" for a in matches or pages) or "none yet"
        problem = "more than one dataset" if matches else "no dataset"
        raise LedgerError(
            f"the ledger knows {problem} called {name_or_id!r}; use the id of one of: {names}"
        )

    def fingerprint(self, stored: Sketch) -> Fingerprint | None:
        """That of the rows with these stored bytes, decoded values included; None: not known."""
        fingerprints = (one for page in self.pages.values() for one in page.sketches)
        return next((one for one in fingerprints if one.values and one.stored == stored), None)

    def shared_records(
        self, records: RecordDigests, besides: RecordDigests | None
    ) -> list[SharedRecords]:
        """See `Ledger.shared_records`."""
        at_hand = None if besides is None else Sketch.of(besides.stored)
        overlaps = []
        for page in self.pages.values():
            sets = [one.shared(records) for one in page.sketches if one.stored != at_hand]
            if not sets:
                continue
            stored, values, looks = (set[int]().union(*parts) for parts in zip(*sets, strict=True))
            if stored or values or looks:
                counts = len(stored), len(values - stored), len(looks - values - stored)
                overlaps.append(SharedRecords(page.dataset(), *counts))
        return overlaps

    def disclosed(self, page: Page, disclosure: Disclosure) -> list[LedgerEntry]:
        """The rows that record a disclosure, or new details of it; none where all is recorded."""
        former = page.disclosures.get(disclosure.run)
        if former is not None:
            if disclosure.details.items() <= former.details.items():
                return []
            more = {"run": disclosure.run, "details": dict(disclosure.details)}
            pages = [one for one in self.pages.values() if disclosure.run in one.disclosures]
            return [{"kind": "measured", "dataset": one.id, **more} for one in pages]
        entry: dict[str, Any] = {"run": disclosure.run, "what": disclosure.what}
        if disclosure.details:
            entry["details"] = dict(disclosure.details)
        if disclosure.pool is not None:
            entry["sketch"] = disclosure.pool.to_json()
        entries = [{"kind": "disclosure", "dataset": page.id, **entry}]
        elsewhere = {"kind": "shared disclosure", "run_on": page.id, **entry}
        return entries + [{**elsewhere, "dataset": one.id} for one in self.answerable(page)[1:]]

    def selections_of(self, pool: Sketch) -> list[tuple[Page, Disclosure]]:
        """The selections that were disclosed of candidates with this fingerprint, or nearly it."""
        return [
            (page, one)
            for page in self.pages.values()
            for one in page.disclosures.values()
            if one.pool is not None and one.pool.overlap(pool) >= SAME_POOL
        ]

    def unreleased(self, run: str) -> list[ReleaseKey]:
        """What a run was charged and has released nothing for."""
        return [key for key in self.charges if key[0] == run and key not in self.releases]

    def returns(self, keys: Sequence[ReleaseKey]) -> list[LedgerEntry]:
        """The rows that return these charges, on every page that has them."""
        entries: list[LedgerEntry] = []
        for key in keys:
            release = dict(zip(("run", "stage", "attempt"), key, strict=True))
            for page in self.pages.values():
                if key in page.charged:
                    is_first = self.charges[key][0] == page.id
                    kind = "return" if is_first else "shared return"
                    entries.append({"kind": kind, "dataset": page.id, **release})
        return entries

    def overlapping(self, sketches: Sequence[Fingerprint]) -> list[Page]:
        """The datasets with which any of these shares half of the smaller one, or more."""
        return [
            page
            for page in self.pages.values()
            if any(own.overlap(sketch) >= SAME for own in page.sketches for sketch in sketches)
        ]

    def answerable(self, page: Page) -> list[Page]:
        """Every dataset whose budget a run on ``page`` draws on: it first, then what overlaps."""
        return [page, *(other for other in self.overlapping(page.sketches) if other is not page)]

    def _register(self, entry: LedgerEntry) -> None:
        page = self.pages.setdefault(entry["dataset"], Page(entry["dataset"]))
        page.names.append(entry["name"])
        page.sketches.append(Fingerprint.from_json(entry["sketch"]))

    def _budget(self, entry: LedgerEntry) -> None:
        budget = Budget.recorded(entry["epsilon"], entry["delta"])
        self.pages[entry["dataset"]].budget = budget

    def _charge(self, entry: LedgerEntry) -> None:
        self._spend(entry)
        text = charge_text(entry["event"], entry["details"])
        self.charges[_release_key(entry)] = (entry["dataset"], text)

    def _spend(self, entry: LedgerEntry) -> None:
        page = self.pages[entry["dataset"]]
        page.unit, page.adjacency = entry["unit"], entry["adjacency"]
        page.charged[_release_key(entry)] = event_from_json(entry["event"])
        page.runs[entry["run"]] = None

    def _return(self, entry: LedgerEntry) -> None:
        self._give_back(entry)
        self.charges = _without(self.charges, [_release_key(entry)])

    def _give_back(self, entry: LedgerEntry) -> None:
        page = self.pages[entry["dataset"]]
        page.charged = _without(page.charged, [_release_key(entry)])

    def _disclose(self, entry: LedgerEntry) -> None:
        pool = None if "sketch" not in entry else Sketch.from_json(entry["sketch"])
        disclosure = Disclosure(entry["run"], entry["what"], entry.get("details", {}), pool)
        self.pages[entry["dataset"]].disclosures[disclosure.run] = disclosure

    def _measure(self, entry: LedgerEntry) -> None:
        disclosures = self.pages[entry["dataset"]].disclosures
        former = disclosures[entry["run"]]
        disclosures[entry["run"]] = replace(former, details={**former.details, **entry["details"]})

    def _end(self, entry: LedgerEntry) -> None:
        self.pages[entry["dataset"]].ends.add((entry["kind"], entry["run"]))

    def _release(self, entry: LedgerEntry) -> None:
        digests = self.releases.setdefault(_release_key(entry), {})
        digests[entry.get("step", 0)] = entry["digest"]

    def digest(self, key: ReleaseKey, step: int) -> str | None:
        """The digest of what was released for a charge; None: nothing, or not in that step."""
        return self.releases.get(key, {}).get(step)


_READERS: dict[str, Callable[[Book, LedgerEntry], None]] = {
    "dataset": Book._register,
    "variant": Book._register,  # a changed copy that was recognised
    "budget": Book._budget,
    "charge": Book._charge,
    "shared charge": Book._spend,  # of a run on another dataset, which overlaps with this one
    "return": Book._return,  # of a charge for which nothing was released
    "shared return": Book._give_back,
    "release": Book._release,
    "disclosure": Book._disclose,
    "shared disclosure": Book._disclose,
    "measured": Book._measure,  # what was measured of a disclosure since
    "deletion request": Book._end,  # a server is about to be asked to delete it
    "deletion": Book._end,  # a server has signed that it deleted what was disclosed
    "withdrawal": Book._end,  # its owner withdrew consent before all of it had left
}


def parse(link: Link) -> dict[str, Any]:
    """What a row says."""
    entry: dict[str, Any] = json.loads(link.entry)
    if entry["kind"] not in _READERS:
        raise LedgerError(
            f"row {link.seq} of the ledger is of unknown kind {entry['kind']!r}; it was written by "
            "a newer version of Understudy, so what was spent cannot be known: upgrade first"
        )
    if entry["kind"] in ("charge", "shared charge"):
        event_from_json(entry["event"])
    return entry


def _without(entries: Mapping[ReleaseKey, T], keys: Collection[ReleaseKey]) -> dict[ReleaseKey, T]:
    """All but some of the releases."""
    return {key: value for key, value in entries.items() if key not in keys}


def _release_key(entry: LedgerEntry) -> ReleaseKey:
    """The release that a row is about."""
    return entry["run"], entry["stage"], entry["attempt"]


def charge_entry(charge: Charge) -> dict[str, Any]:
    """The part of a row that says what a charge is."""
    return {
        "run": charge.run,
        "stage": charge.stage,
        "attempt": charge.attempt,
        "event": event_to_json(charge.event),
        "details": dict(charge.details),
    }


def charge_entries(
    charges: Sequence[Charge], pages: Sequence[Page], unit: str, adjacency: str
) -> list[LedgerEntry]:
    """The rows of charges of a run on the first of these datasets, which concerns all of them."""
    protects = {"unit": unit, "adjacency": adjacency}
    contents = [{**protects, **charge_entry(charge)} for charge in charges]
    entries: list[LedgerEntry] = []
    for number, page in enumerate(pages):
        kind = {"kind": "shared charge", "run_on": pages[0].id} if number else {"kind": "charge"}
        entries += [{**kind, "dataset": page.id, **entry} for entry in contents]
    return entries


def charge_text(event: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """What two charges for one release must agree in.

    Raises:
        LedgerError: An event that cannot be accounted for; it must never reach a row.
    """
    return canonical({"event": event_to_json(event_from_json(event)), "details": details})


def row_of(link: Link) -> LedgerRow:
    """A row to be shown. The fingerprint stays inside: it would tell copies apart elsewhere."""
    entry = _object(link.entry)
    entry.pop("sketch", None)
    time, kind, dataset = (str(entry.pop(name, "?")) for name in ("time", "kind", "dataset"))
    by = str(entry.pop("by", ""))
    return LedgerRow(link.seq, time, kind, dataset, entry, link.hash, by)


def row_label(link: Link) -> str:
    """A row's name in messages, whatever its text has become."""
    entry = _object(link.entry)
    fields = [f"{k} {entry[k]}" for k in ("run", "stage", "attempt", "dataset") if k in entry]
    return f"row {link.seq} ({', '.join([str(entry.get('kind', 'unreadable')), *fields])})"


def _object(text: str) -> dict[str, Any]:
    """The content of a row's text; empty where it was damaged."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
