"""``understudy ledger``: read and set what datasets may spend."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from understudy.core.errors import ConfigError, LedgerError, SourceError
from understudy.privacy.budget import Budget, part_of_budget
from understudy.privacy.ledger.ledger import Dataset, Ledger, LedgerRow, LedgerSpending

if TYPE_CHECKING:  # importing it takes NumPy, which `ledger list` does without
    from understudy.core.ports import Source
    from understudy.privacy.accounting import Event
    from understudy.privacy.ledger.records import Preview
    from understudy.run.config import RunConfig


CHARGE_KINDS = ("charge", "shared charge")
"""Rows that charge a dataset: for a run on it, or on one that it shares records with."""


@dataclass(frozen=True)
class DatasetAccount:
    """A dataset and what was spent on it.

    Attributes:
        dataset: The dataset, with its budget.
        rows: Every row about it, where asked for.
        ledger: Where the ledger is.
        concerned: The other datasets that a run on it is charged to, where asked for.
        next_run: Epsilon of the largest run that the ledger would accept now; None without budget.
        former: The budget that a new one replaces.
    """

    dataset: Dataset
    spent: LedgerSpending
    rows: tuple[LedgerRow, ...]
    ledger: str
    concerned: tuple[Dataset, ...] = ()
    next_run: float | None = None
    former: Budget | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON values; without ``rows`` where they were not asked for."""
        budget, spent = self.dataset.budget, self.spent
        content: dict[str, Any] = {
            "id": self.dataset.id,
            "name": self.dataset.name,
            "unit": self.dataset.unit,
            "budget": None if budget is None else asdict(budget),
            "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
            "runs": list(spent.runs),
            "disclosures": len(spent.disclosures),
            "ledger": self.ledger,
        }
        if self.rows:
            content["concerned"] = [{"id": one.id, "name": one.name} for one in self.concerned]
            content["rows"] = [row_as_dict(row) for row in self.rows]
        return content


def require_ledger(ledger: str | None) -> None:
    """Refuse a ledger that is named and is not there; the owner's own is made by its first run."""
    if ledger is None:
        return
    with Ledger(ledger, make=False) as book:
        if not book.exists:
            raise LedgerError(f"there is no ledger at {book.address} (--ledger)")


def overview(
    ledger: str | None, on_wait: Callable[[str], None] | None = None
) -> list[DatasetAccount]:
    """Every dataset of a ledger; none where there is no ledger yet. ``on_wait``: see `Ledger`."""
    with Ledger(ledger, on_wait, make=False) as book:
        return [_account(book, one) for one in book.datasets()]


def _account(book: Ledger, dataset: Dataset) -> DatasetAccount:
    """A dataset without its rows."""
    spent, next_run = book.spent(dataset.id), book.next_run(dataset.id)
    return DatasetAccount(dataset, spent, (), book.address, next_run=next_run)


def charges_of_runs(account: DatasetAccount) -> dict[str, tuple[int, float]]:
    """How many stages each run was charged for, and their epsilon at the delta of what was spent.

    By the run's key. What was returned later counts, as its charge stands in the ledger.
    """
    from understudy.privacy.accounting import epsilon_of, event_from_json

    events: dict[str, list[Event]] = {}
    for row in account.rows:
        if row.kind in CHARGE_KINDS:
            events.setdefault(row.data["run"], []).append(event_from_json(row.data["event"]))
    delta = account.spent.delta
    return {run: (len(charged), epsilon_of(charged, delta)) for run, charged in events.items()}


def preview_run(
    ledger: str | None, dataset: str | None, budget: Budget, unit: str, adjacency: str
) -> Preview:
    """What a run of a budget would leave of a dataset's own. Reads no private record.

    Args:
        ledger: Where the ledger is.
        dataset: The dataset's name or id there; None: it is new to the ledger.
        budget: Of the run, as one Gaussian release.
        unit: The unit of protection, as the ledger has it.
        adjacency: What makes two datasets adjacent.

    Raises:
        LedgerError: The ledger does not know the dataset.
    """
    from understudy.privacy.accounting import Gaussian
    from understudy.privacy.budget_plan import run_mu_of

    with Ledger(ledger, make=False) as book:
        id = None if dataset is None else book.find(dataset).id
        event = Gaussian(run_mu_of(budget), 0.0)
        return book.preview(id, [event], unit=unit, adjacency=adjacency, delta=budget.delta)


