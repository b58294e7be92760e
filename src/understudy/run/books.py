"""``understudy ledger``: read and set what datasets may spend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from understudy.core.errors import LedgerError, SourceError
from understudy.core.ports import Source
from understudy.data import open_source
from understudy.data.labels import NO_LABELS
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Dataset, Ledger, LedgerRow, LedgerSpending


@dataclass(frozen=True)
class DatasetAccount:
    """A dataset and what was spent on it.

    Attributes:
        dataset: The dataset, with its budget.
        spent: What was spent.
        rows: Every row about it, where asked for.
        ledger: Where the ledger is.
        concerned: The other datasets that a run on it is charged to, where asked for.
    """

    dataset: Dataset
    spent: LedgerSpending
    rows: tuple[LedgerRow, ...]
    ledger: str
    concerned: tuple[Dataset, ...] = ()

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


def overview(ledger: str | None) -> list[DatasetAccount]:
    """Every dataset of a ledger."""
    with Ledger(ledger) as book:
        return [DatasetAccount(d, book.spent(d.id), (), book.address) for d in book.datasets()]


def dataset_account(
    source: str, ledger: str | None, *, size: int | None = None, skip_bad: bool = False
) -> DatasetAccount:
    """One dataset, found by its files, or by its name or id in the ledger.

    Raises:
        LedgerError: The ledger does not know it.
        SourceError: Neither a dataset that can be read nor a name in the ledger.
    """
    with Ledger(ledger) as book:
        dataset = _find(book, source, size, skip_bad)
        spent, rows = book.spent(dataset.id), tuple(book.rows(dataset.id))
        return DatasetAccount(dataset, spent, rows, book.address, tuple(book.concerned(dataset.id)))


def _is_place(source: str) -> bool:
    return Path(source).exists() or source.startswith("hf:")


def _find(book: Ledger, source: str, size: int | None, skip_bad: bool) -> Dataset:
    if not _is_place(source):
        try:
            return book.find(source)
        except LedgerError as error:
            raise SourceError(f"no such file or folder, and {error}", source) from error
    dataset = book.recognise(_open(source, size, skip_bad))
    if dataset is None:
        raise LedgerError(
            f"{book.address} does not know {source}: nothing was spent on it and no budget is set"
        )
    return dataset


def _open(source: str, size: int | None, skip_bad: bool) -> Source:
    """A dataset as the ledger sees it: its records have bytes, and labels are no part of them."""
    return open_source(source, size=size, skip_bad=skip_bad, label=NO_LABELS)


def set_dataset_budget(
    source: str,
    epsilon: float,
    delta: float,
    ledger: str | None,
    *,
    size: int | None = None,
    skip_bad: bool = False,
) -> DatasetAccount:
    """Set the total of a dataset, registering it if need be."""
    budget = Budget(epsilon, delta)
    with Ledger(ledger) as book:
        if _is_place(source):
            dataset = book.register(_open(source, size, skip_bad))
        else:
            dataset = _find(book, source, size, skip_bad)
        spent = book.set_budget(dataset.id, budget)
        return DatasetAccount(book.find(dataset.id), spent, (), book.address)


def verify_ledger(ledger: str | None) -> list[str]:
    """What is wrong with a ledger; empty where every row is as it was written."""
    with Ledger(ledger) as book:
        return book.verify()


def ledger_rows(ledger: str | None) -> Iterator[dict[str, Any]]:
    """Every row as JSON values."""
    with Ledger(ledger) as book:
        for row in book.rows():
            yield row_as_dict(row)


def row_as_dict(row: LedgerRow) -> dict[str, Any]:
    """A row of a ledger as JSON values."""
    return {**asdict(row), "data": dict(row.data)}
