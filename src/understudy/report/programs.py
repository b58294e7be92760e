"""The reports for programs: the same content as the pages, as JSON values, without pictures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from understudy.report import verdict_table
from understudy.report.comparison import facts_of
from understudy.report.record import OwnerRecord, RunRecord
from understudy.report.statement import jsonable, privacy_json

SCHEMA = "understudy-report/1"
"""Name and version of the form."""


def public_json(record: RunRecord) -> dict[str, Any]:
    """What the public page says.

    Args:
        record: The public facts of the run.
    """
    return {
        "schema": SCHEMA,
        "kind": "public",
        "verdicts": [asdict(verdict_table.guarantee_card(record.receipt))],
        "privacy": privacy_json(record),
    }


def owner_json(record: RunRecord, owner: OwnerRecord) -> dict[str, Any]:
    """What the owner's page says. For the owner only.

    Args:
        record: The public facts of the run.
        owner: What only the owner may see.
    """
    cards = verdict_table.cards(record, owner.evaluation, owner.scores)
    return {
        "schema": SCHEMA,
        "kind": "owner-only",
        "verdicts": [asdict(card) for card in cards],
        "privacy": privacy_json(record),
        "dataset": owner.dataset,
        "rows": owner.rows,
        "skipped": owner.skipped,
        "spending": None if owner.spending is None else asdict(owner.spending),
        "budget_from": owner.budget_from,
        "accuracy": [asdict(score) for score in owner.scores],
        "evaluation": None if owner.evaluation is None else owner.evaluation.as_dict(),
        "nearest_pairs": _pairs(owner),
        "releases": [jsonable(facts_of(one)) for one in owner.releases],
        "seconds": dict(owner.seconds),
    }


def _pairs(owner: OwnerRecord) -> dict[str, Any] | None:
    if owner.pairs is None:
        return None
    return {
        "how": owner.pairs.how,
        "distances": jsonable(owner.pairs.distances),
        "rows": jsonable(owner.pairs.rows),
    }