def dataset_account(
    source: str,
    ledger: str | None,
    *,
    skip_bad: bool = False,
    on_wait: Callable[[str], None] | None = None,
) -> DatasetAccount:
    """One dataset, found by its files, or by its name or id in the ledger.

    ``on_wait``: see `Ledger`.

    Raises:
        LedgerError: The ledger does not know it.
        SourceError: Neither a dataset that can be read nor a name in the ledger.
    """
    with Ledger(ledger, on_wait, make=False) as book:
        dataset = _find(book, source, skip_bad)
        rows, concerned = tuple(book.rows(dataset.id)), tuple(book.concerned(dataset.id))
        return replace(_account(book, dataset), rows=rows, concerned=concerned)


def _is_place(source: str) -> bool:
    from understudy.data.open_source import has_prefix, paths_of

    return has_prefix(source) or bool(paths_of(source))


def _find(book: Ledger, source: str, skip_bad: bool) -> Dataset:
    if not _is_place(source):
        try:
            return book.find(source)
        except LedgerError as error:
            raise SourceError(f"no such file or folder, and {error}", source) from error
    dataset = book.look_up(_open(source, skip_bad))[0]
    if dataset is None:
        raise LedgerError(
            f"{book.address} does not know {source}: nothing was spent on it and no budget is set"
        )
    return dataset


def _open(source: str, skip_bad: bool) -> Source:
    """A dataset as the ledger sees it: its records have bytes; labels and sizes are no part of it.

    An observer, which sees every size, is what lets images of several sizes be opened.
    """
    from understudy.data import open_source
    from understudy.data.labels import NO_LABELS

    return open_source(
        source, skip_bad=skip_bad, label=NO_LABELS, observer=lambda record, header: None
    )


def set_dataset_budget(
    source: str,
    epsilon: float,
    delta: float,
    ledger: str | None,
    *,
    skip_bad: bool = False,
) -> DatasetAccount:
    """Set the total of a dataset, registering it if need be."""
    budget = Budget(epsilon, delta)
    with Ledger(ledger) as book:
        if _is_place(source):
            dataset = book.register(_open(source, skip_bad))
        else:
            dataset = _find(book, source, skip_bad)
        book.set_budget(dataset.id, budget)
        return replace(_account(book, book.find(dataset.id)), former=dataset.budget)


def with_epsilon(config: RunConfig, source: Source) -> RunConfig:
    """A run with its epsilon as a number, where it asks for a part of the dataset's budget.

    A run that is resumed keeps the number that it began with.

    Raises:
        ConfigError: The dataset has no budget, or nothing is left of it.
    """
    budget_part = config.privacy.epsilon
    if not isinstance(budget_part, str):
        return config
    from understudy.release.outputs import RunPaths, read_start

    start = RunPaths(config.output.out).start
    if config.output.resume and start.exists():
        return config.changed(epsilon=float(read_start(start)["settings"]["epsilon"]))
    share = part_of_budget(budget_part)
    with Ledger(config.privacy.ledger, make=False) as book:
        dataset = book.look_up(source)[0]
        epsilon = (
            None
            if dataset is None
            else book.next_run(dataset.id, config.privacy.delta, share=share)
        )
        address = book.address
    if epsilon is None:
        raise ConfigError(
            f"--epsilon {budget_part} is a part of the dataset's budget, and the ledger at "
            f"{address} knows none for {source.name}. Set one for good (understudy ledger "
            f"set-budget {shlex.quote(source.name)} --epsilon 3), or give a number (--epsilon 1)"
        )
    if epsilon == 0:
        raise ConfigError(
            f"--epsilon {budget_part}: the budget of {source.name} is used up. See `understudy "
            f"ledger show {shlex.quote(source.name)}`; its owner may raise the total"
        )
    return config.changed(epsilon=epsilon)


def verify_ledger(ledger: str | None) -> list[str]:
    """What is wrong with a ledger; empty where every row is as it was written."""
    with Ledger(ledger, make=False) as book:
        return book.verify()


def ledger_rows(ledger: str | None) -> Iterator[dict[str, Any]]:
    """Every row as JSON values."""
    with Ledger(ledger, make=False) as book:
        for row in book.rows():
            yield row_as_dict(row)


def row_as_dict(row: LedgerRow) -> dict[str, Any]:
    """A row of a ledger as JSON values."""
    return {**asdict(row), "data": dict(row.data)}
