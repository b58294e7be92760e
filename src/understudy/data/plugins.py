"""Datasets of other packages, by a prefix: ``playhouse:pet-status``.

A prefix is an entry point of the group ``understudy.sources``, for the built-in one too. It names a
function ``(name, size, *, split, unit) -> Source`` that gets the whole name with its options.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from understudy.core.errors import SourceError, UnderstudyError
from understudy.core.ports import Source
from understudy.data.encoded_images import Options

SOURCE_GROUP = "understudy.sources"

BUILT_IN_PREFIXES = {"playhouse": "understudy.playhouse:open_playhouse"}
"""The entry points of this package, for a source tree on the path that was never installed."""


def open_plugin(options: Options) -> Source | None:
    """The dataset of a plug-in; None where the name begins with no plug-in's prefix.

    Raises:
        SourceError: The plug-in cannot be loaded, or gives no dataset.
        UnderstudyError: Whatever the plug-in says of the name.
    """
    prefix, colon, _ = options.name.partition(":")
    prefixes = _prefixes()
    if not colon or prefix not in prefixes:
        return None
    values = sorted(prefixes[prefix])
    if len(values) > 1:
        # Private images come from here, so a package must not take over a prefix.
        raise SourceError(
            f"the prefix {prefix!r} is registered more than once: {', '.join(values)}. "
            "Uninstall all but one of these packages",
            options.name,
        )
    try:
        opener: Any = EntryPoint(name=prefix, value=values[0], group=SOURCE_GROUP).load()
    except Exception as error:  # whatever a plug-in raises while it is imported
        raise SourceError(
            f"{values[0]} cannot be loaded: {type(error).__name__}: {error}", options.name
        ) from error
    source = _opened(opener, options, values[0])
    if not isinstance(source, Source):
        raise SourceError(f"{values[0]} gave a {type(source).__name__}, no dataset", options.name)
    return source


def _opened(opener: Any, options: Options, value: str) -> object:
    try:
        return opener(options.name, options.size, split=options.split, unit=options.unit)
    except UnderstudyError:
        raise
    except Exception as error:  # whatever a plug-in raises while it opens
        raise SourceError(
            f"{value} failed: {type(error).__name__}: {error}", options.name
        ) from error


def _prefixes() -> dict[str, set[str]]:
    """Prefix to the functions registered for it; more than one is a conflict."""
    prefixes = {prefix: {value} for prefix, value in BUILT_IN_PREFIXES.items()}
    for entry in entry_points(group=SOURCE_GROUP):
        prefixes.setdefault(entry.name, set()).add(entry.value)
    return prefixes
