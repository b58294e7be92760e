"""Understudy turns a private image dataset into a synthetic one that can be shared."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.core.errors import BudgetRefused, InputError, UnderstudyError
    from understudy.evaluation.evaluate import evaluate_release
    from understudy.privacy.budget import Budget
    from understudy.privacy.ledger.ledger import Ledger
    from understudy.run.synthesize import Result, synthesize

__all__ = [
    "Budget",
    "BudgetRefused",
    "InputError",
    "Ledger",
    "Result",
    "UnderstudyError",
    "evaluate_release",
    "synthesize",
]

_HOMES = {
    "Budget": "privacy.budget",
    "BudgetRefused": "core.errors",
    "InputError": "core.errors",
    "Ledger": "privacy.ledger.ledger",
    "Result": "run.synthesize",
    "UnderstudyError": "core.errors",
    "evaluate_release": "evaluation.evaluate",
    "synthesize": "run.synthesize",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import understudy`` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    return getattr(import_module(f"understudy.{_HOMES[name]}"), name)
