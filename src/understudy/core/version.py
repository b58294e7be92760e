"""The version of this package, as releases and results state it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def understudy_version() -> str:
    """The installed version, or ``"unknown"`` when run from a bare source tree."""
    try:
        return version("understudy")
    except PackageNotFoundError:
        return "unknown"


__version__ = understudy_version()
