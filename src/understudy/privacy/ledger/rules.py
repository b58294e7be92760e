"""When a charge is allowed. The ledger asks this under its lock, of a book that is up to date."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from understudy.core.errors import BudgetRefused, LedgerError
from understudy.privacy.accounting import (
    RUN_SLACK,
    Event,
    Gaussian,
    bracket,
    epsilon_of,
    mu_with_slack,
    run_event,
)
from understudy.privacy.budget import MAX_EPSILON, MIN_DELTA, Budget
from understudy.privacy.ledger.book import Book, Page, ReleaseKey, charge_entry, charge_text
from understudy.privacy.ledger.records import Charge

_ROUNDING = 1e-9  # relative: epsilon of the mu of epsilon may come back this much larger
_DIGITS = 6  # of the epsilon of a run that the ledger works out
_USED_UP = 0.005  # of a budget: what rounding leaves of one that was spent to its end
_NEARLY_ALL = 0.999  # of a budget: beside less, a run of `_USED_UP` fits
_LEAST_RUN = 1e-6  # epsilon of the smallest run there is


def allowed(
    book: Book,
    page: Page,
    charges: Sequence[Charge],
    unit: str,
    adjacency: str,
    returned: Collection[ReleaseKey] = (),
) -> tuple[list[Charge], list[Page]]:
    """Those of the charges that are to be recorded, and the datasets to record them for.

    A charge that was recorded before was recorded for all it concerned, and none is added to it.
    What is ``returned`` in the same transaction no longer counts.

    Raises:
        BudgetRefused: The budget of one of the datasets does not cover the charges.
        LedgerError: See `check_unit` and `not_yet_charged`.
    """
    check_unit(page, unit, adjacency)
    new = not_yet_charged(book, page, charges)
    if not new:
        return [], []
    pages = book.answerable(page)
    events = [charge.event for charge in new]
    check_all([page.without(returned) for page in pages], events, unit, adjacency)
    return new, pages


def check_all(pages: Sequence[Page], events: Sequence[Event], unit: str, adjacency: str) -> None:
    """Refuse events that any of the datasets refuses; a run on the first concerns all of them."""
    for page in pages:
        why = "" if page is pages[0] else _because(page, pages[0])
        check_unit(page, unit, adjacency, why)
        check_budget(page, events, why)


def _because(page: Page, run_on: Page) -> str:
    return (
        f" (id {page.id}), which shares half or more of its records with {run_on.name} or the "
        "other way round and is charged for runs on it too,"
    )


def check_unit(page: Page, unit: str, adjacency: str, why: str = "") -> None:
    """Refuse a unit or an adjacency other than that of the dataset's first charge."""
    fixed = (page.unit, page.adjacency)
    if page.events and fixed != (unit, adjacency):
        raise LedgerError(
            f"everything charged to {page.name}{why} has the unit: {fixed[0]}, {fixed[1]}; and "
            f"this run: {unit}, {adjacency}. The two do not compose: run it with the same unit and "
            "adjacency as before"
        )


def not_yet_charged(book: Book, page: Page, charges: Sequence[Charge]) -> list[Charge]:
    """Those of the charges that are not recorded.

    Raises:
        LedgerError: Two for one release, or one that differs from what is recorded for it.
    """
    new: dict[ReleaseKey, Charge] = {}
    for charge in charges:
        key = (charge.run, charge.stage, charge.attempt)
        words = f"run {charge.run}, stage {charge.stage}, attempt {charge.attempt}"
        if key in new:
            raise LedgerError(f"{words} is charged twice in one request: name each stage once")
        recorded = book.charges.get(key)
        entry = charge_entry(charge)
        text = charge_text(entry["event"], entry["details"])
        if recorded is None:
            new[key] = charge
        elif recorded != (page.id, text):
            raise LedgerError(
                f"{words} was charged before for something else. What was paid for stands: resume "
                "with the settings of that run, or start a new one"
            )
    return list(new.values())


