"""What was spent on which dataset, by which run: checked, recorded, refused.

A dataset has one total budget, set by its owner, and every run on it draws on that, by whatever
method, from whatever copy of the files. Check and charge is one transaction behind one lock, so of
two processes that race for the last of a budget one wins and the other is refused. Rows are only
ever added, each sealed to the one before it (`_chain`).

Datasets that share records answer for one another: a run on one is charged to every known dataset
that shares half or more of its records, or of the other's, in the same transaction.

What it does not do: it recognises images that were encoded anew with loss as public inputs of a run
alone (`Ledger.shared_records`); it does not charge a dataset for a run on another that shares less
than half of the smaller of the two; and the holder of the database holds its key.
"""

from __future__ import annotations

import getpass
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, Self

from understudy.core.errors import BudgetRefused, LedgerError, PrivateValueError, SecondRelease
from understudy.privacy.accounting import Event, epsilon_of
from understudy.privacy.budget import Budget
from understudy.privacy.ledger import chain
from understudy.privacy.ledger.book import (
    Book,
    LedgerEntry,
    Page,
    charge_entries,
    parse,
    row_label,
    row_of,
)
from understudy.privacy.ledger.chain import Head, Link
from understudy.privacy.ledger.database import Connection, Database
from understudy.privacy.ledger.fingerprint import Fingerprint, RecordDigests, Sketch
from understudy.privacy.ledger.records import (
    Charge,
    Dataset,
    Disclosure,
    LedgerRow,
    LedgerSpending,
    Preview,
    SharedRecords,
)
from understudy.privacy.ledger.rules import (
    allowed,
    check_all,
    largest_run,
    share_of_budget,
)

if TYPE_CHECKING:  # importing it takes NumPy, which `ledger list` does without
    from understudy.core.ports import Source

__all__ = [
    "Charge",
    "Dataset",
    "Disclosure",
    "Ledger",
    "LedgerRow",
    "LedgerSpending",
    "Preview",
    "SharedRecords",
]

_DEFAULT_DELTA = 1e-5


