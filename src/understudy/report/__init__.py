"""What a release says about itself in public, and what its owner sees.

`public_documents` takes a `RunRecord`, which has no field for anything private; only
`owner_report` takes an `OwnerRecord` as well.
"""

from __future__ import annotations

import json

from understudy.report.card import dataset_card
from understudy.report.html import owner_report
from understudy.report.record import Model, OwnerRecord, RunRecord, Score, Sheet, Spending
from understudy.report.sheets import contact_sheet
from understudy.report.statement import privacy_json, statement_text

__all__ = [
    "Model",
    "OwnerRecord",
    "RunRecord",
    "Score",
    "Sheet",
    "Spending",
    "contact_sheet",
    "dataset_card",
    "owner_report",
    "privacy_json",
    "public_documents",
    "statement_text",
]


def public_documents(record: RunRecord) -> dict[str, str]:
    """The documents of a release folder: file name to text, UTF-8."""
    return {
        "README.md": dataset_card(record),
        "PRIVACY.md": statement_text(record),
        "privacy.json": json.dumps(privacy_json(record), indent=2, allow_nan=False) + "\n",
    }
