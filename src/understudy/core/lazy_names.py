"""Names of a package that are imported when they are first used.

A package that offers names of its modules would import every module with them, and whoever needs
one name would wait for all. With ``__getattr__`` of the module (PEP 562) a name is imported by its
first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``.

    Args:
        package: Its ``__name__``.
        homes: Where each name is defined: ``module``, below the package, or ``module:other name``.
    """

    def attribute_of(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, own = homes[name].partition(":")
        attribute = getattr(import_module(f"{package}.{module}"), own or name)
        setattr(sys.modules[package], name, attribute)
        return attribute

    return attribute_of
