"""What was spent on which dataset, by which run, and what is left. Owner-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from understudy.core.errors import ConfigError, LedgerError
from understudy.report.html import BarSegment
from understudy.run import books
from understudy.run.books import DatasetAccount
from understudy.web.plan_pages import budget_bar
from understudy.web.studio import StudioPages, command_line_of, form_of, moved, needed, strings


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """Something that happened to a dataset's budget.

    Attributes:
        run: The beginning of the run's id; empty for a budget that was set.
    """

    time: str
    what: str
    run: str
    details: str
    by: str


class LedgerPages(StudioPages):
    """The ledger as a list, and as a timeline of one dataset."""

    addresses: ClassVar[Mapping[str, str]] = {
        "GET /ledger": "ledger",
        "POST /ledger/budget": "budget",
    }

    def ledger(
        self, request: Request, dataset: Annotated[str, Query(max_length=4096)] = ""
    ) -> Response:
        """Every dataset; and of one, what was spent on it and when."""
        accounts = books.overview(self.studio.ledger, _not_waiting)
        rows: list[TimelineRow] = []
        current = next((one for one in accounts if one.dataset.id == dataset), None)
        if dataset and current is None:
            raise ConfigError("the ledger knows no dataset of that id")
        if current is not None:
            account = books.dataset_account(dataset, self.studio.ledger, on_wait=_not_waiting)
            rows = _timeline(account)
        words = ["ledger", "list" if current is None else "show", *([dataset] if current else [])]
        return self.studio.page(
            request,
            "ledger.html",
            accounts=[(one, _bar(one)) for one in accounts],
            current=current,
            rows=rows,
            command_words=command_line_of([*words, *self.studio.ledger_words()]),
        )

    def budget(self, request: Request) -> Response:
        """Set the total of a dataset, for good and across runs: one of the ledger, or of a place.

        One of a place that the ledger does not know yet is entered there.
        """
        form = form_of(request)
        try:
            epsilon, delta = float(needed(form, "epsilon")), float(form.get("delta") or "1e-5")
        except ValueError:
            raise ConfigError("a budget is two numbers, such as epsilon 3 and delta 1e-5") from None
        if place := form.get("source"):
            dataset = self.studio.roots.source(place)[1]
        else:
            dataset = needed(form, "dataset")
            if all(
                one.dataset.id != dataset
                for one in books.overview(self.studio.ledger, _not_waiting)
            ):
                raise ConfigError("the ledger knows no dataset of that id")
        account = books.set_dataset_budget(
            dataset,
            epsilon,
            delta,
            self.studio.ledger,
            skip_bad="skip_bad" in form,
        )
        return moved("/ledger", dataset=account.dataset.id)


def _not_waiting(notice: str) -> None:
    """End the wait for a locked ledger with its notice: a page is soon asked for again."""
    raise LedgerError(f"{notice}. A page does not wait for long: open it again")


def _bar(account: DatasetAccount) -> list[BarSegment]:
    """Spent and left as parts of the total."""
    budget, spent = account.dataset.budget, account.spent.epsilon
    parts = [] if budget is None else budget_bar(spent, spent, budget.epsilon)
    return [part for part in parts if part.width]


def _timeline(account: DatasetAccount) -> list[TimelineRow]:
    """The rows of a dataset, those of one run together."""
    rows: list[TimelineRow] = []
    charges = books.charges_of_runs(account)
    for row in account.rows:
        run = str(row.data.get("run", ""))
        if row.kind in books.CHARGE_KINDS:
            if run in charges:
                stages, epsilon = charges.pop(run)
                words = strings()["ledger"]["charged"].format(epsilon=f"{epsilon:.3g}", n=stages)
                rows.append(TimelineRow(row.time, row.kind, run[:8], words, row.by))
            continue
        if row.kind == "release" and rows and (rows[-1].what, rows[-1].run) == (row.kind, run[:8]):
            names = dict.fromkeys([*rows[-1].details.split(", "), str(row.data["stage"])])
            rows[-1] = replace(rows[-1], details=", ".join(names))
            continue
        numbers = {k: v for k, v in row.data.items() if k in ("epsilon", "delta", "stage", "what")}
        words = ", ".join(
            f"{k} {v:g}" if isinstance(v, float) else str(v) for k, v in numbers.items()
        )
        rows.append(TimelineRow(row.time, row.kind, run[:8], words, row.by))
    return rows