class Ledger:
    """The record of what was spent. May be shared by threads, and its database by processes.

    Args:
        url: Path of an SQLite file, or ``postgresql://USER:PASSWORD@HOST/NAME``; None for
            ``~/.local/share/understudy/ledger.db`` (``XDG_DATA_HOME`` is honoured). Folder, file
            and tables are made on first use, for the owner only.
        on_wait: Given a sentence that says who holds the ledger, once for each time that it is
            waited for longer than a moment; None: the sentence goes to standard error.
        make: Whether it is made where there is none; else it is an empty one, to be read alone.

    Attributes:
        address: Where it is, without user or password.
        exists: Whether it was there, or was made.
        key: 32 secret bytes, drawn when the ledger was made and kept in it: seals its rows and
            keys the digests by which datasets are recognised. Never to be printed or released.

    Raises:
        LedgerError: It cannot be reached, is no ledger, or was made by a newer version. Every
            method raises it too where the rows do not add up; then only `rows` and `verify` answer.
        MissingExtra: PostgreSQL without its driver installed.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        on_wait: Callable[[str], None] | None = None,
        *,
        make: bool = True,
    ) -> None:
        self._database = Database(url, on_wait, make)
        self._book = Book()
        self._lock = threading.RLock()
        self.address, self.exists = self._database.address, self._database.exists
        self.key = self._database.key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.address!r})"

    def __reduce__(self) -> NoReturn:
        raise PrivateValueError("a ledger holds a key: open it again by its address, do not pickle")

    def close(self) -> None:
        """Let go of the ledger, which holds nothing open between two transactions."""

    def look_up(self, source: Source) -> tuple[Dataset | None, tuple[Dataset, ...]]:
        """The dataset that a source is, under whatever name, and others that its runs concern.

        Goes by the stored bytes of the records or by their decoded values, not by names, order or
        labels: equal records first, else the known dataset that shares the most, if (by estimate)
        at least half of the records of either are in both; None for one that was never registered.
        A union of two known datasets is a dataset of its own (see `concerned`).
        """
        fingerprint = self._fingerprint(source)
        with self._reading() as book:
            match = book.same_as(fingerprint)
            if match is None:
                return None, tuple(page.dataset() for page in book.overlapping([fingerprint]))
            own, *overlapping = (page.dataset() for page in book.answerable(match[0]))
            return own, tuple(overlapping)

    def concerned(self, dataset_id: str) -> list[Dataset]:
        """The other datasets that a run on this one is charged to, any of which may refuse it.

        Those of which (by estimate) half or more of the records of the smaller one are in the
        larger one. What was charged to them before this one was registered stays theirs alone.
        """
        with self._reading() as book:
            page = _page(book, dataset_id)
            return [other.dataset() for other in book.answerable(page)[1:]]

    def register(self, source: Source) -> Dataset:
        """The dataset that a source is, as `look_up` finds it, else as a new one.

        A changed copy is noted, and recognised from then on as the same: a dataset that grows month
        by month stays one dataset, though nothing is left of the first month.
        """
        fingerprint = self._fingerprint(source)
        with self._writing() as (connection, book):
            match = book.same_as(fingerprint)
            if match is not None and match[1] and match[0].knows_values_of(fingerprint):
                return match[0].dataset()
            if match is None:
                page, kind = Page(secrets.token_hex(8), [source.name]), "dataset"
            else:
                page, kind = match[0], "variant"
            entry = {"kind": kind, "dataset": page.id, "name": source.name}
            self._append(connection, [{**entry, "sketch": fingerprint.to_json()}])
            return page.dataset()

    def shared_records(
        self, records: RecordDigests, besides: RecordDigests | None = None
    ) -> list[SharedRecords]:
        """Of which datasets records are, and how many; large datasets are known by a sample.

        Args:
            records: Those of what is to be public.
            besides: A dataset at hand, whose records are compared with these themselves: what is
                stored of it finds less, and takes more that is only alike for the same.
        """
        with self._reading() as book:
            return book.shared_records(records, besides)

    def find(self, name_or_id: str) -> Dataset:
        """A dataset by one of the names it was met under, or by the beginning of its id.

        Raises:
            LedgerError: No dataset, or more than one.
        """
        with self._reading() as book:
            return book.find(name_or_id).dataset()

    def datasets(self) -> list[Dataset]:
        """Every dataset, in the order they were registered."""
        with self._reading() as book:
            return [page.dataset() for page in book.pages.values()]

    def set_budget(self, dataset_id: str, budget: Budget) -> LedgerSpending:
        """Set the total a dataset may spend, from now on; returns what is spent at its delta.

        Where that is more than the new budget, every later charge will be refused.
        """
        with self._writing() as (connection, book):
            page = _page(book, dataset_id)
            entry = {"kind": "budget", "dataset": page.id}
            self._append(connection, [{**entry, "epsilon": budget.epsilon, "delta": budget.delta}])
            return page.spending(budget.delta)

    def charge(
        self,
        dataset_id: str,
        charges: Sequence[Charge],
        *,
        unit: str,
        adjacency: str,
        returning: str | None = None,
    ) -> bool:
        """Charge all of them or none, before any noise is drawn; on disk when this returns.

        A charge already recorded, the same in all it says, is not charged again: a resumed run may
        repeat it. Everything else composes exactly with all that was ever charged to the dataset
        and to each that overlaps with it (`concerned`): all are charged, within budget, or none.

        Args:
            dataset_id: The dataset.
            charges: One a release.
            unit: What one person contributes.
            adjacency: ``"add-remove"`` or ``"replace-one"``. Unit and adjacency are fixed by a
                dataset's first charge, because guarantees of two kinds do not compose.
            returning: A run that is over: what it was charged and has released nothing for is
                returned in the same transaction, and nothing can be released for it any more.

        Returns:
            Whether any of them was not recorded before.

        Raises:
            BudgetRefused: A budget, which it names, does not cover them; nothing was recorded.
            LedgerError: No such dataset, another unit or adjacency, two charges for one release, or
                another one than is recorded for it.
        """
        with self._writing() as (connection, book):
            page = _page(book, dataset_id)
            returns = [] if returning is None else book.unreleased(returning)
            new, pages = allowed(book, page, charges, unit, adjacency, returns)
            entries = [*book.returns(returns), *charge_entries(new, pages, unit, adjacency)]
            if entries:
                self._append(connection, entries)
            return bool(new)

    def disclose(self, dataset_id: str, disclosure: Disclosure) -> None:
        """Record that something of a dataset leaves without noise; on disk when this returns.

        It stands in the rows of the dataset and of each one that overlaps with it: no epsilon
        covers it, so no budget can refuse it. A run counts once; new details of it are added.
        """
        with self._writing() as (connection, book):
            if entries := book.disclosed(_page(book, dataset_id), disclosure):
                self._append(connection, entries)

    def selections_of(self, pool: Sketch) -> list[tuple[Dataset, Disclosure]]:
        """The earlier selections of these candidates, or of many of them, without noise."""
        with self._reading() as book:
            return [(page.dataset(), one) for page, one in book.selections_of(pool)]

    def record_end(
        self,
        kind: Literal["deletion request", "deletion", "withdrawal"],
        dataset_id: str,
        run: str,
        **data: str,
    ) -> None:
        """Note what became of a disclosure, which stands: it was known to a server for a time.

        A server is about to be asked to delete it, or has, with its ``receipt``; or consent was
        withdrawn before all of it had left. The same again changes nothing.

        Raises:
            LedgerError: No such dataset, or nothing was disclosed by that run.
        """
        with self._writing() as (connection, book):
            page = _page(book, dataset_id)
            if run not in page.disclosures:
                raise LedgerError(
                    f"nothing of {page.name} was disclosed by run {run}, so no {kind} is recorded"
                )
            if (kind, run) not in page.ends:
                entry = {"kind": kind, "dataset": page.id, "run": run, **data}
                self._append(connection, [entry])

    def check(
        self, dataset_id: str, charges: Sequence[Charge], *, unit: str, adjacency: str
    ) -> None:
        """Raise what `charge` would raise now; charge nothing and write nothing."""
        with self._reading() as book:
            allowed(book, _page(book, dataset_id), charges, unit, adjacency)

    def preview(
        self,
        dataset_id: str | None,
        events: Sequence[Event],
        *,
        unit: str,
        adjacency: str,
        delta: float = _DEFAULT_DELTA,
        concerned: Sequence[str] = (),
    ) -> Preview:
        """What charging ``events`` would do. Charges nothing and writes nothing.

        A dataset that is not registered yet has no id, and `look_up` says which other datasets it
        concerns. Epsilon is read off at ``delta`` while the dataset has no budget.
        """
        with self._reading() as book:
            if dataset_id is None:
                page = Page("", ["this dataset"])
                pages = [page, *(_page(book, other) for other in concerned)]
            else:
                page = _page(book, dataset_id)
                pages = book.answerable(page)
            if page.budget is not None:
                delta = page.budget.delta
            refusal = None
            try:
                check_all(pages, events, unit, adjacency)
            except (LedgerError, BudgetRefused) as error:
                refusal = str(error)
            return Preview(
                budget=None if page.budget is None else page.budget.epsilon,
                spent=epsilon_of(page.events, delta),
                after=epsilon_of([*page.events, *events], delta),
                delta=delta,
                refused=refusal,
                concerned=tuple(other.name for other in pages[1:]),
            )

    def record_release(
        self, dataset_id: str, run: str, stage: str, attempt: int, digest: str, step: int = 0
    ) -> None:
        """Note what was released for a charge; once more with the same digest changes nothing.

        Of a charge that pays for many steps, each is noted by its number, from 1.

        Raises:
            LedgerError: Nothing was charged for it, or something else was released for it: one
                charge pays for one release.
        """
        key = (run, stage, attempt)
        with self._writing() as (connection, book):
            page = _page(book, dataset_id)
            if book.charges.get(key, ("", ""))[0] != page.id:
                raise LedgerError(
                    f"nothing was charged to {page.name} for run {run}, stage {stage}, attempt "
                    f"{attempt}, in {self.address}, so nothing may be released for it: name the "
                    "ledger that was charged (--ledger)"
                )
            recorded = book.digest(key, step)
            if recorded is None:
                entry = {"kind": "release", "dataset": page.id, "digest": digest}
                number = {"step": step} if step else {}
                self._append(
                    connection,
                    [{**entry, "run": run, "stage": stage, "attempt": attempt, **number}],
                )
            elif recorded != digest:
                raise SecondRelease(
                    f"run {run}, stage {stage}, attempt {attempt} has released another value "
                    "already, and one charge pays for one release"
                )

    def released(self, run: str, stage: str, attempt: int, step: int = 0) -> str | None:
        """Digest of what was released, in a step if one is named; None where nothing was."""
        with self._reading() as book:
            return book.digest((run, stage, attempt), step)

    def charged(self, run: str) -> Dataset | None:
        """The dataset that a run was charged for; None where nothing was."""
        with self._reading() as book:
            ids = (id for (one, *_), (id, _) in book.charges.items() if one == run)
            id = next(ids, None)
            return None if id is None else _page(book, id).dataset()

    def attempts(self, run: str, stage: str) -> int:
        """How many times a stage was charged; 0 for never."""
        with self._reading() as book:
            return sum(key[:2] == (run, stage) for key in book.charges)

    def spent(self, dataset_id: str, delta: float | None = None) -> LedgerSpending:
        """What was spent on a dataset by all runs together, at the budget's delta or another one.

        Without a budget, at 1e-5.
        """
        with self._reading() as book:
            page = _page(book, dataset_id)
            if delta is None:
                delta = page.budget.delta if page.budget else _DEFAULT_DELTA
            return page.spending(delta)

    def next_run(
        self, dataset_id: str, delta: float | None = None, *, share: float | None = None
    ) -> float | None:
        """Epsilon of the next run on a dataset, where its budget is to say it.

        With a ``share``, that of the budget's squared mu, whatever is left of it; else of the
        largest run that no budget would refuse, this dataset's or that of one that overlaps with
        it. Rounded down; 0.0 where a budget is used up; None where this dataset has no budget.
        """
        with self._reading() as book:
            page = _page(book, dataset_id)
            if page.budget is None:
                return None
            delta = page.budget.delta if delta is None else delta
            if share is not None:
                return share_of_budget(page.budget, share, delta)
            return largest_run(book.answerable(page), delta)

    def rows(self, dataset_id: str | None = None) -> Iterator[LedgerRow]:
        """Every row in order, or those of one dataset; also of a ledger that does not add up."""
        rows = map(row_of, self._database.read(0)[1])
        return (row for row in rows if dataset_id is None or row.dataset == dataset_id)

    def verify(self) -> list[str]:
        """What is wrong with the rows and their chain, a sentence each; empty where nothing is."""
        head, links = self._database.read(0)
        problems = chain.chain_problems(self.key, links, head, row_label)
        for link in links:
            if chain.is_intact(self.key, link):
                try:
                    parse(link)
                except LedgerError as error:
                    problems.append(f"{row_label(link)}: {error}")
        return problems

    def _fingerprint(self, source: Source) -> Fingerprint:
        """Of a source, whose values are decoded where its bytes are not known."""
        stored = Sketch.of_source(source, self.key)
        with self._reading() as book:
            former = book.fingerprint(stored)
        return former or Fingerprint.of(source, self.key, stored)

    @contextmanager
    def _reading(self) -> Iterator[Book]:
        with self._lock:
            self._catch_up(*self._database.read(self._book.head.count))
            yield self._book

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, Book]]:
        with self._lock, self._database.write() as connection:
            self._catch_up(*self._database.since(connection, self._book.head.count))
            yield connection, self._book

    def _catch_up(self, head: Head | None, links: Sequence[Link]) -> None:
        """Check and read the rows that were added since the last time, by any process.

        What was read before is kept in memory, so a row changed since cannot lower what was spent.
        """
        chain.check_continuation(self.key, self._book.head, links, head)
        self._book.read(links)

    def _append(self, connection: Connection, entries: Sequence[LedgerEntry]) -> None:
        """Add rows. They enter the book once they are committed, on the next transaction."""
        stamp = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "by": _user()}
        head, links = self._book.head, []
        for entry in entries:
            link = chain.link_after(self.key, head, chain.canonical({**stamp, **entry}))
            links.append(link)
            head = Head(link.seq, link.hash, "")
        self._database.append(connection, links)


def _user() -> str:
    """The account that this process runs under, as the system calls it."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return f"user {os.getuid()}" if hasattr(os, "getuid") else ""


def _page(book: Book, dataset_id: str) -> Page:
    try:
        return book.pages[dataset_id]
    except KeyError:
        raise LedgerError(
            f"the ledger knows no dataset of id {dataset_id!r}: see `understudy ledger list`"
        ) from None
