"""Understudy turns a private image dataset into a synthetic one that can be shared."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.audit.audit import audit
    from understudy.backends.plugin import Backend, BackendInfo
    from understudy.core.errors import BudgetRefused, InputError, UnderstudyError
    from understudy.core.results import Evaluation, Metric
    from understudy.core.types import Stage
    from understudy.evaluation.evaluate import evaluate
    from understudy.methods.base import Context, Materials, Method
    from understudy.privacy.budget import Budget
    from understudy.privacy.ledger.ledger import Ledger
    from understudy.privacy.vault import Vault
    from understudy.run.report import RunReport
    from understudy.run.report import compare_folders as compare
    from understudy.run.report import load as report
    from understudy.run.resample import resample
    from understudy.run.run_result import Result
    from understudy.run.selection.select import select
    from understudy.run.synthesize import synthesize
    from understudy.run.verify import verify

__all__ = [
    "Backend",
    "BackendInfo",
    "Budget",
    "BudgetRefused",
    "Context",
    "Evaluation",
    "InputError",
    "Ledger",
    "Materials",
    "Method",
    "Metric",
    "Result",
    "RunReport",
    "Stage",
    "UnderstudyError",
    "Vault",
    "audit",
    "compare",
    "evaluate",
    "report",
    "resample",
    "select",
    "synthesize",
    "verify",
]

_HOMES = {
    "Backend": "backends.plugin:Backend",
    "BackendInfo": "backends.plugin:BackendInfo",
    "Budget": "privacy.budget:Budget",
    "BudgetRefused": "core.errors:BudgetRefused",
    "Context": "methods.base:Context",
    "Evaluation": "core.results:Evaluation",
    "InputError": "core.errors:InputError",
    "Ledger": "privacy.ledger.ledger:Ledger",
    "Materials": "methods.base:Materials",
    "Method": "methods.base:Method",
    "Metric": "core.results:Metric",
    "Result": "run.run_result:Result",
    "RunReport": "run.report:RunReport",
    "Stage": "core.types:Stage",
    "UnderstudyError": "core.errors:UnderstudyError",
    "Vault": "privacy.vault:Vault",
    "audit": "audit.audit:audit",
    "compare": "run.report:compare_folders",
    "evaluate": "evaluation.evaluate:evaluate",
    "report": "run.report:load",
    "resample": "run.resample:resample",
    "select": "run.selection.select:select",
    "synthesize": "run.synthesize:synthesize",
    "verify": "run.verify:verify",
}
"""Where each public name is defined, and its name there."""

if not TYPE_CHECKING:  # a type checker reads the imports above, and refuses a name not among them

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used, so that ``import understudy`` stays quick."""
        if name not in _HOMES:
            raise AttributeError(f"module 'understudy' has no attribute {name!r}")
        module, _, own = _HOMES[name].partition(":")
        attribute = getattr(import_module(f"understudy.{module}"), own)
        globals()[name] = attribute
        return attribute


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
