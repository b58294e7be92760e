"""What a release says about itself in public, and what its owner sees.

`public_documents` and `public_report` take a `RunRecord`, which has no field for anything private,
and synthetic images; only `owner_report` and `owner_json` take an `OwnerRecord` as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from understudy.report.card import dataset_card, public_documents
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
        StatedCopies,
        StatedTotal,
    )
    from understudy.report.scatter import Scatter, scatter_of
    from understudy.report.statement import privacy_json, statement_text
    from understudy.report.tables import as_csv

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
    "StatedCopies",
    "StatedTotal",
    "as_csv",
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

_HOMES = dict.fromkeys(__all__, "record") | {
    **dict.fromkeys(("Comparison", "compare_releases"), "comparison"),
    **dict.fromkeys(("Scatter", "scatter_of"), "scatter"),
    **dict.fromkeys(("comparison_report", "owner_report", "public_report"), "html"),
    **dict.fromkeys(("dataset_card", "public_documents"), "card"),
    **dict.fromkeys(("owner_json", "public_json"), "json_files"),
    **dict.fromkeys(("read_evaluation", "read_owner", "read_record", "read_score"), "json_files"),
    **dict.fromkeys(("privacy_json", "statement_text"), "statement"),
    "as_csv": "tables",
    "contact_sheet": "images",
}
"""The module of each name; reading one of them is not to import what writes the others."""

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
