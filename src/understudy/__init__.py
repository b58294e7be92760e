"""Understudy turns a private image dataset into a synthetic one that can be shared."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from understudy.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from understudy.audit.audit import audit
    from understudy.backends.plugin import Backend, BackendInfo
    from understudy.core.errors import BudgetRefused, InputError, UnderstudyError
    from understudy.core.results import Evaluation, Metric
    from understudy.core.types import Stage
    from understudy.core.version import __version__ as __version__
    from understudy.evaluation.evaluate import evaluate
    from understudy.evaluation.side_by_side import compare
    from understudy.evidence.pack import EvidencePack, evidence
    from understudy.methods.base import Context, Materials, Method
    from understudy.planning.check import SourceCheck
    from understudy.planning.check import checked_dataset as check
    from understudy.planning.dry import planned_run as dry_run
    from understudy.planning.recommendation import Recommendation
    from understudy.planning.recommendation import recommended_run as plan
    from understudy.privacy.budget import Budget
    from understudy.privacy.ledger.ledger import Ledger
    from understudy.privacy.vault import Vault
    from understudy.release.verify import verify
    from understudy.run.report import RunReport
    from understudy.run.report import load as report
    from understudy.run.resample import resample
    from understudy.run.run_result import Result
    from understudy.run.select import select
    from understudy.run.synthesize import synthesize

__all__ = [
    "Backend",
    "BackendInfo",
    "Budget",
    "BudgetRefused",
    "Context",
    "Evaluation",
    "EvidencePack",
    "InputError",
    "Ledger",
    "Materials",
    "Method",
    "Metric",
    "Recommendation",
    "Result",
    "RunReport",
    "SourceCheck",
    "Stage",
    "UnderstudyError",
    "Vault",
    "audit",
    "check",
    "compare",
    "dry_run",
    "evaluate",
    "evidence",
    "plan",
    "report",
    "resample",
    "select",
    "synthesize",
    "verify",
]

_HOMES = {
    "Backend": "backends.plugin",
    "BackendInfo": "backends.plugin",
    "Budget": "privacy.budget",
    "BudgetRefused": "core.errors",
    "Context": "methods.base",
    "Evaluation": "core.results",
    "EvidencePack": "evidence.pack",
    "InputError": "core.errors",
    "Ledger": "privacy.ledger.ledger",
    "Materials": "methods.base",
    "Method": "methods.base",
    "Metric": "core.results",
    "Recommendation": "planning.recommendation",
    "Result": "run.run_result",
    "RunReport": "run.report",
    "SourceCheck": "planning.check",
    "Stage": "core.types",
    "UnderstudyError": "core.errors",
    "Vault": "privacy.vault",
    "__version__": "core.version",
    "audit": "audit.audit",
    "check": "planning.check:checked_dataset",
    "compare": "evaluation.side_by_side",
    "dry_run": "planning.dry:planned_run",
    "evaluate": "evaluation.evaluate",
    "evidence": "evidence.pack",
    "plan": "planning.recommendation:recommended_run",
    "report": "run.report:load",
    "resample": "run.resample",
    "select": "run.select",
    "synthesize": "run.synthesize",
    "verify": "release.verify",
}
"""Where each public name is defined, and its name there if that is another."""

if not TYPE_CHECKING:  # a type checker reads the imports above, and refuses a name not among them
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__


class _Door(ModuleType):
    """This module: ``understudy.audit`` and ``understudy.report`` are functions.

    Importing a module of the packages of those names would set the packages in their place.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Door
