"""What a release says about itself in public, and what its owner sees.

`public_documents` and `public_report` take a `RunRecord`, which has no field for anything private,
and synthetic images; only `owner_report` and `owner_json` take an `OwnerRecord` as well.
"""

from __future__ import annotations

import json

from understudy.report.card import dataset_card
from understudy.report.comparison import Comparison, compare_releases
from understudy.report.html import comparison_report, owner_report, public_report
from understudy.report.images import contact_sheet
from understudy.report.json_files import (
    owner_json,
    public_json,
    read_evaluation,
    read_owner,
    read_record,
    read_score,
)
from understudy.report.record import (
    BudgetState,
    ModelRecord,
    ModelScore,
    OwnerRecord,
    Premise,
    PublicQuality,
    Recall,
    Released,
    RunRecord,
    Sample,
    Sheet,
    StatedAttack,
    StatedTotal,
)
from understudy.report.scatter import Scatter, scatter_of
from understudy.report.statement import privacy_json, statement_text
from understudy.report.tables import as_csv, as_parquet

__all__ = [
    "BudgetState",
    "Comparison",
    "ModelRecord",
    "ModelScore",
    "OwnerRecord",
    "Premise",
    "PublicQuality",
    "Recall",
    "Released",
    "RunRecord",
    "Sample",
    "Scatter",
    "Sheet",
    "StatedAttack",
    "StatedTotal",
    "as_csv",
    "as_parquet",
    "compare_releases",
    "comparison_report",
    "contact_sheet",
    "dataset_card",
    "owner_json",
    "owner_report",
    "privacy_json",
    "public_documents",
    "public_json",
    "public_report",
    "read_evaluation",
    "read_owner",
    "read_record",
    "read_score",
    "scatter_of",
    "statement_text",
]


def public_documents(record: RunRecord) -> dict[str, str]:
    """The documents of a release folder: file name to text, UTF-8."""
    return {
        "README.md": dataset_card(record),
        "PRIVACY.md": statement_text(record),
        "privacy.json": json.dumps(privacy_json(record), indent=2, allow_nan=False) + "\n",
    }