def check_budget(page: Page, new: Sequence[Event], why: str = "") -> None:
    """Refuse what does not fit into the dataset's budget beside all that was spent before."""
    if page.budget is None:
        return
    budget = page.budget
    if budget.delta < MIN_DELTA:
        raise LedgerError(
            f"the budget of {page.name}{why} was set at delta {budget.delta:g} by an older "
            f"version. The proof covers {MIN_DELTA:g} and more: set it again with `understudy "
            f"ledger set-budget {page.id} --epsilon {budget.epsilon:g} --delta 1e-10`"
        )
    requested = epsilon_of([*page.events, *new], budget.delta)
    is_rounding = requested > _NEARLY_ALL * budget.epsilon and _is_rounding(page, budget, new)
    # "not <=": an epsilon that is not a number is refused too.
    if not requested <= budget.epsilon * (1 + _ROUNDING) or is_rounding:
        raise BudgetRefused(
            page.name,
            requested=requested,
            budget=budget.epsilon,
            spent=epsilon_of(page.events, budget.delta),
            remaining=largest_run([page], budget.delta) or 0.0,
            delta=budget.delta,
            why=why,
        )


def _is_rounding(page: Page, budget: Budget, new: Sequence[Event]) -> bool:
    """Whether a charge would go to what rounding has left of a budget that is used up."""
    least = max(_USED_UP * budget.epsilon, 2 * _LEAST_RUN)
    if not page.events or epsilon_of(new, budget.delta) >= least:
        return False
    return not _fit([*page.events, run_event(least, budget.delta)], budget)


def largest_run(pages: Sequence[Page], delta: float) -> float | None:
    """Epsilon of the largest run that none of the datasets' budgets would refuse now.

    It is more than the difference of budget and spending: runs compose by the squares of their mu,
    not by adding up epsilons.

    Returns:
        Rounded down; 0.0 where a budget is used up; None where none of the datasets has one.
    """
    budgets = [(page.events, page.budget) for page in pages if page.budget is not None]
    if not budgets:
        return None

    def fits(epsilon: float) -> bool:
        run = run_event(epsilon, delta)
        return all(_fit([*events, run], budget) for events, budget in budgets)

    if not fits(_LEAST_RUN * 2):
        return 0.0
    epsilon = rounded_down(bracket(fits, _LEAST_RUN * 2, MAX_EPSILON, rounded_down)[0])
    return epsilon if epsilon > _USED_UP * min(one.epsilon for _, one in budgets) else 0.0


def rest_of_run(epsilon: float, delta: float, released: Sequence[Event]) -> float:
    """Epsilon of a run that, with what another one has released, costs no more than that one."""
    charged = {("", str(number), 1): event for number, event in enumerate(released)}
    page = Page("", ["this run"], budget=Budget(epsilon, delta), charged=dict(charged))
    return largest_run([page], delta) or 0.0


def _fit(events: Sequence[Event], budget: Budget) -> bool:
    """Whether a budget covers events.

    The Gaussian ones alone are asked about first, by a formula: what they exceed, all of them do.
    The numerical accounting of others takes seconds, and memory that grows with their epsilon.
    """
    most = budget.epsilon * (1 + _ROUNDING)
    gaussian = [event for event in events if isinstance(event, Gaussian)]
    if epsilon_of(gaussian, budget.delta) > most:
        return False
    return len(gaussian) == len(events) or epsilon_of(events, budget.delta) <= most


def share_of_budget(budget: Budget, share: float, delta: float) -> float:
    """Epsilon of a run that takes a share of a budget's squared mu, rounded down.

    ``1 / share`` such runs compose to the budget, the slack of each of them included.

    Raises:
        ConfigError: A share so small that nothing could be released.
    """
    whole = mu_with_slack(budget.epsilon, budget.delta, math.ceil(1 / share) * RUN_SLACK)
    return rounded_down(epsilon_of([Gaussian(whole * math.sqrt(share), RUN_SLACK)], delta))


def rounded_down(epsilon: float) -> float:
    """An epsilon to six digits, never above what it was."""
    nearest = float(f"{epsilon:.{_DIGITS}g}")
    if nearest <= epsilon:
        return nearest
    last = 10.0 ** (math.floor(math.log10(nearest)) - _DIGITS + 1)
    return float(f"{nearest - last:.{_DIGITS}g}")
