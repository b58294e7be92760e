"""What a release says about itself in public, and what its owner sees.

`public_documents` and `public_report` take a `RunRecord`, which has no field for anything private,
and synthetic images; only `owner_report` and `owner_json` take an `OwnerRecord` as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from understudy.report.card import dataset_card as dataset_card
    from understudy.report.card import public_documents as public_documents
    from understudy.report.comparison import Comparison as Comparison
    from understudy.report.comparison import compare_releases as compare_releases
    from understudy.report.html import comparison_report as comparison_report
    from understudy.report.html import owner_report as owner_report
    from understudy.report.html import public_report as public_report
    from understudy.report.images import contact_sheet as contact_sheet
    from understudy.report.json_files import owner_json as owner_json
    from understudy.report.json_files import public_json as public_json
    from understudy.report.json_files import read_evaluation as read_evaluation
    from understudy.report.json_files import read_owner as read_owner
    from understudy.report.json_files import read_record as read_record
    from understudy.report.json_files import read_score as read_score
    from understudy.report.record import BudgetState as BudgetState
    from understudy.report.record import ModelRecord as ModelRecord
    from understudy.report.record import ModelScore as ModelScore
    from understudy.report.record import OwnerRecord as OwnerRecord
    from understudy.report.record import Premise as Premise
    from understudy.report.record import PublicQuality as PublicQuality
    from understudy.report.record import Recall as Recall
    from understudy.report.record import Released as Released
    from understudy.report.record import RunRecord as RunRecord
    from understudy.report.record import Sample as Sample
    from understudy.report.record import Sheet as Sheet
    from understudy.report.record import StatedAttack as StatedAttack
    from understudy.report.record import StatedCopies as StatedCopies
    from understudy.report.record import StatedTotal as StatedTotal
    from understudy.report.scatter import Scatter as Scatter
    from understudy.report.scatter import scatter_of as scatter_of
    from understudy.report.statement import privacy_json as privacy_json
    from understudy.report.statement import statement_text as statement_text
    from understudy.report.tables import as_csv as as_csv

_NAMES = {
    "card": "dataset_card public_documents",
    "comparison": "Comparison compare_releases",
    "html": "comparison_report owner_report public_report",
    "images": "contact_sheet",
    "json_files": "owner_json public_json read_evaluation read_owner read_record read_score",
    "record": "BudgetState ModelRecord ModelScore OwnerRecord Premise PublicQuality Recall "
    "Released RunRecord Sample Sheet StatedAttack StatedCopies StatedTotal",
    "scatter": "Scatter scatter_of",
    "statement": "privacy_json statement_text",
    "tables": "as_csv",
}
"""The names of each module; reading one of them is not to import what writes the others."""

_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
