"""When a charge is allowed. The ledger asks this under its lock, of a book that is up to date."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.core.errors import BudgetRefused, LedgerError
from understudy.privacy._book import Book, Page, Place, charge_entry, charge_text
from understudy.privacy._records import Charge
from understudy.privacy.accounting import Event, epsilon_of

_ROUNDING = 1e-9  # relative: epsilon of the mu of epsilon may come back this much larger


def allowed(
    book: Book, page: Page, charges: Sequence[Charge], unit: str, adjacency: str
) -> list[Charge]:
    """Those of the charges that are to be recorded; raises where they are refused."""
    check_unit(page, unit, adjacency)
    new = not_yet_charged(book, page, charges)
    if new:
        check_budget(page, [charge.event for charge in new])
    return new


def check_unit(page: Page, unit: str, adjacency: str) -> None:
    """Refuse a unit or an adjacency other than that of the dataset's first charge."""
    fixed = (page.unit, page.adjacency)
    if page.events and fixed != (unit, adjacency):
        raise LedgerError(
            f"everything charged to {page.name} protects one {fixed[0]} under {fixed[1]}, and "
            f"this run would protect one {unit} under {adjacency}. The two do not compose: run it "
            "with the same unit and adjacency as before"
        )


def not_yet_charged(book: Book, page: Page, charges: Sequence[Charge]) -> list[Charge]:
    """Those of the charges that are not recorded.

    Raises:
        LedgerError: Two for one place, or one that differs from what is recorded there.
    """
    new: dict[Place, Charge] = {}
    for charge in charges:
        where = (charge.run, charge.stage, charge.attempt)
        named = f"run {charge.run}, stage {charge.stage}, attempt {charge.attempt}"
        if where in new:
            raise LedgerError(f"{named} is charged twice in one request: name each stage once")
        recorded = book.charges.get(where)
        entry = charge_entry(charge)
        said = charge_text(entry["event"], entry["details"])
        if recorded is None:
            new[where] = charge
        elif recorded != (page.id, said):
            raise LedgerError(
                f"{named} was charged before for something else. What was paid for stands: resume "
                "with the settings of that run, or start a new one"
            )
    return list(new.values())


def check_budget(page: Page, new: Sequence[Event]) -> None:
    """Refuse what does not fit into the dataset's budget beside all that was spent before."""
    if page.budget is None:
        return
    budget = page.budget
    requested = epsilon_of([*page.events, *new], budget.delta)
    # "not <=": an epsilon that is not a number is refused too.
    if not requested <= budget.epsilon * (1 + _ROUNDING):
        raise BudgetRefused(
            page.name,
            requested=requested,
            budget=budget.epsilon,
            spent=epsilon_of(page.events, budget.delta),
            delta=budget.delta,
        )
